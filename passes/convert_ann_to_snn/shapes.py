"""Ops that move elements: the same on every step, one axis further back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from xdsl.dialects.builtin import TensorType, f64, i1
from xdsl.ir import Block, Operation, SSAValue

from ...dialects import spike, tensor
from ...dialects.inference import InferredOp, tensor_type
from ...dialects.parameters import Array
from ...dialects.spike.types import is_train
from ...dialects.tensor.shape import SLICE_END
from ..analysis.compile_time import evaluate
from .signals import ONE, Conversion, NotConvertible, Signal, compact, step_shape


def _reshape(op: tensor.ReshapeToOp, steps: SSAValue) -> Operation:
    shape = [size if size >= -1 else size - 1 for size in op.shape.get_values()]
    return tensor.ReshapeToOp(steps, [-2, *shape])


def _flatten(op: tensor.FlattenOp, steps: SSAValue) -> Operation:
    rank = tensor_type(op.operand).get_num_dims()
    start, end = op.start.value.data % rank, op.end.value.data % rank
    return tensor.FlattenOp(steps, start + 1, end + 1)


def _permute(op: tensor.PermuteOp, steps: SSAValue) -> Operation:
    return tensor.PermuteOp(steps, [0, *[axis + 1 for axis in op.perm.get_values()]])


def _squeeze(op: tensor.SqueezeOp, steps: SSAValue) -> Operation:
    rank = tensor_type(op.operand).get_num_dims()
    return tensor.SqueezeOp(steps, [axis % rank + 1 for axis in op.axes.get_values()])


def _unsqueeze(op: tensor.UnsqueezeOp, steps: SSAValue) -> Operation:
    rank = tensor_type(op.result).get_num_dims()
    return tensor.UnsqueezeOp(steps, [axis % rank + 1 for axis in op.axes.get_values()])


def _slice(op: tensor.SliceOp, steps: SSAValue) -> Operation:
    starts, ends, strides = (p.get_values() for p in (op.starts, op.ends, op.steps))
    return tensor.SliceOp(steps, [0, *starts], [SLICE_END, *ends], [1, *strides])


def _expand(op: tensor.ExpandOp, steps: SSAValue) -> Operation:
    if tensor_type(op.result).get_num_dims() != tensor_type(op.operand).get_num_dims():
        raise NotConvertible("it adds axes in front of what changes over time; unsqueeze first")
    return tensor.ExpandOp(steps, [-1, *op.shape.get_values()])


def _split(op: tensor.SplitOp, steps: SSAValue) -> Operation:
    rank = tensor_type(op.operand).get_num_dims()
    return tensor.SplitOp(steps, op.axis.value.data % rank + 1, op.sizes.get_values())


_SHIFTED: dict[type[Operation], Callable[..., Operation]] = {
    tensor.ExpandOp: _expand,
    tensor.FlattenOp: _flatten,
    tensor.PermuteOp: _permute,
    tensor.ReshapeToOp: _reshape,
    tensor.SliceOp: _slice,
    tensor.SplitOp: _split,
    tensor.SqueezeOp: _squeeze,
    tensor.UnsqueezeOp: _unsqueeze,
}


def movement(state: Conversion, op: InferredOp) -> Sequence[Signal]:
    """The op one axis further back; spikes stay spikes, and their worth moves along."""
    signal = state.signals[op.operands[0]]
    worths = _moved_worth(op, signal)
    if worths is None:
        signal, worths = Signal(state.dense(signal), ONE, signal.type), [ONE] * len(op.results)
    train = is_train(signal.steps)
    steps = state.add(spike.ToTensorOp(signal.steps, i1)) if train else signal.steps
    new_op = _SHIFTED[type(op)](op, steps)
    state.add(new_op)
    results = [state.add(spike.FromTensorOp(r)) if train else r for r in new_op.results]
    return [
        Signal(result, worth, tensor_type(old))
        for result, worth, old in zip(results, worths, op.results, strict=True)
    ]


def _moved_worth(op: InferredOp, signal: Signal) -> list[Array] | None:
    """The worth of each result; `None` if it cannot be told apart from the samples."""
    if signal.uniform:
        return [signal.worth] * len(op.results)
    shape = step_shape(signal.type)
    if shape is None or not _keeps_samples(op):
        return None
    whole = np.broadcast_to(signal.worth, shape)[None].astype(np.float64)
    clone = _as_f64(op, whole)
    return [compact(array[0]) for array in evaluate(clone, [whole])]


def _as_f64(op: InferredOp, whole: Array) -> InferredOp:
    """The op on f64, of one sample."""
    block = Block(arg_types=[TensorType(f64, whole.shape)])
    return op.on_operands({op.operands[0]: block.args[0]})


def _keeps_samples(op: InferredOp) -> bool:
    """Whether the first axis stays the first, by itself and whole."""
    rank = tensor_type(op.operands[0]).get_num_dims()
    match op:
        case tensor.ReshapeToOp():
            return op.shape.get_values()[:1] == (-2,)
        case tensor.FlattenOp():
            return op.start.value.data % rank > 0
        case tensor.PermuteOp():
            return op.perm.get_values()[0] == 0
        case tensor.SqueezeOp():
            return all(axis % rank for axis in op.axes.get_values())
        case tensor.UnsqueezeOp():
            wide = tensor_type(op.result).get_num_dims()
            return all(axis % wide for axis in op.axes.get_values())
        case tensor.SliceOp():
            return (op.starts.get_values()[0], op.ends.get_values()[0]) == (0, SLICE_END)
        case tensor.SplitOp():
            return op.axis.value.data % rank > 0
        case _:
            return False


def padding(state: Conversion, op: tensor.PadToOp) -> Sequence[Signal]:
    """Places without spikes around, or a constant current."""
    signal = state.signals[op.operand]
    low, high = [0, *op.low.get_values()], [0, *op.high.get_values()]
    value = op.value.value.data
    if value != 0.0 or not signal.uniform:
        signal = Signal(state.dense(signal), ONE, signal.type)
    train = is_train(signal.steps)
    steps = state.add(spike.ToTensorOp(signal.steps, i1)) if train else signal.steps
    result = state.add(tensor.PadToOp(steps, low, high, value))
    if train:
        result = state.add(spike.FromTensorOp(result))
    return [Signal(result, signal.worth, tensor_type(op.result))]


def concatenation(state: Conversion, op: tensor.ConcatenateOp) -> Sequence[Signal]:
    """Trains side by side stay one, each part worth what it was; else currents side by side."""
    type = tensor_type(op.result)
    rank = type.get_num_dims()
    axis = op.axis.value.data % rank
    signals = [state.signal(value) for value in op.inputs]
    worth = _joined_worth(signals, axis)
    if worth is not None and all(is_train(signal.steps) for signal in signals):
        parts = [state.add(spike.ToTensorOp(signal.steps, i1)) for signal in signals]
        joined = state.add(tensor.ConcatenateOp(parts, axis + 1))
        return [Signal(state.add(spike.FromTensorOp(joined)), worth, type)]
    joined = state.add(tensor.ConcatenateOp([state.dense(s) for s in signals], axis + 1))
    return [Signal(joined, ONE, type)]


def _joined_worth(signals: Sequence[Signal], axis: int) -> Array | None:
    if all(s.uniform and s.worth == signals[0].worth for s in signals):
        return signals[0].worth
    shapes = [step_shape(s.type) for s in signals]
    if axis == 0 or any(shape is None for shape in shapes):
        return None
    parts = [
        np.broadcast_to(s.worth, shape)
        for s, shape in zip(signals, shapes, strict=True)
        if shape is not None
    ]
    return compact(np.concatenate(parts, axis - 1))


RULES = {
    **dict.fromkeys(_SHIFTED, movement),
    tensor.ConcatenateOp: concatenation,
    tensor.PadToOp: padding,
}
