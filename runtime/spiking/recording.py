"""Spiking layers as single operators of an exported graph, so that importers find them again.

`torch.export` unrolls a loop over time. Within `export_recording.recording()`, the layers and
functions of this folder put one operator without a kernel in the place of their loop:
`triton_dsl_recorded::neuron`, `attention`, `batch_norm`, `delay`, `encode` and `decode`, whose
`settings` are JSON. Subclasses made elsewhere run as they are. Not here: what becomes of the
operators (`lowering.from_torch`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ...ir.neurons.model import NeuronModel
from .export_recording import is_recording

NAMESPACE = "triton_dsl_recorded"

_SCHEMAS = {
    "neuron": "(Tensor x, Tensor[] initial, Tensor[] parameters, str settings) -> Tensor[]",
    "attention": (
        "(Tensor query, Tensor key, Tensor value, Tensor? initial, str settings) "
        "-> (Tensor, Tensor)"
    ),
    "batch_norm": (
        "(Tensor x, Tensor scale, Tensor bias, Tensor mean, Tensor variance, str settings) "
        "-> Tensor"
    ),
    "delay": "(Tensor x, Tensor delays, Tensor? initial, str settings) -> (Tensor, Tensor)",
    "encode": "(Tensor x, Tensor? previous, str settings) -> Tensor",
    "decode": "(Tensor train, str settings) -> Tensor",
}


def is_recorded(layer: nn.Module | None = None) -> bool:
    """Whether `layer`, or a function of this folder, is to become an operator now."""
    if not (torch.compiler.is_exporting() and is_recording()):
        return False
    return layer is None or type(layer).__module__.startswith(f"{__package__}.")


def record_neuron(
    neuron: nn.Module, model: NeuronModel, x: Tensor, state: Sequence[Tensor] | None
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The operator of a neuron of a model: the output and the states after it."""
    numbers: dict[str, float] = {}
    tensors: dict[str, Tensor] = {}
    for name in model.parameters:
        value: Any = getattr(neuron, name)
        if isinstance(value, Tensor):
            tensors[name] = value
        else:
            numbers[name] = value
    settings = {
        "model": model.name,
        "states": len(model.states),
        "numbers": numbers,
        "tensors": list(tensors),
        "words": {name: getattr(neuron, name) for name in model.options},
    }
    output, *after = _OPERATORS.neuron(
        x, list(state or ()), list(tensors.values()), json.dumps(settings)
    )
    return output, tuple(after)


def record_attention(
    layer: nn.Module, query: Tensor, key: Tensor, value: Tensor, state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The operator of `SpikingAttention`."""
    names = ("kind", "heads", "scale", "tau", "threshold", "compare", "reset")
    settings = json.dumps({name: getattr(layer, name) for name in names})
    return _OPERATORS.attention(query, key, value, state, settings)


def record_batch_norm(layer: Any, x: Tensor) -> Tensor:
    """The operator of `TemporalBatchNorm`."""
    names = ("kind", "axis", "alpha", "threshold", "epsilon")
    settings = json.dumps({name: getattr(layer, name) for name in names})
    return _OPERATORS.batch_norm(
        x, layer.weight, layer.bias, layer.running_mean, layer.running_var, settings
    )


def record_delay(
    x: Tensor, delays: Tensor, steps: int, state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The operator of `delays.delayed`."""
    return _OPERATORS.delay(x, delays, state, json.dumps({"steps": steps}))


def record_encode(x: Tensor, previous: Tensor | None, **settings: object) -> Tensor:
    """The operator of `coding.encode`."""
    return _OPERATORS.encode(x, previous, json.dumps(settings))


def record_decode(train: Tensor, **settings: object) -> Tensor:
    """The operator of `coding.decode`."""
    return _OPERATORS.decode(train, json.dumps(settings))


def _neuron(
    x: Tensor, initial: list[Tensor], parameters: list[Tensor], settings: str
) -> list[Tensor]:
    states = json.loads(settings)["states"]
    return [torch.empty_like(x), *(x.new_empty(x.shape[1:]) for _ in range(states))]


def _attention(
    query: Tensor, key: Tensor, value: Tensor, initial: Tensor | None, settings: str
) -> tuple[Tensor, Tensor]:
    _, batch, tokens, channels = query.shape
    places = tokens if json.loads(settings)["kind"] == "ssa" else 1
    state = query.new_empty((batch, places, channels), dtype=torch.float32)
    return torch.empty_like(query), state


def _batch_norm(
    x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor, settings: str
) -> Tensor:
    return torch.empty_like(x)


def _delay(
    x: Tensor, delays: Tensor, initial: Tensor | None, settings: str
) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x), x.new_empty((json.loads(settings)["steps"], *x.shape[1:]))


def _encode(x: Tensor, previous: Tensor | None, settings: str) -> Tensor:
    steps = json.loads(settings)["timesteps"]
    return torch.empty_like(x) if steps is None else x.new_empty((steps, *x.shape))


def _decode(train: Tensor, settings: str) -> Tensor:
    dtype = train.dtype if json.loads(settings)["scheme"] == "membrane" else torch.float32
    return train.new_empty(train.shape[1:], dtype=dtype)


_FAKES: dict[str, Any] = {
    "neuron": _neuron,
    "attention": _attention,
    "batch_norm": _batch_norm,
    "delay": _delay,
    "encode": _encode,
    "decode": _decode,
}

_LIBRARY = torch.library.Library(NAMESPACE, "DEF")
for _name, _schema in _SCHEMAS.items():
    _LIBRARY.define(_name + _schema)
    torch.library.register_fake(f"{NAMESPACE}::{_name}", _FAKES[_name], lib=_LIBRARY)
_OPERATORS: Any = getattr(torch.ops, NAMESPACE)
