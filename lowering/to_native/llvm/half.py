"""f16 and bf16 from and to f32 and f64 by bit arithmetic, and rounding to odd.

Compilers call functions of their own run-time library for f16 where the processor has no
instruction for it (`__extendhfsf2`, `__truncsfhf2`), and for bf16 nearly everywhere
(`__truncsfbf2`); nothing is called here. A bf16 is an i16 with its bits.

Sources: F. Giesen, "Float→half conversions" (2012), for the subnormals by a product and a sum;
S. Boldo and G. Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using
rounding to odd" (2008), section III, for rounding twice without harm.
"""

from __future__ import annotations

from xdsl.dialects.builtin import Float16Type, Float64Type, f32, f64, i16, i32
from xdsl.ir import Attribute, SSAValue

from .llvm_builder import LlvmBuilder
from .types import element, is_half, like


def extend_float(e: LlvmBuilder, x: SSAValue, source: Attribute, target: Attribute) -> SSAValue:
    """A float of the type `source` (`x` has its `llvm` type) as a wider one, exactly."""
    if is_half(source):
        narrow = isinstance(element(source), Float16Type)
        x = _from_f16(e, x) if narrow else _from_bf16(e, x)
    return e.extend(x, target)


def truncate_float(e: LlvmBuilder, x: SSAValue, target: Attribute) -> SSAValue:
    """An f32 or f64 as a narrower float, rounded once to nearest even; in its `llvm` type."""
    if not is_half(target):
        return e.truncate(x, target)
    if isinstance(element(x.type), Float64Type):
        x = round_to_odd(e, x)
    return _to_f16(e, x) if isinstance(element(target), Float16Type) else _to_bf16(e, x)


def round_to_odd(e: LlvmBuilder, x: SSAValue) -> SSAValue:
    """f64 to f32: what is not exact becomes the neighbour with an odd last bit."""
    near = e.truncate(x, like(x.type, f32))
    back = e.extend(near, like(x.type, f64))
    bits = e.bits(near, like(x.type, i32))
    too_far = e.fcmp("ogt", e.fabs(back), e.fabs(x))
    cut = e.select(too_far, e.sub(bits, 1), bits)
    return e.bits(e.select(e.fcmp("one", back, x), e.or_(cut, 1), bits), near.type)


def _from_bf16(e: LlvmBuilder, x: SSAValue) -> SSAValue:
    wide = e.resize(x, like(x.type, i32), unsigned=True)
    return e.bits(e.shl(wide, 16), like(x.type, f32))


def _to_bf16(e: LlvmBuilder, x: SSAValue) -> SSAValue:
    bits = e.bits(x, like(x.type, i32))
    high = e.lshr(bits, 16)
    rounded = e.lshr(e.add(e.add(bits, 0x7FFF), e.and_(high, 1)), 16)
    quiet = e.or_(high, 0x40)
    result = e.select(e.fcmp("uno", x, x), quiet, rounded)
    return e.resize(result, like(x.type, i16))


def _from_f16(e: LlvmBuilder, x: SSAValue) -> SSAValue:
    """The exponent is 112 too small in the bits of an f32: a product mends it, subnormals too."""
    kind = like(x.type, i32)
    bits = e.resize(e.bits(x, like(x.type, i16)), kind, unsigned=True)
    magnitude = e.shl(e.and_(bits, 0x7FFF), 13)
    finite = e.bits(e.fmul(e.bits(magnitude, like(x.type, f32)), 2.0**112), kind)
    infinite = e.or_(magnitude, 0x7F800000)
    result = e.select(e.icmp("uge", magnitude, 0x7C00 << 13), infinite, finite)
    sign = e.shl(e.and_(bits, 0x8000), 16)
    return e.bits(e.or_(result, sign), like(x.type, f32))


def _to_f16(e: LlvmBuilder, x: SSAValue) -> SSAValue:
    kind = like(x.type, i32)
    bits = e.bits(x, kind)
    magnitude = e.and_(bits, 0x7FFFFFFF)
    odd = e.and_(e.lshr(magnitude, 13), 1)
    rounded = e.lshr(e.add(e.add(magnitude, 0xFFF - (112 << 23)), odd), 13)
    # An f32 of exponent -1 ends where an f16 subnormal does: the sum rounds as it must.
    small = e.fadd(e.bits(magnitude, x.type), 0.5)
    subnormal = e.sub(e.bits(small, kind), 0x3F000000)
    finite = e.select(e.icmp("ult", magnitude, 0x38800000), subnormal, rounded)
    not_a_number = e.or_(e.and_(e.lshr(magnitude, 13), 0x3FF), 0x7E00)
    infinite = e.select(
        e.icmp("ugt", magnitude, 0x7F800000), not_a_number, e.constant(0x7C00, kind)
    )
    result = e.select(e.icmp("uge", magnitude, 0x47800000), infinite, finite)
    sign = e.and_(e.lshr(bits, 16), 0x8000)
    half = e.resize(e.or_(result, sign), like(x.type, i16))
    return e.bits(half, like(x.type, Float16Type()))
