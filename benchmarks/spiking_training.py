# pyright: basic, reportMissingImports=false
"""Epochs of training a spiking network beside snnTorch and SpikingJelly, on this machine.

    python benchmarks/spiking_training.py [--batches 100] [--batch 64] [--epochs 4] [--rounds 3]

784-256-10 leaky neurons, 8 steps, surrogate gradients (arctan), fused Adam, cross-entropy of the
mean spikes; random trains of which a tenth fires, the same for all. Each round starts a process of
each in turn, in the environment that has it (`python tests/nir_peers/environments.py snntorch
spikingjelly`), with one thread; a figure is the median over the rounds of processor seconds, of the
first epoch, with all that it compiles, and of the mean of the later ones. Not here: how accurate
what is trained becomes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from time import process_time
from typing import Any

STEPS, SIZES, DECAY = 8, (784, 256, 10), 0.9
NAMES = ("ours", "snntorch", "spikingjelly")


def network(name: str) -> Any:
    """A network of a framework: called on a train [T, N, 784], it gives the mean spikes [N, 10]."""
    import torch
    from torch import nn

    linears = [nn.Linear(ins, outs, bias=False) for ins, outs in pairwise(SIZES)]
    cells: list[nn.Module] = []
    if name == "ours":
        from triton_dsl.spiking import LifNeuron, SurrogateGradient

        for _ in linears:
            cells.append(LifNeuron(DECAY, surrogate=SurrogateGradient("arctan")))
    elif name == "snntorch":
        import snntorch
        from snntorch import surrogate

        for _ in linears:
            cells.append(snntorch.Leaky(beta=DECAY, spike_grad=surrogate.atan()))
    else:
        from spikingjelly.activation_based import neuron

        for _ in linears:
            settings: Any = {"decay_input": False, "v_reset": None, "step_mode": "m"}
            cells.append(neuron.LIFNode(1 / (1 - DECAY), **settings))

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linears, self.cells = nn.ModuleList(linears), nn.ModuleList(cells)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for linear, cell in zip(self.linears, self.cells, strict=True):
                x = _run(name, cell, linear(x))
            return x.mean(0)

    return Network()


def _run(name: str, cell: Any, currents: Any) -> Any:
    """The spikes of neurons for currents [T, N, outs], from zero."""
    import torch

    if name == "ours":
        return cell(currents)[0]
    if name == "spikingjelly":
        cell.reset()
        return cell(currents)
    state, spikes = cell.init_leaky(), list[Any]()
    for current in currents:
        fired, state = cell(current, state)
        spikes.append(fired)
    return torch.stack(spikes)


def epochs_of(name: str, batches: int, batch: int, epochs: int) -> list[float]:
    """Processor seconds of each epoch; the framework is imported before."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = network(name)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, fused=True)
    trains = [(torch.rand(STEPS, batch, SIZES[0]) < 0.1).float() for _ in range(8)]
    labels = [torch.randint(0, SIZES[-1], (batch,)) for _ in trains]
    seconds: list[float] = []
    for _ in range(epochs):
        start = process_time()
        for number in range(batches):
            loss = torch.nn.functional.cross_entropy(model(trains[number % 8]), labels[number % 8])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        seconds.append(process_time() - start)
    return seconds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name, number in (("batches", 100), ("batch", 64), ("epochs", 4), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--only", help=argparse.SUPPRESS)
    options = parser.parse_args()
    sizes = options.batches, options.batch, options.epochs
    if options.only:
        print(json.dumps(epochs_of(options.only, *sizes)))
        return
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from nir_peers.environments import ROOT, python_of

    pythons = {"ours": sys.executable}
    pythons |= {n: str(python_of(n)) for n in NAMES[1:] if (ROOT / n / "whole").exists()}
    found: dict[str, list[list[float]]] = {name: [] for name in pythons}
    for _ in range(options.rounds):
        for name, python in pythons.items():
            line = [python, __file__, "--only", name]
            line += [
                f"--{k}={v}" for k, v in zip(("batches", "batch", "epochs"), sizes, strict=True)
            ]
            done = subprocess.run(line, capture_output=True, encoding="utf-8", check=True)
            found[name].append(json.loads(done.stdout.splitlines()[-1]))
    for title, first, end in (("first epoch", 0, 1), ("later ones", 1, None)):
        middle = {
            name: statistics.median(statistics.mean(run[first:end]) for run in runs)
            for name, runs in found.items()
        }
        for name, taken in middle.items():
            print(f"{title} {name:13} {taken:7.2f} s, ours {middle['ours'] / taken:5.2f} of it")


if __name__ == "__main__":
    main()
