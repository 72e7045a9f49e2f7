"""What a PyTorch model's parameters are and how much room they take.

Not here: time and operations (`runtime.profiler`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypedDict, cast

import torch
from torch import nn

from .layers import TernaryLayer
from .packed import named_layers

MIB = 1024**2


class ModelSize(TypedDict):
    """What `analyze_model_size` gives; sizes in MiB."""

    total_params: int
    """Parameters: trained values, and packed trits."""
    ternary_params: int
    """Those that are trits, packed or as latents."""
    float_params: int
    """The others."""
    zero_params: int
    """Trits that are 0."""
    size_float32_mb: float
    """All parameters as float32."""
    size_ternary_mb: float
    """Trits packed, their scales and the other parameters as float32."""
    compression_ratio: float
    """The first size over the second; 1 for a model without parameters."""
    layers: dict[str, LayerSize]
    """The same for each layer that has parameters of its own, by its name."""


@dataclass(frozen=True)
class LayerSize:
    """Parameters of one layer, its sub-layers left out.

    Attributes:
        type: class of the layer.
        params: all parameters.
        ternary_params: those that are trits.
        zero_params: trits that are 0.
        bytes: what they take with trits packed, the rest as float32.
    """

    type: str
    params: int
    ternary_params: int
    zero_params: int
    bytes: int


def analyze_model_size(model: nn.Module) -> ModelSize:
    """Count the parameters of `model` and what they take in float32 and with packed trits.

    Ternary parameters are those of `TernaryLinear` and `TernaryConv2d`, and packed ones of packed
    layers and generated modules. Statistics of normalisation layers are buffers, and not counted. A
    parameter used twice counts once.
    """
    seen: set[int] = set()
    layers: dict[str, LayerSize] = {}
    for name, layer in named_layers(model):
        size = layer_size(layer, seen)
        if size.params:
            layers[name] = size
    total = sum(size.params for size in layers.values())
    ternary = sum(size.ternary_params for size in layers.values())
    packed = sum(size.bytes for size in layers.values())
    return {
        "total_params": total,
        "ternary_params": ternary,
        "float_params": total - ternary,
        "zero_params": sum(size.zero_params for size in layers.values()),
        "size_float32_mb": 4 * total / MIB,
        "size_ternary_mb": packed / MIB,
        "compression_ratio": 4 * total / packed if packed else 1.0,
        "layers": layers,
    }


def layer_size(layer: nn.Module, seen: set[int] | None = None) -> LayerSize:
    """The size of one layer without its sub-layers; parameters in `seen` are left out."""
    seen = set() if seen is None else seen
    total = trits = zeros = size = 0
    parameters: dict[str, Any] = dict(layer.named_parameters(recurse=False))
    for name, parameter in parameters.items():
        if id(parameter) in seen:
            continue
        seen.add(id(parameter))
        total += parameter.numel()
        if isinstance(layer, TernaryLayer) and name == "weight":
            trits += parameter.numel()
            zeros += int((layer.get_ternary_weights() == 0).sum())
            scale = layer.get_scale()
            # As packed layers have it: one for each output channel.
            size += -(-parameter.numel() // 4) + (0 if scale is None else 4 * len(parameter))
        else:
            size += 4 * parameter.numel()
    for name, shape in _ternary_shapes(layer).items():
        owner, _, own = name.rpartition(".")
        packed: torch.Tensor = getattr(layer.get_submodule(owner), own)
        if id(packed) in seen:
            continue
        seen.add(id(packed))
        count = math.prod(shape)
        total, trits = total + count, trits + count
        zeros += count - _nonzero_count(packed)
        size += packed.numel()
        scale = getattr(layer, "scale", None)
        if not owner and isinstance(scale, torch.Tensor) and "scale" not in parameters:
            size += 4 * scale.numel()
    return LayerSize(type(layer).__name__, total, trits, zeros, size)


def _ternary_shapes(layer: nn.Module) -> Mapping[str, tuple[int, ...]]:
    """Logical shapes of the packed trits in a layer's buffers, by their names."""
    shapes: Any = getattr(layer, "TERNARY_SHAPES", None)
    return cast(Mapping[str, tuple[int, ...]], shapes) if isinstance(shapes, Mapping) else {}


def _nonzero_count(packed: torch.Tensor) -> int:
    """How many packed trits are not 0: each sets one bit of its two."""
    bits = (packed.unsqueeze(-1) >> torch.arange(8, dtype=torch.uint8, device=packed.device)) & 1
    return int(bits.sum())
