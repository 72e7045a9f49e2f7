"""Reference semantics of the neurons: the arithmetic of a step on NumPy, and the run over time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from xdsl.ir import Operation, SSAValue

from ...ir.arrays import Array
from ...ir.neurons.arithmetic import ArrayArithmetic
from ..elements import numpy_dtype
from ..inference import tensor_type
from ..meaning import Rule
from .neuron import NEURONS, NeuronOp
from .types import is_train

States = tuple[Array, ...]
Parameters = Mapping[str, Array]


def named_operands(op: Operation, operands: Sequence[Array]) -> dict[SSAValue, Array]:
    """The values of `operands` by the operands of `op`."""
    return dict(zip(op.operands, operands, strict=True))


class NumpyArithmetic(ArrayArithmetic[Array]):
    """Steps on arrays."""

    def complement(self, name: str) -> Array:
        value = self.parameters[name]
        return value.dtype.type(1) - value

    def relu(self, a: Array) -> Array:
        return np.maximum(a, a.dtype.type(0))

    def magnitude(self, a: Array) -> Array:
        return np.abs(a)

    def reaches(self, v: Array, threshold: Array) -> Array:
        return v > threshold if self.options.compare == "gt" else v >= threshold

    def is_zero(self, a: Array) -> Array:
        return a == 0

    def choose(self, where: Array, chosen: Array, other: Array) -> Array:
        return np.where(where, chosen, other)

    def gated(self, where: Array, a: Array) -> Array:
        return np.where(where, a, a.dtype.type(0))

    def as_number(self, where: Array) -> Array:
        return where

    def number(self, value: float) -> Array:
        return np.asarray(value, next(iter(self.parameters.values())).dtype)

    def exp(self, a: Array) -> Array:
        return np.exp(a)

    def least(self, a: Array, b: Array) -> Array:
        return np.minimum(a, b)

    def both(self, a: Array, b: Array) -> Array:
        return a & b

    def shifted(self, factor: Array, x: Array, places: int) -> Array:
        product = factor.astype(np.int64) * x
        return (product >> places).astype(x.dtype)


OPS = tuple(NEURONS.values())
"""The ops of neurons."""


def _initial(op: NeuronOp, values: Mapping[SSAValue, Array]) -> States:
    x = values[op.input]
    zeros = (np.zeros(x.shape[1:], x.dtype) for _ in op.STATES)
    return tuple(values[value] for value in op.initial) or tuple(zeros)


def steps(op: NeuronOp, *operands: Array) -> Iterator[tuple[Array, States]]:
    """What a neuron gives at each step of its input, and its states after the step."""
    values = named_operands(op, operands)
    x, states = values[op.input], _initial(op, values)
    stored = numpy_dtype(tensor_type(op.input).element_type)
    parameters = {
        name: values[value]
        if isinstance(value, SSAValue)
        else np.asarray(value, stored).astype(x.dtype)
        for name in op.PARAMETERS
        for value in [op.parameter(name)]
    }
    arithmetic = NumpyArithmetic(op.options(), parameters)
    for current in x:
        output, states = op.MODEL.step(arithmetic, current, states)
        # A state is kept in the element type: this rounds f16 and bf16.
        states = tuple(
            state.astype(stored, copy=False).astype(x.dtype, copy=False) for state in states
        )
        yield output, states


def run(op: NeuronOp, *operands: Array) -> tuple[Array, ...]:
    """A neuron over all steps of its input; see `NeuronOp`."""
    values = named_operands(op, operands)
    x, states = values[op.input], _initial(op, values)
    output = np.zeros(x.shape, np.bool_ if is_train(op.output) else x.dtype)
    for t, (sent, after) in enumerate(steps(op, *operands)):
        output[t], states = sent, after
    return (output, *states) if op.final else (output,)


def potentials(op: NeuronOp, *operands: Array) -> Array:
    """The potential after each step [T, …], after its reset; of `sigma_delta` the sum."""
    index = op.STATES.index("v") if "v" in op.STATES else 0
    x = named_operands(op, operands)[op.input]
    trace = np.zeros(x.shape, x.dtype)
    for t, (_, states) in enumerate(steps(op, *operands)):
        trace[t] = states[index]
    return trace


RULES: dict[type[Operation], Rule] = dict.fromkeys(OPS, run)
