"""Activation functions of the `tensor` dialect, on floating-point elements unless said."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import (
    Float64Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    f32,
    f64,
)
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, prop_def, traits_def

from ..inference import Value, fail, tensor_type
from ..shapes import axis_index, integer
from ..traits import Idempotent
from .elementwise import FloatUnaryOp, UnaryOp


@irdl_op_definition
class ReluOp(UnaryOp):
    """y = max(x, 0), integers too.

    %y = tensor.relu %x : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.relu"
    traits = traits_def(Idempotent())


@irdl_op_definition
class Relu6Op(UnaryOp):
    """y = min(max(x, 0), 6), integers too.

    %y = tensor.relu6 %x : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.relu6"
    traits = traits_def(Idempotent())


@irdl_op_definition
class LeakyReluOp(FloatUnaryOp):
    """y = x where x ≥ 0, else alpha·x.

    %y = tensor.leaky_relu %x {alpha = 1.000000e-02 : f64} : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.leaky_relu"

    alpha = prop_def(FloatAttr[Float64Type], default_value=FloatAttr(0.01, f64))

    def __init__(self, operand: Value, alpha: float = 0.01) -> None:
        self.build_inferred([operand], {"alpha": FloatAttr(alpha, f64)})

    def infer(self) -> Sequence[Attribute]:
        from ..elements import nearest, numpy_dtype  # it loads the types of other dialects

        alpha = self.alpha.value.data
        wide = f64 if tensor_type(self.operand).element_type == f64 else f32
        if not math.isfinite(nearest(alpha, numpy_dtype(wide))):
            fail(f"expects an alpha that is finite in {wide}, got {alpha}")
        return super().infer()


@irdl_op_definition
class GeluOp(FloatUnaryOp):
    """Gaussian error linear unit (Hendrycks & Gimpel 2016).

    `exact`: y = x/2·(1 + erf(x/√2)); `tanh`: y = x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³))).

        %y = tensor.gelu %x {approximate = "tanh"} : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.gelu"

    approximate = prop_def(StringAttr, default_value=StringAttr("exact"))

    def __init__(self, operand: Value, approximate: str = "exact") -> None:
        self.build_inferred([operand], {"approximate": StringAttr(approximate)})

    def infer(self) -> Sequence[Attribute]:
        if self.approximate.data not in ("exact", "tanh"):
            fail(f"expects approximate 'exact' or 'tanh', got '{self.approximate.data}'")
        return super().infer()


@irdl_op_definition
class SiluOp(FloatUnaryOp):
    """y = x·sigmoid(x).

    %y = tensor.silu %x : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.silu"


@irdl_op_definition
class SigmoidOp(FloatUnaryOp):
    """y = 1/(1 + e^(-x)).

    %y = tensor.sigmoid %x : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.sigmoid"


@irdl_op_definition
class TanhOp(FloatUnaryOp):
    """y = tanh(x).

    %y = tensor.tanh %x : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.tanh"


@irdl_op_definition
class HardSwishOp(FloatUnaryOp):
    """y = x·min(max(x + 3, 0), 6)/6 (Howard et al. 2019, MobileNetV3).

    %y = tensor.hard_swish %x : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.hard_swish"


@irdl_op_definition
class HardTanhOp(FloatUnaryOp):
    """y = min(max(x, -1), 1).

    %y = tensor.hard_tanh %x : (tensor<4xf32>) -> tensor<4xf32>
    """

    name = "tensor.hard_tanh"
    traits = traits_def(Idempotent())


class _AlongAxisOp(FloatUnaryOp):
    """A function of all elements along one axis."""

    axis = prop_def(IntegerAttr[IntegerType], default_value=integer(-1))

    def __init__(self, operand: Value, axis: int = -1) -> None:
        self.build_inferred([operand], {"axis": integer(axis)})

    def infer(self) -> Sequence[Attribute]:
        axis_index(self.axis.value.data, tensor_type(self.operand).get_num_dims())
        return super().infer()


@irdl_op_definition
class SoftmaxOp(_AlongAxisOp):
    """y = e^x / Σ e^x along the axis, computed after subtracting the maximum.

    %y = tensor.softmax %x {axis = -1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    """

    name = "tensor.softmax"


@irdl_op_definition
class LogSoftmaxOp(_AlongAxisOp):
    """y = x - ln Σ e^x along the axis, computed after subtracting the maximum.

    %y = tensor.log_softmax %x {axis = -1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    """

    name = "tensor.log_softmax"
