"""erf x: near zero x + x·P(x²), farther out 1 - erfc|x|.

The plan is that of W. J. Cody, "Rational Chebyshev approximations for the error function" (1969).
For f32 erfc t = e^(-t·Q(t)), for f64 erfc t = e^(-t²)·R((t - 2) / (t + 2)). P, Q and R are
polynomials through the values at Chebyshev's points, computed with 60 digits.
"""

from __future__ import annotations

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from .exponential import exp_within
from .floating import at_most, format_of
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
    1.1287310123443604,
    0.6348466277122498,
    0.10666419565677643,
    -0.02402382716536522,
    0.0036750836297869682,
    -0.0002799583598971367,
    -1.1705609722412191e-05,
    4.337929112807615e-06,
    -2.6772616479320277e-07,
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
_ONE_FROM = {True: 4.0, False: 6.0}
"""For f32 and f64 where erf x is 1."""


def erf(e: LlvmBuilder, x: SSAValue) -> SSAValue:
    """erf x of f32 or f64."""
    single = format_of(x.type).type == f32
    magnitude = e.fabs(x)
    square = e.fmul(x, x)
    series = e.polynomial(square, _SINGLE_NEAR if single else _DOUBLE_NEAR)
    near = e.fadd(x, e.fmul(x, series))
    limited = at_most(e, magnitude, _ONE_FROM[single])
    rest = _single_rest(e, limited) if single else _double_rest(e, limited)
    far = e.copysign(e.fsub(e.constant(1.0, x.type), rest), x)
    return e.select(e.fcmp("olt", magnitude, 1.0), near, far)


def _single_rest(e: LlvmBuilder, t: SSAValue) -> SSAValue:
    return exp_within(e, e.fneg(e.fmul(t, e.polynomial(t, _SINGLE_FAR))))


def _double_rest(e: LlvmBuilder, t: SSAValue) -> SSAValue:
    place = e.fdiv(e.fsub(t, 2.0), e.fadd(t, 2.0))
    return e.fmul(exp_within(e, e.fneg(e.fmul(t, t))), e.polynomial(place, _DOUBLE_FAR))
