"""Which values of a program have time on their first axis. Not here: how long that is."""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.ir import BlockArgument, Operation, SSAValue

from ...dialects import spike, tensor
from ...dialects.shapes import DYNAMIC
from ...dialects.spike.types import dense_type
from ...dialects.traits import Elementwise, TakesSamples, WorksAlong, has
from .layers import is_layer


def has_time_first(value: SSAValue) -> bool:
    """Whether a value is a train, or goes to neurons or synapses of spikes as one does.

    It goes there through ops that take its first axis position by position, too, as layers do.
    """
    waiting, seen = [value], set[SSAValue]()
    while waiting:
        value = waiting.pop()
        if value in seen or not isinstance(value.type, TensorType | spike.TrainType):
            continue
        seen.add(value)
        if spike.is_train(value):
            return True
        for use in value.uses:
            op, index = use.operation, use.index
            if _takes_run(op, index):
                return True
            waiting += _inside(op, index)
            if keeps_first_axis(op, index):
                waiting += op.results
    return False


def keeps_first_axis(op: Operation, index: int) -> bool:
    """Whether each position of an operand's first axis gives the same one of the results."""
    if not op.results or op.regions:
        return False
    rank = dense_type(op.operands[index]).get_num_dims()
    if not rank:
        return False
    if has(op, Elementwise):
        return rank == dense_type(op.results[0]).get_num_dims()
    if has(op, TakesSamples) or is_layer(op):
        return index == 0
    if (along := op.get_trait(WorksAlong)) is not None:
        most = max(dense_type(v).get_num_dims() for v in (op.operands[0], op.results[0]))
        whole = index == 0 or rank == most
        return whole and all(axis % most for axis in along.axes(op))
    match op:
        case tensor.ReshapeToOp():
            return op.shape.get_values()[:1] == (-2,) or _same_first(op)
        case tensor.FlattenOp():
            return op.start.value.data % rank > 0 or _same_first(op)
        case spike.ToTensorOp() | spike.FromTensorOp():
            return True
        case _:
            return False


def timed_operands(op: Operation) -> frozenset[int] | None:
    """Which operands of an op of `spike` have time first; `None` for other ops."""
    match op:
        case spike.NeuronOp() | spike.LinearOp() | spike.ConvOp() | spike.DelayOp():
            return frozenset({0})
        case spike.AvgPoolOp() | spike.MaxPoolOp() | spike.BatchNormOp():
            return frozenset({0})
        case spike.AttentionOp():
            return frozenset({0, 1, 2})
        case spike.EncodeOp():
            return frozenset({0} if op.scheme.data == "delta" else ())
        case _:
            return None


def _takes_run(op: Operation, index: int) -> bool:
    """Whether an op of `spike` takes an operand as a run."""
    timed = timed_operands(op)
    if timed is not None:
        return index in timed
    match op:
        case spike.SimulateOp():
            return True
        case spike.ScanOp():
            return index < len(op.runs)
        case _:
            return index == 0 and op.dialect_name() == spike.Spike.name


def _inside(op: Operation, index: int) -> list[BlockArgument]:
    """What an operand is called in the body of an op that works on whole runs."""
    if isinstance(op, spike.RecurrentOp | spike.LayerOp) and index < len(op.inputs):
        return [op.body.block.args[index]]
    return []


def _same_first(op: Operation) -> bool:
    """Whether the first axis, whose size is known, is as long as before in row-major order."""
    before, after = (dense_type(v).get_shape()[:1] for v in (op.operands[0], op.results[0]))
    return before == after and DYNAMIC not in before
