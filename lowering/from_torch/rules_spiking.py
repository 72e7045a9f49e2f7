"""Rules of the recorded operators of `runtime.spiking.recording`: ops of the dialect `spike`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from xdsl.ir import Operation, SSAValue

from ...dialects import spike
from ...dialects.inference import tensor_type
from .emitter import Call, Emitter
from .rules_elementwise import Rule
from .sizes import ProblemError

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


def _neuron(e: Emitter, call: Call) -> list[Any]:
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


def dense(e: Emitter, value: SSAValue, dtype: Any) -> SSAValue:
    """A train as the dense tensor that PyTorch has; other values stay."""
    if spike.is_train(value):
        return e.add(spike.ToTensorOp(value, e.element(dtype)))
    return value


def train_of(e: Emitter, argument: Any) -> SSAValue:
    """The train that a node's values are.

    Raises:
        ProblemError: they need not be spikes.
    """
    value = e.value(argument)
    if not isinstance(value.owner, spike.ToTensorOp):
        raise ProblemError("it takes spikes alone: outputs of neurons or of 'encode'")
    return value.owner.operand


def _attention(e: Emitter, call: Call) -> list[Any]:
    settings: dict[str, Any] = json.loads(call["settings"])
    trains = [train_of(e, call[name]) for name in ("query", "key", "value")]
    initial = None if call["initial"] is None else e.value(call["initial"])
    wanted = any(user.args[1] > 0 for user in call.node.users if user.users)
    op = spike.AttentionOp(*trains, **settings, initial=initial, final=wanted)
    return [dense(e, e.add(op), call.value.dtype), op.final]


def _batch_norm(e: Emitter, call: Call) -> SSAValue:
    settings: dict[str, Any] = json.loads(call["settings"])
    if settings["kind"] != "tdbn":
        del settings["alpha"], settings["threshold"]
    dtype = call.value.dtype
    values = [e.operand(call[n], dtype) for n in ("x", "scale", "bias", "mean", "variance")]
    return e.add(spike.BatchNormOp(*values, **settings))


def _encode(e: Emitter, call: Call) -> SSAValue:
    settings: dict[str, Any] = json.loads(call["settings"])
    previous = None if call["previous"] is None else e.value(call["previous"])
    op = spike.EncodeOp(e.value(call["x"]), **settings, previous=previous)
    return dense(e, e.add(op), call.value.dtype)


def _decode(e: Emitter, call: Call) -> SSAValue:
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
}
"""By the name of the operator."""
