# pyright: basic, reportMissingImports=false
"""Another simulator on linear layers and leaky neurons: v ← 0.9·v + i, s = [v ≥ 1], v ← v - s.

    python run_spiking_peer.py SIMULATOR THREADS

takes lines from stdin. `load PROBLEM.npz` takes spikes `x` [steps, samples, ins], matrices `w0`,
`w1`, … [ins, outs] and `scales`, a number for each, runs all steps from zero, and prints the spikes
of each output of the last layer, `[[…], …]`; `time N` does so N times and prints the seconds: of
the processor where there is one thread. The product of a layer is one call over all steps, which is
quicker than a call a step. PyTorch scales sums, and computes the very spikes of ours where they are
exact; the others have scaled weights and write the decay in other ways, so that a spike may differ.
Imports nothing of this project: it runs in the environment of a simulator.
"""

import json
import math
import sys
import warnings
from collections.abc import Callable
from time import perf_counter, process_time
from typing import Any

import numpy as np
import torch

warnings.simplefilter("ignore")
DECAY = 0.9

Cell = Callable[[torch.Tensor], torch.Tensor]
"""Spikes of currents, both [steps, samples, outs], from zero."""


def torch_cell() -> Cell:
    """A loop over the steps."""

    def run(currents: torch.Tensor) -> torch.Tensor:
        v = torch.zeros_like(currents[0])
        for current in currents:
            v.mul_(DECAY).add_(current)
            current.copy_(v >= 1)
            v.sub_(current)
        return currents

    return run


def snntorch_cell() -> Cell:
    """`Leaky`."""
    import snntorch

    cell = snntorch.Leaky(beta=DECAY, reset_mechanism="subtract", reset_delay=False)

    def run(currents: torch.Tensor) -> torch.Tensor:
        state, spikes = cell.init_leaky(), []
        for current in currents:
            fired, state = cell(current, state)
            spikes.append(fired)
        return torch.stack(spikes)

    return run


def spikingjelly_cell() -> Cell:
    """`LIFNode` over several steps at once."""
    from spikingjelly.activation_based import neuron

    cell = neuron.LIFNode(1 / (1 - DECAY), decay_input=False, v_reset=None, step_mode="m").eval()

    def run(currents: torch.Tensor) -> torch.Tensor:
        cell.reset()
        return cell(currents)

    return run


def sinabs_cell() -> Cell:
    """`LIF`, which has samples first."""
    from sinabs.layers import LIF

    cell = LIF(tau_mem=-1 / math.log(DECAY), norm_input=False)

    def run(currents: torch.Tensor) -> torch.Tensor:
        cell.reset_states()
        return cell(currents.transpose(0, 1)).transpose(0, 1)

    return run


def norse_cell() -> Cell:
    """`LIFBoxCell`, whose potential alone is its state; it takes a tenth of its currents."""
    import norse.torch as norse
    from norse.torch.functional.reset import reset_subtract

    inverse = torch.as_tensor((1 - DECAY) / 1e-3)
    cell = norse.LIFBoxCell(
        norse.LIFBoxParameters(tau_mem_inv=inverse, reset_method=reset_subtract), dt=1e-3
    )

    def run(currents: torch.Tensor) -> torch.Tensor:
        state, spikes = None, []
        for current in currents:
            fired, state = cell(current, state)
            spikes.append(fired)
        return torch.stack(spikes)

    return run


CELLS: dict[str, Callable[[], Cell]] = {
    "torch": torch_cell,
    "snntorch": snntorch_cell,
    "spikingjelly": spikingjelly_cell,
    "sinabs": sinabs_cell,
    "norse": norse_cell,
}


def load(name: str, path: str) -> Callable[[], torch.Tensor]:
    """A run of all steps, which gives the spikes of the last layer [samples, outs]."""
    with np.load(path) as arrays:
        x = torch.from_numpy(arrays["x"].astype(np.float32))
        scales = arrays["scales"].tolist()
        matrices = [arrays[f"w{n}"].T for n in range(len(scales))]
    after = scales if name == "torch" else [1.0] * len(scales)
    gain = 1 / (1 - DECAY) if name == "norse" else 1.0
    scaled = [w * (gain * c / a) for w, c, a in zip(matrices, scales, after, strict=True)]
    weights = [torch.from_numpy(np.ascontiguousarray(w, np.float32)) for w in scaled]
    cells = [CELLS[name]() for _ in weights]

    def run() -> torch.Tensor:
        with torch.inference_mode():
            train = x
            for weight, factor, cell in zip(weights, after, cells, strict=True):
                currents = torch.nn.functional.linear(train, weight)
                train = cell(currents if factor == 1 else currents.mul_(factor))
            return train.sum(0)

    return run


def seconds(run: Callable[[], Any], calls: int, clock: Callable[[], float]) -> float:
    start = clock()
    for _ in range(calls):
        run()
    return clock() - start


if __name__ == "__main__":
    simulator, threads = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(threads)
    clock = process_time if threads == 1 else perf_counter
    loaded: Callable[[], torch.Tensor] | None = None
    for line in sys.stdin:
        order, _, value = line.strip().partition(" ")
        if order == "load":
            loaded = load(simulator, value)
            print(json.dumps(loaded().tolist()), flush=True)
        else:
            assert loaded is not None
            print(seconds(loaded, int(value), clock), flush=True)
