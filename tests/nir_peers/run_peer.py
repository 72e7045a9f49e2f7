# pyright: basic, reportMissingImports=false
"""What a framework makes of NIR files, and the NIR files it writes, in its own environment.

    python run_peer.py PEER read GRAPH.nir CURRENTS.npy DT OUTPUT.npy
    python run_peer.py PEER write NETWORK FOLDER

`read` gives the outputs [T, …] for currents [T, …] of one sample. `write` makes a network of the
framework's own layers, one of `NETWORKS`, and leaves its `graph.nir`, `currents.npy` and what the
framework itself computes, `outputs.npy`. Imports nothing of this project: it runs under an
interpreter that `environments.py` made.
"""

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nir
import numpy as np
import torch
from torch import nn

warnings.simplefilter("ignore")
STEPS, SIZES = 24, (6, 5, 4)


def currents(shape: tuple[int, ...] = SIZES[:1], low: float = 0.0) -> torch.Tensor:
    """Inputs of every network."""
    values = np.random.default_rng(1).uniform(low, 1, (STEPS, *shape))
    return torch.from_numpy(values.astype(np.float32))


def filled(module: nn.Module, low: float, high: float) -> nn.Module:
    """A linear layer or convolution with numbers that every run has."""
    rng = np.random.default_rng(2)
    for parameter in module.parameters():
        values = rng.uniform(low, high, parameter.shape)
        parameter.data = torch.from_numpy(values.astype(np.float32))
    return module


def linear(index: int, low: float = -0.3, high: float = 0.7) -> nn.Module:
    return filled(nn.Linear(SIZES[index], SIZES[index + 1]), low, high)


def stepped(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """A module that is called with a step and its state, from rest."""
    state, outputs = None, []
    for current in x:
        output, state = module(current, state)
        outputs.append(output)
    return torch.stack(outputs)


# Norse steps IF by 1, whatever dt is, and leaves r out.


def norse_read(graph: Any, x: torch.Tensor, dt: float) -> torch.Tensor:
    from norse.torch import from_nir

    return stepped(from_nir(graph, ignore_warnings=True, dt=dt), x)


def norse_write(kind: str) -> Any:
    import norse.torch as norse

    if kind == "if":
        cells = [norse.IAFCell(norse.IAFParameters(v_th=torch.full((n,), 0.9))) for n in SIZES[1:]]
    else:
        inverse = [torch.full((n,), 200.0) for n in SIZES[1:]]
        cells = [
            norse.LIFBoxCell(
                norse.LIFBoxParameters(
                    tau_mem_inv=i, v_leak=torch.zeros_like(i), v_th=torch.full_like(i, 0.3)
                )
            )
            for i in inverse
        ]
    net = norse.SequentialState(linear(0), cells[0], linear(1), cells[1])
    x = currents()
    # It writes dt/tau_mem_inv for a time constant: with dt = 1 that is one.
    return norse.to_nir(net, x[:1], dt=1.0), x, stepped(net, x[:, None])[:, 0]


# snnTorch's dt is 1e-4; it scales thresholds in place of inputs.


def snntorch_read(graph: Any, x: torch.Tensor, dt: float) -> torch.Tensor:
    from snntorch.import_nir import import_from_nir

    assert dt == 1e-4
    return stepped(import_from_nir(graph), x)


def snntorch_write(kind: str) -> Any:
    import snntorch as snn
    from snntorch.export_nir import export_to_nir

    options: dict[str, Any] = {"reset_mechanism": "zero", "reset_delay": False}
    if kind == "lif":
        cells = [
            snn.Leaky(torch.full((n,), 0.9), threshold=torch.full((n,), 1.3), **options)
            for n in SIZES[1:]
        ]
    elif kind == "cuba":
        ones = [torch.ones(n) for n in SIZES[1:]]
        cells = [snn.Synaptic(0.8 * i, 0.9 * i, threshold=4.0 * i, **options) for i in ones]
    else:
        cells = [
            snn.RLeaky(0.9, threshold=1.3, linear_features=n, all_to_all=True, **options)
            for n in SIZES[1:]
        ]
        for cell in cells:
            filled(cell.recurrent, -0.4, 0.3)
    layers = [linear(0), linear(1)]
    x = currents()
    for cell in cells:
        cell.reset_mem()
    outputs = []
    for y in x[:, None]:
        for layer, cell in zip(layers, cells, strict=True):  # which keep their states themselves
            y = cell(layer(y))[0]
        outputs.append(y[0])
    for cell in cells:
        cell.init_hidden = True
        cell.reset_mem()
    net = nn.Sequential(layers[0], cells[0], layers[1], cells[1])
    return export_to_nir(net, x[:1], ignore_dims=[0]), x, torch.stack(outputs)


# Sinabs subtracts the threshold, gives several spikes a step, and counts time constants in steps.


def sinabs_read(graph: Any, x: torch.Tensor, dt: float) -> torch.Tensor:
    from sinabs.nir import from_nir

    output = from_nir(graph, batch_size=1)(x)
    return output[0] if isinstance(output, tuple) else output


def sinabs_write(kind: str) -> Any:
    import sinabs.layers as sl
    from sinabs.activation import SingleSpike
    from sinabs.nir import to_nir

    options: dict[str, Any] = {"batch_size": 1, "spike_fn": SingleSpike}
    cells = [
        sl.IAFSqueeze(spike_threshold=torch.full((n,), 1.5), **options)
        if kind == "if"
        else sl.LIFSqueeze(
            tau_mem=torch.full((n,), 8.0), spike_threshold=torch.full((n,), 0.3), **options
        )
        for n in SIZES[1:]
    ]
    net = nn.Sequential(linear(0, 0.0), cells[0], linear(1, 0.0), cells[1])
    x = currents()
    outputs = net(x)
    return to_nir(net, x), x, outputs


# SpikingJelly writes r = 1/dt for IF, and takes no other.


def spikingjelly_read(graph: Any, x: torch.Tensor, dt: float) -> torch.Tensor:
    from spikingjelly.activation_based.nir_exchange import import_from_nir

    return stepped(import_from_nir(graph, dt=dt), x[:, None])[:, 0]


def spikingjelly_write(kind: str) -> Any:
    from spikingjelly.activation_based import layer, neuron
    from spikingjelly.activation_based.nir_exchange import export_to_nir

    if kind == "conv":
        conv = filled(layer.Conv2d(2, 3, 3, 2, 1), -0.2, 0.5)
        net = nn.Sequential(
            conv, neuron.IFNode(0.8), layer.AvgPool2d(2, 1), layer.Flatten(),
            filled(layer.Linear(12, 4), -0.4, 0.7), neuron.LIFNode(4.0, v_threshold=0.3),
        )  # fmt: skip
        x = currents((2, 6, 6))
    else:
        cells = [
            neuron.IFNode(1.2)
            if kind == "if"
            else neuron.CUBALIFNode(c_decay=0.8, v_decay=0.9, v_threshold=4.0, v_reset=0.0)
            for _ in SIZES[1:]
        ]
        net, x = nn.Sequential(linear(0), cells[0], linear(1), cells[1]), currents()
    outputs = torch.stack([net(step[None])[0] for step in x])
    from spikingjelly.activation_based import functional

    functional.reset_net(net)
    return export_to_nir(net, x[:1]), x, outputs


# Rockpool decays what it adds, subtracts, and has exact decays; its files state dt in r.


def rockpool_read(graph: Any, x: torch.Tensor, dt: float) -> torch.Tensor:
    from rockpool.nn.modules.torch.nir import from_nir

    return from_nir(graph)(x[None])[0][0]


def rockpool_write(kind: str) -> Any:
    from rockpool.nn.combinators import Sequential
    from rockpool.nn.modules import LIFTorch, LinearTorch
    from rockpool.nn.modules.torch.nir import to_nir

    assert kind == "cuba"
    layers: list[Any] = []
    for index, n in enumerate(SIZES[1:]):
        weight = linear(index).weight.data.T
        layers.append(LinearTorch((SIZES[index], n), weight=weight, has_bias=False))
        times: dict[str, Any] = {"tau_mem": 0.02, "tau_syn": 0.01, "dt": 1e-3}
        layers.append(LIFTorch((n,), threshold=6.0, bias=0.0, max_spikes_per_dt=1, **times))
    net, x = Sequential(*layers), currents()
    return to_nir(net), x, net(x[None])[0][0]


# nirtorch runs graphs of modules that its user names: here neurons by NIR's own equation.


class Lif(nn.Module):
    """τ v' = v_leak - v + R i in Euler steps, as NIR's page on primitives says."""

    def __init__(self, node: Any, dt: float) -> None:
        super().__init__()
        self.node, self.dt = node, dt

    def forward(self, x: torch.Tensor, state: Any = None) -> Any:
        n = {k: torch.as_tensor(getattr(self.node, k)) for k in vars(self.node) if k[0] in "rtv"}
        v = torch.zeros_like(x) if state is None else state
        v = v + self.dt / n["tau"] * (n["v_leak"] - v + n["r"] * x)
        z = (v > n["v_threshold"]).to(x.dtype)
        return z, torch.where(z > 0, n["v_reset"].to(v.dtype), v)


class Li(Lif):
    """The same without a threshold."""

    def forward(self, x: torch.Tensor, state: Any = None) -> Any:
        n = {k: torch.as_tensor(getattr(self.node, k)) for k in ("tau", "r", "v_leak")}
        v = torch.zeros_like(x) if state is None else state
        v = v + self.dt / n["tau"] * (n["v_leak"] - v + n["r"] * x)
        return v, v


class Stateless(nn.Module):
    """A Scale or a Threshold."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


def nirtorch_read(graph: Any, x: torch.Tensor, dt: float) -> torch.Tensor:
    from nirtorch import nir_to_torch

    nodes = {
        nir.LIF: lambda node: Lif(node, dt),
        nir.LI: lambda node: Li(node, dt),
        nir.Scale: lambda node: Stateless(lambda y: y * torch.as_tensor(node.scale)),
        nir.Threshold: lambda node: Stateless(
            lambda y: (y > torch.as_tensor(node.threshold)).to(y.dtype)
        ),
        nir.Affine: affine,  # whose own rule leaves the bias as PyTorch drew it
    }
    return stepped(nir_to_torch(graph, nodes), x)


def affine(node: Any) -> nn.Module:
    module = nn.Linear(*node.weight.shape[::-1])
    module.weight.data, module.bias.data = map(torch.from_numpy, (node.weight, node.bias))
    return module


def nirtorch_write(kind: str) -> Any:
    from nirtorch import torch_to_nir

    assert kind == "lif"
    fields = {"tau": 5e-4, "r": 1.0, "v_leak": 0.0, "v_threshold": 0.25, "v_reset": 0.0}
    cells = [
        Lif(nir.LIF(*[np.full(n, value, np.float32) for value in fields.values()]), 1e-4)
        for n in SIZES[1:]
    ]
    net, x = nn.Sequential(linear(0), cells[0], linear(1), cells[1]), currents()
    graph = torch_to_nir(net, {Lif: lambda module: module.node}, stateful_modules={Lif})
    states: list[Any] = [None, None]
    outputs = []
    for y in x:
        for index in range(2):
            y, states[index] = cells[index](net[2 * index](y), states[index])
        outputs.append(y)
    return graph, x, torch.stack(outputs)


PEERS: dict[str, tuple[Callable[..., Any], Callable[[str], Any]]] = {
    "norse": (norse_read, norse_write),
    "snntorch": (snntorch_read, snntorch_write),
    "sinabs": (sinabs_read, sinabs_write),
    "spikingjelly": (spikingjelly_read, spikingjelly_write),
    "rockpool": (rockpool_read, rockpool_write),
    "nirtorch": (nirtorch_read, nirtorch_write),
}

if __name__ == "__main__":
    peer, way, *arguments = sys.argv[1:]
    with torch.no_grad():
        if way == "read":
            path, inputs, dt, output = arguments
            x = torch.from_numpy(np.load(inputs))
            np.save(output, PEERS[peer][0](nir.read(path), x, float(dt)).numpy())
        else:
            kind, folder = arguments
            graph, x, outputs = PEERS[peer][1](kind)
            nir.write(Path(folder) / "graph.nir", graph)
            np.save(Path(folder) / "currents.npy", x.numpy())
            np.save(Path(folder) / "outputs.npy", outputs.numpy())
