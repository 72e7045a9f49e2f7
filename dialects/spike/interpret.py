"""Reference semantics of the `spike` dialect, on NumPy: trains are time-first truth values.

Dense: every step of every neuron is computed. Encoders, decoders and pools say themselves what they
compute, the rules of other families stand in `interpret_*`; here are feedback, loops and layers,
which run a body.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from ...ir.arrays import Array
from ..elements import numpy_dtype
from ..meaning import Rule
from ..shapes import DYNAMIC, ShapeError
from . import interpret_network, interpret_neurons, interpret_synapses
from .layer import LayerOp
from .recurrent import RecurrentOp
from .scan import ScanOp
from .types import dense_type

Evaluate = Callable[[Operation, Sequence[Array]], tuple[Array, ...]]
"""The results of any op on given operands."""


def recurrence(evaluate: Evaluate) -> Rule:
    """The rule of `spike.recurrent`, where `evaluate` computes the ops of the body.

    Each evaluation of the body makes one more step right at least, as step t needs the feedback of
    the steps before t alone. So the result no longer changes after as many as there are steps.
    """

    def rule(op: RecurrentOp, *operands: Array) -> tuple[Array, ...]:
        inputs = operands[: len(op.inputs)]
        feedback = np.zeros(_result_shape(op, inputs[0]), _result_dtype(op))
        before = operands[-1] if op.initial is not None else feedback[:0]
        for _ in range(len(feedback) + 1):
            shifted = feedback.copy()
            shifted[1:] = feedback[:-1]
            shifted[:1] = before if len(before) else 0
            results = _run_body(op, (*inputs, shifted), evaluate)
            if results[0].shape != feedback.shape:
                raise ValueError(
                    f"the body gives the shape {list(results[0].shape)} for feedback of "
                    f"{list(feedback.shape)}"
                )
            if np.array_equal(results[0], feedback, equal_nan=feedback.dtype.kind != "b"):
                return results
            feedback = results[0]
        raise ValueError("the body is not causal: a step of it depends on later ones")

    return rule


def scan(evaluate: Evaluate) -> Rule:
    """The rule of `spike.scan`, where `evaluate` computes the ops of the body."""

    def rule(op: ScanOp, *operands: Array) -> tuple[Array, ...]:
        count, fixed = len(op.runs), len(op.fixed)
        runs, same = operands[:count], operands[count : count + fixed]
        batch = runs[0].shape[1] if runs[0].ndim > 1 else 1
        states: Sequence[Array] = [
            np.broadcast_to(value, _state_shape(op, argument, runs[0]))
            for value, argument in zip(operands[count + fixed :], op.arguments()[2], strict=True)
        ]
        steps: list[Sequence[Array]] = []
        for t in range(len(runs[0])):
            inputs = (*(run[t : t + 1] for run in runs), *same, *states)
            results = _run_body(op, inputs, evaluate)
            states = results[: len(states)]
            steps.append(results[len(states) :])
        outputs = [
            np.concatenate([step[n] for step in steps]) if steps else _no_step(value, batch)
            for n, value in enumerate(op.yielded()[1])
        ]
        return (*outputs, *states)

    return rule


def _no_step(value: SSAValue, batch: int) -> Array:
    """A run without steps, like one of which `value` is a step."""
    return np.zeros((0, *_known(value, batch)[1:]), numpy_dtype(dense_type(value).element_type))


def _state_shape(op: ScanOp, state: SSAValue, run: Array) -> tuple[int, ...]:
    shape = dense_type(state).get_shape()
    axes = (op.source_axis(state, axis) for axis in range(len(shape)))
    return tuple(run.shape[a] if n == DYNAMIC else n for a, n in zip(axes, shape, strict=True))


def _known(value: SSAValue, batch: int) -> tuple[int, ...]:
    """The shape of a value whose unknown sizes are the batch."""
    return tuple(batch if size == DYNAMIC else size for size in dense_type(value).get_shape())


def layer(evaluate: Evaluate) -> Rule:
    """The rule of `spike.layer`, where `evaluate` computes the ops of the body."""

    def rule(op: LayerOp, *operands: Array) -> tuple[Array, ...]:
        return _run_body(op, operands, evaluate)

    return rule


def _result_dtype(op: RecurrentOp) -> np.dtype[Any]:
    return numpy_dtype(dense_type(op.output).element_type)


def _result_shape(op: RecurrentOp, first: Array) -> tuple[int, ...]:
    """The shape of y: unknown sizes are those of the first input."""
    shape = dense_type(op.feedback()).get_shape()
    if any(size == DYNAMIC and axis >= first.ndim for axis, size in enumerate(shape)):
        raise ShapeError(f"the first input has no axis for a size of {op.output.type}")
    return tuple(first.shape[a] if size == DYNAMIC else size for a, size in enumerate(shape))


def _run_body(
    op: RecurrentOp | ScanOp | LayerOp, arguments: Sequence[Array], evaluate: Evaluate
) -> tuple[Array, ...]:
    block = op.body.block
    values: dict[SSAValue, Array] = dict(zip(block.args, arguments, strict=True))
    for inner in block.ops:
        operands = [values[operand] for operand in inner.operands]
        if inner is block.last_op:
            return tuple(operands)
        values.update(zip(inner.results, evaluate(inner, operands), strict=True))
    raise ValueError("the body does not end in spike.yield")


RULES: dict[type[Operation], Rule] = {
    **interpret_neurons.RULES,
    **interpret_synapses.RULES,
    **interpret_network.RULES,
}
