"""Roundings, exponentials and tests of numbers in the `tensor` dialect.

Each op has its meaning, and what it is made of where an engine lacks it. Those formulas compute in
the type of their operand (f32 for narrower ones) and are within a few units in the last place.
"""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import i1
from xdsl.ir import Attribute
from xdsl.irdl import traits_def

from ...ir.definition import irdl_op_definition
from ..inference import OneOperandOp, fail, tensor_type
from ..meaning import Array, mapped
from ..shapes import is_float, with_element
from ..traits import BitExact, Elementwise, HasSteps, Idempotent, Increasing
from .elementwise import ArithmeticOp, ExpOp, FloatUnaryOp, LogOp, PowOp, SqrtOp, UnaryOp
from .formula import Formula, factorials


def error_function(x: Array) -> Array:
    """erf(x), computed in double precision by the C library."""
    values = np.fromiter(map(math.erf, x.reshape(-1).tolist()), np.float64, x.size)
    return values.reshape(x.shape)


@irdl_op_definition
class ErfOp(FloatUnaryOp):
    """y = erf(x) = 2/√π ∫₀ˣ e^(-t²) dt.

    %y = tensor.erf %x : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.erf"
    compute = mapped(error_function)
    traits = traits_def(Increasing())


@irdl_op_definition
class CeilOp(UnaryOp):
    """y = ⌈x⌉.

    %y = tensor.ceil %x : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.ceil"
    FLOAT_ONLY: ClassVar[bool] = True
    traits = traits_def(Idempotent(), HasSteps(), Increasing())
    compute = mapped(np.ceil)

    def decompose(self, x: Formula) -> Formula:
        return -math.floor(-x)


@irdl_op_definition
class TruncOp(UnaryOp):
    """y = x rounded toward zero.

    %y = tensor.trunc %x : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.trunc"
    FLOAT_ONLY: ClassVar[bool] = True
    traits = traits_def(Idempotent(), HasSteps(), Increasing())
    compute = mapped(np.trunc)

    def decompose(self, x: Formula) -> Formula:
        return (x < 0).choose(x.of(CeilOp), math.floor(x))


@irdl_op_definition
class ReciprocalOp(FloatUnaryOp):
    """y = 1/x.

    %y = tensor.reciprocal %x : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.reciprocal"

    def compute(self, x: Array) -> Array:
        return 1 / x

    def decompose(self, x: Formula) -> Formula:
        return 1 / x


@irdl_op_definition
class RsqrtOp(FloatUnaryOp):
    """y = 1/√x.

    %y = tensor.rsqrt %x : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.rsqrt"

    def compute(self, x: Array) -> Array:
        return 1 / np.sqrt(x)

    def decompose(self, x: Formula) -> Formula:
        return x.of(SqrtOp).of(ReciprocalOp)


@irdl_op_definition
class Expm1Op(FloatUnaryOp):
    """y = e^x - 1, also right where x is near 0.

    %y = tensor.expm1 %x : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.expm1"
    traits = traits_def(Increasing())
    compute = mapped(np.expm1)

    def decompose(self, x: Formula) -> Formula:
        near = x * x.polynomial(factorials(1, 14 if x.is_double else 8, step=1, sign=1))
        return (abs(x) < 0.5).choose(near, x.of(ExpOp) - 1)


@irdl_op_definition
class Log1pOp(FloatUnaryOp):
    """y = ln(1 + x), also right where x is near 0.

    %y = tensor.log1p %x : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.log1p"
    traits = traits_def(Increasing())
    compute = mapped(np.log1p)

    def decompose(self, x: Formula) -> Formula:
        # ln(1 + x) = 2·artanh(z) for z = x/(2 + x); 2·z = x - z·x keeps the bits of x.
        z = x / (x + 2)
        square = z * z
        series = tuple(2 / (2 * i + 3) for i in range(13 if x.is_double else 5))
        near = x - z * (x - square * square.polynomial(series))
        return (abs(x) < 0.4).choose(near, (x + 1).of(LogOp))


@irdl_op_definition
class Exp2Op(FloatUnaryOp):
    """y = 2^x.

    %y = tensor.exp2 %x : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.exp2"
    traits = traits_def(Increasing())
    compute = mapped(np.exp2)

    def decompose(self, x: Formula) -> Formula:
        return x.number(2).of(PowOp, x)


@irdl_op_definition
class Log2Op(FloatUnaryOp):
    """y = log₂ x.

    %y = tensor.log2 %x : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.log2"
    traits = traits_def(Increasing())
    compute = mapped(np.log2)

    def decompose(self, x: Formula) -> Formula:
        return x.of(LogOp) * (1 / math.log(2))


def is_negative(x: Formula) -> Formula:
    """Whether x < 0 or x is -0."""
    return (x.compare("eq", 0).choose(1 / x, x)) < 0


@irdl_op_definition
class FmodOp(ArithmeticOp):
    """z = x - trunc(x / y)·y: the remainder with the sign of x (C's `%` and `fmod`).

    Integers by 0 give 0.

        %z = tensor.fmod %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.fmod"
    traits = traits_def(HasSteps())
    compute = mapped(np.fmod)

    def decompose(self, x: Formula, y: Formula) -> Formula:
        if is_float(tensor_type(self.lhs)):
            rest = abs(x) % abs(y)
            return (x < 0).choose(-rest, rest)
        rest = x - x / y * y
        return y.compare("eq", 0).choose(x.number(0), rest)


class PredicateOp(OneOperandOp, ABC):
    """y = p(x) for each element, as `i1`; floating-point elements alone."""

    traits = traits_def(Elementwise(), BitExact())

    def infer(self) -> Sequence[Attribute]:
        type = tensor_type(self.operand)
        if not is_float(type):
            fail(f"expects floating-point elements, got {type}")
        return [with_element(type, i1)]


@irdl_op_definition
class IsNanOp(PredicateOp):
    """y = whether x is NaN.

    %y = tensor.is_nan %x : (tensor<4xf32>) -> tensor<4xi1>
    """

    name = "tensor.is_nan"
    compute = mapped(np.isnan)

    def decompose(self, x: Formula) -> Formula:
        return x.compare("ne", x)


@irdl_op_definition
class IsInfOp(PredicateOp):
    """y = whether x is ∞ or -∞.

    %y = tensor.is_inf %x : (tensor<4xf32>) -> tensor<4xi1>
    """

    name = "tensor.is_inf"
    compute = mapped(np.isinf)

    def decompose(self, x: Formula) -> Formula:
        return abs(x).compare("eq", math.inf)
