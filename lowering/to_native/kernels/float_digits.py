"""Floats as int8 digits: the scale of a row or an image, and the digits of scaled values.

Not here: who is scaled together (`activations`).
"""

from __future__ import annotations

from xdsl.dialects.builtin import f32, i32
from xdsl.ir import SSAValue

from ....runtime.native.abi.linear import DIGIT_BASE
from ..llvm.types import vector
from .code import Code, lanes

MAGNITUDE_BITS = 0x7FFFFFFF
"""Of a float; magnitudes as integers are ordered like the numbers, infinity and NaN above."""
# Adding 1.5 · 2^23 to a float of magnitude below 2^22 leaves its nearest integer, ties to even, in
# the low bits.
_MAGIC = 12582912.0
_SMALLEST = 9 << 23
"""Bits of 2^-118: 127 divided by less may overflow, and then all count as zero."""
_INFINITE = 0x7F800000
_TO_NEXT_POWER = 0x20000
"""Added to the bits of a float, it carries into the exponent from 127/64 of a power of two on."""


def float_scale(code: Code, bits: SSAValue, digits: int) -> tuple[SSAValue, SSAValue]:
    """The scale for values up to the magnitude with these bits, and the factor to divide by it.

    One digit takes the scale max|x| / 127. Several take the least power of two at which the first
    stays an int8, so that integers up to 127, spikes and bits above all, have no remainder and are
    multiplied exactly. Below 2^-118 both are 0; with infinity or NaN the scale is NaN.
    """
    magnitude = code.bits(bits, f32)
    small = code.icmp("slt", bits, _SMALLEST)
    finite = code.icmp("slt", bits, _INFINITE)
    nan = code.bits(code.constant(0x7FC00000, i32), f32)
    if digits > 1:
        raised = code.add(bits, _TO_NEXT_POWER)
        exponent = code.and_(raised, _INFINITE)
        power = code.sub(exponent, 6 << 23)
        scale = code.bits(power, f32)
        inverse = code.bits(code.sub(254 << 23, power), f32)
    else:
        scale, inverse = code.fdiv(magnitude, 127.0), code.fdiv(127.0, magnitude)
    scale = code.select(finite, scale, nan)
    return code.select(small, 0.0, scale), code.select(small, 0.0, inverse)


def float_digits(code: Code, scaled: SSAValue, digits: int) -> list[SSAValue]:
    """Digits of a vector of values of at most 127: each the nearest integer to what is left.

    They stand in the low bytes of vectors of int32, the highest digit first.
    """
    integers, floats = vector(i32, lanes(scaled.type)), scaled.type
    magic = code.constant(_MAGIC, floats)
    result: list[SSAValue] = []
    for d in range(digits):
        shifted = code.fadd(scaled, magic)
        result.append(code.bits(shifted, integers))
        if d + 1 < digits:
            # Exact: both have the exponent of `scaled` or less, and the difference is small.
            rest = code.fsub(scaled, code.fsub(shifted, magic))
            scaled = code.fmul(rest, DIGIT_BASE)
    return result
