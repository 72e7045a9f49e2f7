"""ONNX forms of neurons: one Scan over the neuron alone, with its states going in and out.

What does not depend on the states is computed before the Scan for all steps at once. Nodes that
would change nothing are left out: a gain of 1, a leak towards 0. A potential of -0 may so come out
as 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import Operation, SSAValue

from ...dialects import spike
from ...dialects.inference import tensor_type
from ...dialects.neuron_equations import (
    STEPS,
    Arithmetic,
    Options,
    Step,
    input_factor,
    model_of,
)
from ...dialects.shapes import DYNAMIC, Shape
from ...dialects.spike.interpret_neurons import OPS
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
class Model(Arithmetic[str]):
    """Steps in nodes; what multiplies the input is computed before the Scan.

    Attributes:
        e: writes the nodes.
        options: see `Options`.
        parameters: by name, rounded to the element type, in the type of computation.
        toward: (1-β)·v_leak, where it is not 0.
        forget: 1-ρ of a threshold that adapts.
    """

    e: Writer
    options: Options
    parameters: Parameters
    toward: str | None = None
    forget: str | None = None

    def parameter(self, name: str) -> str:
        return self.parameters[name].name

    def add(self, a: str, b: str) -> str:
        return self.e.apply("Add", [a, b])

    def sub(self, a: str, b: str) -> str:
        return self.e.apply("Sub", [a, b])

    def mul(self, a: str, b: str) -> str:
        return self.e.apply("Mul", [a, b])

    def complement(self, name: str) -> str:
        assert name == "rho" and self.forget is not None
        return self.forget

    def relu(self, a: str) -> str:
        return self.e.apply("Max", [a, self._zero()])

    def magnitude(self, a: str) -> str:
        return self.e.apply("Abs", [a])

    def reaches(self, v: str, threshold: str) -> str:
        comparison = "Greater" if self.options.compare == "gt" else "GreaterOrEqual"
        return self.e.apply(comparison, [v, threshold], result=Element.BOOL)

    def is_zero(self, a: str) -> str:
        return self.e.apply("Equal", [a, self._zero()], result=Element.BOOL)

    def choose(self, where: str, chosen: str, other: str) -> str:
        return choose(self.e, where, chosen, other)

    def gated(self, where: str, a: str) -> str:
        return choose(self.e, where, a, self._zero())

    def as_number(self, where: str) -> str:
        return self.e.cast(where, self._element)

    def times(self, name: str, x: str) -> str:
        return x if self.parameters[name].number == 1.0 else super().times(name, x)

    def driven(self, name: str, x: str) -> str:
        return x

    def rest(self) -> str | None:
        return self.toward

    def fired(self, v: str, threshold: str) -> tuple[str, str]:
        """As everywhere; a threshold that is one number is subtracted in a form of its own."""
        known = self.parameters["threshold"]
        if self.options.reset != "subtract" or threshold != known.name or known.number is None:
            return super().fired(v, threshold)
        # θ·s is exact, and faster in ONNX Runtime than a choice.
        spikes = self.as_number(self.reaches(v, threshold))
        return spikes, self.sub(v, self.times("threshold", spikes))

    @property
    def _element(self) -> Element:
        return self.e.element(next(iter(self.parameters.values())).name)

    def _zero(self) -> str:
        return self.e.scalar(0, self._element)


def neuron(e: Writer, op: spike.NeuronOp) -> None:
    """A Scan over the neuron."""
    x = e.value(op.input)
    shape = tensor_type(op.input).get_shape()
    stored = e.element(x)
    wide = compute_element(stored)
    model, name = _model(e, op, stored, wide), model_of(op)
    drive = model.times(input_factor(name), e.cast(x, wide))
    initial = [e.value(value) for value in op.initial]
    if not initial:
        initial = [zeros(e, x, shape)] * len(op.STATES)
    output, final = run(e, model, STEPS[name], drive, initial, shape)
    e.bind(op.output, output if is_train(op.output) else e.cast(output, stored))
    for value, name in zip(op.final, final, strict=False):
        e.bind(value, name)


def run(
    e: Writer, model: Model, advance: Step, drive: str, initial: Sequence[str], shape: Shape
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


RULES: dict[type[Operation], Rule] = {op: neuron for op in OPS if model_of(op) in STEPS}
