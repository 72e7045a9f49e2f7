"""Normalisation ops of the `tensor` dialect, as at inference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import Float64Type, FloatAttr, TensorType, f64
from xdsl.ir import Attribute
from xdsl.irdl import (
    AttrSizedOperandSegments,
    ParsePropInAttrDict,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    traits_def,
)

from ...ir.definition import irdl_op_definition
from ..inference import InferredOp, fail, tensor_type
from ..meaning import Array
from ..shapes import AnyTensor, broadcasts_to
from ..traits import AddsUp, Affine, ChannelsFirst, TakesSamples
from .elementwise import SqrtOp
from .formula import Formula
from .interpret_linear import along_channels
from .linear import check_vector, same_elements
from .reduction import ReduceMeanOp, ReduceVarianceOp, require_float
from .shape import ReshapeToOp

_EPSILON = FloatAttr(1e-5, f64)


@irdl_op_definition
class BatchNormOp(InferredOp):
    """y = (x - mean)/√(var + ε)·scale + bias per channel (axis 1), all four vectors of C elements.

    Ioffe & Szegedy 2015, algorithm 2.

        %y = tensor.batch_norm %x, %scale, %bias, %mean, %var {epsilon = 1.000000e-05 : f64}
             : (tensor<?x8x4x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
             -> tensor<?x8x4x4xf32>
    """

    name = "tensor.batch_norm"

    input = operand_def(TensorType)
    scale = operand_def(TensorType)
    bias = operand_def(TensorType)
    mean = operand_def(TensorType)
    variance = operand_def(TensorType)
    epsilon = prop_def(FloatAttr[Float64Type], default_value=_EPSILON)
    result = result_def(TensorType)

    traits = traits_def(AddsUp(), ChannelsFirst(), TakesSamples(), Affine())

    def infer(self) -> Sequence[Attribute]:
        input = tensor_type(self.input)
        require_float(input)
        if input.get_num_dims() < 2:
            fail(f"expects an input of rank 2 or more, got {input}")
        for what in ("scale", "bias", "mean", "variance"):
            type = tensor_type(getattr(self, what))
            same_elements(input, type)
            check_vector(type, input.get_shape()[1], what)
        check_epsilon(self.epsilon)
        return [input]

    def compute(self, x: Array, *vectors: Array) -> Array:
        scale, bias, mean, variance = (along_channels(v, x.ndim) for v in vectors)
        return (x - mean) / np.sqrt(variance + x.dtype.type(self.epsilon.value.data)) * scale + bias

    def decompose(self, x: Formula, *vectors: Formula) -> Formula:
        shape = [-1, *[1] * (x.rank - 2)]
        scale, bias, mean, variance = (v.of(ReshapeToOp, shape=shape) for v in vectors)
        return (x - mean) / (variance + self.epsilon.value.data).of(SqrtOp) * scale + bias


def check_epsilon(epsilon: FloatAttr[Float64Type]) -> None:
    """Refuse a negative ε."""
    if not epsilon.value.data >= 0:
        fail(f"expects epsilon of at least 0, got {epsilon.value.data}")


@irdl_op_definition
class LayerNormOp(InferredOp):
    """y = (x - μ)/√(σ² + ε)·scale + bias, μ and σ² over the last axes, those that `scale` covers.

    Ba, Kiros & Hinton 2016; the variance is the biased one.

        %y = tensor.layer_norm %x, %scale bias(%bias : tensor<8xf32>) {epsilon = 1.000000e-05 : f64}
             : tensor<?x5x8xf32>, tensor<8xf32> -> tensor<?x5x8xf32>
    """

    name = "tensor.layer_norm"

    input = operand_def(TensorType)
    scale = operand_def(TensorType)
    bias = opt_operand_def(TensorType)
    epsilon = prop_def(FloatAttr[Float64Type], default_value=_EPSILON)
    result = result_def(TensorType)

    traits = traits_def(AddsUp())
    irdl_options = (ParsePropInAttrDict(), AttrSizedOperandSegments(as_property=True))
    assembly_format = (
        "$input `,` $scale (`bias` `(` $bias^ `:` type($bias) `)`)? attr-dict "
        "`:` type($input) `,` type($scale) `->` type($result)"
    )

    def infer(self) -> Sequence[Attribute]:
        input = tensor_type(self.input)
        check_trailing(input, tensor_type(self.scale), "scale")
        if self.bias is not None:
            check_trailing(input, tensor_type(self.bias), "bias")
        check_epsilon(self.epsilon)
        return [input]

    def compute(self, x: Array, scale: Array, *bias: Array) -> Array:
        centred = x - x.mean(axis=tuple(range(-scale.ndim, 0)), keepdims=True)
        return sum(bias, over_rms(centred, scale.ndim, self.epsilon.value.data) * scale)

    def decompose(self, x: Formula, scale: Formula, *bias: Formula) -> Formula:
        # `cse` computes the mean once.
        options: Any = {"axes": list(range(-scale.rank, 0)), "keepdims": True}
        centred, variance = x - x.of(ReduceMeanOp, **options), x.of(ReduceVarianceOp, **options)
        result = centred / (variance + self.epsilon.value.data).of(SqrtOp) * scale
        return result + bias[0] if bias else result


def over_rms(x: Array, rank: int, epsilon: float) -> Array:
    """x/√(mean(x²) + ε) over the last axes."""
    square = np.square(x).mean(axis=tuple(range(-rank, 0)), keepdims=True)
    return x / np.sqrt(square + x.dtype.type(epsilon))


def check_trailing(input: AnyTensor, type: AnyTensor, what: str) -> None:
    """Refuse a scale or bias that does not match the input's last axes."""
    require_float(input)
    same_elements(input, type)
    rank = type.get_num_dims()
    if not 0 < rank <= input.get_num_dims() or not broadcasts_to(
        type.get_shape(), input.get_shape()[-rank:]
    ):
        fail(f"expects {what} shaped as the last axes of {input}, got {type}")


@irdl_op_definition
class RmsNormOp(InferredOp):
    """y = x/√(mean(x²) + ε)·scale over the axes that `scale` covers (Zhang & Sennrich 2019, eq. 4).

    %y = tensor.rms_norm %x, %scale {epsilon = 1.000000e-05 : f64}
         : (tensor<?x5x8xf32>, tensor<8xf32>) -> tensor<?x5x8xf32>
    """

    name = "tensor.rms_norm"

    input = operand_def(TensorType)
    scale = operand_def(TensorType)
    epsilon = prop_def(FloatAttr[Float64Type], default_value=_EPSILON)
    result = result_def(TensorType)

    traits = traits_def(AddsUp())

    def infer(self) -> Sequence[Attribute]:
        input = tensor_type(self.input)
        check_trailing(input, tensor_type(self.scale), "scale")
        check_epsilon(self.epsilon)
        return [input]

    def compute(self, x: Array, scale: Array) -> Array:
        return over_rms(x, scale.ndim, self.epsilon.value.data) * scale

    def decompose(self, x: Formula, scale: Formula) -> Formula:
        square = (x * x).of(ReduceMeanOp, axes=list(range(-scale.rank, 0)), keepdims=True)
        return x / (square + self.epsilon.value.data).of(SqrtOp) * scale
