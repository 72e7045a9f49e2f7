"""Rules of special functions: gamma, erf and modified Bessel functions and their relatives.

No op of the IR computes them. They are formulas in f64, whose results are exact to a few units in
the last place of f32. Not here: what PyTorch makes of other functions by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from xdsl.dialects.builtin import f64
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.tensor.formula import Formula
from ...ir.arrays import Array
from .calls import Call
from .rules_elementwise import first
from .torch_builder import Builder, Rule

_SHIFT = 8
"""Series in 1/x are for x from here on; smaller ones are moved there by recurrences."""


def _sine_and_cosine(x: Formula) -> tuple[Formula, Formula]:
    """sin πx and cos πx up to one common sign; multiples of 1/2 are exact for both."""
    angle = (x - round(x)) * math.pi
    return angle.of(tensor.SinOp), angle.of(tensor.CosOp)


def _moved(x: Formula) -> tuple[Formula, Formula]:
    """Whether x is less than `_SHIFT`, and x moved beyond it there."""
    small = x < _SHIFT
    return small, small.choose(x + _SHIFT, x)


def _log_gamma(x: Formula) -> Formula:
    """ln |Γ(x)|, DLMF 5.11.1 from 8 on, 5.5.1 below, 5.5.3 for x < 1/2."""
    mirrored = x < 0.5
    z = mirrored.choose(1 - x, x)
    small, far = _moved(z)
    product = z
    for step in range(1, _SHIFT):
        product = product * (z + step)
    inverse = 1 / far
    terms = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
    series = inverse * (inverse * inverse).polynomial(terms)
    # (x - 1/2)·ln x - x as a product, which is ∞ and not NaN for ∞.
    found = (far - 0.5) * (far.of(tensor.LogOp) - 1) + (math.log(2 * math.pi) - 1) / 2 + series
    found = small.choose(found - product.of(tensor.LogOp), found)
    sine = abs(_sine_and_cosine(x)[0])
    found = mirrored.choose((math.pi / sine).of(tensor.LogOp) - found, found)
    return abs(x).compare("eq", math.inf).choose(x.number(math.inf), found)


def _digamma(x: Formula) -> Formula:
    """Γ'(x)/Γ(x), DLMF 5.11.2 from 8 on, 5.5.2 below, 5.5.4 for x < 0; ∓∞ at ±0."""
    mirrored = x < 0
    z = mirrored.choose(1 - x, x)
    small, far = _moved(z)
    inverses = 1 / z
    for step in range(1, _SHIFT):
        inverses = inverses + 1 / (z + step)
    square = (1 / far) * (1 / far)
    terms = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
    found = far.of(tensor.LogOp) - 0.5 / far - square * square.polynomial(terms)
    found = small.choose(found - inverses, found)
    sine, cosine = _sine_and_cosine(x)
    found = mirrored.choose(found - math.pi * cosine / sine, found)
    pole = mirrored.choose(sine.compare("eq", 0), x.compare("ne", x))
    return pole.choose(x.number(math.nan), found)


_NEAR = (
    (0.886226899, -1.645349621, 0.914624893, -0.140543331),
    (1.0, -2.118377725, 1.442710462, -0.329097515, 0.012229801),
)
_FAR = (
    (-1.970840454, -1.62490649, 3.429567803, 1.641345311),
    (1.0, 3.543889200, 1.637067800),
)
"""Numerator and denominator of a first guess at the inverse of erf, where |x| is at most 0.7, of
x², and beyond, of √(-ln((1 - |x|)/2)); Giles 2010 lists them as those of Numerical Analysis."""


def _inverse_erf(x: Formula) -> Formula:
    """y with erf(y) = x: a rational guess, then Newton's method."""
    size = abs(x)
    square = x * x
    near = x * square.polynomial(_NEAR[0]) / square.polynomial(_NEAR[1])
    root = (-((1 - size) * 0.5).of(tensor.LogOp)).of(tensor.SqrtOp)
    tail = root.polynomial(_FAR[0]) / root.polynomial(_FAR[1])
    y = size.compare("le", 0.7).choose(near, x.of(tensor.SignOp) * tail)
    for _ in range(2):
        slope = (y * y * -1).of(tensor.ExpOp) * (2 / math.sqrt(math.pi))
        y = y - (y.of(tensor.ErfOp) - x) / slope
    y = size.compare("eq", 1).choose(x * math.inf, y)
    return x.compare("eq", 0).choose(x, y)


_TERMS = 32
"""Of a continued fraction, which has 13 digits from 2 on then."""


def _scaled_complement(x: Formula) -> Formula:
    """e^(x²)·erfc(x) for x from 2 on, DLMF 7.9.1."""
    x = x.maximum(2)
    total = x
    for term in range(_TERMS, 0, -1):
        total = x + (term / 2) / total
    return (1 / math.sqrt(math.pi)) / total


def _complement(x: Formula) -> Formula:
    """erfc(x) = 1 - erf(x), also where that is small."""
    far = (x * x * -1).of(tensor.ExpOp) * _scaled_complement(x)
    return (x > 2).choose(far, 1 - x.of(tensor.ErfOp))


def _scaled(x: Formula) -> Formula:
    """erfcx(x) = e^(x²)·erfc(x)."""
    near = (x * x).of(tensor.ExpOp) * (1 - x.of(tensor.ErfOp))
    return (x > 2).choose(_scaled_complement(x), near)


def _normal_quantile(p: Formula) -> Formula:
    """y with (1 + erf(y/√2))/2 = p: a guess as for erf, then Newton's method on ln erfc."""
    upper = p > 0.5
    twice = upper.choose(1 - p, p) * 2
    root = (-(twice * 0.5).of(tensor.LogOp)).of(tensor.SqrtOp)
    y, wanted = root.polynomial(_FAR[0]) / root.polynomial(_FAR[1]), twice.of(tensor.LogOp)
    for _ in range(3):
        scaled = _scaled(y)
        y = y + (scaled.of(tensor.LogOp) - y * y - wanted) * scaled * (math.sqrt(math.pi) / 2)
    y = twice.compare("eq", 0).choose(y.number(math.inf), y) * math.sqrt(2)
    y = twice.compare("eq", 1).choose(y * 0, y)
    return upper.choose(y, -y)


_BESSEL_NEAR = 8
"""Up to here modified Bessel functions are a series in x, beyond in 1/x."""


def _bessel_series(order: int) -> tuple[Array, Array]:
    """Chebyshev coefficients of e^-x·I(x) up to 8, and of that times √x, in 16/x - 1, beyond.

    Values are those of Bessel's integral (DLMF 10.32.3), whose trapezoidal sums converge at once.
    """
    angles = (np.arange(400) + 0.5) * (np.pi / 400)

    def scaled(x: Array) -> Array:
        waves = np.exp(np.multiply.outer(x, np.cos(angles) - 1)) * np.cos(order * angles)
        return waves.mean(-1)

    def far(t: Array) -> Array:
        # Beyond some x the integral is that of its expansion (DLMF 10.40.1).
        x, m = 2 * _BESSEL_NEAR / (t + 1), 4.0 * order * order
        terms = [1.0 / np.sqrt(2 * np.pi) + 0 * x]
        for k in range(1, 20):
            terms.append(terms[-1] * -(m - (2 * k - 1) ** 2) / (8 * k * x))
        return np.where(x > 100, sum(terms), scaled(np.minimum(x, 100)) * np.sqrt(x))

    places = np.polynomial.chebyshev.chebpts1(33)
    table = np.polynomial.chebyshev.chebvander(places, 32)
    values = scaled((places + 1) * _BESSEL_NEAR / 2), far(places)
    return np.linalg.solve(table, values[0]), np.linalg.solve(table, values[1])


def _chebyshev(t: Formula, coefficients: Array) -> Formula:
    """Σ c[i]·T_i(t) by Clenshaw's recurrence."""
    last, here = t * 0, t * 0 + float(coefficients[-1])
    for coefficient in coefficients[-2:0:-1]:
        last, here = here, t * here * 2 - last + float(coefficient)
    return t * here - last + float(coefficients[0])


def _bessel(order: int, *, is_scaled: bool) -> Callable[[Formula], Formula]:
    """Modified Bessel functions of the first kind, times e^-|x| where they are scaled."""

    def function(x: Formula) -> Formula:
        near, far = _bessel_series(order)
        size = abs(x)
        close = _chebyshev(size.minimum(_BESSEL_NEAR) * (2 / _BESSEL_NEAR) - 1, near)
        distant = size.maximum(_BESSEL_NEAR)
        tail = _chebyshev(2 * _BESSEL_NEAR / distant - 1, far) / distant.of(tensor.SqrtOp)
        found = (size > _BESSEL_NEAR).choose(tail, close)
        if not is_scaled:
            found = size.of(tensor.ExpOp) * found
        return found * x.of(tensor.SignOp) if order else found

    return function


def _in_double(function: Callable[[Formula], Formula]) -> Rule:
    """A rule for a function of one tensor that is computed in f64."""

    def rule(e: Builder, call: Call) -> SSAValue:
        x = Formula(e, first(e, call))
        return function(x.convert(f64)).convert(x.element).value

    return rule


RULES: dict[str, Rule] = {
    "digamma": _in_double(_digamma),
    "erfc": _in_double(_complement),
    "erfinv": _in_double(_inverse_erf),
    "lgamma": _in_double(_log_gamma),
    "special_erfcx": _in_double(_scaled),
    "special_ndtri": _in_double(_normal_quantile),
    **dict.fromkeys(("i0", "special_i0"), _in_double(_bessel(0, is_scaled=False))),
    "special_i0e": _in_double(_bessel(0, is_scaled=True)),
    "special_i1": _in_double(_bessel(1, is_scaled=False)),
    "special_i1e": _in_double(_bessel(1, is_scaled=True)),
}
"""By the name of the operator in the namespace `aten`."""
