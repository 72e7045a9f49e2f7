"""Numbers as unevaluated sums of two f64, without fused products.

Sources: T. J. Dekker, "A floating-point technique for extending the available precision" (1971);
D. E. Knuth, "The Art of Computer Programming", volume 2, section 4.2.2, theorem B.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from .llvm_builder import LlvmBuilder

Pair = tuple[SSAValue, SSAValue]
"""The nearest f64, and what is left."""

_SPLITTER = float((1 << 27) + 1)


def two_sum(e: LlvmBuilder, x: SSAValue, y: SSAValue) -> Pair:
    """x + y exactly."""
    total = e.fadd(x, y)
    part = e.fsub(total, x)
    return total, e.fadd(e.fsub(x, e.fsub(total, part)), e.fsub(y, part))


def quick_two_sum(e: LlvmBuilder, x: SSAValue, y: SSAValue) -> Pair:
    """x + y exactly, for |x| ≥ |y|."""
    total = e.fadd(x, y)
    return total, e.fsub(y, e.fsub(total, x))


def _split(e: LlvmBuilder, x: SSAValue) -> Pair:
    """x as two numbers of 26 bits; |x| below 2^996."""
    large = e.fmul(x, _SPLITTER)
    high = e.fsub(large, e.fsub(large, x))
    return high, e.fsub(x, high)


def two_product(e: LlvmBuilder, x: SSAValue, y: SSAValue) -> Pair:
    """x·y exactly, for factors below 2^996 and products that do not come near the ends."""
    product = e.fmul(x, y)
    (a, b), (c, d) = _split(e, x), _split(e, y)
    rest = e.fsub(e.fmul(a, c), product)
    rest = e.fadd(e.fadd(rest, e.fmul(a, d)), e.fmul(b, c))
    return product, e.fadd(rest, e.fmul(b, d))
