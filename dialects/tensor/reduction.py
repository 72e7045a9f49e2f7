"""Pooling and reductions of the `tensor` dialect."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import (
    BoolAttr,
    DenseArrayBase,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    f64,
    i64,
)
from xdsl.ir import Attribute
from xdsl.irdl import (
    prop_def,
    traits_def,
)

from ...ir.definition import irdl_op_definition
from ..inference import OneOperandOp, fail, tensor_type
from ..meaning import Array
from ..shapes import (
    AnyTensor,
    Shape,
    axis_index,
    integer,
    is_float,
    with_element,
    with_shape,
)
from ..traits import (
    AddsUp,
    ChannelsFirst,
    HasSteps,
    Homogeneous,
    SelectsElements,
    TakesSamples,
    WorksAlong,
)
from .elementwise import ExpOp, LogOp, require_number
from .formula import Formula
from .shape import PadToOp, SqueezeOp, distinct_axes
from .window import Averages, Maxima, Pools

_FALSE = BoolAttr.from_bool(False)


class _PoolOp(Pools, OneOperandOp, ABC):
    """A sliding window over the spatial axes of [N, C, …], 1-d or 2-d."""

    LEADING: ClassVar[int] = 2
    IMAGE: ClassVar[str] = "an image"

    def infer(self) -> Sequence[Attribute]:
        type = tensor_type(self.operand)
        return [with_shape(type, self.pooled_shape(type.get_shape()))]


@irdl_op_definition
class MaxPoolOp(Maxima, _PoolOp):
    """The maximum of each window; pads never win.

    %y = tensor.max_pool %x {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>,
         padding = array<i64: 0, 0, 0, 0>} : (tensor<?x8x4x4xf32>) -> tensor<?x8x2x2xf32>
    """

    name = "tensor.max_pool"
    traits = traits_def(ChannelsFirst(), TakesSamples(), SelectsElements())


@irdl_op_definition
class AvgPoolOp(Averages, _PoolOp):
    """The mean of each window; `count_include_pad` counts pads as zeros, else they are left out.

    %y = tensor.avg_pool %x {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>,
         padding = array<i64: 0, 0, 0, 0>} : (tensor<?x8x4x4xf32>) -> tensor<?x8x2x2xf32>
    """

    name = "tensor.avg_pool"
    traits = traits_def(ChannelsFirst(), TakesSamples(), AddsUp(), Homogeneous())

    def infer(self) -> Sequence[Attribute]:
        require_float(tensor_type(self.operand))
        return super().infer()


def require_float(type: AnyTensor) -> None:
    """Refuse elements that are no floating-point numbers."""
    if not is_float(type):
        fail(f"expects floating-point elements, got {type}")


@irdl_op_definition
class GlobalAvgPoolOp(OneOperandOp):
    """The mean over all spatial axes of [N, C, …], kept as axes of size 1.

    %y = tensor.global_avg_pool %x : (tensor<?x8x4x4xf32>) -> tensor<?x8x1x1xf32>
    """

    name = "tensor.global_avg_pool"
    traits = traits_def(ChannelsFirst(), TakesSamples(), AddsUp(), Homogeneous())

    def infer(self) -> Sequence[Attribute]:
        type = tensor_type(self.operand)
        require_float(type)
        shape = type.get_shape()
        if len(shape) < 3:
            fail(f"expects an image of rank 3 or more, got {type}")
        return [with_shape(type, (*shape[:2], *[1] * (len(shape) - 2)))]

    def decompose(self, x: Formula) -> Formula:
        return x.of(ReduceMeanOp, axes=list(range(2, x.rank)), keepdims=True)

    def compute(self, x: Array) -> Array:
        return x.mean(axis=tuple(range(2, x.ndim)), keepdims=True)


class ReduceOp(OneOperandOp, ABC):
    """A reduction over `axes`, which stay as size 1 with `keepdims`."""

    axes = prop_def(DenseArrayBase[IntegerType])
    keepdims = prop_def(BoolAttr, default_value=_FALSE)

    traits = traits_def(WorksAlong("axes"))

    def infer(self) -> Sequence[Attribute]:
        type = tensor_type(self.operand)
        axes = distinct_axes(self.axes.get_values(), type.get_num_dims())
        return [
            with_shape(type, reduced_shape(type.get_shape(), axes, bool(self.keepdims.value.data)))
        ]

    @property
    def along(self) -> dict[str, Any]:
        """The axes, as functions of NumPy take them."""
        keepdims = bool(self.keepdims.value.data)
        return {"axis": tuple(self.axes.get_values()), "keepdims": keepdims}

    def padded(self, x: Array, value: float) -> Array:
        """x with `value` where an axis that is reduced has nothing."""
        axes = {axis % x.ndim for axis in self.axes.get_values()}
        return np.pad(
            x,
            [(0, int(axis in axes and not size)) for axis, size in enumerate(x.shape)],
            constant_values=value,
        )


def reduced_shape(shape: Shape, axes: set[int], keepdims: bool) -> Shape:
    """`shape` without `axes`, or with size 1 there."""
    if keepdims:
        return tuple(1 if a in axes else d for a, d in enumerate(shape))
    return tuple(d for a, d in enumerate(shape) if a not in axes)


@irdl_op_definition
class ReduceSumOp(ReduceOp):
    """The sum over the axes. Integers wrap around.

    %y = tensor.reduce_sum %x {axes = array<i64: 1>} : (tensor<2x4xf32>) -> tensor<2xf32>
    """

    name = "tensor.reduce_sum"
    traits = traits_def(AddsUp(), Homogeneous())

    def infer(self) -> Sequence[Attribute]:
        require_number(tensor_type(self.operand))
        return super().infer()

    def compute(self, x: Array) -> Array:
        return np.sum(x, dtype=x.dtype, **self.along)


@irdl_op_definition
class ReduceMeanOp(ReduceOp):
    """The mean over the axes, on floating-point elements.

    %y = tensor.reduce_mean %x {axes = array<i64: 1>} : (tensor<2x4xf32>) -> tensor<2xf32>
    """

    name = "tensor.reduce_mean"
    traits = traits_def(AddsUp(), Homogeneous())

    def infer(self) -> Sequence[Attribute]:
        require_float(tensor_type(self.operand))
        return super().infer()

    def compute(self, x: Array) -> Array:
        return np.mean(x, **self.along)


@irdl_op_definition
class ReduceVarianceOp(ReduceOp):
    """y = Σ (x - μ)²/max(n - correction, 0) over the n elements along the axes, μ their mean.

    `correction` is 0 for the biased variance, 1 for Bessel's. 0/0 is NaN, as in PyTorch.

        %y = tensor.reduce_variance %x {axes = array<i64: 1>, correction = 1.000000e+00 : f64}
             : (tensor<2x4xf32>) -> tensor<2xf32>
    """

    name = "tensor.reduce_variance"
    traits = traits_def(AddsUp())

    correction = prop_def(FloatAttr[Float64Type], default_value=FloatAttr(0.0, f64))

    def infer(self) -> Sequence[Attribute]:
        require_float(tensor_type(self.operand))
        if not math.isfinite(self.correction.value.data):
            fail(f"expects a finite correction, got {self.correction.value.data}")
        return super().infer()

    def compute(self, x: Array) -> Array:
        # In f64: beside a large mean f32 loses what the elements differ by.
        wide, axes = x.astype(np.float64), tuple(self.axes.get_values())
        count = math.prod(x.shape[axis] for axis in axes)
        centred = wide - wide.sum(axis=axes, keepdims=True) / count
        total = np.square(centred).sum(**self.along)
        return total / max(count - self.correction.value.data, 0)

    def decompose(self, x: Formula) -> Formula:
        axes, keepdims = self.axes.get_values(), bool(self.keepdims.value.data)
        centred = x - x.of(ReduceMeanOp, axes=axes, keepdims=True)
        biased = (centred * centred).of(ReduceMeanOp, axes=axes, keepdims=keepdims)
        correction, sizes = self.correction.value.data, [x.size(axis) for axis in axes]
        if not correction:
            return biased
        if None in sizes:
            count = x.filled(1).of(ReduceSumOp, axes=axes, keepdims=keepdims)
            return biased * (count / (count - correction).maximum(0))
        known = math.prod(size or 0 for size in sizes)
        return biased * (known / (known - correction) if known > correction else math.inf)


def _ends(dtype: np.dtype[Any]) -> tuple[float, float]:
    """The least and the greatest number of a type."""
    if dtype.kind in "iu":
        return np.iinfo(dtype).min, np.iinfo(dtype).max
    return (False, True) if dtype.kind == "b" else (-math.inf, math.inf)


@irdl_op_definition
class ReduceMaxOp(ReduceOp):
    """The maximum over the axes; of nothing -∞, or the least integer.

    %y = tensor.reduce_max %x {axes = array<i64: 1>} : (tensor<2x4xf32>) -> tensor<2xf32>
    """

    name = "tensor.reduce_max"
    traits = traits_def(SelectsElements())

    def compute(self, x: Array) -> Array:
        return np.max(x if x.size else self.padded(x, _ends(x.dtype)[0]), **self.along)


@irdl_op_definition
class ReduceMinOp(ReduceOp):
    """The minimum over the axes; of nothing ∞, or the greatest integer.

    %y = tensor.reduce_min %x {axes = array<i64: 1>} : (tensor<2x4xf32>) -> tensor<2xf32>
    """

    name = "tensor.reduce_min"
    traits = traits_def(SelectsElements())

    def compute(self, x: Array) -> Array:
        return np.min(x if x.size else self.padded(x, _ends(x.dtype)[1]), **self.along)


@irdl_op_definition
class ReduceProdOp(ReduceOp):
    """The product over the axes. Integers wrap around.

    %y = tensor.reduce_prod %x {axes = array<i64: 1>} : (tensor<2x4xf32>) -> tensor<2xf32>
    """

    name = "tensor.reduce_prod"
    traits = traits_def(AddsUp())

    def infer(self) -> Sequence[Attribute]:
        require_number(tensor_type(self.operand))
        return super().infer()

    def compute(self, x: Array) -> Array:
        return np.prod(x, dtype=x.dtype, **self.along)

    def decompose(self, x: Formula) -> Formula | None:
        # Halves multiplied by each other until one element is left.
        axes = [axis % x.rank for axis in self.axes.get_values()]
        if any(x.size(axis) is None for axis in axes):
            return None
        for axis in axes:
            given = x.size(axis) or 0
            size = 1 << max(given - 1, 0).bit_length()
            high = [size - given if a == axis else 0 for a in range(x.rank)]
            x = x.of(PadToOp, low=[0] * x.rank, high=high, value=1.0)
            while size > 1:
                size //= 2
                x = x.cut(axis, 0, size) * x.cut(axis, size, 2 * size)
        return x * 1 if self.keepdims.value.data or not axes else x.of(SqueezeOp, axes=axes)


@irdl_op_definition
class ReduceLogSumExpOp(ReduceOp):
    """y = ln Σ e^x over the axes, computed after subtracting the maximum.

    %y = tensor.reduce_log_sum_exp %x {axes = array<i64: 1>} : (tensor<2x4xf32>) -> tensor<2xf32>
    """

    name = "tensor.reduce_log_sum_exp"
    traits = traits_def(AddsUp())

    def infer(self) -> Sequence[Attribute]:
        require_float(tensor_type(self.operand))
        return super().infer()

    def compute(self, x: Array) -> Array:
        return np.logaddexp.reduce(x, **self.along)

    def decompose(self, x: Formula) -> Formula:
        axes, keepdims = self.axes.get_values(), bool(self.keepdims.value.data)
        if not axes:
            return x + 0
        top = x.of(ReduceMaxOp, axes=axes, keepdims=True)
        finite = (abs(top) < math.inf).choose(top, 0)
        sums = (x - finite).of(ExpOp).of(ReduceSumOp, axes=axes, keepdims=True)
        result = sums.of(LogOp) + finite
        return result if keepdims else result.of(SqueezeOp, axes=axes)


class ArgOp(OneOperandOp, ABC):
    """The index of an element along the axis, as i64."""

    traits = traits_def(WorksAlong("axis"), HasSteps())

    axis = prop_def(IntegerAttr[IntegerType], default_value=integer(-1))
    keepdims = prop_def(BoolAttr, default_value=_FALSE)

    def infer(self) -> Sequence[Attribute]:
        type = tensor_type(self.operand)
        axis = axis_index(self.axis.value.data, type.get_num_dims())
        shape = reduced_shape(type.get_shape(), {axis}, bool(self.keepdims.value.data))
        return [with_element(with_shape(type, shape), i64)]


@irdl_op_definition
class ArgmaxOp(ArgOp):
    """The index of the first maximum along the axis, as i64.

    %y = tensor.argmax %x {axis = -1 : i64} : (tensor<2x4xf32>) -> tensor<2xi64>
    """

    name = "tensor.argmax"

    def compute(self, x: Array) -> Array:
        keepdims = bool(self.keepdims.value.data)
        return np.argmax(x, axis=self.axis.value.data, keepdims=keepdims)
