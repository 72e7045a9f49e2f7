"""TFLite form of `spike.scan`, what is left of feedback: the steps one after the other."""

from __future__ import annotations

from xdsl.ir import Block, SSAValue

from ...dialects import spike
from ...dialects.spike.types import dense_type
from ..emission import STORED, Inexpressible, write_within
from .graph import Tensor
from .spiking import check_steps, joined, spread, step_of
from .tflite_writer import Rule, Writer


def scan(e: Writer, op: spike.ScanOp, write: Rule) -> None:
    """Every step of the body written out, each on values of its own."""
    steps = check_steps(op.runs[0])
    runs, fixed = ([e.value(value) for value in values] for values in (op.runs, op.fixed))
    states = [_initial(e, op, index) for index in range(len(op.states))]
    outputs: list[list[Tensor]] = [[] for _ in op.outputs]
    for step in range(steps):
        arguments = [*(step_of(e, run, step, steps) for run in runs), *fixed, *states]
        results = _one_step(e, op, arguments, write)
        states = results[: len(states)]
        for collected, value in zip(outputs, results[len(states) :], strict=True):
            collected.append(value)
    e.start(op)
    for result, pieces in zip(op.outputs, outputs, strict=True):
        e.bind(result, joined(e, pieces))
    for result, state in zip(op.final, states, strict=True):
        e.bind(result, state)


def _one_step(e: Writer, op: spike.ScanOp, inputs: list[Tensor], write: Rule) -> list[Tensor]:
    """What the body yields for its arguments; weights stay those of the program."""
    body = op.body.block
    arguments = Block(arg_types=[argument.type for argument in body.args]).args
    for argument, value in zip(arguments, inputs, strict=True):
        e.bind(argument, value)
    values: dict[SSAValue, SSAValue] = dict(zip(body.args, arguments, strict=True))
    for inner in body.ops:
        if isinstance(inner, spike.YieldOp):
            return [e.value(values.get(value, value)) for value in inner.operands]
        if not isinstance(inner, STORED):
            write_within(lambda op: write(e, op), inner.clone(values))
    return []


def _initial(e: Writer, op: spike.ScanOp, index: int) -> Tensor:
    """A state before the first step; a scalar is spread over the sizes of the state.

    Sizes that are unknown are those of the first run, behind its axis of steps.
    """
    wanted = dense_type(op.arguments()[2][index]).get_shape()
    state = e.value(op.states[index])
    if state.rank == len(wanted):
        return state
    if state.data is None:
        raise Inexpressible("a state that begins as one computed number for all places")
    return spread(e, state, wanted, e.value(op.runs[0]))
