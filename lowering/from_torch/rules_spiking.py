"""Rules of spiking layers that were recorded as operators: ops of the dialect `spike`.

Those of `runtime.spiking.recording`, and of `library_neurons`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

import torch
from torch import dtype
from torch.fx import Node
from xdsl.ir import Block, SSAValue

from ...dialects import spike, tensor
from ...dialects.inference import tensor_type
from ..problems import ProblemError, refuse
from .calls import Call
from .library_neurons import RUN
from .torch_builder import Builder, Known, Rule, element_type

Parameters: TypeAlias = "Mapping[str, float | SSAValue]"
"""Parameters of a neuron by name: a number, or one for each neuron."""

_DEFAULTS = {"v_leak": 0.0, "gain": 1.0, "w_in": 1.0, "threshold": 1.0, "bias": 0.0}
"""Parameters that an op need not state."""


def _parameters(e: Builder, call: Call, dtype: dtype) -> dict[str, float | SSAValue]:
    """The parameters of a recorded neuron."""
    settings = call.settings
    nodes = zip(settings["tensors"], call.tensors("parameters"), strict=True)
    return {**settings["numbers"], **{name: e.operand(node, dtype) for name, node in nodes}}


def _stated(parameters: Parameters, words: Mapping[str, str]) -> Parameters:
    """The parameters that an op has to state: those that are not its defaults and matter."""
    return {
        name: value
        for name, value in parameters.items()
        if (isinstance(value, SSAValue) or _DEFAULTS.get(name) != value)
        and (name != "v_reset" or words.get("reset", "to_value") == "to_value")
    }


def _wants_states(call: Call) -> bool:
    """Whether anybody reads more than the first result."""
    return any(user.args[1] != 0 for user in call.node.users if user.users)


def _neuron(e: Builder, call: Call) -> list[SSAValue | None]:
    settings, dtype, wanted = call.settings, call.value.dtype, _wants_states(call)
    words, parameters = settings["words"], _parameters(e, call, dtype)
    initial = [e.operand(node, dtype) for node in call.tensors("initial")]
    op = spike.NEURONS[settings["model"]](
        e.operand(call["x"], dtype),
        **_stated(parameters, words),
        **words,
        initial=initial,
        final=wanted,
    )
    output = dense(e, e.add(op), dtype)
    return [output, *(op.final if wanted else [None] * settings["states"])]


def dense(e: Builder, value: SSAValue, dtype: dtype) -> SSAValue:
    """A train as the dense tensor that PyTorch has; other values stay."""
    if spike.is_train(value):
        return e.add(spike.ToTensorOp(value, element_type(dtype)))
    return value


def train_of(e: Builder, node: Node) -> SSAValue:
    """The train that a node's values are.

    Raises:
        ProblemError: they need not be spikes.
    """
    value = e.value(node)
    if not isinstance(value.owner, spike.ToTensorOp):
        raise ProblemError("it takes spikes alone: outputs of neurons or of 'encode'")
    return value.owner.operand


def _library_neuron(e: Builder, call: Call) -> list[SSAValue | None]:
    """A neuron of another library over all steps: its spikes, and its states at each step.

    Whoever does not need the states drops them.
    """
    settings, dtype = call.settings, call.value.dtype
    model, words, parameters = settings["model"], settings["words"], _parameters(e, call, dtype)
    initial = _initial(e, call, dtype, settings["delayed"])
    x = e.operand(call["x"], dtype)
    states: list[SSAValue | None] = []
    if settings["delayed"]:
        if "alpha" in parameters:
            x = e.add(spike.LeakyIntegratorOp(x, parameters["alpha"]))
            states.append(x)
        spikes, potential = _delayed_reset(e, x, parameters["threshold"], parameters["beta"], words)
        states.append(potential)
    else:
        stated = _stated(parameters, words)
        spikes = e.add(spike.NEURONS[model](x, **stated, **words, initial=initial))
        starts = [[start] for start in initial] or [[], []]
        for name, start in zip(_DECAYS[model] if settings["shown"] else (), starts, strict=False):
            x = e.add(spike.LeakyIntegratorOp(x, parameters[name], initial=start))
            states.append(x)
    return [dense(e, spikes, dtype), *states, *[None] * (settings["states"] - len(states))]


_DECAYS = {"lif": ["beta"], "cuba_lif": ["alpha", "beta"]}
"""The decays of a model, one a state, each of which integrates the one before."""


def _initial(e: Builder, call: Call, dtype: dtype, is_delayed: bool) -> list[SSAValue]:
    """The states before the first step; none where they are zeros."""
    nodes = call.tensors("initial")
    values = [e.values[node] for node in nodes]
    if all(isinstance(value, Known) and not value.tensor.any() for value in values):
        return []
    refuse(is_delayed, "a potential before the first step may be a spike that resets; zeros do")
    return [e.operand(node, dtype) for node in nodes]


def _delayed_reset(
    e: Builder,
    x: SSAValue,
    threshold: float | SSAValue,
    beta: float | SSAValue,
    words: Mapping[str, str],
) -> tuple[SSAValue, SSAValue]:
    """Spikes and potentials of v ← β·v + x - θ·s[t-1], which no neuron alone computes."""
    element = tensor_type(x).element_type
    is_value = isinstance(threshold, SSAValue)
    minus = e.add(tensor.NegOp(threshold if is_value else e.number(threshold, element)))
    inputs = [x, minus, *(value for value in (threshold, beta) if isinstance(value, SSAValue))]
    train = spike.TrainType(tensor_type(x).get_shape())
    block = Block(arg_types=[*(value.type for value in inputs), train])
    body, arguments = replace(e, block=block), dict(zip(inputs, block.args, strict=False))

    def inside(value: float | SSAValue) -> float | SSAValue:
        return arguments[value] if isinstance(value, SSAValue) else value

    def current(e: Builder, spikes: SSAValue, x: SSAValue, minus: SSAValue) -> SSAValue:
        lost = e.add(tensor.MulOp(e.add(spike.ToTensorOp(spikes, element)), minus))
        return e.add(tensor.AddOp(x, lost))

    fed = current(body, block.args[-1], arguments[x], arguments[minus])
    compare, reset = words["compare"], words["reset"]
    neuron = spike.LifOp(
        fed, inside(beta), threshold=inside(threshold), compare=compare, reset=reset
    )
    body.end(spike.YieldOp(body.add(neuron)))
    spikes = e.add(spike.RecurrentOp(inputs, block))
    before = e.add(spike.DelayOp(spikes, 1))
    return spikes, e.add(spike.LeakyIntegratorOp(current(e, before, x, minus), beta))


def _attention(e: Builder, call: Call) -> list[SSAValue | None]:
    trains = [train_of(e, call[name]) for name in ("query", "key", "value")]
    initial = e.optional(call.optional("initial"))
    op = spike.AttentionOp(*trains, **call.settings, initial=initial, final=_wants_states(call))
    return [dense(e, e.add(op), call.value.dtype), op.final]


def _batch_norm(e: Builder, call: Call) -> SSAValue:
    settings = call.settings
    if settings["kind"] != "tdbn":
        del settings["alpha"], settings["threshold"]
    dtype = call.value.dtype
    values = [e.operand(call[n], dtype) for n in ("x", "scale", "bias", "mean", "variance")]
    return e.add(spike.BatchNormOp(*values, **settings))


def _delay(e: Builder, call: Call) -> list[SSAValue | None]:
    dtype, initial = call.value.dtype, call.optional("initial")
    x = e.operand(call["x"], dtype)
    if initial is None and isinstance(x.owner, spike.ToTensorOp):
        x = x.owner.operand
    steps, known, final = call.settings["steps"], e.values[call["delays"]], _wants_states(call)
    if isinstance(known, Known) and known.tensor.dim() == 0 and initial is None and not final:
        return [dense(e, e.add(spike.DelayOp(x, int(known.tensor))), dtype), None]
    delays, before = e.value(call["delays"]), e.optional(initial, dtype)
    op = spike.DelayOp(x, steps, delays=delays, initial=before, final=final)
    return [dense(e, e.add(op), dtype), None if op.final is None else dense(e, op.final, dtype)]


def _encode(e: Builder, call: Call) -> SSAValue:
    previous = e.optional(call.optional("previous"))
    op = spike.EncodeOp(e.value(call["x"]), **call.settings, previous=previous)
    return dense(e, e.add(op), call.value.dtype)


def _decode(e: Builder, call: Call) -> SSAValue:
    scheme, value = call.settings["scheme"], e.value(call["train"])
    if scheme == "membrane":
        return e.add(spike.DecodeOp(value, scheme, call.settings["readout"]))
    if isinstance(value.owner, spike.ToTensorOp):
        return e.add(spike.DecodeOp(value.owner.operand, scheme))
    if scheme != "rate":
        return e.add(spike.DecodeOp(e.add(spike.FromTensorOp(value)), scheme))
    values = e.operand(call["train"], torch.float32)
    sums = e.add(tensor.ReduceSumOp(values, [0]))
    steps = e.sizes(call["train"])[0]
    return e.add(tensor.DivOp(sums, e.number(steps, tensor_type(values).element_type)))


RULES: dict[str, Rule] = {
    "triton_dsl_recorded::attention": _attention,
    "triton_dsl_recorded::batch_norm": _batch_norm,
    "triton_dsl_recorded::decode": _decode,
    "triton_dsl_recorded::delay": _delay,
    "triton_dsl_recorded::encode": _encode,
    "triton_dsl_recorded::neuron": _neuron,
    RUN: _library_neuron,
}
"""By the name of the operator."""
