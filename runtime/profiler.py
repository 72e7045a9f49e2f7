"""How long a PyTorch model takes, layer by layer, and how many operations it does.

Not here: counts of parameters (`runtime.analysis`).
"""

from __future__ import annotations

import math
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypedDict, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from ..ir.errors import OptionError
from .analysis import MIB, layer_size
from .layers import TernaryLayer, TernaryLinear
from .packed import PackedLayer, PackedTernaryLinear, named_layers

PERCENTILES = (50, 90, 95, 99)


def _attention_flops(
    query: Sequence[int], key: Sequence[int], value: Sequence[int], *_: Any, **__: Any
) -> int:
    """Both products of softmax(Q · Kᵀ) · V, from the shapes."""
    return 2 * math.prod(query[:-1]) * key[-2] * (query[-1] + value[-1])


# Attention on processors, which PyTorch's counter leaves out.
_aten: Any = torch.ops.aten
_FLOPS: dict[Any, Any] = {_aten._scaled_dot_product_flash_attention_for_cpu: _attention_flops}


class LayerProfile(TypedDict):
    """One layer without sub-layers; counts are for one run of the whole batch."""

    type: str
    ternary: bool
    calls: int
    """Times the layer is run in one run of the model."""
    time_ms: float
    """Mean time in one run of the model, measured apart from the model's own time."""
    share: float
    """Of the time of all layers."""
    output_shape: list[int] | None
    """Of the last call; `None` where the layer does not give one tensor."""
    params: int
    macs: int
    """Multiply-accumulate steps of `Linear` and `Conv2d`, ternary ones too, zeros included."""
    flops: int
    """Float operations: two for each step of a float layer; for a ternary one its scaling."""
    additions: int
    """Additions and subtractions of a ternary layer: one for each step whose trit is not 0."""


class ModelProfile(TypedDict):
    """What `profile_model` gives; times in milliseconds."""

    avg_time_ms: float
    std_time_ms: float
    min_time_ms: float
    max_time_ms: float
    percentiles_ms: dict[str, float]
    """By name: `p50`, `p90`, `p95`, `p99`."""
    throughput_fps: float
    """Samples a second: the first axis of the input counts them."""
    memory_mb: float
    """MiB of parameters and buffers, and of the largest set of intermediate tensors at once."""
    weights_mb: float
    activations_mb: float
    flops: int
    """Float operations of products in one run, those of ternary layers left out but for scales."""
    dense_flops: int
    """The same if ternary layers were float: what PyTorch's own counter finds."""
    additions: int
    """Additions and subtractions that take the place of products in ternary layers."""
    layer_times: dict[str, LayerProfile]
    """Each layer that was run and has no sub-layers, by its name."""
    device: str
    num_iterations: int


def profile_model(
    model: nn.Module,
    input: Tensor | tuple[Tensor, ...],
    num_iterations: int = 100,
    *,
    warmup: int = 10,
) -> ModelProfile:
    """Measure `model` in evaluation mode without gradients; its mode is restored afterwards.

    Whole runs are timed first, then at most 20 runs with a clock around each layer. GPUs are waited
    for. Operations of ternary layers are known for those of `runtime.layers` and `runtime.packed`.

    Args:
        model: on the same device as the input.
        input: one batch, or a tuple with all arguments of the model.
        num_iterations: timed runs.
        warmup: runs before them that are not timed.

    Raises:
        OptionError: fewer than one timed run, or no input.
    """
    inputs = input if isinstance(input, tuple) else (input,)
    if num_iterations < 1 or warmup < 0 or not inputs:
        raise OptionError("profile_model: expected an input and at least one timed run")
    device = inputs[0].device
    modes = [(layer, layer.training) for _, layer in named_layers(model)]
    model.eval()
    try:
        with torch.no_grad():
            for _ in range(warmup):
                model(*inputs)
            times = [_milliseconds(lambda: model(*inputs), device) for _ in range(num_iterations)]
            layers = _count_operations(model, inputs)
            _time_layers(model, inputs, device, min(num_iterations, 20), layers)
            with _PeakMemory() as activations:
                model(*inputs)
            with FlopCounterMode(display=False, custom_mapping=_FLOPS) as counter:
                model(*inputs)
    finally:
        for layer, mode in modes:
            layer.training = mode
    mean = float(np.mean(times))
    dense = int(counter.get_total_flops())
    saved = sum(2 * row["macs"] - row["flops"] for row in layers.values() if row["ternary"])
    weights = _bytes([*model.parameters(), *model.buffers()])
    return {
        "avg_time_ms": mean,
        "std_time_ms": float(np.std(times)),
        "min_time_ms": min(times),
        "max_time_ms": max(times),
        "percentiles_ms": {f"p{p}": float(np.percentile(times, p)) for p in PERCENTILES},
        "throughput_fps": (inputs[0].shape[0] if inputs[0].dim() else 1) / mean * 1000,
        "memory_mb": (weights + activations.peak) / MIB,
        "weights_mb": weights / MIB,
        "activations_mb": activations.peak / MIB,
        "flops": dense - saved,
        "dense_flops": dense,
        "additions": sum(row["additions"] for row in layers.values()),
        "layer_times": layers,
        "device": str(device),
        "num_iterations": num_iterations,
    }


def _milliseconds(run: Callable[[], object], device: torch.device) -> float:
    _synchronize(device)
    started = time.perf_counter()
    run()
    _synchronize(device)
    return (time.perf_counter() - started) * 1000


def _synchronize(device: torch.device) -> None:
    if device.type not in ("cpu", "meta"):
        torch.accelerator.synchronize(device)


def _leaves(model: nn.Module) -> Iterable[tuple[str, nn.Module]]:
    return (entry for entry in named_layers(model) if not any(True for _ in entry[1].children()))


def _count_operations(model: nn.Module, inputs: tuple[Tensor, ...]) -> dict[str, LayerProfile]:
    """Run once; a row for each layer that runs, without times."""
    rows: dict[str, LayerProfile] = {}
    handles: list[Any] = []
    for name, layer in _leaves(model):

        def after(layer: nn.Module, arguments: object, output: object, name: str = name) -> None:
            row = rows.setdefault(name, _new_row(layer))
            row["calls"] += 1
            if isinstance(output, Tensor):
                row["output_shape"] = list(output.shape)
                macs, flops, additions = _operations(layer, output)
                row["macs"] += macs
                row["flops"] += flops
                row["additions"] += additions

        handles.append(layer.register_forward_hook(after))
    try:
        model(*inputs)
    finally:
        for handle in handles:
            handle.remove()
    return rows


def _time_layers(
    model: nn.Module,
    inputs: tuple[Tensor, ...],
    device: torch.device,
    runs: int,
    rows: dict[str, LayerProfile],
) -> None:
    """Run with a clock around each layer and fill in the times."""
    started: dict[str, float] = {}
    handles: list[Any] = []
    for name, layer in _leaves(model):

        def before(layer: nn.Module, arguments: object, name: str = name) -> None:
            _synchronize(device)
            started[name] = time.perf_counter()

        def after(layer: nn.Module, arguments: object, output: object, name: str = name) -> None:
            _synchronize(device)
            rows[name]["time_ms"] += (time.perf_counter() - started[name]) * 1000 / runs

        handles.append(layer.register_forward_pre_hook(before))
        handles.append(layer.register_forward_hook(after))
    try:
        for _ in range(runs):
            model(*inputs)
    finally:
        for handle in handles:
            handle.remove()
    total = sum(row["time_ms"] for row in rows.values())
    for row in rows.values():
        row["share"] = row["time_ms"] / total if total else 0.0


def _new_row(layer: nn.Module) -> LayerProfile:
    return {
        "type": type(layer).__name__,
        "ternary": isinstance(layer, TernaryLayer | PackedLayer),
        "calls": 0,
        "time_ms": 0.0,
        "share": 0.0,
        "output_shape": None,
        "params": layer_size(layer).params,
        "macs": 0,
        "flops": 0,
        "additions": 0,
    }


def _operations(layer: nn.Module, output: Tensor) -> tuple[int, int, int]:
    """Multiply-accumulate steps, float operations and additions behind `output`."""
    if isinstance(layer, nn.Linear | nn.Conv2d):
        macs = output.numel() * layer.weight[0].numel()
        return macs, 2 * macs, 0
    if not isinstance(layer, TernaryLayer | PackedLayer):
        return 0, 0, 0
    weights = layer.get_ternary_weights()
    is_linear = isinstance(layer, TernaryLinear | PackedTernaryLinear)
    channels = output.shape[-1 if is_linear else 1]
    positions = output.numel() // channels if channels else 0
    if isinstance(layer, TernaryLayer):
        has_scale = layer.scale_kind != "none"
    else:
        has_scale = layer.scale is not None
    nonzero = int(weights.count_nonzero())
    return positions * weights.numel(), output.numel() * has_scale, positions * nonzero


class _PeakMemory(TorchDispatchMode):
    """The most bytes of tensors that were made inside and alive at once."""

    def __init__(self) -> None:
        super().__init__()
        self.peak = 0
        self._live = 0
        self._users: Counter[int] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: object, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        result: Any = func(*args, **(kwargs or {}))
        inputs = {_storage(a)[0] for a in tree_leaves(args) if isinstance(a, Tensor)}
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor):
                self._hold(tensor, inputs)
        return result

    def _hold(self, tensor: Tensor, inputs: set[int]) -> None:
        key, size = _storage(tensor)
        # A view of what was there before, such as a weight, is not new.
        if key in inputs and key not in self._users:
            return
        if not self._users[key]:
            self._live += size
            self.peak = max(self.peak, self._live)
        self._users[key] += 1
        weakref.finalize(tensor, self._release, key, size)

    def _release(self, key: int, size: int) -> None:
        self._users[key] -= 1
        if not self._users[key]:
            del self._users[key]
            self._live -= size


def _storage(tensor: Tensor) -> tuple[int, int]:
    """A name for the memory of a tensor, and its size."""
    storage: Any = tensor.untyped_storage()
    return cast(int, storage._cdata), cast(int, storage.nbytes())


def _bytes(tensors: Iterable[Tensor]) -> int:
    """The memory of tensors; what they share counts once."""
    return sum(dict(_storage(tensor) for tensor in tensors).values())
