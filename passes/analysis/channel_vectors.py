"""Arithmetic on values that hold one number a channel, emitted as ops.

Scales and biases of layers are combined by `tensor` ops on parameters, whether the weights are
there or not; `fold-constants` evaluates them.
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects import tensor
from ...dialects.inference import InferredOp, tensor_type
from ...dialects.parameters import dense_constant
from ...dialects.shapes import DYNAMIC
from .replacement import insert_before


class ChannelVectors:
    """Emits ops on scalars and vectors of one element type before an op.

    Attributes:
        anchor: the op before which ops are inserted.
        source: the op whose location they get.
        emitted: the results of all of them.
    """

    def __init__(self, anchor: Operation, source: Operation, element: Attribute) -> None:
        self.anchor = anchor
        self.source = source
        self.element = element
        self.emitted: list[SSAValue] = []

    def emit(self, op: InferredOp | tensor.ConstantOp) -> SSAValue:
        """Insert `op`; its result."""
        insert_before(self.anchor, op, self.source)
        (result,) = op.results
        self.emitted.append(result)
        return result

    def number(self, value: float) -> SSAValue:
        """A scalar constant."""
        return self.emit(dense_constant(np.array(value), self.element))

    def product(self, a: SSAValue | None, b: SSAValue | None) -> SSAValue | None:
        """a·b, where `None` stands for 1."""
        if a is None or b is None:
            return b if a is None else a
        return self.emit(tensor.MulOp(a, b))

    def sum(self, a: SSAValue | None, b: SSAValue | None) -> SSAValue | None:
        """a + b, where `None` stands for 0."""
        if a is None or b is None:
            return b if a is None else a
        return self.emit(tensor.AddOp(a, b))

    def reshaped(self, value: SSAValue, shape: tuple[int, ...]) -> SSAValue:
        """`value` with another static shape."""
        if tensor_type(value).get_shape() == shape:
            return value
        return self.emit(tensor.ReshapeToOp(value, shape))

    def vector(self, value: SSAValue, channels: int) -> SSAValue:
        """`value`, a scalar or a vector of `channels` elements, as a vector."""
        if tensor_type(value).get_shape() == (channels,):
            return value
        return self.emit(tensor.ExpandOp(value, [channels]))


def channel_shape(
    shape: tuple[int, ...], rank: int, axis: int, channels: int
) -> tuple[int, ...] | None:
    """What an operand of `shape` is to a tensor that it broadcasts to without widening it.

    `()` for one number, `(channels,)` for one a channel on `axis`, `None` for anything else.
    """
    if len(shape) > rank or DYNAMIC in shape or channels == DYNAMIC:
        return None
    full = (1,) * (rank - len(shape)) + shape
    if all(size == 1 for size in full):
        return ()
    others = full[:axis] + full[axis + 1 :]
    return (channels,) if full[axis] == channels and all(size == 1 for size in others) else None
