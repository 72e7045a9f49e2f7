"""How the spiking functions of the `.tri` language become ops of `spike`.

Encoders, decoders, neurons, attention, normalisation and delays. Time constants are steps there and
decays here: β = e^(-1/τ) (`exact`) or 1 - 1/τ (`euler`), a number computed in f64, or ops where τ
is a tensor. Not here: products, pools and shapes of spike trains, in `tri_trains`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, SSAValue

from ..dialects import spike, tensor
from ..dialects.inference import tensor_type
from ..dialects.spike.types import TIME_STEP, is_train, number
from ..ir.errors import LoweringError
from ..ir.language import elaborated
from ..ir.language.builtins import BUILTINS
from ..ir.language.rules_neurons import NEURONS
from ..ir.neurons.model import GAIN, LEVEL, NeuronModel
from .ir_builder import Builder
from .tri_builder import Rule, filled, optional

_COMPARISONS = {">=": "ge", ">": "gt"}


def dense(builder: Builder, value: SSAValue, element: Attribute = f32) -> SSAValue:
    """A train as numbers 0 and 1 of `element`; a tensor as it is."""
    return builder.add(spike.ToTensorOp(value, element)) if is_train(value) else value


def _named(op: elaborated.Operation, operands: list[SSAValue]) -> dict[str, SSAValue]:
    """The operands by the names of the parameters."""
    names = [
        parameter.name
        for parameter in BUILTINS[op.function].parameters
        if (parameter.kind == "tensor" and parameter.is_required)
        or op.attributes.get(f"has_{parameter.name}")
    ]
    return dict(zip(names, operands, strict=True))


def _encode(builder: Builder, op: elaborated.Operation, operands: list[SSAValue]) -> SSAValue:
    a = op.attributes
    scheme = a["scheme"]
    return builder.add(
        spike.EncodeOp(
            operands[0],
            scheme,
            None if scheme == "delta" else a["timesteps"],
            period=a["period"],
            threshold=a["threshold"],
            seed=a["seed"] if scheme == "rate" else None,
        )
    )


def _decode(builder: Builder, op: elaborated.Operation, operands: list[SSAValue]) -> SSAValue:
    a = op.attributes
    if a["scheme"] != "membrane":
        return builder.add(spike.DecodeOp(operands[0], a["scheme"]))
    return builder.add(spike.DecodeOp(dense(builder, operands[0]), "membrane", a["readout"]))


class _Neuron:
    """The parameters of one call of a neuron function, as its op takes them."""

    def __init__(
        self, builder: Builder, op: elaborated.Operation, operands: list[SSAValue]
    ) -> None:
        self.builder, self.settings = builder, dict(op.attributes)
        self.operands = _named(op, operands)
        self.current = dense(builder, self.operands["x"])
        self.element = tensor_type(self.current).element_type

    def setting(self, name: str) -> float | SSAValue:
        """A number, or a tensor of the current's element type."""
        if name in self.operands:
            return self.builder.convert(self.operands[name], self.element)
        return float(self.settings[name])

    def decay(self, name: str) -> float | SSAValue:
        """What is left after a step, for the time constant `name`."""
        tau, is_exact = self.setting(name), self.settings["decay"] == "exact"
        if not isinstance(tau, SSAValue):
            return math.exp(-1 / tau) if is_exact else 1 - 1 / tau
        add, one = self.builder.add, self.builder.number(1.0, self.element)
        rate = add(tensor.DivOp(one, tau))
        if is_exact:
            return add(tensor.ExpOp(add(tensor.NegOp(rate))))
        return add(tensor.SubOp(one, rate))

    def parameters(self, model: NeuronModel) -> dict[str, float | SSAValue]:
        """Those that the op states: all but numbers that change nothing."""
        stated: dict[str, float | SSAValue] = {}
        for name, spec in model.parameters.items():
            if name == "v_reset" and self.settings.get("reset", "to_value") != "to_value":
                continue
            value = self.decay(spec.tau) if spec.tau else self.setting(name)
            resets = name == "v_reset" and "reset" in model.options
            if resets or (spec is not GAIN and spec is not LEVEL) or value != spec.default:
                stated[name] = value
        return stated

    def options(self, model: NeuronModel) -> dict[str, Any]:
        """How it fires and what else it has besides numbers."""
        words = {name: self.settings[name] for name in model.options if name in self.settings}
        if "compare" in words:
            words["compare"] = _COMPARISONS[str(words["compare"])]
        return words

    def initial(self, states: Sequence[str]) -> list[SSAValue]:
        """The states before the first step: of the potential as given, of the others 0."""
        if "initial" not in self.operands:
            return []
        potential = self.builder.convert(self.operands["initial"], self.element)
        return [
            potential if name == "v" else filled(self.builder, potential, 0.0) for name in states
        ]


def _neuron(builder: Builder, op: elaborated.Operation, operands: list[SSAValue]) -> SSAValue:
    """A neuron: its time constants as decays, and what the call changed."""
    neuron, kind = _Neuron(builder, op, operands), spike.NEURONS[op.function]
    result = kind(
        neuron.current,
        **neuron.parameters(kind.MODEL),
        **neuron.options(kind.MODEL),
        initial=neuron.initial(kind.STATES),
    )
    return builder.add(result)


def _attention(builder: Builder, op: elaborated.Operation, operands: list[SSAValue]) -> SSAValue:
    a = op.attributes
    names = ("kind", "heads", "scale", "tau", "threshold", "reset")
    options = {name: a[name] for name in names}
    return builder.add(spike.AttentionOp(*operands, **options, compare=_COMPARISONS[a["compare"]]))


def batch_norm(builder: Builder, op: elaborated.Operation, operands: list[SSAValue]) -> SSAValue:
    """Batch normalisation of a train or of currents, time first; tdBN where α·θ is not 1."""
    x = dense(builder, operands[0])
    element = tensor_type(x).element_type
    mean, variance = (builder.convert(value, element) for value in operands[1:3])
    weight, bias = (
        filled(builder, mean, number) if value is None else builder.convert(value, element)
        for value, number in zip(
            optional(op, operands, ["weight", "bias"]).values(), (1.0, 0.0), strict=True
        )
    )
    a = op.attributes
    is_temporal = op.function == "temporal_batch_norm"
    result = spike.BatchNormOp(
        x,
        weight,
        bias,
        mean,
        variance,
        kind="tdbn" if is_temporal else "shared",
        axis=a["axis"],
        epsilon=a["eps"],
        threshold=a["threshold"] if is_temporal else None,
        alpha=a["alpha"] if is_temporal else None,
    )
    return builder.add(result)


def _delay(builder: Builder, op: elaborated.Operation, operands: list[SSAValue]) -> SSAValue:
    return builder.add(spike.DelayOp(operands[0], op.attributes["steps"]))


def state_time_step(
    function: FuncOp, program: elaborated.Elaborated, dt: float | None = None
) -> None:
    """Attach `spike.dt` where `dt` or an encoder gives the length of a step in seconds.

    Raises:
        LoweringError: two of them differ.
    """
    stated = dt
    for op in program.operations():
        seconds = op.attributes.get("dt") if op.function == "encode" else None
        if not isinstance(seconds, float):
            continue
        if stated is not None and seconds != stated:
            raise LoweringError(
                f"{op.span}: error: a step of {seconds:g} s here, of {stated:g} s elsewhere; "
                "a program has one dt"
            )
        stated = seconds
    if stated is not None:
        attribute = number(stated)
        assert attribute is not None
        function.attributes[TIME_STEP] = attribute


SPIKING_RULES: Mapping[str, Rule] = {
    "encode": _encode,
    "decode": _decode,
    **{neuron.name: _neuron for neuron in NEURONS},
    "spiking_attention": _attention,
    "temporal_batch_norm": batch_norm,
    "delay": _delay,
}
"""The rule of each spiking function."""
