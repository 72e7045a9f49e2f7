"""The two float formats that functions are approximated in, and steps that their formulas share."""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdsl.dialects.builtin import Float64Type, f32, f64
from xdsl.ir import Attribute, SSAValue

from .llvm_builder import LlvmBuilder
from .types import element, integers


@dataclass(frozen=True)
class Format:
    """A binary float format.

    Attributes:
        type: the scalar type.
        digits: bits of the significand that are stored.
        bias: of the exponent.
        ln2_high, ln2_low: ln 2 in two parts; exponents times the first one are exact.
    """

    type: Attribute
    digits: int
    bias: int
    ln2_high: float
    ln2_low: float

    @property
    def magic(self) -> float:
        """Added to a small number and taken away again, it leaves the nearest even integer.

        T. J. Dekker; see J.-M. Muller et al., "Handbook of Floating-Point Arithmetic", 2nd edition,
        section 10.2.
        """
        return math.ldexp(1.5, self.digits)

    @property
    def magic_bits(self) -> int:
        """The bits of `magic`: an exponent, and the highest stored digit."""
        return ((self.bias + self.digits) << self.digits) | (1 << (self.digits - 1))


_SINGLE = Format(f32, 23, 127, 0.693359375, -0.00021219444005469057)
_LN2_HIGH = round(math.ldexp(math.log(2), 40)) / (1 << 40)
_DOUBLE = Format(f64, 52, 1023, _LN2_HIGH, -1.7239444525614835e-13)


def format_of(type: Attribute) -> Format:
    """The format of a float, or of the elements of a vector."""
    return _DOUBLE if isinstance(element(type), Float64Type) else _SINGLE


def at_most(e: LlvmBuilder, x: SSAValue, limit: float) -> SSAValue:
    """The lesser of a float and a number; NaN stays."""
    return _bounded(e, "minimum", x, limit)


def at_least(e: LlvmBuilder, x: SSAValue, limit: float) -> SSAValue:
    """The greater of a float and a number; NaN stays."""
    return _bounded(e, "maximum", x, limit)


def _bounded(e: LlvmBuilder, name: str, x: SSAValue, limit: float) -> SSAValue:
    """By the intrinsic, or for f64, which has none on 32-bit ARM, by a comparison."""
    x, bound = e.pair(x, limit)
    if element(x.type) != f64:
        return e.overloaded(name, x, bound)
    return e.select(e.fcmp("ogt" if name == "minimum" else "olt", x, bound), bound, x)


def below(e: LlvmBuilder, x: SSAValue, limit: float) -> SSAValue:
    """Whether a float without a sign is below a number; NaN is not. Bits have the same order."""
    kind = integers(x.type)
    return e.icmp("ult", e.bits(x, kind), e.bits(e.constant(limit, x.type), kind))


def near_integer(e: LlvmBuilder, x: SSAValue, factor: float = 1.0) -> tuple[SSAValue, SSAValue]:
    """The nearest integer n to factor·x, for `scaled` and `power_of_two`: a float, and n + 2·bias
    as an integer of the same width, whose upper half is of no account."""
    form = format_of(x.type)
    magic = form.magic + 2 * form.bias
    shifted = e.fmuladd(x, factor, magic)
    return e.fsub(shifted, magic), e.bits(shifted, integers(x.type))


def small_integer(e: LlvmBuilder, n: SSAValue, type: Attribute) -> SSAValue:
    """An integer below 2^22 in size as a float, without a conversion."""
    form = format_of(type)
    return e.fsub(e.bits(e.add(n, form.magic_bits), type), form.magic)


def power_of_two(e: LlvmBuilder, n: SSAValue, type: Attribute) -> SSAValue:
    """2^n of an integer of `near_integer` in the range of normal numbers."""
    form = format_of(type)
    return e.bits(e.shl(e.sub(n, form.bias), form.digits), type)


def scaled(e: LlvmBuilder, x: SSAValue, n: SSAValue) -> SSAValue:
    """x·2^n, rounded once, for x near 1 and an integer of `near_integer` a little beyond the range
    of exponents."""
    digits, half = format_of(x.type).digits, e.lshr(n, 1)
    for part in (half, e.sub(n, half)):
        x = e.fmul(x, e.bits(e.shl(part, digits), x.type))
    return x
