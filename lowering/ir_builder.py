"""The builder of IR for front ends: ops at the end of a block, constants, and their locations.

Formulas (`dialects.tensor.formula`) are written with it too. Not here: what one front end alone
needs, in its own `*_builder`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
from xdsl.dialects.builtin import LocationAttr, TensorType, UnknownLoc
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ..dialects import tensor
from ..dialects.elements import numpy_dtype
from ..dialects.inference import tensor_type
from ..dialects.parameters import dense_constant
from ..dialects.shapes import DYNAMIC, is_float
from ..dialects.tensor.formula import Formula, Writer
from ..dialects.tensor.shape import SLICE_END
from ..dialects.tensor.storage import INLINE_LIMIT
from ..ir.arrays import Array
from ..ir.store import ParameterStore
from .problems import ProblemError


@dataclass
class Builder:
    """Inserts ops at the end of `block`, with `location`; large constants go to `store`."""

    block: Block
    store: ParameterStore
    location: LocationAttr = field(default_factory=UnknownLoc, kw_only=True)

    def add(self, op: Operation) -> SSAValue:
        """Insert `op`; its first result."""
        self.end(op)
        return op.results[0]

    def end(self, op: Operation) -> None:
        """Insert an op without results."""
        op.location = self.location
        self.block.add_op(op)

    def number(self, value: float, element: Attribute) -> SSAValue:
        """A constant of rank 0."""
        return self.numbers(np.array(value), element)

    def numbers(self, values: Array, element: Attribute, name: str = "constant") -> SSAValue:
        """A constant of any size: inline where small or uniform, else a parameter."""
        array = np.asarray(np.asarray(values).astype(numpy_dtype(element)), order="C")
        uniform = array.size > 0 and (array == array.reshape(-1)[0]).all()
        if array.size <= INLINE_LIMIT or uniform:
            return self.add(dense_constant(array, element))
        type = TensorType(element, array.shape)
        return self.add(tensor.ParameterOp(self.store.add(name, array), type, buffer=True))

    def convert(self, value: SSAValue, element: Attribute) -> SSAValue:
        """`value` with another element type."""
        if tensor_type(value).element_type == element:
            return value
        return self.add(tensor.ConvertOp(value, element))

    def permute(self, value: SSAValue, perm: Sequence[int]) -> SSAValue:
        """The axes in another order."""
        if list(perm) == list(range(len(perm))):
            return value
        return self.add(tensor.PermuteOp(value, perm))

    def gather(self, value: SSAValue, axis: int, indices: SSAValue) -> SSAValue:
        """Elements picked along `axis`, whose place the axes of the indices take."""
        rank, count = tensor_type(value).get_num_dims(), tensor_type(indices).get_num_dims()
        front = self.permute(value, [axis, *(a for a in range(rank) if a != axis)])
        rows = self.add(tensor.GatherRowsOp(front, indices))
        lead, rest = range(count, count + axis), range(count + axis, count + rank - 1)
        return self.permute(rows, [*lead, *range(count), *rest])


def parted(e: Writer, x: SSAValue, axis: int, down: SSAValue, along: SSAValue) -> SSAValue:
    """One axis as two, whose places are 0, 1, … of i64: rows of the second, picked anew."""
    rank = tensor_type(x).get_num_dims()
    width = Formula(e, along).filled(1).of(tensor.ReduceSumOp, axes=[0])
    rows = Formula(e, down).of(tensor.UnsqueezeOp, axes=[1]) * width
    front = [axis, *(a for a in range(rank) if a != axis)]
    x = e.add(tensor.PermuteOp(x, front)) if axis else x
    x = e.add(tensor.GatherRowsOp(x, (rows + Formula(e, along)).value))
    back = [*range(2, axis + 2), 0, 1, *range(axis + 2, rank + 1)]
    return e.add(tensor.PermuteOp(x, back)) if axis else x


def padded(
    e: Writer, x: SSAValue, low: Sequence[int], high: Sequence[int], fill: float
) -> SSAValue:
    """x with pads, where negative ones cut away.

    Raises:
        ProblemError: integers are padded with a fraction.
    """
    for axis, (before, behind) in enumerate(zip(low, high, strict=True)):
        if before < 0 or behind < 0:
            end = SLICE_END if behind >= 0 else behind
            x = Formula(e, x).cut(axis, max(-before, 0), end).value
    before, behind = [max(n, 0) for n in low], [max(n, 0) for n in high]
    if not any((*before, *behind)):
        return x
    value = float(fill)
    if not is_float(tensor_type(x)) and int(value) != int(fill):
        raise ProblemError(f"it pads with {fill}")
    return e.add(tensor.PadToOp(x, before, behind, value))


def with_zeros_between(e: Writer, x: SSAValue, strides: Sequence[int]) -> SSAValue:
    """x [N, C, …] with strides - 1 zeros between its elements along each spatial axis.

    Four axes are enough for that on the way: what has more is no image to a circuit.
    """
    shape = list(tensor_type(x).get_shape())
    if DYNAMIC in shape[1:]:
        return _with_zeros_in_free(e, x, strides)
    for axis, stride in enumerate(strides, 2):
        if stride == 1:
            continue
        rows, row = prod(shape[2 : axis + 1]), prod(shape[axis + 1 :])
        x = e.add(tensor.ReshapeToOp(x, [-2, shape[1], rows, row]))
        x = e.add(tensor.PadToOp(x, [0] * 4, [0, 0, 0, (stride - 1) * row]))
        shape[axis] *= stride
        x = e.add(tensor.ReshapeToOp(x, [-2, *shape[1:]]))
        shape[axis] -= stride - 1
        x = Formula(e, x).cut(axis, 0, shape[axis]).value
    return x


def _with_zeros_in_free(e: Writer, x: SSAValue, strides: Sequence[int]) -> SSAValue:
    """The same where sizes are free: each axis is made two, and one again."""
    rank = tensor_type(x).get_num_dims()
    for axis, stride in enumerate(strides, 2):
        if stride == 1:
            continue
        pads = [(stride - 1) * (a == axis + 1) for a in range(rank + 1)]
        apart = e.add(tensor.UnsqueezeOp(x, [axis + 1]))
        wide = e.add(tensor.PadToOp(apart, [0] * (rank + 1), pads))
        kept = [-2 - a for a in range(rank + 1) if a != axis + 1]
        kept[axis] = -1
        joined = Formula(e, e.add(tensor.ReshapeToOp(wide, kept)))
        x = joined.cut(axis, 0, 1 - stride).value
    return x
