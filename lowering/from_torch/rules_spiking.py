"""Rules of spiking layers that were recorded as operators: ops of the dialect `spike`.

Those of `runtime.spiking.recording`, and of `library_neurons`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from xdsl.ir import Operation, SSAValue

from ...dialects import spike
from ...dialects.inference import tensor_type
from .library_neurons import RUN
from .rules_elementwise import Rule
from .sizes import ProblemError
from .torch_builder import Builder, Call, Known

MODELS: dict[str, Callable[..., Operation]] = {
    "LifNeuron": spike.LifOp,
    "IntegrateFireNeuron": spike.IntegrateFireOp,
    "CubaLifNeuron": spike.CubaLifOp,
    "LeakyIntegrator": spike.LeakyIntegratorOp,
    "AdaptiveLifNeuron": spike.AdaptiveLifOp,
    "SigmaDeltaNeuron": spike.SigmaDeltaOp,
}
"""The op of each neuron of `runtime.spiking`."""

_DEFAULTS = {"v_leak": 0.0, "gain": 1.0, "w_in": 1.0, "threshold": 1.0, "bias": 0.0}
"""Parameters that an op need not state."""


def _neuron(e: Builder, call: Call) -> list[Any]:
    settings: dict[str, Any] = json.loads(call["settings"])
    dtype = call.value.dtype
    parameters: dict[str, Any] = {
        name: e.operand(node, dtype)
        for name, node in zip(settings["tensors"], call["parameters"], strict=True)
    }
    words: dict[str, Any] = settings["words"]
    for name, number in settings["numbers"].items():
        is_default = _DEFAULTS.get(name) == number
        if not is_default and not (name == "v_reset" and words.get("reset") != "to_value"):
            parameters[name] = number
    initial = [e.operand(node, dtype) for node in call["initial"]]
    wanted = any(user.args[1] > 0 for user in call.node.users if user.users)
    op: Any = MODELS[settings["model"]](
        e.operand(call["x"], dtype), **parameters, **words, initial=initial, final=wanted
    )
    output = dense(e, e.add(op), dtype)
    states: list[Any] = list(op.final) if wanted else [None] * settings["states"]
    return [output, *states]


def dense(e: Builder, value: SSAValue, dtype: Any) -> SSAValue:
    """A train as the dense tensor that PyTorch has; other values stay."""
    if spike.is_train(value):
        return e.add(spike.ToTensorOp(value, e.element(dtype)))
    return value


def train_of(e: Builder, argument: Any) -> SSAValue:
    """The train that a node's values are.

    Raises:
        ProblemError: they need not be spikes.
    """
    value = e.value(argument)
    if not isinstance(value.owner, spike.ToTensorOp):
        raise ProblemError("it takes spikes alone: outputs of neurons or of 'encode'")
    return value.owner.operand


def _library_neuron(e: Builder, call: Call) -> list[Any]:
    """A neuron of another library over all steps: its spikes, and its states at each step.

    Whoever does not need the states drops them.
    """
    settings: dict[str, Any] = json.loads(call["settings"])
    dtype = call.value.dtype
    values: dict[str, Any] = dict(settings["numbers"])
    for name, node in zip(settings["tensors"], call["parameters"], strict=True):
        values[name] = e.operand(node, dtype)
    initial = _initial(e, call, dtype, settings["delayed"])
    x = e.operand(call["x"], dtype)
    states: list[SSAValue] = []
    if settings["delayed"] and "alpha" in values:
        x = e.add(spike.LeakyIntegratorOp(x, values.pop("alpha")))
        states.append(x)
    words: dict[str, str] = settings["words"]
    if settings["delayed"]:
        spikes, potential = _delayed_reset(e, x, values, words)
        states.append(potential)
    else:
        make: Any = MODELS[settings["model"]]
        given = {name: value for name, value in values.items() if _is_needed(name, value, words)}
        spikes = e.add(make(x, **given, **words, initial=initial))
        if settings["shown"]:
            current = x
            for name, start in zip(
                _DECAYS[settings["model"]], initial or [None, None], strict=False
            ):
                op = spike.LeakyIntegratorOp(
                    current, values[name], initial=[] if start is None else [start]
                )
                current = e.add(op)
                states.append(current)
    return [dense(e, spikes, dtype), *states, *[None] * (settings["states"] - len(states))]


_DECAYS = {"LifNeuron": ["beta"], "CubaLifNeuron": ["alpha", "beta"]}
"""The decays of a model, one a state, each of which integrates the one before."""


def _is_needed(name: str, value: Any, words: dict[str, str]) -> bool:
    is_default = not isinstance(value, SSAValue) and _DEFAULTS.get(name) == value
    return not is_default and not (name == "v_reset" and words["reset"] != "to_value")


def _initial(e: Builder, call: Call, dtype: Any, is_delayed: bool) -> list[SSAValue]:
    """The states before the first step; none where they are zeros."""
    found = [e.values[node] for node in call["initial"]]
    if all(isinstance(value, Known) and not value.tensor.any() for value in found):
        return []
    if is_delayed:
        raise ProblemError("a potential before the first step may be a spike that resets; zeros do")
    return [e.operand(node, dtype) for node in call["initial"]]


def _delayed_reset(
    e: Builder, x: SSAValue, values: dict[str, Any], words: dict[str, str]
) -> tuple[SSAValue, SSAValue]:
    """Spikes and potentials of v ← β·v + x - θ·s[t-1], which no neuron alone computes."""
    from xdsl.ir import Block

    from ...dialects import tensor

    element = tensor_type(x).element_type
    threshold, beta = values["threshold"], values["beta"]
    is_value = isinstance(threshold, SSAValue)
    minus = e.add(tensor.NegOp(values["threshold"] if is_value else e.number(threshold, element)))
    tensors = (values["threshold"], beta)
    taken: list[SSAValue] = [x, minus, *(value for value in tensors if isinstance(value, SSAValue))]
    train = spike.TrainType(tensor_type(x).get_shape())
    block = Block(arg_types=[*(value.type for value in taken), train])
    inside: dict[Any, SSAValue] = dict(zip(taken, block.args, strict=False))

    def current(add: Any, spikes: SSAValue, table: dict[Any, SSAValue]) -> SSAValue:
        floats = add(spike.ToTensorOp(spikes, element))
        lost = add(tensor.MulOp(floats, table.get(minus, minus)))
        return add(tensor.AddOp(table.get(x, x), lost))

    def add(op: Operation) -> SSAValue:
        op.location = e.location
        block.add_op(op)
        return op.results[0]

    fed = current(add, block.args[-1], inside)
    parameters: dict[str, Any] = {
        "beta": inside.get(beta, beta),
        "threshold": inside.get(values["threshold"], values["threshold"]),
    }
    fired = add(spike.LifOp(fed, **parameters, compare=words["compare"], reset=words["reset"]))
    end = spike.YieldOp(fired)
    end.location = e.location
    block.add_op(end)
    spikes = e.add(spike.RecurrentOp(taken, block))
    before = e.add(spike.DelayOp(spikes, 1))
    return spikes, e.add(spike.LeakyIntegratorOp(current(e.add, before, {}), beta))


def _attention(e: Builder, call: Call) -> list[Any]:
    settings: dict[str, Any] = json.loads(call["settings"])
    trains = [train_of(e, call[name]) for name in ("query", "key", "value")]
    initial = None if call["initial"] is None else e.value(call["initial"])
    wanted = any(user.args[1] > 0 for user in call.node.users if user.users)
    op = spike.AttentionOp(*trains, **settings, initial=initial, final=wanted)
    return [dense(e, e.add(op), call.value.dtype), op.final]


def _batch_norm(e: Builder, call: Call) -> SSAValue:
    settings: dict[str, Any] = json.loads(call["settings"])
    if settings["kind"] != "tdbn":
        del settings["alpha"], settings["threshold"]
    dtype = call.value.dtype
    values = [e.operand(call[n], dtype) for n in ("x", "scale", "bias", "mean", "variance")]
    return e.add(spike.BatchNormOp(*values, **settings))


def _encode(e: Builder, call: Call) -> SSAValue:
    settings: dict[str, Any] = json.loads(call["settings"])
    previous = None if call["previous"] is None else e.value(call["previous"])
    op = spike.EncodeOp(e.value(call["x"]), **settings, previous=previous)
    return dense(e, e.add(op), call.value.dtype)


def _decode(e: Builder, call: Call) -> SSAValue:
    import torch

    settings: dict[str, Any] = json.loads(call["settings"])
    scheme, readout = settings["scheme"], settings["readout"]
    if scheme == "membrane":
        return e.add(spike.DecodeOp(e.value(call["train"]), scheme, readout))
    if scheme == "rate" and not isinstance(e.value(call["train"]).owner, spike.ToTensorOp):
        from ...dialects import tensor

        values = e.operand(call["train"], torch.float32)
        sums = e.add(tensor.ReduceSumOp(values, [0]))
        steps = e.sizes(call["train"])[0]
        return e.add(tensor.DivOp(sums, e.number(steps, tensor_type(values).element_type)))
    value = e.value(call["train"])
    owner = value.owner
    spikes = owner.operand if isinstance(owner, spike.ToTensorOp) else e.add(
        spike.FromTensorOp(value)
    )  # fmt: skip
    return e.add(spike.DecodeOp(spikes, scheme))


RULES: dict[str, Rule] = {
    "triton_dsl_recorded::attention": _attention,
    "triton_dsl_recorded::batch_norm": _batch_norm,
    "triton_dsl_recorded::decode": _decode,
    "triton_dsl_recorded::encode": _encode,
    "triton_dsl_recorded::neuron": _neuron,
    RUN: _library_neuron,
}
"""By the name of the operator."""
