"""e^x and 2^x.

The argument is brought to [-ln 2 / 2, ln 2 / 2] in two steps (W. J. Cody and W. Waite, "Software
Manual for the Elementary Functions", 1980, chapter 6); there (e^r - 1 - r) / r² is the polynomial
through its values at Chebyshev's points, computed with 60 digits.
"""

from __future__ import annotations

import math

from xdsl.dialects.builtin import f32, i16, i32
from xdsl.ir import SSAValue

from .floating import at_least, at_most, format_of, near_integer, power_of_two, scaled
from .llvm_builder import LlvmBuilder
from .types import vector

_SINGLE = (
    0.5,
    0.16666576266288757,
    0.041666556149721146,
    0.008363178931176662,
    0.0013926184037700295,
)
_DOUBLE = (
    0.5,
    0.1666666666666667,
    0.04166666666666667,
    0.008333333333326136,
    0.0013888888888883748,
    0.00019841269874820627,
    2.4801587325547743e-05,
    2.7557255400206422e-06,
    2.75572736431103e-07,
    2.5105217004720745e-08,
    2.0914686968086876e-09,
)
_REGISTER = vector(f32, 16)
_RANGE = {True: (-104.0, 89.0), False: (-746.0, 710.0)}
"""For f32 and f64 where e^x is surely 0 and surely infinite."""

_RANGE_2 = {True: (-151.0, 129.0), False: (-1076.0, 1025.0)}


def exp(e: LlvmBuilder, x: SSAValue) -> SSAValue:
    """e^x of f32 or f64."""
    low, high = _RANGE[format_of(x.type).type == f32]
    return exp_within(e, at_least(e, at_most(e, x, high), low))


def exp_by_scaling(e: LlvmBuilder, x: SSAValue) -> SSAValue:
    """`exp`, the same bits, with AVX-512: `vscalefps` multiplies registers by powers of two."""
    if x.type != _REGISTER:
        return exp(e, x)
    low, high = _RANGE[True]
    x = at_least(e, at_most(e, x, high), low)
    whole, _ = near_integer(e, x, 1 / math.log(2))
    form = format_of(x.type)
    rest = e.fmuladd(whole, -form.ln2_low, e.fmuladd(whole, -form.ln2_high, x))
    every, mode = e.constant(-1, i16), e.constant(4, i32)
    arguments = [_near_zero(e, rest), whole, x, every, mode]
    return e.intrinsic("llvm.x86.avx512.mask.scalef.ps.512", arguments, x.type)


def exp_within(e: LlvmBuilder, x: SSAValue, rest: SSAValue | None = None) -> SSAValue:
    """e^(x + rest) of f32 or f64, for x not far beyond where it is 0 or infinite."""
    reduced, n = _reduced(e, x, rest)
    return scaled(e, _near_zero(e, reduced), n)


def one_more_than_exp(e: LlvmBuilder, x: SSAValue) -> SSAValue:
    """e^x + 1 of f32 or f64, for x from 0 to where e^x is a normal number, within a few units.

    Errors of e^x are worth less the larger it is: one step brings the argument near zero, and all
    sums are fused.
    """
    form = format_of(x.type)
    whole, n = near_integer(e, x, 1 / math.log(2))
    reduced = e.fmuladd(whole, -math.log(2), x)
    power = e.polynomial(reduced, (1.0, 1.0, *(_SINGLE if form.type == f32 else _DOUBLE)))
    return e.fmuladd(power, power_of_two(e, n, x.type), e.constant(1.0, x.type))


def exp2(e: LlvmBuilder, x: SSAValue) -> SSAValue:
    """2^x of f32 or f64."""
    low, high = _RANGE_2[format_of(x.type).type == f32]
    x = at_least(e, at_most(e, x, high), low)
    whole, n = near_integer(e, x)
    reduced = e.fmul(e.fsub(x, whole), math.log(2))
    return scaled(e, _near_zero(e, reduced), n)


def _reduced(e: LlvmBuilder, x: SSAValue, rest: SSAValue | None) -> tuple[SSAValue, SSAValue]:
    """x + rest less the nearest multiple n·ln 2, and n as `scaled` takes it."""
    form = format_of(x.type)
    whole, n = near_integer(e, x, 1 / math.log(2))
    high = e.fmuladd(whole, -form.ln2_high, x)
    if rest is None:
        return e.fmuladd(whole, -form.ln2_low, high), n
    return e.fsub(high, e.fmuladd(whole, form.ln2_low, e.fneg(rest))), n


def _near_zero(e: LlvmBuilder, r: SSAValue) -> SSAValue:
    coefficients = _SINGLE if format_of(r.type).type == f32 else _DOUBLE
    # Not fused, the errors of the two sums make up for each other in part.
    return e.fadd(e.fadd(e.fmul(e.fmul(r, r), e.polynomial(r, coefficients)), r), 1.0)
