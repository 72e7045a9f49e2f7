"""Quantisation ops of the `tensor` dialect: scales, integer rescaling and thresholds.

`requantize` and `multi_threshold` are exact on every target: integers in, integers out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, IntegerType, Signedness, TensorType, f32, i32
from xdsl.ir import Attribute
from xdsl.irdl import (
    operand_def,
    prop_def,
    result_def,
    traits_def,
)

from ...ir.definition import irdl_op_definition
from ..inference import InferredOp, fail, tensor_type
from ..meaning import Array
from ..shapes import (
    AnyTensor,
    axis_index,
    bit_width,
    integer,
    merge_dim,
    with_element,
)
from ..traits import BitExact, HasSteps, Rounds, WorksAlong
from .interpret_linear import along_channels
from .linear import same_elements


def check_per_axis(input: AnyTensor, type: AnyTensor, axis: int, what: str) -> None:
    """Refuse a quantisation parameter that is neither a scalar nor one value a channel."""
    shape = type.get_shape()
    if not shape:
        return
    if len(shape) != 1:
        fail(f"expects {what} as a scalar or a vector, got {type}")
    size = input.get_shape()[axis_index(axis, input.get_num_dims())]
    merge_dim(size, shape[0], f"channels and {what} elements")


@irdl_op_definition
class QuantizeOp(InferredOp):
    """q = clamp(round(x / scale) + zero_point, low, high), halves to even, in f32 before the cast.

    `low` and `high` are the bounds of the integer range (-128, 127 for 8 bits; narrower ranges hold
    fewer bits in the same type). Scale and zero point are scalars or one value for each position on
    `axis`; the zero point has the result's element type. What NaN becomes is undefined.

        %q = tensor.quantize %x, %scale, %zero {axis = 1 : i64, low = -128 : i64, high = 127 : i64}
             : (tensor<?x8xf32>, tensor<f32>, tensor<i8>) -> tensor<?x8xi8>
    """

    name = "tensor.quantize"

    input = operand_def(TensorType)
    scale = operand_def(TensorType)
    zero_point = operand_def(TensorType)
    axis = prop_def(IntegerAttr[IntegerType], default_value=integer(1))
    low = prop_def(IntegerAttr[IntegerType], default_value=integer(-128))
    high = prop_def(IntegerAttr[IntegerType], default_value=integer(127))
    result = result_def(TensorType)

    traits = traits_def(WorksAlong("axis"), BitExact(), HasSteps())

    def infer(self) -> Sequence[Attribute]:
        input, scale, zero = (tensor_type(v) for v in (self.input, self.scale, self.zero_point))
        if input.element_type != f32 or scale.element_type != f32:
            fail(f"expects f32 input and scale, got {input} and {scale}")
        check_per_axis(input, scale, self.axis.value.data, "scale")
        check_per_axis(input, zero, self.axis.value.data, "zero point")
        check_range(zero, self.low.value.data, self.high.value.data)
        return [with_element(input, zero.element_type)]

    def compute(self, x: Array, scale: Array, zero_point: Array) -> Array:
        axis = self.axis.value.data
        steps = np.rint(x / along_channels(scale, x.ndim, axis))
        shifted = steps + along_channels(zero_point, x.ndim, axis).astype(np.float32)
        # float64 holds every bound up to 32 bits, f32 does not.
        wide = np.nan_to_num(shifted.astype(np.float64), nan=0.0)
        return np.clip(wide, self.low.value.data, self.high.value.data).astype(zero_point.dtype)


def check_integers(type: AnyTensor) -> int:
    """The bits of the elements; those of integers that f64 and i64 differences hold are taken."""
    width = bit_width(type.element_type)
    if width is None or not 2 <= width <= 32:
        fail(f"expects integer elements of at most 32 bits, got {type}")
    return width


def check_range(type: AnyTensor, low: int, high: int) -> None:
    """Refuse integer bounds that are empty or do not fit the element type."""
    width = check_integers(type)
    least, most = -(1 << (width - 1)), (1 << (width - 1)) - 1
    if type.element_type == IntegerType(width, Signedness.UNSIGNED):
        fail(f"expects integers with a sign, got {type}; convert what it gives")
    if not least <= low <= high <= most:
        fail(f"expects {least} <= low <= high <= {most}, got {low} and {high}")


@irdl_op_definition
class DequantizeOp(InferredOp):
    """x = f32(q - zero_point)·scale; the subtraction is exact, the product is one f32 rounding.

    %x = tensor.dequantize %q, %scale, %zero {axis = 1 : i64}
         : (tensor<?x8xi8>, tensor<8xf32>, tensor<i8>) -> tensor<?x8xf32>
    """

    name = "tensor.dequantize"

    input = operand_def(TensorType)
    scale = operand_def(TensorType)
    zero_point = operand_def(TensorType)
    axis = prop_def(IntegerAttr[IntegerType], default_value=integer(1))
    result = result_def(TensorType)

    traits = traits_def(WorksAlong("axis"), Rounds())

    def infer(self) -> Sequence[Attribute]:
        input, scale, zero = (tensor_type(v) for v in (self.input, self.scale, self.zero_point))
        check_integers(input)
        if scale.element_type != f32:
            fail(f"expects an f32 scale, got {scale}")
        same_elements(input, zero)
        check_per_axis(input, scale, self.axis.value.data, "scale")
        check_per_axis(input, zero, self.axis.value.data, "zero point")
        return [with_element(input, f32)]

    def compute(self, q: Array, scale: Array, zero_point: Array) -> Array:
        axis = self.axis.value.data
        steps = q.astype(np.int64) - along_channels(zero_point, q.ndim, axis).astype(np.int64)
        return steps.astype(np.float32) * along_channels(scale, q.ndim, axis)


@irdl_op_definition
class RequantizeOp(InferredOp):
    """q = clamp(⌊(x·multiplier + 2^(shift-1)) / 2^shift⌋ + zero_point, low, high), exactly, in i64.

    The integer form of a product with the real scale multiplier·2^-shift, halves rounded up.
    Multiplier and shift (i32, 1 ≤ shift ≤ 62) are scalars or one value for each position on `axis`;
    the zero point is a scalar of the result's element type.
    Jacob et al. 2018, section 2.2, with a plain rounding shift.

        %q = tensor.requantize %acc, %multiplier, %shift, %zero
             {axis = 1 : i64, low = -128 : i64, high = 127 : i64}
             : (tensor<?x8xi32>, tensor<8xi32>, tensor<8xi32>, tensor<i8>) -> tensor<?x8xi8>
    """

    name = "tensor.requantize"

    input = operand_def(TensorType)
    multiplier = operand_def(TensorType)
    shift = operand_def(TensorType)
    zero_point = operand_def(TensorType)
    axis = prop_def(IntegerAttr[IntegerType], default_value=integer(1))
    low = prop_def(IntegerAttr[IntegerType], default_value=integer(-128))
    high = prop_def(IntegerAttr[IntegerType], default_value=integer(127))
    result = result_def(TensorType)

    traits = traits_def(WorksAlong("axis"))

    def infer(self) -> Sequence[Attribute]:
        input, zero = tensor_type(self.input), tensor_type(self.zero_point)
        if input.element_type != i32:
            fail(f"expects an i32 input, got {input}")
        for what in ("multiplier", "shift"):
            type = tensor_type(getattr(self, what))
            if type.element_type != i32:
                fail(f"expects an i32 {what}, got {type}")
            check_per_axis(input, type, self.axis.value.data, what)
        if zero.get_shape():
            fail(f"expects a scalar zero point, got {zero}")
        check_range(zero, self.low.value.data, self.high.value.data)
        return [with_element(input, zero.element_type)]

    def compute(self, x: Array, multiplier: Array, shift: Array, zero_point: Array) -> Array:
        low, high = self.low.value.data, self.high.value.data
        return rescale(x, multiplier, shift, zero_point, low, high, self.axis.value.data)


def rescale(
    x: Array, multiplier: Array, shift: Array, zero_point: Array, low: int, high: int, axis: int
) -> Array:
    """The arithmetic of `tensor.requantize`.

    |x·multiplier| ≤ 2^62 and the rounding term is at most 2^61, so that int64 holds the sum.
    """
    if ((shift < 1) | (shift > 62)).any():
        raise ValueError(f"expects shifts of 1 to 62, got {shift.min()} to {shift.max()}")
    factor = along_channels(multiplier, x.ndim, axis).astype(np.int64)
    bits = along_channels(shift, x.ndim, axis).astype(np.int64)
    scaled = (x.astype(np.int64) * factor + (np.int64(1) << (bits - 1))) >> bits
    shifted = scaled + zero_point.astype(np.int64)
    return np.clip(shifted, low, high).astype(zero_point.dtype)


@irdl_op_definition
class MultiThresholdOp(InferredOp):
    """y = the number of thresholds t with t ≤ x, as i8 (up to 127 thresholds) or i32.

    Thresholds [C, K] hold K values for each position on `axis`, or [1, K] for all. Exact on every
    target when the input is an integer (Umuroglu et al. 2017, FINN, section 4.2.2).

        %y = tensor.multi_threshold %x, %t {axis = 1 : i64}
             : (tensor<?x8xi32>, tensor<8x15xi32>) -> tensor<?x8xi8>
    """

    name = "tensor.multi_threshold"

    input = operand_def(TensorType)
    thresholds = operand_def(TensorType)
    axis = prop_def(IntegerAttr[IntegerType], default_value=integer(1))
    result = result_def(TensorType)

    traits = traits_def(WorksAlong("axis"), BitExact(), HasSteps())

    def infer(self) -> Sequence[Attribute]:
        input, thresholds = tensor_type(self.input), tensor_type(self.thresholds)
        same_elements(input, thresholds)
        check_thresholds(input, thresholds, self.axis.value.data)
        return [with_element(input, threshold_element(thresholds))]

    def compute(self, x: Array, thresholds: Array) -> Array:
        return count_thresholds(x, thresholds, self.axis.value.data)


def count_thresholds(x: Array, thresholds: Array, axis: int) -> Array:
    """The number of thresholds ≤ x, as `tensor.multi_threshold`."""
    count = thresholds.shape[1]
    result = np.zeros(x.shape, np.int8 if count <= 127 else np.int32)
    for k in range(count):
        result += along_channels(thresholds[:, k], x.ndim, axis) <= x
    return result


def check_thresholds(input: AnyTensor, thresholds: AnyTensor, axis: int) -> None:
    """Refuse thresholds that are not [C, K] or [1, K] for the input's channels."""
    shape = thresholds.get_shape()
    if len(shape) != 2:
        fail(f"expects thresholds of shape [channels, count], got {thresholds}")
    size = input.get_shape()[axis_index(axis, input.get_num_dims())]
    if shape[0] != 1:
        merge_dim(size, shape[0], "channels and rows of thresholds")


def threshold_element(thresholds: AnyTensor) -> IntegerType:
    """The element type that counts `thresholds`: i8 where it suffices."""
    return IntegerType(8) if thresholds.get_shape()[1] <= 127 else i32
