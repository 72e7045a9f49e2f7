"""Activation functions of the `tensor` dialect, on floating-point elements unless said."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import (
    Float64Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    f32,
    f64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    prop_def,
    traits_def,
)

from ...ir.definition import irdl_op_definition
from ..inference import OneOperandOp, fail, tensor_type
from ..meaning import Array, mapped
from ..shapes import axis_index, broadcasts_to, integer, is_float
from ..traits import BitExact, Idempotent, Increasing, Rounds, WorksAlong
from .elementwise import ClampOp, ExpOp, FloatBinaryOp, FloatUnaryOp, UnaryOp
from .formula import Formula
from .functions import ErfOp, Expm1Op, Log1pOp, error_function
from .interpret_linear import softmax_along


def logistic(x: Array) -> Array:
    """1/(1 + e^(-x))."""
    return 1 / (1 + np.exp(-x))


@irdl_op_definition
class ReluOp(UnaryOp):
    """y = max(x, 0), integers too.

    %y = tensor.relu %x : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.relu"
    traits = traits_def(Idempotent(), Increasing(), BitExact())

    def compute(self, x: Array) -> Array:
        return np.maximum(x, x.dtype.type(0))


@irdl_op_definition
class Relu6Op(UnaryOp):
    """y = min(max(x, 0), 6), integers too.

    %y = tensor.relu6 %x : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.relu6"
    traits = traits_def(Idempotent(), Increasing())

    def compute(self, x: Array) -> Array:
        return np.minimum(np.maximum(x, x.dtype.type(0)), x.dtype.type(6))


class AlphaOp(FloatUnaryOp, ABC):
    """An activation with a number `alpha`, which is rounded to the type of the elements."""

    alpha = prop_def(FloatAttr[Float64Type], default_value=FloatAttr(1.0, f64))

    def infer(self) -> Sequence[Attribute]:
        require_finite(self.operand, self.alpha, "alpha")
        return super().infer()


def require_finite(operand: SSAValue, number: FloatAttr[Float64Type], what: str) -> None:
    """Refuse a number that is not finite in the type that ops on `operand` compute in."""
    from ..elements import nearest, numpy_dtype  # it loads the types of other dialects

    value = number.value.data
    wide = f64 if tensor_type(operand).element_type == f64 else f32
    if not math.isfinite(nearest(value, numpy_dtype(wide))):
        article = "an" if what == "alpha" else "a"
        fail(f"expects {article} {what} that is finite in {wide}, got {value}")


@irdl_op_definition
class LeakyReluOp(AlphaOp):
    """y = x where x ≥ 0, else alpha·x.

    %y = tensor.leaky_relu %x {alpha = 1.000000e-02 : f64} : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.leaky_relu"

    alpha = prop_def(FloatAttr[Float64Type], default_value=FloatAttr(0.01, f64))

    def compute(self, x: Array) -> Array:
        return np.where(x >= 0, x, np.asarray(self.alpha.value.data, x.dtype) * x)

    def decompose(self, x: Formula) -> Formula:
        return (x < 0).choose(x * self.alpha.value.data, x)


@irdl_op_definition
class PreluOp(FloatBinaryOp):
    """y = x where x ≥ 0, else slope·x; the slope broadcasts to x (He et al. 2015).

    %y = tensor.prelu %x, %slope : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    """

    name = "tensor.prelu"
    traits = traits_def(Rounds())

    def infer(self) -> Sequence[Attribute]:
        super().infer()
        lhs, rhs = tensor_type(self.lhs), tensor_type(self.rhs)
        if not broadcasts_to(rhs.get_shape(), lhs.get_shape()):
            fail(f"expects a slope that broadcasts to {lhs}, got {rhs}")
        return [lhs]

    def compute(self, x: Array, slope: Array) -> Array:
        return np.where(x < 0, slope * x, x)

    def decompose(self, x: Formula, slope: Formula) -> Formula:
        return (x < 0).choose(slope * x, x)


@irdl_op_definition
class ThresholdedReluOp(AlphaOp):
    """y = x where x > alpha, else 0 (Konda et al. 2014).

    %y = tensor.thresholded_relu %x {alpha = 0.5 : f64} : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.thresholded_relu"

    def compute(self, x: Array) -> Array:
        return np.where(x > np.asarray(self.alpha.value.data, x.dtype), x, x.dtype.type(0))

    def decompose(self, x: Formula) -> Formula:
        return (x > self.alpha.value.data).choose(x, 0)


@irdl_op_definition
class EluOp(AlphaOp):
    """y = x where x > 0, else alpha·(e^x - 1) (Clevert et al. 2015).

    %y = tensor.elu %x {alpha = 0.5 : f64} : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.elu"

    def compute(self, x: Array) -> Array:
        return np.where(x > 0, x, np.asarray(self.alpha.value.data, x.dtype) * np.expm1(x))

    def decompose(self, x: Formula) -> Formula:
        return (x > 0).choose(x, x.of(Expm1Op) * self.alpha.value.data)


@irdl_op_definition
class CeluOp(AlphaOp):
    """y = x where x > 0, else alpha·(e^(x/alpha) - 1) (Barron 2017).

    %y = tensor.celu %x {alpha = 0.5 : f64} : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.celu"

    def infer(self) -> Sequence[Attribute]:
        if self.alpha.value.data == 0:
            fail("expects an alpha other than 0")
        return super().infer()

    def compute(self, x: Array) -> Array:
        alpha = np.asarray(self.alpha.value.data, x.dtype)
        return np.where(x > 0, x, alpha * np.expm1(x / alpha))

    def decompose(self, x: Formula) -> Formula:
        alpha = self.alpha.value.data
        return (x > 0).choose(x, (x / alpha).of(Expm1Op) * alpha)


SELU = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
"""α and λ of Klambauer et al. 2017, equation 14."""


@irdl_op_definition
class SeluOp(FloatUnaryOp):
    """y = λ·x where x > 0, else λ·α·(e^x - 1), λ = 1.0507…, α = 1.6733… (Klambauer et al. 2017).

    %y = tensor.selu %x : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.selu"
    traits = traits_def(Increasing())

    def compute(self, x: Array) -> Array:
        scale, below = (np.asarray(v, x.dtype) for v in (SELU[1], SELU[0] * SELU[1]))
        return np.where(x > 0, scale * x, below * np.expm1(x))

    def decompose(self, x: Formula) -> Formula:
        return x.of(EluOp, alpha=SELU[0]) * SELU[1]


@irdl_op_definition
class SoftplusOp(FloatUnaryOp):
    """y = ln(1 + e^x), as max(x, 0) + ln(1 + e^-|x|), which does not overflow.

    %y = tensor.softplus %x : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.softplus"
    traits = traits_def(Increasing())

    def compute(self, x: Array) -> Array:
        return softplus(x)

    def decompose(self, x: Formula) -> Formula:
        return x.maximum(0) + (-abs(x)).of(ExpOp).of(Log1pOp)


def softplus(x: Array) -> Array:
    """ln(1 + e^x)."""
    return np.logaddexp(x, x.dtype.type(0))


@irdl_op_definition
class MishOp(FloatUnaryOp):
    """y = x·tanh(ln(1 + e^x)) (Misra 2019).

    %y = tensor.mish %x : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.mish"

    def compute(self, x: Array) -> Array:
        return x * np.tanh(softplus(x))

    def decompose(self, x: Formula) -> Formula:
        return x * x.of(SoftplusOp).of(TanhOp)


@irdl_op_definition
class SoftsignOp(FloatUnaryOp):
    """y = x/(1 + |x|) (Turian et al. 2009).

    %y = tensor.softsign %x : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.softsign"
    traits = traits_def(Increasing())

    def compute(self, x: Array) -> Array:
        return x / (1 + np.abs(x))

    def decompose(self, x: Formula) -> Formula:
        return x / (abs(x) + 1)


@irdl_op_definition
class HardSigmoidOp(AlphaOp):
    """y = min(max(alpha·x + beta, 0), 1) (Courbariaux et al. 2015).

    %y = tensor.hard_sigmoid %x {alpha = 0.2 : f64, beta = 0.5 : f64}
         : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.hard_sigmoid"

    alpha = prop_def(FloatAttr[Float64Type], default_value=FloatAttr(0.2, f64))
    beta = prop_def(FloatAttr[Float64Type], default_value=FloatAttr(0.5, f64))

    def infer(self) -> Sequence[Attribute]:
        require_finite(self.operand, self.beta, "beta")
        return super().infer()

    def compute(self, x: Array) -> Array:
        alpha, beta = (np.asarray(v.value.data, x.dtype) for v in (self.alpha, self.beta))
        return np.minimum(np.maximum(alpha * x + beta, 0), 1)

    def decompose(self, x: Formula) -> Formula:
        line = x * self.alpha.value.data + self.beta.value.data
        return line.of(ClampOp, min=0.0, max=1.0)


@irdl_op_definition
class GeluOp(FloatUnaryOp):
    """Gaussian error linear unit (Hendrycks & Gimpel 2016).

    `exact`: y = x/2·(1 + erf(x/√2)); `tanh`: y = x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³))).

        %y = tensor.gelu %x {approximate = "tanh"} : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.gelu"

    approximate = prop_def(StringAttr, default_value=StringAttr("exact"))

    def infer(self) -> Sequence[Attribute]:
        if self.approximate.data not in ("exact", "tanh"):
            fail(f"expects approximate 'exact' or 'tanh', got '{self.approximate.data}'")
        return super().infer()

    def compute(self, x: Array) -> Array:
        if self.approximate.data == "exact":
            return x / 2 * (1 + error_function(x / math.sqrt(2)).astype(x.dtype))
        return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))

    def decompose(self, x: Formula) -> Formula:
        if self.approximate.data == "exact":
            curve = (x * math.sqrt(0.5)).of(ErfOp)
        else:
            curve = ((x * x * x * 0.044715 + x) * math.sqrt(2 / math.pi)).of(TanhOp)
        return x * 0.5 * (curve + 1)


@irdl_op_definition
class SiluOp(FloatUnaryOp):
    """y = x·sigmoid(x).

    %y = tensor.silu %x : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.silu"

    def compute(self, x: Array) -> Array:
        return x * logistic(x)

    def decompose(self, x: Formula) -> Formula:
        return x * x.of(SigmoidOp)


@irdl_op_definition
class SigmoidOp(FloatUnaryOp):
    """y = 1/(1 + e^(-x)).

    %y = tensor.sigmoid %x : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.sigmoid"
    compute = mapped(logistic)
    traits = traits_def(Increasing())

    def decompose(self, x: Formula) -> Formula:
        return 1 / ((-x).of(ExpOp) + 1)


@irdl_op_definition
class TanhOp(FloatUnaryOp):
    """y = tanh(x).

    %y = tensor.tanh %x : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.tanh"
    compute = mapped(np.tanh)
    traits = traits_def(Increasing())


@irdl_op_definition
class HardSwishOp(FloatUnaryOp):
    """y = x·min(max(x + 3, 0), 6)/6 (Howard et al. 2019, MobileNetV3).

    %y = tensor.hard_swish %x : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.hard_swish"

    def compute(self, x: Array) -> Array:
        return x * np.minimum(np.maximum(x + 3, 0), 6) / 6

    def decompose(self, x: Formula) -> Formula:
        return x * (x + 3).of(ClampOp, min=0.0, max=6.0) / 6


@irdl_op_definition
class HardTanhOp(UnaryOp):
    """y = min(max(x, -1), 1).

    %y = tensor.hard_tanh %x : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.hard_tanh"
    FLOAT_ONLY: ClassVar[bool] = True
    traits = traits_def(Idempotent(), Increasing(), BitExact())

    def compute(self, x: Array) -> Array:
        return np.minimum(np.maximum(x, -1), 1)

    def decompose(self, x: Formula) -> Formula:
        return x.of(ClampOp, min=-1.0, max=1.0)


class _AlongAxisOp(OneOperandOp, ABC):
    """A function of all floats along one axis, with as many results."""

    axis = prop_def(IntegerAttr[IntegerType], default_value=integer(-1))

    traits = traits_def(WorksAlong("axis"), Rounds())

    def infer(self) -> Sequence[Attribute]:
        type = tensor_type(self.operand)
        axis_index(self.axis.value.data, type.get_num_dims())
        if not is_float(type):
            fail(f"expects floating-point elements, got {type}")
        return [type]


@irdl_op_definition
class SoftmaxOp(_AlongAxisOp):
    """y = e^x / Σ e^x along the axis, computed after subtracting the maximum.

    %y = tensor.softmax %x {axis = -1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    """

    name = "tensor.softmax"

    def compute(self, x: Array) -> Array:
        return softmax_along(x, self.axis.value.data)


@irdl_op_definition
class LogSoftmaxOp(_AlongAxisOp):
    """y = x - ln Σ e^x along the axis, computed after subtracting the maximum.

    %y = tensor.log_softmax %x {axis = -1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    """

    name = "tensor.log_softmax"

    def compute(self, x: Array) -> Array:
        axis = self.axis.value.data
        shifted = x - np.max(x, axis=axis, keepdims=True, initial=-np.inf)
        return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))
