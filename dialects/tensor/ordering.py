"""Running sums, sorting, and elements picked and put by index, along one axis.

What has no rule of its own where a program runs is decomposed for axes of known size alone.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from math import prod
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import (
    BoolAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    TensorType,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute
from xdsl.irdl import (
    operand_def,
    prop_def,
    result_def,
    traits_def,
)

from ...ir.definition import irdl_op_definition
from ..inference import InferredOp, Value, fail, tensor_type
from ..meaning import Array
from ..shapes import (
    DYNAMIC,
    axis_index,
    integer,
    is_float,
    is_integer,
    merge_dim,
    with_element,
    with_shape,
)
from ..traits import AddsUp, BitExact, HasSteps, WorksAlong
from .bits import AndOp, NotOp, OrOp
from .elementwise import AddOp, MulOp, require_number
from .formula import Formula
from .functions import IsNanOp
from .reduction import ArgmaxOp, ArgOp, ReduceMaxOp, ReduceSumOp
from .shape import (
    GatherRowsOp,
    PadToOp,
    PermuteOp,
    ReshapeToOp,
    UnsqueezeOp,
    require_inside,
)
from .storage import ConstantOp


class _AlongOp(InferredOp, ABC):
    """An op along one axis of one operand."""

    operand = operand_def(TensorType)
    axis = prop_def(IntegerAttr[IntegerType], default_value=integer(-1))

    traits = traits_def(WorksAlong("axis"))

    @property
    def position(self) -> int:
        """The axis, counted from the front."""
        return axis_index(self.axis.value.data, tensor_type(self.operand).get_num_dims())


class CumulativeOp(_AlongOp, ABC):
    """What an operation makes of all elements up to each one along an axis."""

    STEP: ClassVar[type[AddOp | MulOp]]
    START: ClassVar[int]

    traits = traits_def(AddsUp())

    result = result_def(TensorType)

    def infer(self) -> Sequence[Attribute]:
        type = tensor_type(self.operand)
        require_number(type)
        _ = self.position
        return [type]

    def decompose(self, x: Formula) -> Formula | None:
        # By doubling distances, so that NaN spreads forward alone.
        axis, size, distance = self.position, x.size(self.position), 1
        if size is None:
            return None
        x = x + 0 if size < 2 else x
        while distance < size:
            low = [distance if a == axis else 0 for a in range(x.rank)]
            rest = x.cut(axis, 0, size - distance)
            moved = rest.of(PadToOp, low=low, high=[0] * x.rank, value=float(self.START))
            x, distance = x.of(self.STEP, moved), 2 * distance
        return x


@irdl_op_definition
class CumsumOp(CumulativeOp):
    """y[…, i, …] = Σ x[…, 0 … i, …] along the axis. Integers wrap around.

    %y = tensor.cumsum %x {axis = 1 : i64} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    """

    name = "tensor.cumsum"
    STEP: ClassVar[type[AddOp | MulOp]] = AddOp
    START: ClassVar[int] = 0

    def compute(self, x: Array) -> Array:
        return np.cumsum(x, axis=self.position, dtype=x.dtype)


@irdl_op_definition
class CumprodOp(CumulativeOp):
    """y[…, i, …] = Π x[…, 0 … i, …] along the axis. Integers wrap around.

    %y = tensor.cumprod %x {axis = 1 : i64} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    """

    name = "tensor.cumprod"
    STEP: ClassVar[type[AddOp | MulOp]] = MulOp
    START: ClassVar[int] = 1

    def compute(self, x: Array) -> Array:
        return np.cumprod(x, axis=self.position, dtype=x.dtype)


@irdl_op_definition
class ArgminOp(ArgOp):
    """The index of the first minimum along the axis, as i64.

    %y = tensor.argmin %x {axis = -1 : i64} : (tensor<2x4xf32>) -> tensor<2xi64>
    """

    name = "tensor.argmin"

    def compute(self, x: Array) -> Array:
        keepdims = bool(self.keepdims.value.data)
        return np.argmin(x, axis=self.axis.value.data, keepdims=keepdims)

    def decompose(self, x: Formula) -> Formula:
        turned = -x if is_float(tensor_type(self.operand)) else x.of(NotOp)
        keepdims = bool(self.keepdims.value.data)
        return turned.of(ArgmaxOp, axis=self.axis.value.data, keepdims=keepdims)


LONGEST_SORTED = 4096
"""An axis is sorted by comparing all pairs up to this length."""


@irdl_op_definition
class TopKOp(_AlongOp):
    """The k largest elements along the axis, largest first, and their indices, as i64.

    Of equal ones the first comes first; NaN is larger than all numbers. Without `largest`, the
    smallest, smallest first.

        %y, %i = tensor.top_k %x {axis = 1 : i64, k = 2 : i64, largest = true}
                 : (tensor<2x4xf32>) -> (tensor<2x2xf32>, tensor<2x2xi64>)
    """

    name = "tensor.top_k"
    traits = traits_def(HasSteps())

    k = prop_def(IntegerAttr[IntegerType])
    largest = prop_def(BoolAttr, default_value=BoolAttr.from_bool(True))
    values = result_def(TensorType)
    indices = result_def(TensorType)

    def __init__(self, operand: Value, k: int, axis: int = -1, *, largest: bool = True) -> None:
        self.build_inferred(
            [operand],
            {"k": integer(k), "axis": integer(axis), "largest": BoolAttr.from_bool(largest)},
            results=[1, 1],
        )

    def infer(self) -> Sequence[Attribute]:
        type, k = tensor_type(self.operand), self.k.value.data
        require_number(type)
        shape, axis = list(type.get_shape()), self.position
        if not k >= 0 or (shape[axis] != DYNAMIC and k > shape[axis]):
            fail(f"expects a k of at most the size of the axis, got {k} for {type}")
        shape[axis] = k
        return [with_shape(type, shape), with_element(with_shape(type, shape), i64)]

    def compute(self, x: Array) -> tuple[Array, Array]:
        axis, size = self.position, x.shape[self.position]
        if self.k.value.data > size:
            raise ValueError(f"expects {self.k.value.data} elements along the axis, got {size}")
        if self.largest.value.data:
            places = np.flip(size - 1 - np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
        else:
            places = np.argsort(x, axis, kind="stable")
        places = np.take(places, range(self.k.value.data), axis).astype(np.int64)
        return np.take_along_axis(x, places, axis), places

    def decompose(self, x: Formula) -> tuple[Formula, Formula] | None:
        # How many stand before an element is its place among the sorted.
        axis, rank, size, k = self.position, x.rank, x.size(self.position), self.k.value.data
        if size is None or size > LONGEST_SORTED:
            return None
        order = [*(a for a in range(rank) if a != axis), axis]
        last = x.of(PermuteOp, perm=order)
        one, other = (last.of(UnsqueezeOp, axes=[a]) for a in (rank, rank - 1))
        earlier = one.convert(i64).array(np.tri(size, size, -1)).compare("gt", 0)
        before = other.compare("gt" if self.largest.value.data else "lt", one)
        same = other.compare("eq", one)
        if is_float(tensor_type(self.operand)):
            first, second = other.of(IsNanOp), one.of(IsNanOp)
            ahead = (first, second) if self.largest.value.data else (second, first)
            before = before.of(OrOp, ahead[0].of(AndOp, ahead[1].of(NotOp)))
            same = same.of(OrOp, first.of(AndOp, second))
        before = before.of(OrOp, same.of(AndOp, earlier)).convert(i64)
        ranks = before.of(ReduceSumOp, axes=[rank]).of(UnsqueezeOp, axes=[rank - 1])
        chosen = ranks.compare("eq", ranks.array(np.arange(k)[:, None]))
        counted = ranks.array(np.arange(size))
        back = [order.index(a) for a in range(rank)]
        picked = (chosen.choose(v, 0).of(ReduceSumOp, axes=[rank]) for v in (other, counted))
        values, places = (v.of(PermuteOp, perm=back) for v in picked)
        return values, places


@irdl_op_definition
class GatherElementsOp(InferredOp):
    """y[…, i, …] = x[…, indices[…, i, …], …] along the axis; other axes stay where they are.

    An index outside the axis is undefined. The sizes of other axes agree.

        %y = tensor.gather_elements %x, %indices {axis = 1 : i64}
             : (tensor<2x4xf32>, tensor<2x3xi64>) -> tensor<2x3xf32>
    """

    name = "tensor.gather_elements"

    operand = operand_def(TensorType)
    indices = operand_def(TensorType)
    axis = prop_def(IntegerAttr[IntegerType])
    result = result_def(TensorType)

    def infer(self) -> Sequence[Attribute]:
        type, indices = tensor_type(self.operand), tensor_type(self.indices)
        _require_indices(type, indices, self.axis.value.data)
        return [with_shape(type, indices.get_shape())]

    def compute(self, x: Array, indices: Array) -> Array:
        axis = self.axis.value.data
        require_inside(indices, x.shape[axis])
        return np.take_along_axis(x, indices.astype(np.int64), axis)

    def decompose(self, x: Formula, indices: Formula) -> Formula:
        sizes = [x.size(a) for a in range(x.rank)]
        shape = [indices.size(a) for a in range(x.rank)]
        if None in sizes or None in shape:
            return self._by_comparing(x, indices)
        known, wanted = [n or 0 for n in sizes], [n or 0 for n in shape]
        axis = self.axis.value.data % x.rank
        strides = [prod(known[a + 1 :]) for a in range(x.rank)]
        grid = np.indices(wanted, sparse=True)
        rest = sum((grid[a] * strides[a] for a in range(x.rank) if a != axis), np.int64(0))
        places = indices.convert(i64) * strides[axis]
        places = places + places.array(np.broadcast_to(rest, wanted))
        return x.of(ReshapeToOp, shape=[prod(known)]).of(GatherRowsOp, places)

    def _by_comparing(self, x: Formula, indices: Formula) -> Formula:
        """Of all elements along the axis the one whose number the index is."""
        axis, rank = self.axis.value.data % x.rank, x.rank
        order = [*(a for a in range(rank) if a != axis), axis]
        at = indices.convert(i64).of(PermuteOp, perm=order).of(UnsqueezeOp, axes=[rank])
        values = x.of(PermuteOp, perm=order).of(UnsqueezeOp, axes=[rank - 1])
        hit = at.compare("eq", counted(x, axis))
        numbers = values.convert(i32) if x.element == i1 else values
        found = hit.choose(numbers, 0).of(ReduceSumOp, axes=[rank]).convert(x.element)
        return found.of(PermuteOp, perm=[order.index(a) for a in range(rank)])


LARGEST_DEPTH = 1 << 24
"""No more classes than this are told apart."""


@irdl_op_definition
class OneHotOp(InferredOp):
    """y[…, k, …] = `on` where the index at the other axes is k, else `off`; k < depth along `axis`.

    An index outside of 0 … depth - 1 has `off` everywhere.

        %y = tensor.one_hot %indices, %on, %off {depth = 3 : i64, axis = -1 : i64}
             : (tensor<2xi64>, tensor<f32>, tensor<f32>) -> tensor<2x3xf32>
    """

    name = "tensor.one_hot"

    indices = operand_def(TensorType)
    on = operand_def(TensorType)
    off = operand_def(TensorType)
    depth = prop_def(IntegerAttr[IntegerType])
    axis = prop_def(IntegerAttr[IntegerType], default_value=integer(-1))
    result = result_def(TensorType)

    traits = traits_def(BitExact())

    @property
    def position(self) -> int:
        """The axis of the result, counted from the front."""
        return axis_index(self.axis.value.data, tensor_type(self.indices).get_num_dims() + 1)

    def infer(self) -> Sequence[Attribute]:
        indices, on, off = map(tensor_type, (self.indices, self.on, self.off))
        if not is_integer(indices):
            fail(f"expects integer indices, got {indices}")
        if on != off or on.get_num_dims():
            fail(f"expects two numbers of one type to choose from, got {on} and {off}")
        shape, depth = list(indices.get_shape()), self.depth.value.data
        if not 0 <= depth <= LARGEST_DEPTH:
            fail(f"expects a depth of 0 to {LARGEST_DEPTH}, got {depth}")
        shape.insert(self.position, depth)
        return [with_shape(on, shape)]

    def _classes(self) -> Array:
        """The numbers of the classes along their axis."""
        behind = tensor_type(self.indices).get_num_dims() - self.position
        return np.arange(self.depth.value.data).reshape(-1, *[1] * behind)

    def compute(self, indices: Array, on: Array, off: Array) -> Array:
        places = np.expand_dims(indices.astype(np.int64), self.position)
        return np.where(places == self._classes(), on, off)

    def decompose(self, indices: Formula, on: Formula, off: Formula) -> Formula:
        places = indices.convert(i64).of(UnsqueezeOp, axes=[self.position])
        hit = places.compare("eq", places.array(self._classes()))
        owners = [value.owner for value in (self.on, self.off)]
        known = [str(o.value.get_values()[0]) for o in owners if isinstance(o, ConstantOp)]
        # Converted where that gives 1 and 0, but for -0: it is quicker than a choice.
        plain = known in (["1", "0"], ["1.0", "0.0"])
        return hit.convert(on.element) if plain else hit.choose(on, off)


@irdl_op_definition
class ScatterElementsOp(InferredOp):
    """x with `updates` put at `indices` along the axis: the way back from `gather_elements`.

    `none` puts the last update of a place, `add` adds all of them. An index outside is undefined.

        %y = tensor.scatter_elements %x, %indices, %updates {axis = 1 : i64, reduction = "add"}
             : (tensor<2x4xf32>, tensor<2x3xi64>, tensor<2x3xf32>) -> tensor<2x4xf32>
    """

    name = "tensor.scatter_elements"

    operand = operand_def(TensorType)
    indices = operand_def(TensorType)
    updates = operand_def(TensorType)
    axis = prop_def(IntegerAttr[IntegerType])
    reduction = prop_def(StringAttr, default_value=StringAttr("none"))
    result = result_def(TensorType)

    def infer(self) -> Sequence[Attribute]:
        type, indices = tensor_type(self.operand), tensor_type(self.indices)
        updates = tensor_type(self.updates)
        _require_indices(type, indices, self.axis.value.data)
        if updates.element_type != type.element_type or updates.get_shape() != indices.get_shape():
            fail(f"expects updates of the elements of {type} at {indices}, got {updates}")
        if self.reduction.data not in ("none", "add"):
            fail(f"expects reduction 'none' or 'add', got '{self.reduction.data}'")
        return [type]

    def compute(self, x: Array, indices: Array, updates: Array) -> Array:
        axis, result = self.axis.value.data % x.ndim, x.copy()
        require_inside(indices, x.shape[axis])
        places: list[Any] = [*np.indices(indices.shape)]
        places[axis] = indices
        if self.reduction.data == "add":
            np.add.at(result, tuple(places), updates)
        else:
            for place in zip(*(p.reshape(-1) for p in (*places, updates)), strict=True):
                result[tuple(int(p) for p in place[:-1])] = place[-1]
        return result

    def decompose(self, x: Formula, indices: Formula, updates: Formula) -> Formula:
        # Each place looks at all updates that may be its own.
        axis, rank = self.axis.value.data % x.rank, x.rank
        order = [*(a for a in range(rank) if a != axis), axis]
        at, new = (v.of(PermuteOp, perm=order).of(UnsqueezeOp, axes=[rank - 1])
                   for v in (indices.convert(i64), updates))  # fmt: skip
        hit = at.compare("eq", counted(x, axis).of(UnsqueezeOp, axes=[1]))
        back = [order.index(a) for a in range(rank)]
        if self.reduction.data == "add":
            return x + hit.choose(new, 0).of(ReduceSumOp, axes=[rank]).of(PermuteOp, perm=back)
        number = hit.choose(counted(indices, axis) + 1, 0)
        latest = number.of(ReduceMaxOp, axes=[rank], keepdims=True)
        own = hit.of(AndOp, number.compare("eq", latest))
        # Truth values have no sum: their numbers do.
        numbers = new.convert(i32) if x.element == i1 else new
        found = own.choose(numbers, 0).of(ReduceSumOp, axes=[rank]).of(PermuteOp, perm=back)
        place = latest.of(ReshapeToOp, shape=[-2 - a for a in range(rank)])
        return place.of(PermuteOp, perm=back).compare("gt", 0).choose(found.convert(x.element), x)


def _require_indices(type: Any, indices: Any, axis: int) -> None:
    """Refuse indices of other axes than those of what they index."""
    if not is_integer(indices):
        fail(f"expects integer indices, got {indices}")
    shape, wanted = type.get_shape(), indices.get_shape()
    if len(shape) != len(wanted) or not shape:
        fail(f"expects indices with the axes of {type}, got {indices}")
    axis = axis_index(axis, len(shape))
    for a, (size, other) in enumerate(zip(shape, wanted, strict=True)):
        if a != axis:
            merge_dim(size, other, f"sizes of axis {a}")


def counted(x: Formula, axis: int) -> Formula:
    """0, 1, … of i64 as far as an axis reaches, whatever its size is."""
    size = x.size(axis)
    if size is not None:
        return Formula(x.writer, x.writer.numbers(np.arange(size), i64))
    for other in set(range(x.rank)) - {axis}:
        x = x.cut(other, 0, 1)
    return x.convert(i64).of(ReshapeToOp, shape=[-1]).filled(1).of(CumsumOp, axis=0) - 1


def turned(x: Formula, axis: int) -> Formula:
    """The elements along an axis from the last to the first, whatever its size is."""
    size, places = x.size(axis), counted(x, axis)
    last = places.filled(1).of(ReduceSumOp, axes=[0], keepdims=True) if size is None else size
    places = last - 1 - places
    swapped = list(range(x.rank))
    swapped[0], swapped[axis] = axis, 0
    front = x.of(PermuteOp, perm=swapped) if axis else x
    rows = front.of(GatherRowsOp, places)
    return rows.of(PermuteOp, perm=swapped) if axis else rows
