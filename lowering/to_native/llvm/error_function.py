"""erf x: near zero x + x·P(x²); farther out Q(|x| - m) for f32, and for f64 1 - erfc|x|.

The plan for f64 is that of W. J. Cody, "Rational Chebyshev approximations for the error function"
(1969): erfc t = e^(-t²)·R((t - 2) / (t + 2)). P, Q and R are polynomials through the values at
Chebyshev's points, computed with 60 digits.
"""

from __future__ import annotations

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from .exponential import exp_within
from .floating import at_most, below, format_of
from .llvm_builder import LlvmBuilder

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
