"""Shape changes of the `tensor` dialect: data moves, values stay.

Own names where upstream's op of the plain name means something else (`reshape`, `concat`, `pad`,
`extract_slice`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import (
    DenseArrayBase,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    TensorType,
    f64,
)
from xdsl.ir import Attribute
from xdsl.irdl import (
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)

from ...ir.definition import irdl_op_definition
from ..inference import InferredOp, OneOperandOp, Value, fail, tensor_type
from ..meaning import Array
from ..shapes import (
    DYNAMIC,
    Shape,
    axis_index,
    broadcasts_to,
    element_count,
    integer,
    is_float,
    is_integer,
    merge_dim,
    show_shape,
    with_shape,
)
from ..traits import CanonicalizableOp, MovesElements, WorksAlong
from .linear import same_elements


class ShapeOp(OneOperandOp, CanonicalizableOp, ABC):
    """An op with one tensor in and one out."""

    def infer(self) -> Sequence[Attribute]:
        type = tensor_type(self.operand)
        return [with_shape(type, self.output_shape(type.get_shape()))]

    @abstractmethod
    def output_shape(self, shape: Shape) -> Shape:
        """The result shape for an operand of `shape`."""

    def compute(self, x: Array) -> Array:
        return x.reshape(self.output_shape(x.shape))


@irdl_op_definition
class ReshapeToOp(ShapeOp):
    """The same elements, row-major, in another shape.

    In `shape`, -1 (once) is what is left over, and -2 - i is the size of the operand's axis i, so
    that several dynamic dimensions can be kept.

        %y = tensor.reshape_to %x {shape = array<i64: -2, 2, 4>}
             : (tensor<?x8xf32>) -> tensor<?x2x4xf32>
    """

    name = "tensor.reshape_to"
    traits = traits_def(MovesElements())

    shape = prop_def(DenseArrayBase[IntegerType])

    def output_shape(self, shape: Shape) -> Shape:
        return resolve_reshape(shape, self.shape.get_values())


def resolve_reshape(shape: Shape, target: Sequence[int]) -> Shape:
    """The shape that `target` of `tensor.reshape_to` means for an operand of `shape`.

    Copied axes cancel on both sides, so that the left-over size is known where it can be.
    """
    copied: list[int] = []
    result: list[int] = []
    for size in target:
        if size <= -2:
            axis_index(-2 - size, len(shape), "copied axis")
            copied.append(-2 - size)
            result.append(shape[-2 - size])
        else:
            result.append(size)
    if target.count(-1) > 1:
        fail(f"expects at most one -1 in shape, got {list(target)}")
    remaining = list(shape)
    for axis in copied:
        if copied.count(axis) == 1:
            remaining[axis] = 1
    rest = [
        r
        for r, t in zip(result, target, strict=True)
        if t >= 0 or (t <= -2 and copied.count(-2 - t) > 1)
    ]
    total, known = element_count(tuple(remaining)), element_count(tuple(rest))
    if -1 in target:
        index = list(target).index(-1)
        if total is None or known is None:
            result[index] = DYNAMIC
        elif known == 0 or total % known:
            fail(
                f"cannot reshape {show_shape(shape)} to {list(target)}: "
                f"{total} is no multiple of {known}"
            )
        else:
            result[index] = total // known
    elif total is not None and known is not None and total != known:
        fail(
            f"cannot reshape {show_shape(shape)} to {list(target)}: "
            f"{total} elements against {known}"
        )
    return tuple(result)


@irdl_op_definition
class FlattenOp(ShapeOp):
    """Merge the axes `start` to `end`, both included, into one.

    %y = tensor.flatten %x {start = 1 : i64, end = -1 : i64}
         : (tensor<?x2x4xf32>) -> tensor<?x8xf32>
    """

    name = "tensor.flatten"
    traits = traits_def(MovesElements())

    start = prop_def(IntegerAttr[IntegerType], default_value=integer(1))
    end = prop_def(IntegerAttr[IntegerType], default_value=integer(-1))

    def output_shape(self, shape: Shape) -> Shape:
        start = axis_index(self.start.value.data, len(shape), "start")
        end = axis_index(self.end.value.data, len(shape), "end")
        if start > end:
            fail(f"expects start <= end, got axes {start} and {end}")
        merged = element_count(shape[start : end + 1])
        return (*shape[:start], DYNAMIC if merged is None else merged, *shape[end + 1 :])


@irdl_op_definition
class UnflattenOp(InferredOp):
    """Split the first axis into `count` axes, of the sizes of the first ones of another tensor.

    %y = tensor.unflatten %x, %like {count = 2 : i64}
         : (tensor<?x8xf32>, tensor<?x?x4xi1>) -> tensor<?x?x8xf32>
    """

    name = "tensor.unflatten"

    operand = operand_def(TensorType)
    like = operand_def(TensorType)
    count = prop_def(IntegerAttr[IntegerType], default_value=integer(2))
    result = result_def(TensorType)

    def infer(self) -> Sequence[Attribute]:
        type, count = tensor_type(self.operand), self.count.value.data
        like = tensor_type(self.like).get_shape()
        if not type.get_shape() or not 1 <= count <= len(like):
            fail(f"expects an axis to split into 1 to {len(like)}, got {count} for {type}")
        parts, size = element_count(like[:count]), type.get_shape()[0]
        if parts is not None and size not in (DYNAMIC, parts):
            fail(f"cannot split {size} into {show_shape(like[:count])}")
        return [with_shape(type, (*like[:count], *type.get_shape()[1:]))]

    def compute(self, x: Array, like: Array) -> Array:
        return x.reshape(*like.shape[: self.count.value.data], *x.shape[1:])


@irdl_op_definition
class PermuteOp(ShapeOp):
    """Reorder the axes: axis i of the result is axis perm[i] of the operand.

    %y = tensor.permute %x {perm = array<i64: 1, 0>} : (tensor<2x4xf32>) -> tensor<4x2xf32>
    """

    name = "tensor.permute"
    traits = traits_def(MovesElements())

    perm = prop_def(DenseArrayBase[IntegerType])

    def output_shape(self, shape: Shape) -> Shape:
        perm = self.perm.get_values()
        if sorted(perm) != list(range(len(shape))):
            fail(f"expects a permutation of {len(shape)} axes, got {list(perm)}")
        return tuple(shape[axis] for axis in perm)

    def compute(self, x: Array) -> Array:
        return x.transpose(self.perm.get_values())


@irdl_op_definition
class ConcatenateOp(InferredOp):
    """Join tensors along one axis; all other sizes agree.

    %z = tensor.concatenate %x, %y {axis = 0 : i64}
         : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<5x4xf32>
    """

    name = "tensor.concatenate"

    inputs = var_operand_def(TensorType)
    axis = prop_def(IntegerAttr[IntegerType])
    result = result_def(TensorType)

    traits = traits_def(MovesElements(), WorksAlong("axis"))

    def infer(self) -> Sequence[Attribute]:
        if not self.inputs:
            fail("expects at least one operand")
        types = [tensor_type(v) for v in self.inputs]
        shapes = [t.get_shape() for t in types]
        axis = axis_index(self.axis.value.data, len(shapes[0]))
        result = list(shapes[0])
        for type, shape in zip(types[1:], shapes[1:], strict=True):
            same_elements(types[0], type)
            if len(shape) != len(result):
                fail(f"expects equal ranks, got {len(result)} and {len(shape)}")
            for a, size in enumerate(shape):
                if a != axis:
                    result[a] = merge_dim(result[a], size, f"sizes of axis {a}")
        sizes = [s[axis] for s in shapes]
        result[axis] = DYNAMIC if DYNAMIC in sizes else sum(sizes)
        return [with_shape(types[0], result)]

    def compute(self, *inputs: Array) -> Array:
        return np.concatenate(inputs, axis=self.axis.value.data)


@irdl_op_definition
class SplitOp(InferredOp):
    """Cut a tensor along one axis into pieces of the given sizes.

    %a, %b = tensor.split %x {axis = 0 : i64, sizes = array<i64: 2, 3>}
             : (tensor<5x4xf32>) -> (tensor<2x4xf32>, tensor<3x4xf32>)
    """

    name = "tensor.split"

    operand = operand_def(TensorType)
    axis = prop_def(IntegerAttr[IntegerType])
    sizes = prop_def(DenseArrayBase[IntegerType])
    pieces = var_result_def(TensorType)

    traits = traits_def(MovesElements(), WorksAlong("axis"))

    def __init__(self, operand: Value, axis: int, sizes: Sequence[int]) -> None:
        super().__init__(operand, axis, sizes, pieces=len(sizes))

    def infer(self) -> Sequence[Attribute]:
        type = tensor_type(self.operand)
        shape = list(type.get_shape())
        axis = axis_index(self.axis.value.data, len(shape))
        sizes = self.sizes.get_values()
        if not sizes or min(sizes) < 0:
            fail(f"expects sizes of at least 0, got {list(sizes)}")
        merge_dim(shape[axis], sum(sizes), "size of the axis and sum of sizes")
        return [with_shape(type, [*shape[:axis], n, *shape[axis + 1 :]]) for n in sizes]

    def compute(self, x: Array) -> tuple[Array, ...]:
        sizes, axis = self.sizes.get_values(), self.axis.value.data
        if sum(sizes) != x.shape[axis]:
            raise ValueError(f"expects {sum(sizes)} elements along the axis, got {x.shape[axis]}")
        return tuple(np.split(x, np.cumsum(sizes)[:-1], axis=axis))


@irdl_op_definition
class SliceOp(ShapeOp):
    """x[starts[0]:ends[0]:steps[0], …], one entry an axis, Python's rules, steps ≥ 1.

    Negative bounds count from the end; an end of 2⁶³ - 1 means "to the end".

        %y = tensor.slice %x {starts = array<i64: 0, 1>, ends = array<i64: 2, 4>,
             steps = array<i64: 1, 1>} : (tensor<2x4xf32>) -> tensor<2x3xf32>
    """

    name = "tensor.slice"
    traits = traits_def(MovesElements())

    starts = prop_def(DenseArrayBase[IntegerType])
    ends = prop_def(DenseArrayBase[IntegerType])
    steps = prop_def(DenseArrayBase[IntegerType])

    def output_shape(self, shape: Shape) -> Shape:
        starts, ends, steps = (p.get_values() for p in (self.starts, self.ends, self.steps))
        if not len(starts) == len(ends) == len(steps) == len(shape):
            fail(f"expects {len(shape)} starts, ends and steps")
        if steps and min(steps) < 1:
            fail(f"expects steps of at least 1, got {list(steps)}")
        return tuple(
            _slice_length(*bounds) for bounds in zip(shape, starts, ends, steps, strict=True)
        )

    def compute(self, x: Array) -> Array:
        bounds = (p.get_values() for p in (self.starts, self.ends, self.steps))
        return x[tuple(slice(*b) for b in zip(*bounds, strict=True))]


SLICE_END = 2**63 - 1
"""The `end` of `tensor.slice` that means "to the end"."""


def _slice_length(size: int, start: int, end: int, step: int) -> int:
    if size != DYNAMIC:
        return len(range(*slice(start, end, step).indices(size)))
    return DYNAMIC  # the axis may be shorter than the bounds


@irdl_op_definition
class PadToOp(ShapeOp):
    """Add `low[i]` elements before and `high[i]` after on each axis, filled with `value`.

    %y = tensor.pad_to %x {low = array<i64: 0, 1>, high = array<i64: 0, 1>, value = 0.0 : f64}
         : (tensor<2x4xf32>) -> tensor<2x6xf32>
    """

    name = "tensor.pad_to"

    low = prop_def(DenseArrayBase[IntegerType])
    high = prop_def(DenseArrayBase[IntegerType])
    value = prop_def(FloatAttr[Float64Type], default_value=FloatAttr(0.0, f64))

    def output_shape(self, shape: Shape) -> Shape:
        low, high = self.low.get_values(), self.high.get_values()
        if not len(low) == len(high) == len(shape) or min((*low, *high), default=0) < 0:
            fail(f"expects {len(shape)} pads of at least 0, got {list(low)} and {list(high)}")
        value, type = self.value.value.data, tensor_type(self.operand)
        if not (is_float(type) or value.is_integer()):
            fail(f"expects a value that is an element of {type}, got {value}")
        return tuple(
            DYNAMIC if d == DYNAMIC else d + a + b for d, a, b in zip(shape, low, high, strict=True)
        )

    def compute(self, x: Array) -> Array:
        pads = [*zip(self.low.get_values(), self.high.get_values(), strict=True)]
        return np.pad(x, pads, constant_values=np.asarray(self.value.value.data).astype(x.dtype))


@irdl_op_definition
class SqueezeOp(ShapeOp):
    """Drop axes of size 1.

    %y = tensor.squeeze %x {axes = array<i64: 1>} : (tensor<2x1x4xf32>) -> tensor<2x4xf32>
    """

    name = "tensor.squeeze"
    traits = traits_def(MovesElements(), WorksAlong("axes"))

    axes = prop_def(DenseArrayBase[IntegerType])

    def output_shape(self, shape: Shape) -> Shape:
        axes = distinct_axes(self.axes.get_values(), len(shape))
        for axis in axes:
            merge_dim(shape[axis], 1, f"size of axis {axis} and 1")
        return tuple(d for a, d in enumerate(shape) if a not in axes)


@irdl_op_definition
class UnsqueezeOp(ShapeOp):
    """Insert axes of size 1; `axes` are positions in the result.

    %y = tensor.unsqueeze %x {axes = array<i64: 1>} : (tensor<2x4xf32>) -> tensor<2x1x4xf32>
    """

    name = "tensor.unsqueeze"
    traits = traits_def(MovesElements(), WorksAlong("axes"))

    axes = prop_def(DenseArrayBase[IntegerType])

    def output_shape(self, shape: Shape) -> Shape:
        rank = len(shape) + len(self.axes.get_values())
        axes = distinct_axes(self.axes.get_values(), rank)
        rest = iter(shape)
        return tuple(1 if a in axes else next(rest) for a in range(rank))


def distinct_axes(axes: Sequence[int], rank: int) -> set[int]:
    """The axes counted from the front; twice the same one is refused."""
    result = {axis_index(axis, rank) for axis in axes}
    if len(result) != len(axes):
        fail(f"expects distinct axes, got {list(axes)}")
    return result


@irdl_op_definition
class ExpandOp(ShapeOp):
    """Repeat axes of size 1 up to `shape`, aligned at the end; -1 keeps the operand's size.

    %y = tensor.expand %x {shape = array<i64: 3, -1>} : (tensor<1x4xf32>) -> tensor<3x4xf32>
    """

    name = "tensor.expand"
    traits = traits_def(MovesElements())

    shape = prop_def(DenseArrayBase[IntegerType])

    def output_shape(self, shape: Shape) -> Shape:
        target = self.shape.get_values()
        lead = len(target) - len(shape)
        if lead < 0 or min(target, default=0) < -1 or -1 in target[:lead]:
            fail(f"cannot expand {show_shape(shape)} to {list(target)}")
        result = tuple(shape[a - lead] if size == -1 else size for a, size in enumerate(target))
        if not broadcasts_to(shape, result):
            fail(f"cannot expand {show_shape(shape)} to {list(target)}")
        return result

    def compute(self, x: Array) -> Array:
        return np.broadcast_to(x, self.output_shape(x.shape))


@irdl_op_definition
class GatherRowsOp(InferredOp):
    """y[i…, :] = table[indices[i…], :]: rows picked by integer index (an embedding).

    An index outside [0, rows) is undefined.

        %y = tensor.gather_rows %table, %indices
             : (tensor<100x8xf32>, tensor<?x5xi64>) -> tensor<?x5x8xf32>
    """

    name = "tensor.gather_rows"

    table = operand_def(TensorType)
    indices = operand_def(TensorType)
    result = result_def(TensorType)

    def infer(self) -> Sequence[Attribute]:
        table, indices = tensor_type(self.table), tensor_type(self.indices)
        if not table.get_shape():
            fail(f"expects a table of rank 1 or more, got {table}")
        if not is_integer(indices):
            fail(f"expects integer indices, got {indices}")
        return [with_shape(table, (*indices.get_shape(), *table.get_shape()[1:]))]

    def compute(self, table: Array, indices: Array) -> Array:
        require_inside(indices, table.shape[0], "rows")
        return table[indices]


def require_inside(indices: Array, size: int, what: str = "elements") -> None:
    """Refuse an index outside of `size` elements."""
    outside = (indices < 0) | (indices >= size)
    if outside.any():
        raise ValueError(f"index {indices[outside][0]} is outside the {size} {what}")
