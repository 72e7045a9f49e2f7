"""ln x and log₂ x.

x = 2^k·(1 + f) with 1 + f in [√½, √2); ln(1 + f) = 2 artanh(s) with s = f / (2 + f), written as
f - (f²/2 - s·(f²/2 + R(s²))), where little is lost by rounding: K. C. Ng's form, described in
P. T. P. Tang, "Table-driven implementation of the logarithm function in IEEE floating-point
arithmetic" (1990), and used by Sun's fdlibm. R(z) / z is the polynomial through its values at
Chebyshev's points, computed with 60 digits.
"""

from __future__ import annotations

import math

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from .floating import format_of, small_integer
from .llvm_builder import LlvmBuilder
from .types import integers

_SINGLE = (
    0.6666666865348816,
    0.4000012278556824,
    0.2855081558227539,
    0.23330582678318024,
)
_DOUBLE = (
    0.666666666666667,
    0.39999999999899444,
    0.2857142862600327,
    0.22222211130259878,
    0.18182889455674947,
    0.15331710618210773,
    0.14616585424888623,
)
_ROOT_OF_HALF = {True: 0x3F3504F3, False: 0x3FE6A09E667F3BCD}
"""The bits of √½ as f32 and as f64."""


def log(e: LlvmBuilder, x: SSAValue) -> SSAValue:
    """ln x of f32 or f64."""
    return _special(e, x, positive_log(e, x))


def log2(e: LlvmBuilder, x: SSAValue) -> SSAValue:
    """log₂ x of f32 or f64; exact for powers of two."""
    k, f = split(e, x)
    return _special(e, x, e.fadd(k, e.fmul(_log_1p(e, f), 1 / math.log(2))))


def _special(e: LlvmBuilder, x: SSAValue, result: SSAValue) -> SSAValue:
    """-∞ of zeros, NaN of negative numbers; ∞ and NaN stay."""
    result = e.select(e.fcmp("olt", x, math.inf), result, x)
    result = e.select(e.fcmp("oeq", x, 0.0), -math.inf, result)
    return e.select(e.fcmp("olt", x, 0.0), math.nan, result)


def positive_log(e: LlvmBuilder, x: SSAValue) -> SSAValue:
    """ln x of positive, finite f32 or f64."""
    form = format_of(x.type)
    k, f = split(e, x)
    half_square, product = _parts(e, f)
    product = e.fadd(product, e.fmul(k, form.ln2_low))
    near = e.fsub(e.fsub(half_square, product), f)
    return e.fsub(e.fmul(k, form.ln2_high), near)


def split(e: LlvmBuilder, x: SSAValue) -> tuple[SSAValue, SSAValue]:
    """k and f, both floats, with x = 2^k·(1 + f) and 1 + f in [√½, √2)."""
    form = format_of(x.type)
    kind = integers(x.type)
    width = 1 + form.digits + (8 if form.type == f32 else 11)
    tiny = e.fcmp("olt", x, math.ldexp(1, 1 - form.bias))
    shift = form.digits + 2
    normal = e.select(tiny, e.fmul(x, math.ldexp(1, shift)), x)
    root = _ROOT_OF_HALF[form.type == f32]
    offset = e.sub(e.bits(normal, kind), root)
    # A logical shift of what is never negative: vectors of i64 often have no other.
    moved = e.lshr(e.add(offset, 1 << (width - 2)), form.digits)
    k = e.sub(moved, 1 << (width - 2 - form.digits))
    k = e.select(tiny, e.sub(k, shift), k)
    fraction = e.add(e.and_(offset, (1 << form.digits) - 1), root)
    return small_integer(e, k, x.type), e.fsub(e.bits(fraction, x.type), 1.0)


def _log_1p(e: LlvmBuilder, f: SSAValue) -> SSAValue:
    half_square, product = _parts(e, f)
    return e.fsub(f, e.fsub(half_square, product))


def _parts(e: LlvmBuilder, f: SSAValue) -> tuple[SSAValue, SSAValue]:
    """f²/2 and s·(f²/2 + R)."""
    coefficients = _SINGLE if format_of(f.type).type == f32 else _DOUBLE
    s = e.fdiv(f, e.fadd(f, 2.0))
    z = e.fmul(s, s)
    half_square = e.fmul(e.fmul(f, f), 0.5)
    series = e.fmul(z, e.polynomial(z, coefficients))
    return half_square, e.fmul(s, e.fadd(half_square, series))
