"""TFLite forms of neurons: the steps one after the other, since LiteRT has no loop over slices.

What does not depend on the states is computed for all steps at once; synapses are products over all
steps already. Trains are truth values. Not here: feedback (`spiking_feedback`), codes
(`spiking_coding`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from xdsl.ir import Operation, SSAValue

from ...dialects import spike
from ...dialects.shapes import DYNAMIC, Shape
from ...dialects.spike.interpret_neurons import Options
from ...dialects.spike.types import dense_type
from .elementwise import magnitude
from .graph import Element, Tensor
from .shape import cut, without
from .tflite_writer import Inexpressible, Rule, Writer

STEPS = 1024
"""The longest run that is written out."""


@dataclass(frozen=True)
class Model:
    """A neuron in the making.

    Attributes:
        e: writes the operators.
        options: see `Options`.
        parameters: by name, in the type of computation.
    """

    e: Writer
    options: Options
    parameters: Mapping[str, Tensor]

    def __getitem__(self, parameter: str) -> Tensor:
        return self.parameters[parameter]

    def times(self, parameter: str, x: Tensor) -> Tensor:
        """A parameter times `x`."""
        known = self[parameter].data
        if known is not None and bool((known == 1).all()):
            return x
        return self.e.binary("MUL", self[parameter], x)

    def rest(self, decay: str) -> Tensor:
        """1 - a decay."""
        one = self.e.scalar(1, self[decay].element)
        known = self[decay].data
        if known is not None:
            return self.e.constant(np.asarray(known.dtype.type(1) - known), "rest")
        return self.e.binary("SUB", one, self[decay])

    def leak(self, v: Tensor, drive: Tensor) -> Tensor:
        """β·v + (1-β)·v_leak + drive."""
        v = self.times("beta", v)
        known = self["v_leak"].data
        if known is None or known.any():
            v = self.e.binary("ADD", v, self.e.binary("MUL", self.rest("beta"), self["v_leak"]))
        return self.e.binary("ADD", v, drive)

    def reaches(self, v: Tensor, threshold: Tensor) -> Tensor:
        """Where `v` fires."""
        kind = "GREATER" if self.options.compare == "gt" else "GREATER_EQUAL"
        return self.e.compare(kind, v, threshold)

    def fired(self, v: Tensor, threshold: Tensor) -> tuple[Tensor, Tensor]:
        """The spikes of the potential `v`, and what the reset leaves of it."""
        spikes = self.reaches(v, threshold)
        if self.options.reset == "subtract":
            v = self.e.choose(spikes, self.e.binary("SUB", v, threshold), v)
        elif self.options.reset == "to_value":
            v = self.e.choose(spikes, self["v_reset"], v)
        return spikes, v


States = list[Tensor]
Advance = Callable[[Model, Tensor, States], tuple[Tensor, States]]
"""`advance(model, input, states)`: what a step gives, and the states after it."""


def _lif(m: Model, x: Tensor, states: States) -> tuple[Tensor, States]:
    spikes, v = m.fired(m.leak(states[0], x), m["threshold"])
    return spikes, [v]


def _integrate_fire(m: Model, x: Tensor, states: States) -> tuple[Tensor, States]:
    spikes, v = m.fired(m.e.binary("ADD", states[0], x), m["threshold"])
    return spikes, [v]


def _cuba_lif(m: Model, x: Tensor, states: States) -> tuple[Tensor, States]:
    current = m.e.binary("ADD", m.times("alpha", states[0]), x)
    spikes, v = m.fired(m.leak(states[1], m.times("gain", current)), m["threshold"])
    return spikes, [current, v]


def _leaky_integrator(m: Model, x: Tensor, states: States) -> tuple[Tensor, States]:
    v = m.leak(states[0], x)
    return v, [v]


def _adaptive_lif(m: Model, x: Tensor, states: States) -> tuple[Tensor, States]:
    v, adaptation = states
    e = m.e
    threshold = e.binary("ADD", m["threshold"], m.times("kappa", adaptation))
    spikes, v = m.fired(m.leak(v, x), threshold)
    risen = e.binary("MUL", m.rest("rho"), e.cast(spikes, v.element))
    return spikes, [v, e.binary("ADD", m.times("rho", adaptation), risen)]


def _sigma_delta(m: Model, x: Tensor, states: States) -> tuple[Tensor, States]:
    sigma, last, residue, error = states
    e, zero = m.e, m.e.scalar(0, x.element)
    sigma = e.binary("ADD", sigma, x)
    y = e.binary("ADD", sigma, m["bias"])
    if m.options.activation == "relu":
        y = e.binary("MAXIMUM", y, zero)
    change = e.binary("ADD", e.binary("SUB", y, last), residue)
    error = e.binary("ADD", error, change) if m.options.cumulative else error
    watched = magnitude(e, error if m.options.cumulative else change)
    sent = e.choose(m.reaches(watched, m["threshold"]), change, zero)
    if m.options.cumulative:
        error = e.choose(e.compare("NOT_EQUAL", sent, zero), zero, error)
    return sent, [sigma, y, e.binary("SUB", change, sent), error]


_MODELS: dict[type[spike.NeuronOp], tuple[Advance, str]] = {
    spike.LifOp: (_lif, "gain"),
    spike.IntegrateFireOp: (_integrate_fire, "gain"),
    spike.CubaLifOp: (_cuba_lif, "w_in"),
    spike.LeakyIntegratorOp: (_leaky_integrator, "gain"),
    spike.AdaptiveLifOp: (_adaptive_lif, "gain"),
    spike.SigmaDeltaOp: (_sigma_delta, "gain"),
}
"""A step of each model, and the parameter that multiplies its input."""


def neuron(e: Writer, op: spike.NeuronOp) -> None:
    """A neuron step by step; each state keeps an axis of one step in front."""
    steps = check_steps(op.input)
    x = e.value(op.input)
    if x.element.is_float and x.element is not Element.FLOAT32:
        raise Inexpressible(f"neurons on {x.element.name}; convert their input to float32")
    advance, factor = _MODELS[type(op)]
    model = Model(e, Options.of(op), {name: _parameter(e, op, name, x) for name in op.PARAMETERS})
    drive = model.times(factor, x)
    states = [e.expand_axes(e.value(value), [0]) for value in op.initial]
    if not states:
        states = [e.constant(np.zeros((1,) * x.rank, x.element.dtype), "at_rest")] * len(op.STATES)
    outputs: list[Tensor] = []
    for step in range(steps):
        output, states = advance(model, step_of(e, drive, step, steps), states)
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
    if steps == DYNAMIC or not 0 < steps <= STEPS:
        raise Inexpressible(
            f"LiteRT runs neurons over 1 to {STEPS} known steps; fix them with infer-shapes"
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


RULES: dict[type[Operation], Rule] = dict.fromkeys(_MODELS, neuron)
