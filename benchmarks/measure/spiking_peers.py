"""Other simulators on linear layers and leaky neurons: v ← 0.9·v + i, s = [v ≥ 1], v ← v - s.

Each takes the weights [ins, outs] of the layers with a scale each, spikes [steps, samples, ins],
and gives a function without arguments that runs all steps from zero and counts the spikes of the
last layer. PyTorch computes the very spikes of ours where sums are exact; the others write the
decay in other ways, so that a spike may differ. What is not installed is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .rounds import Run

Array = NDArray[Any]
Layers = Sequence[tuple[Array, float]]
Make = Callable[[Layers, Array, int], Run]

DECAY = 0.9


def _given(layers: Layers, spikes: Array, threads: int) -> tuple[Any, Any, list[Any], Any]:
    """PyTorch, its linear function, weights [outs, ins], spikes as floats."""
    import torch

    torch.set_num_threads(threads)
    weights = [torch.from_numpy(np.ascontiguousarray(w.T, np.float32)) for w, _ in layers]
    return torch, torch.nn.functional.linear, weights, torch.from_numpy(spikes.astype(np.float32))


def torch_eager(layers: Layers, spikes: Array, threads: int) -> Run:
    """PyTorch in float32: the product of each layer over all steps, then its neurons in a loop."""
    torch, linear, weights, x = _given(layers, spikes, threads)
    scales = [scale for _, scale in layers]

    def run() -> Array:
        with torch.inference_mode():
            train = x
            for weight, scale in zip(weights, scales, strict=True):
                currents = linear(train, weight).mul_(scale)
                v = torch.zeros_like(currents[0])
                for current in currents:
                    v.mul_(DECAY).add_(current)
                    current.copy_(v >= 1)
                    v.sub_(current)
                train = currents
            return train.sum(0).numpy()

    return run


def _stepped(layers: Layers, spikes: Array, threads: int, neuron: Callable[[], Any]) -> Run:
    """Layers of a library of stateful neurons that take one step a call."""
    torch, linear, weights, x = _given(layers, spikes, threads)
    scaled = [w * scale for w, (_, scale) in zip(weights, layers, strict=True)]

    def run() -> Array:
        with torch.inference_mode():
            neurons = [neuron() for _ in scaled]
            total: Any = 0
            for step in x:
                for weight, cell in zip(scaled, neurons, strict=True):
                    step = cell(linear(step, weight))
                total = total + step
            return total.numpy()

    return run


def snntorch_leaky(layers: Layers, spikes: Array, threads: int) -> Run:
    """snnTorch's `Leaky`."""
    import snntorch  # pyright: ignore[reportMissingImports]

    installed: Any = snntorch

    def neuron() -> Callable[[Any], Any]:
        cell = installed.Leaky(beta=DECAY, reset_mechanism="subtract", reset_delay=False)
        state: list[Any] = [cell.init_leaky()]

        def step(current: Any) -> Any:
            spikes, state[0] = cell(current, state[0])
            return spikes

        return step

    return _stepped(layers, spikes, threads, neuron)


def spikingjelly_lif(layers: Layers, spikes: Array, threads: int) -> Run:
    """SpikingJelly's `LIFNode`."""
    from spikingjelly.activation_based import (  # pyright: ignore[reportMissingImports]
        neuron as installed,
    )

    nodes: Any = installed

    def neuron() -> Any:
        return nodes.LIFNode(tau=1 / (1 - DECAY), decay_input=False, v_reset=None)

    return _stepped(layers, spikes, threads, neuron)


def sinabs_lif(layers: Layers, spikes: Array, threads: int) -> Run:
    """Sinabs's `LIF` over whole runs."""
    import sinabs.layers  # pyright: ignore[reportMissingImports]

    installed: Any = sinabs.layers
    torch, linear, weights, x = _given(layers, spikes, threads)
    scaled = [w * scale for w, (_, scale) in zip(weights, layers, strict=True)]

    def run() -> Array:
        with torch.inference_mode():
            train = x.transpose(0, 1).contiguous()
            for weight in scaled:
                cell = installed.LIF(tau_mem=-1 / float(np.log(DECAY)), norm_input=False)
                train = cell(linear(train, weight))
            return train.sum(1).numpy()

    return run


_PEERS: dict[str, tuple[str, Make]] = {
    "torch fp32": ("torch", torch_eager),
    "snnTorch": ("snntorch", snntorch_leaky),
    "SpikingJelly": ("spikingjelly", spikingjelly_lif),
    "Sinabs": ("sinabs", sinabs_lif),
}


def installed_simulators() -> dict[str, Make]:
    """Every simulator that is installed, by name."""
    return {name: make for name, (module, make) in _PEERS.items() if find_spec(module)}
