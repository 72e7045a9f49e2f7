"""Where the ops that take the place of one op on trains go, and what most of them are made with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import bf16, f16, f32, i1, i8
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from ...dialects import spike, tensor
from ...dialects.inference import tensor_type
from ...dialects.parameters import dense_constant
from ...dialects.shapes import DYNAMIC, axes_behind, with_shape
from ...dialects.spike.types import dense_type, is_train
from ...dialects.tensor.shape import SLICE_END
from ...ir.arrays import Array
from ..analysis.replacement import insert_before


class Builder:
    """Inserts ops before one op, with its location.

    Args:
        anchor: the op.
        floats: whether spikes are numbers of f32, through which gradients flow.

    Attributes:
        spike: the elements of spikes in exact sums and among others in a window.
    """

    def __init__(self, anchor: Operation, floats: bool = False) -> None:
        self._anchor, self.floats = anchor, floats
        self.spike: Attribute = f32 if floats else i8

    def add(self, op: Operation) -> SSAValue:
        """Insert an op; its first result."""
        insert_before(self._anchor, op)
        return op.results[0]

    def constant(self, values: Array | np.generic, element: Attribute) -> SSAValue:
        """A constant of at most `tensor.storage.INLINE_LIMIT` elements."""
        return self.add(dense_constant(np.asarray(values), element))

    def dense(self, value: SSAValue, element: Attribute | None = None) -> SSAValue:
        """A train or tensor as a tensor of `element`, by default of what it has."""
        if is_train(value):
            value = self.add(spike.ToTensorOp(value, (element or f32) if self.floats else i1))
        return value if element is None else self.converted(value, element)

    def converted(self, value: SSAValue, element: Attribute) -> SSAValue:
        """A tensor with other elements."""
        if tensor_type(value).element_type == element:
            return value
        return self.add(tensor.ConvertOp(value, element))

    def widened(self, element: Attribute) -> Attribute:
        """What PyTorch sums halves in, where it is the engine; else the elements themselves."""
        return f32 if self.floats and element in (f16, bf16) else element

    def train(self, value: SSAValue) -> SSAValue:
        """A tensor of truth values, or of zeros and ones, as a train."""
        return self.add(spike.FromTensorOp(value if self.floats else self.converted(value, i1)))

    def like(self, value: SSAValue, result: SSAValue) -> SSAValue:
        """A tensor as what `result` is: a train or a tensor."""
        return self.train(value) if is_train(result) else value

    def along(self, vector: SSAValue, rank: int, axis: int) -> SSAValue:
        """A vector of channels as a tensor that broadcasts along `axis` of others; scalars stay."""
        after = axes_behind(axis, rank)
        if tensor_type(vector).get_num_dims() == 0 or after == 0:
            return vector
        return self.add(tensor.ReshapeToOp(vector, [-1, *[1] * after]))

    def merged(self, value: SSAValue) -> SSAValue:
        """[T, N, …] as [T·N, …]."""
        shape = tensor_type(value).get_shape()
        rest = [-2 - axis for axis in range(2, len(shape))]
        return self.add(tensor.ReshapeToOp(value, [-1, *rest]))

    def parted(self, value: SSAValue, like: SSAValue) -> SSAValue:
        """[T·N, …] as [T, N, …] with T and N as in `like`."""
        steps, batch = dense_type(like).get_shape()[:2]
        if steps == batch == DYNAMIC:
            return self.add(tensor.UnflattenOp(value, self.dense(like)))
        rest = [-2 - axis for axis in range(1, tensor_type(value).get_num_dims())]
        lead = [steps, -1] if steps != DYNAMIC else [-1, batch]
        return self.add(tensor.ReshapeToOp(value, [*lead, *rest]))

    def cut(self, value: SSAValue, start: int, end: int, count: int = DYNAMIC) -> SSAValue:
        """Some of the steps of a tensor; `count`, where that is known."""
        rank = tensor_type(value).get_num_dims()
        rest = rank - 1
        op = tensor.SliceOp(value, [start, *[0] * rest], [end, *[SLICE_END] * rest], [1] * rank)
        result = self.add(op)
        if count == DYNAMIC:
            return result
        type = tensor_type(result)
        known = with_shape(type, (count, *type.get_shape()[1:]))
        return Rewriter.replace_value_with_new_type(result, known)


class BodyBuilder(Builder):
    """Adds ops to the end of a block, with the location of an op."""

    def __init__(self, block: Block, source: Operation) -> None:
        super().__init__(source)
        self._block = block

    def add(self, op: Operation) -> SSAValue:
        """Add an op; its first result."""
        op.location = self._anchor.location
        self._block.add_op(op)
        return op.results[0]


Values = Sequence[SSAValue]
