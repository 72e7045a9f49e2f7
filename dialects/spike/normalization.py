"""Batch normalisation of currents, as at inference."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    Float64Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    TensorType,
    f64,
)
from xdsl.ir import Attribute
from xdsl.irdl import (
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)

from ...ir.definition import irdl_op_definition
from ..inference import fail, tensor_type
from ..shapes import axis_index, integer
from ..tensor.linear import check_vector, same_elements
from ..tensor.normalization import check_epsilon
from ..tensor.reduction import require_float
from ..traits import TakesSteps
from .types import SpikeOp, time_first

KINDS = ("shared", "tdbn")


@irdl_op_definition
class BatchNormOp(SpikeOp):
    """y = (x - mean)/√(var + ε)·scale + bias a channel, statistics shared over batch and time.

    `kind` `tdbn`, threshold-dependent (Zheng et al. 2021): the normalised value times
    `alpha`·`threshold` before scale and bias. The channels are on `axis`, by default 2 as in
    [T, N, C, …].

        %y = spike.batch_norm %x, %scale, %bias, %mean, %var {kind = "tdbn", threshold = 5.0e-01
             : f64} : (tensor<4x?x8x6x6xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>,
             tensor<8xf32>) -> tensor<4x?x8x6x6xf32>
    """

    name = "spike.batch_norm"

    input = operand_def(TensorType)
    scale = operand_def(TensorType)
    bias = operand_def(TensorType)
    mean = operand_def(TensorType)
    variance = operand_def(TensorType)
    kind = prop_def(StringAttr, default_value=StringAttr("shared"))
    axis = prop_def(IntegerAttr[IntegerType], default_value=integer(2))
    epsilon = prop_def(FloatAttr[Float64Type], default_value=FloatAttr(1e-5, f64))
    alpha = opt_prop_def(FloatAttr[Float64Type])
    threshold = opt_prop_def(FloatAttr[Float64Type])
    result = result_def(TensorType)

    traits = traits_def(TakesSteps())

    def infer(self) -> Sequence[Attribute]:
        input = tensor_type(self.input)
        require_float(input)
        time_first(self.input, 2)
        if self.kind.data not in KINDS:
            fail(f"expects kind one of {', '.join(KINDS)}, got '{self.kind.data}'")
        if self.kind.data != "tdbn" and (self.alpha is not None or self.threshold is not None):
            fail("expects alpha and threshold with the kind 'tdbn' alone")
        if self.kind.data == "tdbn" and self.threshold is None:
            fail("expects a threshold with the kind 'tdbn'")
        axis = axis_index(self.axis.value.data, input.get_num_dims())
        if axis == 0:
            fail("expects the channels on another axis than time")
        for what in ("scale", "bias", "mean", "variance"):
            type = tensor_type(getattr(self, what))
            same_elements(input, type)
            check_vector(type, input.get_shape()[axis], what)
        check_epsilon(self.epsilon)
        return [input]

    def factor(self) -> float:
        """α·θ of `tdbn`, else 1."""
        alpha, threshold = (
            1.0 if a is None else a.value.data for a in (self.alpha, self.threshold)
        )
        return alpha * threshold
