"""ONNX forms of neurons: one Scan over the neuron alone, with its states going in and out.

What does not depend on the states is computed before the Scan for all steps at once. Nodes that
would change nothing are left out: a gain of 1, a leak towards 0. A potential of -0 may so come out
as 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import Operation, SSAValue

from ...dialects import spike
from ...dialects.inference import tensor_type
from ...dialects.shapes import DYNAMIC, Shape
from ...dialects.spike.interpret_neurons import Options
from ...dialects.spike.types import is_train
from .elementwise import choose
from .graph import Element
from .onnx_writer import Rule, Writer
from .scan import scan


@dataclass(frozen=True)
class Parameter:
    """A parameter of a neuron: its tensor, and its number where it is one for all."""

    name: str
    number: float | None = None


Parameters = Mapping[str, Parameter]


@dataclass(frozen=True)
class Model:
    """A neuron in the making.

    Attributes:
        e: writes the nodes.
        options: see `Options`.
        parameters: by name, rounded to the element type, in the type of computation.
        rest: (1-β)·v_leak, where it is not 0.
        forget: 1-ρ of a threshold that adapts.
    """

    e: Writer
    options: Options
    parameters: Parameters
    rest: str | None = None
    forget: str | None = None

    def __getitem__(self, parameter: str) -> str:
        return self.parameters[parameter].name

    def times(self, parameter: str, x: str) -> str:
        """A parameter times `x`."""
        if self.parameters[parameter].number == 1.0:
            return x
        return self.e.apply("Mul", [self[parameter], x])

    def leak(self, v: str, drive: str) -> str:
        """β·v + (1-β)·v_leak + drive."""
        v = self.times("beta", v)
        if self.rest is not None:
            v = self.e.apply("Add", [v, self.rest])
        return self.e.apply("Add", [v, drive])

    def reaches(self, v: str, threshold: str) -> str:
        """Where `v` fires, as truth values."""
        comparison = "Greater" if self.options.compare == "gt" else "GreaterOrEqual"
        return self.e.apply(comparison, [v, threshold], result=Element.BOOL)

    def fired(self, v: str, threshold: str) -> tuple[str, str]:
        """The spikes of the potential `v`, of any type, and what the reset leaves of it."""
        spikes = self.reaches(v, threshold)
        if self.options.reset == "subtract":
            if threshold == self["threshold"] and self.parameters["threshold"].number is not None:
                # θ·s is exact, and faster in ONNX Runtime than a choice.
                spikes = self.e.cast(spikes, self.e.element(v))
                return spikes, self.e.apply("Sub", [v, self.times("threshold", spikes)])
            v = choose(self.e, spikes, self.e.apply("Sub", [v, threshold]), v)
        elif self.options.reset == "to_value":
            v = choose(self.e, spikes, self._like(v, "v_reset"), v)
        return spikes, v

    def _like(self, v: str, parameter: str) -> str:
        return self.e.cast(self[parameter], self.e.element(v))


Advance = Callable[[Model, str, list[str]], tuple[str, list[str]]]
"""`advance(model, input, states)`: what a step gives, and the states after it."""


def lif(m: Model, x: str, states: list[str]) -> tuple[str, list[str]]:
    """One step of `spike.lif`."""
    spikes, v = m.fired(m.leak(states[0], x), m["threshold"])
    return spikes, [v]


def _integrate_fire(m: Model, x: str, states: list[str]) -> tuple[str, list[str]]:
    spikes, v = m.fired(m.e.apply("Add", [states[0], x]), m["threshold"])
    return spikes, [v]


def _cuba_lif(m: Model, x: str, states: list[str]) -> tuple[str, list[str]]:
    current = m.e.apply("Add", [m.times("alpha", states[0]), x])
    spikes, v = m.fired(m.leak(states[1], m.times("gain", current)), m["threshold"])
    return spikes, [current, v]


def _leaky_integrator(m: Model, x: str, states: list[str]) -> tuple[str, list[str]]:
    v = m.leak(states[0], x)
    return v, [v]


def _adaptive_lif(m: Model, x: str, states: list[str]) -> tuple[str, list[str]]:
    v, adaptation = states
    e = m.e
    threshold = e.apply("Add", [m["threshold"], m.times("kappa", adaptation)])
    spikes, v = m.fired(m.leak(v, x), threshold)
    assert m.forget is not None
    risen = e.apply("Mul", [m.forget, e.cast(spikes, e.element(v))])
    return spikes, [v, e.apply("Add", [m.times("rho", adaptation), risen])]


def _sigma_delta(m: Model, x: str, states: list[str]) -> tuple[str, list[str]]:
    e = m.e
    sigma, last, residue, error = states
    zero = e.scalar(0, e.element(sigma))
    sigma = e.apply("Add", [sigma, x])
    y = e.apply("Add", [sigma, m["bias"]])
    if m.options.activation == "relu":
        y = e.apply("Max", [y, zero])
    change = e.apply("Add", [e.apply("Sub", [y, last]), residue])
    if m.options.cumulative:
        error = e.apply("Add", [error, change])
    watched = e.apply("Abs", [error if m.options.cumulative else change])
    sent = choose(e, m.reaches(watched, m["threshold"]), change, zero)
    if m.options.cumulative:
        quiet = e.apply("Equal", [sent, zero], result=Element.BOOL)
        error = choose(e, quiet, error, zero)
    return sent, [sigma, y, e.apply("Sub", [change, sent]), error]


_MODELS: dict[type[spike.NeuronOp], tuple[Advance, str | None]] = {
    spike.LifOp: (lif, "gain"),
    spike.IntegrateFireOp: (_integrate_fire, "gain"),
    spike.CubaLifOp: (_cuba_lif, "w_in"),
    spike.LeakyIntegratorOp: (_leaky_integrator, "gain"),
    spike.AdaptiveLifOp: (_adaptive_lif, "gain"),
    spike.SigmaDeltaOp: (_sigma_delta, "gain"),
}
"""A step of each model, and the parameter that multiplies its input."""


def neuron(e: Writer, op: spike.NeuronOp) -> None:
    """A Scan over the neuron."""
    x = e.value(op.input)
    shape = tensor_type(op.input).get_shape()
    stored = e.element(x)
    wide = compute_element(stored)
    advance, factor = _MODELS[type(op)]
    model = _model(e, op, stored, wide)
    drive = e.cast(x, wide)
    if factor is not None:
        drive = model.times(factor, drive)
    initial = [e.value(value) for value in op.initial]
    if not initial:
        initial = [zeros(e, x, shape)] * len(op.STATES)
    output, final = run(e, model, advance, drive, initial, shape)
    e.bind(op.output, output if is_train(op.output) else e.cast(output, stored))
    for value, name in zip(op.final, final, strict=False):
        e.bind(value, name)


def run(
    e: Writer, model: Model, advance: Advance, drive: str, initial: Sequence[str], shape: Shape
) -> tuple[str, list[str]]:
    """What a neuron gives at all steps, and its last states.

    Args:
        drive: its input, in the type of computation.
        initial: its states, in the type in which they are kept.
        shape: of `drive`; one step needs no Scan.
    """
    wide = e.element(drive)

    def step(states: list[str], inputs: list[str]) -> tuple[list[str], list[str]]:
        elements = [e.element(state) for state in states]
        output, after = advance(model, inputs[0], [e.cast(state, wide) for state in states])
        return [e.cast(a, k) for a, k in zip(after, elements, strict=True)], [output]

    if shape[0] == 1:
        after, results = step(list(initial), [squeeze_step(e, drive)])
        return e.unsqueeze(results[0], [0]), after
    final, outputs = scan(e, initial, [drive], step, [len(shape) - 1] * (len(initial) + 1))
    return outputs[0], final


def squeeze_step(e: Writer, name: str) -> str:
    """A run of one step without the axis of time."""
    return e.apply("Squeeze", [name], rest=[e.indices([0], "axes")])


def compute_element(stored: Element) -> Element:
    """The type a step is computed in: halves in float32."""
    return Element.FLOAT if stored in (Element.FLOAT16, Element.BFLOAT16) else stored


def _model(e: Writer, op: spike.NeuronOp, stored: Element, wide: Element) -> Model:
    parameters: dict[str, Parameter] = {}
    for name in op.PARAMETERS:
        value = op.parameter(name)
        if isinstance(value, SSAValue):
            parameters[name] = Parameter(e.numbers(value, wide))
        else:
            rounded = np.asarray(value).astype(stored.dtype).astype(wide.dtype)
            parameters[name] = Parameter(e.constant(rounded, f"{e.hint}.{name}"), float(rounded))
    rest = forget = None
    if "v_leak" in parameters and parameters["v_leak"].number != 0.0:
        factor = _one_minus(e, parameters["beta"], wide)
        rest = e.apply("Mul", [factor, parameters["v_leak"].name])
    if "rho" in parameters:
        forget = _one_minus(e, parameters["rho"], wide)
    return Model(e, Options.of(op), parameters, rest, forget)


def _one_minus(e: Writer, parameter: Parameter, wide: Element) -> str:
    one = wide.dtype.type(1)
    if parameter.number is None:
        return e.apply("Sub", [e.scalar(1, wide), parameter.name])
    return e.constant(np.asarray(one - wide.dtype.type(parameter.number)), f"{e.hint}.rest")


def zeros(e: Writer, x: str, shape: Shape) -> str:
    """Zeros like one step of `x`, a run of `shape`."""
    element, step = e.element(x), shape[1:]
    if DYNAMIC not in step:
        return e.constant(np.zeros(step, element.dtype), "zeros")
    if e.opset >= 15:
        sizes = e.node("Shape", [x], Element.INT64, start=1)
    else:
        whole = e.node("Shape", [x], Element.INT64)
        sizes = e.slice_axes(whole, [1], [len(shape)], [0], [1])
    return e.apply("Expand", [e.scalar(0, element)], rest=[sizes])


RULES: dict[type[Operation], Rule] = dict.fromkeys(_MODELS, neuron)
