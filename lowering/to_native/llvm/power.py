"""x^y = e^(y·ln x).

An error in ln x counts as often as y·ln x is large, up to 745 times. For f32 ln x in f64 is enough;
for f64 it is a pair of f64 (`double_double`): ln x = k·ln 2 + 2s + ⅔s³ + s⁵·P(s²) with
s = f / (2 + f), all but the last term as pairs. P is the polynomial through its values at
Chebyshev's points, computed with 60 digits. The special cases are those of IEEE 754-2019, section
9.2.1, `pow`.
"""

from __future__ import annotations

import math

from xdsl.dialects.builtin import Float64Type, f64
from xdsl.ir import SSAValue

from .double_double import Pair, quick_two_sum, two_product, two_sum
from .exponential import exp_within
from .floating import at_least, at_most, format_of
from .llvm_builder import LlvmBuilder
from .logarithm import positive_log, split
from .types import element, integers, like

_SERIES = (
    0.4,
    0.28571428571429364,
    0.22222222221655885,
    0.18181818335392802,
    0.1538459496251843,
    0.1333480469384731,
    0.11706236339491206,
    0.11723178623876518,
)
_TWO_THIRDS = (2 / 3, 3.700743415417188e-17)
"""⅔ as a pair."""

_LOW, _HIGH = -760.0, 720.0
"""Beyond these e^p is surely 0 and surely infinite."""


def power(e: LlvmBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """x^y of f32 or f64."""
    if isinstance(element(x.type), Float64Type):
        return _power(e, x, y, accurate=True)
    double = like(x.type, f64)
    result = _power(e, e.extend(x, double), e.extend(y, double), accurate=False)
    return e.truncate(result, x.type)


def _power(e: LlvmBuilder, x: SSAValue, y: SSAValue, *, accurate: bool) -> SSAValue:
    magnitude = e.fabs(x)
    # Above 2^65 the result is 0, 1 or infinite, as it is at 2^65.
    limited = at_least(e, at_most(e, y, math.ldexp(1, 65)), math.ldexp(-1, 65))
    if accurate:
        high, low = _log_pair(e, magnitude)
        exponent, rest = two_product(e, limited, high)
        rest = e.fadd(rest, e.fmul(limited, low))
        # Where the product goes far beyond, so may its rest.
        rest = at_least(e, at_most(e, rest, 1.0), -1.0)
        positive = exp_within(e, _within(e, exponent), rest)
    else:
        positive = exp_within(e, _within(e, e.fmul(limited, positive_log(e, magnitude))))
    return _special(e, x, y, magnitude, positive)


def _within(e: LlvmBuilder, p: SSAValue) -> SSAValue:
    return at_least(e, at_most(e, p, _HIGH), _LOW)


def _log_pair(e: LlvmBuilder, x: SSAValue) -> Pair:
    """ln x of positive, finite f64, to about 2^-65 of itself."""
    form = format_of(x.type)
    k, f = split(e, x)
    one = e.constant(1.0, x.type)
    # 2 + f = 1 + (1 + f); s = f / (2 + f) and what its rounding lost.
    below, below_low = two_sum(e, e.fadd(f, 1.0), one)
    s = e.fdiv(f, below)
    product, product_low = two_product(e, s, below)
    lost = e.fsub(e.fsub(e.fsub(f, product), product_low), e.fmul(s, below_low))
    s_low = e.fdiv(lost, below)
    square, square_low = two_product(e, s, s)
    square_low = e.fadd(square_low, e.fmul(e.fadd(s, s), s_low))
    cube, cube_low = two_product(e, square, s)
    cube_low = e.fadd(cube_low, e.fadd(e.fmul(square, s_low), e.fmul(square_low, s)))
    high, low = _TWO_THIRDS
    third, third_low = two_product(e, cube, e.constant(high, x.type))
    third_low = e.fadd(third_low, e.fadd(e.fmul(cube, low), e.fmul(cube_low, high)))
    fifth = e.fmul(e.fmul(cube, square), e.polynomial(square, _SERIES))
    total, total_low = quick_two_sum(e, e.fadd(s, s), third)
    total_low = e.fadd(total_low, e.fadd(e.fadd(s_low, s_low), third_low))
    result, result_low = two_sum(e, e.fmul(k, form.ln2_high), total)
    tail = e.fadd(e.fadd(total_low, fifth), e.fmul(k, form.ln2_low))
    return quick_two_sum(e, result, e.fadd(result_low, tail))


def _special(
    e: LlvmBuilder, x: SSAValue, y: SSAValue, magnitude: SSAValue, positive: SSAValue
) -> SSAValue:
    falls = e.fcmp("olt", y, 0.0)
    at_zero = e.select(falls, e.constant(math.inf, x.type), e.constant(0.0, x.type))
    at_infinity = e.select(falls, e.constant(0.0, x.type), e.constant(math.inf, x.type))
    result = e.select(e.fcmp("oeq", magnitude, 0.0), at_zero, positive)
    result = e.select(e.fcmp("oeq", magnitude, math.inf), at_infinity, result)
    size = e.fabs(y)
    whole = _is_whole(e, size)
    odd = e.and_(whole, e.not_(_is_whole(e, e.fmul(size, 0.5))))
    negative = e.icmp("slt", e.bits(x, integers(x.type)), 0)
    result = e.select(e.and_(negative, odd), e.fneg(result), result)
    below_zero = e.and_(e.fcmp("olt", x, 0.0), e.fcmp("one", magnitude, math.inf))
    undefined = e.or_(e.and_(below_zero, e.not_(whole)), e.fcmp("uno", x, y))
    result = e.select(undefined, math.nan, result)
    one = e.or_(e.fcmp("oeq", y, 0.0), e.fcmp("oeq", x, 1.0))
    return e.select(one, 1.0, result)


def _is_whole(e: LlvmBuilder, size: SSAValue) -> SSAValue:
    """Whether a float that is not negative is an integer; NaN is none."""
    limit = math.ldexp(1, format_of(size.type).digits)
    rounded = e.fsub(e.fadd(size, limit), limit)
    return e.or_(e.fcmp("oge", size, limit), e.fcmp("oeq", rounded, size))
