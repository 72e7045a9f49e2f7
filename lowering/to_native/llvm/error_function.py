"""erf x: near zero x + x·P(x²); farther out Q(|x| - m) for f32, and for f64 1 - erfc|x|.

The plan for f64 is that of W. J. Cody, "Rational Chebyshev approximations for the error function"
(1969): erfc t = e^(-t²)·R((t - 2) / (t + 2)). P, Q and R are polynomials through the values at
Chebyshev's points, computed with 60 digits.

With AVX-512, whose registers are tables of 32 numbers, f32 goes another way: x·G(|x|) with G of
degree 4 around the nearest eighth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import f32, i32
from xdsl.ir import SSAValue

from .exponential import exp_within
from .floating import at_least, at_most, below, format_of
from .llvm_builder import LlvmBuilder
from .types import lanes, vector

_SINGLE_NEAR = (
    0.12837916612625122,
    -0.3761262595653534,
    0.11283594369888306,
    -0.02685421146452427,
    0.005189087241888046,
    -0.000801686430349946,
    7.875874871388078e-05,
)
_SINGLE_FAR = (
    0.9995930790901184,
    0.0021780270617455244,
    -0.005445349961519241,
    0.008351339027285576,
    -0.008622084744274616,
    0.00610868027433753,
    -0.0027977237477898598,
    0.0005606835475191474,
    0.00025896483566612005,
    -0.0002708246174734086,
    8.093618089333177e-05,
    1.7834981917985715e-05,
    -1.566739592817612e-05,
    4.881641189058428e-07,
    8.837966447572398e-07,
)
_DOUBLE_NEAR = (
    0.1283791670955126,
    -0.3761263890318375,
    0.11283791670954879,
    -0.026866170645076792,
    0.0052239776248180145,
    -0.000854832698083379,
    0.0001205533111164271,
    -1.4925595266831182e-05,
    1.6461000484121368e-06,
    -1.6350312701054695e-07,
    1.4659775274047436e-08,
    -1.1372848856791674e-09,
    5.957176147748911e-11,
)
_DOUBLE_FAR = (
    0.25539567631050575,
    -0.4271858474139585,
    0.24165819424246585,
    -0.07897858101570611,
    0.0037328924043978336,
    0.006997461736971578,
    -0.00084714325299195,
    -0.0009819769411038642,
    4.355558686575482e-05,
    0.00017435947400205157,
    2.7527175557227246e-05,
    -2.7562209161129353e-05,
    -1.3998283772784976e-05,
    1.3058577122278017e-06,
    4.011749647325067e-06,
    1.272567661840228e-06,
    -1.1352571477273627e-06,
)
_MIDDLE = 2.500014066696167
"""Of 1 and 4, moved so far that the first number of Q is one of f32 almost exactly."""

_ONE_FROM = {True: 4.0, False: 6.0}
"""For f32 and f64 where erf x is 1."""


def erf(e: LlvmBuilder, x: SSAValue) -> SSAValue:
    """erf x of f32 or f64."""
    single = format_of(x.type).type == f32
    magnitude = e.fabs(x)
    series = e.polynomial(e.fmul(x, x), _SINGLE_NEAR if single else _DOUBLE_NEAR)
    near = e.fmuladd(x, series, x)
    limited = at_most(e, magnitude, _ONE_FROM[single])
    far = _single_far(e, limited) if single else _double_far(e, limited)
    return e.select(below(e, magnitude, 1.0), near, e.copysign(far, x))


def _single_far(e: LlvmBuilder, t: SSAValue) -> SSAValue:
    return e.polynomial(e.fsub(t, _MIDDLE), _SINGLE_FAR)


def _double_far(e: LlvmBuilder, t: SSAValue) -> SSAValue:
    place = e.fdiv(e.fsub(t, 2.0), e.fadd(t, 2.0))
    rest = e.fmul(exp_within(e, e.fneg(e.fmul(t, t))), e.polynomial(place, _DOUBLE_FAR))
    return e.fsub(e.constant(1.0, t.type), rest)


_LANES, _PIECES, _DEGREE = 16, 32, 4
_STEP = 1 / 8
"""From the middle of a piece to that of the next one."""
_LIMIT = 3.9374
"""In the last piece; erf is 1 there, as f32."""


def erf_by_tables(e: LlvmBuilder, x: SSAValue) -> SSAValue:
    """erf x of f32 with AVX-512, within 0.6 units; see `erf` for others."""
    count = lanes(x.type)
    if format_of(x.type).type != f32:
        return erf(e, x)
    if count is None:
        return e.lane(_in_registers(e, e.splat(x, _LANES)), 0)
    if count == _LANES:
        return _in_registers(e, x)
    whole = max(_LANES, 1 << (count - 1).bit_length())
    if count < whole:
        wide = erf_by_tables(e, e.shuffle(x, x, [n % count for n in range(whole)]))
        return e.shuffle(wide, wide, range(count))
    return e.joined([erf_by_tables(e, half) for half in e.halves(x)])


def _in_registers(e: LlvmBuilder, x: SSAValue) -> SSAValue:
    """erf of 16 numbers."""
    kind, integers = x.type, vector(i32, _LANES)
    x = at_least(e, at_most(e, x, _LIMIT), -_LIMIT)
    size = e.fabs(x)
    magic = format_of(kind).magic * _STEP
    shifted = e.fadd(size, magic)
    offset = e.fsub(size, e.fsub(shifted, magic))
    piece = e.bits(shifted, integers)  # its last five bits count

    def looked_up(numbers: NDArray[np.float32]) -> SSAValue:
        halves = (e.listed(h.tolist(), integers) for h in np.split(numbers.view(np.int32), 2))
        low, high = (e.bits(half, kind) for half in halves)
        return e.intrinsic("llvm.x86.avx512.vpermi2var.ps.512", [low, piece, high], kind)

    first, rest, *others = map(looked_up, _tables())
    total = others.pop()
    for coefficient in (*reversed(others), rest):
        total = e.fmuladd(total, offset, coefficient)
    return e.fmuladd(x, first, e.fmul(x, total))


@cache
def _tables() -> Sequence[NDArray[np.float32]]:
    """For each piece: erf t / t in its middle, rounded down, what is left of that, and the further
    coefficients of the polynomial through its values at Chebyshev's points."""
    count = _DEGREE + 1
    angles = [math.pi * (n + 0.5) / count for n in range(count)]
    rows: list[NDArray[np.float64]] = []
    for piece in range(_PIECES):
        places = [abs(piece * _STEP + _STEP / 2 * math.cos(angle)) for angle in angles]
        values = [math.erf(t) / t if t else 2 / math.sqrt(math.pi) for t in places]
        series = [
            2 / count * math.fsum(v * math.cos(j * a) for v, a in zip(values, angles, strict=True))
            for j in range(count)
        ]
        series[0] /= 2
        powers = np.polynomial.chebyshev.cheb2poly(series)
        rows.append(powers / (_STEP / 2) ** np.arange(count))
    columns = np.transpose(rows)
    first = columns[0].astype(np.float32)
    first[first > columns[0]] -= np.float32(2.0**-23)  # a unit of the largest
    return [first, (columns[0] - first).astype(np.float32), *columns[1:].astype(np.float32)]
