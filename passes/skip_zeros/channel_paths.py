"""Ops between layers that keep channels apart.

Such an op maps each channel by itself, so that a channel can be taken out before and after it, and
a channel that is constant stays constant. After a `flatten`, a channel is `spread` features in a
row.
"""

from __future__ import annotations

from math import prod

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation

from ...dialects import spike, tensor
from ...dialects.inference import InferredOp, tensor_type
from ...dialects.parameters import Array
from ...dialects.shapes import DYNAMIC, ints
from ...dialects.spike.types import dense_type
from ...dialects.traits import Elementwise, has
from ..analysis.compile_time import evaluate, literal_value
from .prunable import Mask, new_literal, set_channels

_Quantizing = (
    tensor.QuantizeOp | tensor.DequantizeOp | tensor.RequantizeOp | tensor.MultiThresholdOp
)
_Pool = tensor.MaxPoolOp | tensor.AvgPoolOp | tensor.GlobalAvgPoolOp
_SpikePool = spike.MaxPoolOp | spike.AvgPoolOp
_OnTrains = _SpikePool | spike.DelayOp | spike.ToTensorOp | spike.FromTensorOp | spike.DecodeOp
"""Ops on trains; no spikes stay none, and zeros zeros. Other constants change, or come later."""


class PathOp:
    """One op that keeps channels apart, with the values of its other operands in memory.

    Attributes:
        op: the op.
        axis: the axis of its operand that holds the channels.
        spread: how many features a channel is in the operand.
        result_axis: the axis of its result that holds the channels.
        result_spread: how many features a channel is in the result.
    """

    def __init__(self, op: InferredOp, before: tuple[int, int], after: tuple[int, int]) -> None:
        self.op = op
        self.axis, self.spread = before
        self.result_axis, self.result_spread = after
        self._arrays: dict[int, Array] = {}
        self._sliced: set[int] = set()

    @staticmethod
    def of(op: Operation, axis: int, spread: int) -> PathOp | None:
        """The op, if it keeps apart the channels on `axis` of its first operand."""
        if not isinstance(op, InferredOp) or len(op.results) != 1:
            return None
        after = _after(op, axis, spread)
        if after is None:
            return None
        step = PathOp(op, (axis, spread), after)
        return step if step._read_operands() else None

    def _read_operands(self) -> bool:
        """Read the other operands; whether they are all known and go along the channels."""
        input = dense_type(self.op.operands[0])
        along = 1 if isinstance(self.op, tensor.BatchNormOp) else None
        if isinstance(self.op, _Quantizing):
            along = self.op.axis.value.data % input.get_num_dims()
        for index, operand in enumerate(self.op.operands[1:], 1):
            array = literal_value(operand)
            if array is None:
                return False
            self._arrays[index] = array
            if array.ndim and len(array) > 1:
                if along != self.axis or len(array) != input.get_shape()[self.axis]:
                    return False
                self._sliced.add(index)
        return True

    def constant(self, values: Array) -> tuple[Array, Mask]:
        """What constant channels become: values [channels, spread], and where they stay constant.

        Args:
            values: the constants before the op, [channels, spread].
        """
        stays = np.ones(len(values), dtype=np.bool_)
        if isinstance(self.op, tensor.AvgPoolOp):
            if any(self.op.padding.get_values()) and self.op.count_include_pad.value.data:
                stays = np.atleast_1d(~values.any(axis=1))
            return values, stays
        if isinstance(self.op, _OnTrains):
            return values, np.atleast_1d(~values.any(axis=1))
        if isinstance(self.op, _Pool | tensor.SqueezeOp):
            return values, stays
        if isinstance(self.op, tensor.FlattenOp | tensor.ReshapeToOp):
            return np.repeat(values, self.result_spread // self.spread, axis=1), stays
        rank = tensor_type(self.op.operands[0]).get_num_dims()
        shape = [values.size if a == self.axis else 1 for a in range(rank)]
        others = [self._arrays[i] for i in sorted(self._arrays)]
        (result,) = evaluate(self.op, [values.reshape(shape), *others])
        return result.reshape(values.shape), stays

    def drop(self, keep: Mask) -> None:
        """Leave out the channels that `keep` does not have."""
        for index in self._sliced:
            self._arrays[index] = self._arrays[index][np.repeat(keep, self.spread)]

    def commit(self, channels: int) -> None:
        """Make the op fit `channels` channels."""
        for index in sorted(self._sliced):
            source, array = self.op.operands[index], self._arrays[index]
            if tensor_type(source).get_shape() != array.shape:
                type = TensorType(tensor_type(source).element_type, array.shape)
                self.op.operands[index] = new_literal(self.op, source, array, type)
        features = channels * self.result_spread
        if isinstance(self.op, tensor.ReshapeToOp):
            *leading, last = self.op.shape.get_values()
            self.op.shape = ints([*leading, last if last == -1 else features])
        result = self.op.results[0]
        set_channels(result, self.result_axis, features)


def _after(op: InferredOp, axis: int, spread: int) -> tuple[int, int] | None:
    """The axis and spread of the result; `None` where channels do not stay apart."""
    if has(op, Elementwise) and len(op.operands) == 1:
        return axis, spread
    if isinstance(op, tensor.BatchNormOp | _Quantizing):
        return axis, spread
    if isinstance(op, _Pool):
        return (axis, spread) if axis == 1 else None
    if isinstance(op, _OnTrains):
        return _after_trains(op, axis, spread)
    if not isinstance(op, tensor.SqueezeOp | tensor.FlattenOp | tensor.ReshapeToOp):
        return None
    shape = tensor_type(op.operands[0]).get_shape()
    if isinstance(op, tensor.SqueezeOp):
        axes = [a % len(shape) for a in op.axes.get_values()]
        return None if axis in axes else (axis - sum(a < axis for a in axes), spread)
    if DYNAMIC in shape[axis:]:
        return None
    merged = prod(shape[axis + 1 :])
    if isinstance(op, tensor.FlattenOp):
        start, end = (p.value.data % len(shape) for p in (op.start, op.end))
        return (axis, spread * merged) if (start, end) == (axis, len(shape) - 1) else None
    if axis == 0:
        return None
    same = tensor_type(op.result).get_shape() == (*shape[:axis], shape[axis] * merged)
    return (axis, spread * merged) if same else None


def _after_trains(op: _OnTrains, axis: int, spread: int) -> tuple[int, int] | None:
    """`_after` for ops on trains: time is axis 0, pools have the channels on axis 2."""
    if isinstance(op, _SpikePool):
        return (axis, spread) if axis == 2 else None
    if isinstance(op, spike.DelayOp):
        return (axis, spread) if len(op.operands) == 1 else None
    return (axis - 1, spread) if isinstance(op, spike.DecodeOp) else (axis, spread)
