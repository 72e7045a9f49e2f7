"""Circular and hyperbolic functions of the `tensor` dialect, and their inverses.

Each op has its meaning, and what it is made of where an engine lacks it: see `functions`.
"""

from __future__ import annotations

import math

import numpy as np
from xdsl.irdl import traits_def

from ...ir.definition import irdl_op_definition
from ..meaning import mapped
from ..traits import Increasing
from .bits import OrOp
from .elementwise import ExpOp, FloatBinaryOp, FloatUnaryOp, LogOp, SqrtOp
from .formula import Formula, factorials
from .functions import Log1pOp, is_negative

_HALF_PI, _UNIT = 0x3243F6A8885A308D313198A2E03707344A4093822299F31D0, 193
"""π/2 to 194 bits, in units of 2 to the power of so much less than 0."""


def _quarter_turns(x: Formula) -> tuple[Formula, Formula]:
    """n = round(x/(π/2)), and x - n·π/2, which is within ±π/4 (Cody & Waite 1980).

    π/2 stands in parts of so few bits that n times a part is exact: for n below 2^16 in f32, which
    is |x| ≤ 10⁵, and below 2^27 in f64, |x| ≤ 2·10⁸. Beyond, the remainder means nothing, and stays
    in its bounds.
    """
    bits, count = (26, 3) if x.is_double else (8, 5)
    turns = round(x * (2 / math.pi))
    left, rest = _HALF_PI, x
    for part in range(count):
        low = _UNIT + 1 - bits * (part + 1)
        cut = left >> low << low
        rest, left = rest - turns * (cut / (1 << _UNIT)), left - cut
    rest = rest - turns * (left / (1 << _UNIT))
    return turns, rest.maximum(-0.8).minimum(0.8)


def _circular(x: Formula) -> tuple[Formula, Formula, Formula]:
    """n of `_quarter_turns`, and the sine and cosine of the remainder by their Taylor series."""
    turns, r = _quarter_turns(x)
    square, count = r * r, 8 if x.is_double else 4
    sine = r - r * square * square.polynomial(factorials(3, count))
    tail = square * square * square.polynomial(factorials(4, count))
    return turns, sine, 1 - (square * 0.5 - tail)


def _is_odd(n: Formula) -> Formula:
    """Whether a whole number is odd."""
    return (n - math.floor(n * 0.5) * 2).compare("ne", 0)


def _turned(x: Formula, quarters: int) -> Formula:
    """sin(x + quarters·π/2): n odd takes the cosine, ⌊n/2⌋ odd the other sign."""
    turns, sine, cosine = _circular(x)
    turns = turns + quarters if quarters else turns
    size = _is_odd(turns).choose(cosine, sine)
    return _is_odd(math.floor(turns * 0.5)).choose(-size, size)


@irdl_op_definition
class SinOp(FloatUnaryOp):
    """y = sin x. Decomposed, it is exact to |x| ≤ 10⁵ in f32 and 2·10⁸ in f64.

    %y = tensor.sin %x : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.sin"
    compute = mapped(np.sin)

    def decompose(self, x: Formula) -> Formula:
        return x.compare("eq", 0).choose(x, _turned(x, 0))


@irdl_op_definition
class CosOp(FloatUnaryOp):
    """y = cos x. Decomposed, it is exact to |x| ≤ 10⁵ in f32 and 2·10⁸ in f64.

    %y = tensor.cos %x : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.cos"
    compute = mapped(np.cos)

    def decompose(self, x: Formula) -> Formula:
        return _turned(x, 1)


@irdl_op_definition
class TanOp(FloatUnaryOp):
    """y = tan x. Decomposed, it is exact to |x| ≤ 10⁵ in f32 and 2·10⁸ in f64.

    %y = tensor.tan %x : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.tan"
    compute = mapped(np.tan)

    def decompose(self, x: Formula) -> Formula:
        turns, sine, cosine = _circular(x)
        odd = _is_odd(turns)
        ratio = odd.choose(-cosine, sine) / odd.choose(sine, cosine)
        return x.compare("eq", 0).choose(x, ratio)


@irdl_op_definition
class AsinOp(FloatUnaryOp):
    """y = arcsin x; NaN outside [-1, 1].

    %y = tensor.asin %x : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.asin"
    traits = traits_def(Increasing())
    compute = mapped(np.arcsin)

    def decompose(self, x: Formula) -> Formula:
        return (x / ((1 - x) * (1 + x)).of(SqrtOp)).of(AtanOp)


@irdl_op_definition
class AcosOp(FloatUnaryOp):
    """y = arccos x; NaN outside [-1, 1].

    %y = tensor.acos %x : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.acos"
    compute = mapped(np.arccos)

    def decompose(self, x: Formula) -> Formula:
        return ((1 - x) / (1 + x)).of(SqrtOp).of(AtanOp) * 2


_ARCTANGENT = (-0.333333144947336232, 0.199984365221051637, -0.142429527778032181,
               0.105899067899637969, -0.0606900723214466735)  # fmt: skip
_ARCTANGENT_DOUBLE = (
    -0.333333333333331885, 0.199999999999513833, -0.14285714279998589, 0.111111107743980156,
    -0.0909089751520553086, 0.0769205615398665983, -0.0666306022534331455, 0.058475845533290744,
    -0.0503798539564231577, 0.0380322181225098971, -0.0178729142602275211,
)  # fmt: skip
"""(arctan(z)/z - 1)/z² as a polynomial of z² for |z| ≤ tan(π/8): fitted in least squares at
Chebyshev's nodes, within 10⁻⁹ and 2·10⁻¹⁸."""


@irdl_op_definition
class AtanOp(FloatUnaryOp):
    """y = arctan x.

    %y = tensor.atan %x : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.atan"
    traits = traits_def(Increasing())
    compute = mapped(np.arctan)

    def decompose(self, x: Formula) -> Formula:
        # arctan(a) = π/2 - arctan(1/a) = π/4 + arctan((a - 1)/(a + 1)).
        a = abs(x)
        large, middle = a > 1 + math.sqrt(2), a > math.sqrt(2) - 1
        z = large.choose(-1 / a, middle.choose((a - 1) / (a + 1), a))
        offset = large.choose(a.number(math.pi / 2), middle.choose(a.number(math.pi / 4), 0))
        square = z * z
        series = square.polynomial(_ARCTANGENT_DOUBLE if x.is_double else _ARCTANGENT)
        return x.odd(offset + (z + z * square * series))


@irdl_op_definition
class Atan2Op(FloatBinaryOp):
    """z = the angle of the point (y, x): arctan(x/y) of operands x, y, in (-π, π].

    %z = tensor.atan2 %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.atan2"
    compute = mapped(np.arctan2)

    def decompose(self, x: Formula, y: Formula) -> Formula:
        a, b = abs(x), abs(y)
        low, high = a.minimum(b), a.maximum(b)
        # Of two infinities or zeros the ratio is 1, or 0.
        equal = low.compare("eq", high)
        ratio = equal.choose((high > 0).choose(high.number(1), 0), low / high)
        angle = ratio.of(AtanOp)
        angle = (a > b).choose(math.pi / 2 - angle, angle)
        turned = is_negative(y).choose(math.pi - angle, angle)
        return is_negative(x).choose(-turned, turned)


@irdl_op_definition
class HypotOp(FloatBinaryOp):
    """z = √(x² + y²), also where a square is beyond the type; ∞ where either is infinite.

    %z = tensor.hypot %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.hypot"
    compute = mapped(np.hypot)

    def decompose(self, x: Formula, y: Formula) -> Formula:
        a, b = abs(x), abs(y)
        low, high = a.minimum(b), a.maximum(b)
        ratio = low / (high > 0).choose(high, 1)
        length = high * (ratio * ratio + 1).of(SqrtOp)
        infinite = a.compare("eq", math.inf).of(OrOp, b.compare("eq", math.inf))
        return infinite.choose(x.number(math.inf), length)


_LN_2 = 45427 / 65536
"""ln 2 in 16 bits: what is less by it than a number below 2^8 is exact."""


def _halved_exponential(a: Formula) -> tuple[Formula, Formula]:
    """e^a/2 and e^-a/2, also where e^a is beyond the type."""
    power = (a - _LN_2).of(ExpOp)
    return power * (math.exp(_LN_2) / 2), (math.exp(-_LN_2) / 2) / power


@irdl_op_definition
class SinhOp(FloatUnaryOp):
    """y = (e^x - e^-x)/2.

    %y = tensor.sinh %x : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.sinh"
    traits = traits_def(Increasing())
    compute = mapped(np.sinh)

    def decompose(self, x: Formula) -> Formula:
        a, square = abs(x), x * x
        up, down = _halved_exponential(a)
        near = x * square.polynomial(factorials(1, 9 if x.is_double else 5, sign=1))
        return (a < 1).choose(near, (x < 0).choose(down - up, up - down))


@irdl_op_definition
class CoshOp(FloatUnaryOp):
    """y = (e^x + e^-x)/2.

    %y = tensor.cosh %x : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.cosh"
    compute = mapped(np.cosh)

    def decompose(self, x: Formula) -> Formula:
        up, down = _halved_exponential(abs(x))
        return up + down


@irdl_op_definition
class AsinhOp(FloatUnaryOp):
    """y = arsinh x = ln(x + √(x² + 1)).

    %y = tensor.asinh %x : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.asinh"
    traits = traits_def(Increasing())
    compute = mapped(np.arcsinh)

    def decompose(self, x: Formula) -> Formula:
        a = abs(x)
        square = a * a
        near = (a + square / (1 + (square + 1).of(SqrtOp))).of(Log1pOp)
        return x.odd((a > x.square_limit).choose(a.of(LogOp) + math.log(2), near))


@irdl_op_definition
class AcoshOp(FloatUnaryOp):
    """y = arcosh x = ln(x + √(x² - 1)); NaN below 1.

    %y = tensor.acosh %x : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.acosh"
    traits = traits_def(Increasing())
    compute = mapped(np.arccosh)

    def decompose(self, x: Formula) -> Formula:
        t = x - 1
        near = (t + t.of(SqrtOp) * (t + 2).of(SqrtOp)).of(Log1pOp)
        return (x > x.square_limit).choose(x.of(LogOp) + math.log(2), near)


@irdl_op_definition
class AtanhOp(FloatUnaryOp):
    """y = artanh x = ln((1 + x)/(1 - x))/2; NaN outside [-1, 1].

    %y = tensor.atanh %x : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.atanh"
    traits = traits_def(Increasing())
    compute = mapped(np.arctanh)

    def decompose(self, x: Formula) -> Formula:
        a = abs(x)
        return x.odd((a * 2 / (1 - a)).of(Log1pOp) * 0.5)
