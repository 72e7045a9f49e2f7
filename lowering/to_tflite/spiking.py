"""TFLite forms of neurons: the steps one after the other, since LiteRT has no loop over slices.

What does not depend on the states is computed for all steps at once; synapses are products over all
steps already. Trains are truth values. Not here: feedback (`spiking_feedback`), codes
(`spiking_coding`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from xdsl.ir import Operation, SSAValue

from ...dialects import spike
from ...dialects.neuron_equations import STEPS, Arithmetic, Options, input_factor, model_of
from ...dialects.shapes import DYNAMIC, Shape
from ...dialects.spike.interpret_neurons import OPS
from ...dialects.spike.types import dense_type
from .elementwise import magnitude
from .graph import Element, Tensor
from .shape import cut, without
from .tflite_writer import Inexpressible, Rule, Writer

MOST_STEPS = 1024
"""The longest run that is written out."""


@dataclass(frozen=True)
class Model(Arithmetic[Tensor]):
    """Steps in operators; what multiplies the input is computed for all of them at once.

    Attributes:
        e: writes the operators.
        options: see `Options`.
        parameters: by name, in the type of computation.
    """

    e: Writer
    options: Options
    parameters: Mapping[str, Tensor]

    def parameter(self, name: str) -> Tensor:
        return self.parameters[name]

    def add(self, a: Tensor, b: Tensor) -> Tensor:
        return self.e.binary("ADD", a, b)

    def sub(self, a: Tensor, b: Tensor) -> Tensor:
        return self.e.binary("SUB", a, b)

    def mul(self, a: Tensor, b: Tensor) -> Tensor:
        return self.e.binary("MUL", a, b)

    def complement(self, name: str) -> Tensor:
        value = self.parameters[name]
        if value.data is not None:
            return self.e.constant(np.asarray(value.data.dtype.type(1) - value.data), "rest")
        return self.sub(self.e.scalar(1, value.element), value)

    def relu(self, a: Tensor) -> Tensor:
        return self.e.binary("MAXIMUM", a, self.e.scalar(0, a.element))

    def magnitude(self, a: Tensor) -> Tensor:
        return magnitude(self.e, a)

    def reaches(self, v: Tensor, threshold: Tensor) -> Tensor:
        kind = "GREATER" if self.options.compare == "gt" else "GREATER_EQUAL"
        return self.e.compare(kind, v, threshold)

    def is_zero(self, a: Tensor) -> Tensor:
        return self.e.compare("EQUAL", a, self.e.scalar(0, a.element))

    def choose(self, where: Tensor, chosen: Tensor, other: Tensor) -> Tensor:
        return self.e.choose(where, chosen, other)

    def gated(self, where: Tensor, a: Tensor) -> Tensor:
        return self.e.choose(where, a, self.e.scalar(0, a.element))

    def as_number(self, where: Tensor) -> Tensor:
        return self.e.cast(where, next(iter(self.parameters.values())).element)

    def times(self, name: str, x: Tensor) -> Tensor:
        known = self.parameters[name].data
        is_one = known is not None and bool((known == 1).all())
        return x if is_one else super().times(name, x)

    def driven(self, name: str, x: Tensor) -> Tensor:
        return x

    def rest(self) -> Tensor | None:
        known = self.parameters["v_leak"].data
        return super().rest() if known is None or known.any() else None


def neuron(e: Writer, op: spike.NeuronOp) -> None:
    """A neuron step by step; each state keeps an axis of one step in front."""
    steps = check_steps(op.input)
    x = e.value(op.input)
    if x.element.is_float and x.element is not Element.FLOAT32:
        raise Inexpressible(f"neurons on {x.element.name}; convert their input to float32")
    name = model_of(op)
    model = Model(e, Options.of(op), {name: _parameter(e, op, name, x) for name in op.PARAMETERS})
    drive = model.times(input_factor(name), x)
    states = [e.expand_axes(e.value(value), [0]) for value in op.initial]
    if not states:
        states = [e.constant(np.zeros((1,) * x.rank, x.element.dtype), "at_rest")] * len(op.STATES)
    outputs: list[Tensor] = []
    for step in range(steps):
        output, states = STEPS[name](model, step_of(e, drive, step, steps), states)
        outputs.append(output)
    e.bind(op.output, joined(e, outputs))
    for value, state in zip(op.final, states, strict=False):
        whole = spread(e, state, (1, *x.shape[1:]), x) if state.data is not None else state
        e.bind(value, without(e, whole, {0}))


def check_steps(run: SSAValue) -> int:
    """How many steps a run has.

    Raises:
        Inexpressible: that is not known, or they are too many to write out.
    """
    steps = dense_type(run).get_shape()[0]
    if steps == DYNAMIC or not 0 < steps <= MOST_STEPS:
        raise Inexpressible(
            f"LiteRT runs neurons over 1 to {MOST_STEPS} known steps; fix them with infer-shapes"
        )
    return steps


def step_of(e: Writer, run: Tensor, step: int, steps: int) -> Tensor:
    """One of the `steps` steps of a run, with its axis."""
    if steps == 1:
        return run
    begin, rest = [step, *[0] * (run.rank - 1)], [DYNAMIC] * (run.rank - 1)
    return cut(e, run, begin, [1, *rest])


def _parameter(e: Writer, op: spike.NeuronOp, name: str, x: Tensor) -> Tensor:
    value = op.parameter(name)
    if isinstance(value, SSAValue):
        return e.cast(e.value(value), x.element)
    return e.constant(np.asarray(value).astype(x.element.dtype), f"{e.hint}.{name}")


def spread(e: Writer, state: Tensor, shape: Shape, run: Tensor) -> Tensor:
    """A constant state for each place of `shape`; what is unknown of that, `run` says."""
    assert state.data is not None
    if DYNAMIC not in shape:
        return e.constant(np.broadcast_to(state.data, shape), state.name)
    offset = run.rank - len(shape)
    sizes = [e.dimension(run, a + offset) if n == DYNAMIC else n for a, n in enumerate(shape)]
    return e.apply("BROADCAST_TO", [state], shape=shape, rest=[e.sizes(sizes)])


def joined(e: Writer, pieces: list[Tensor]) -> Tensor:
    """Steps one after the other as a run."""
    if len(pieces) == 1:
        return pieces[0]
    shape = (len(pieces), *pieces[0].shape[1:])
    return e.apply("CONCATENATION", pieces, shape=shape, axis=0)


RULES: dict[type[Operation], Rule] = {op: neuron for op in OPS if model_of(op) in STEPS}
