"""The simulator on a network of neurons with 100 synapses each, of growing size, on this machine.

    python benchmarks/sparse_network.py [--neurons 10000,100000,1000000] [--activity 0.01]
        [--fan 100] [--steps 20] [--json]

A sheet of leaky neurons takes a train of as many inputs, each of which reaches `fan` of them, by
int8 weights in compressed rows. Each size runs in a process of its own, which tells the most memory
that it ever had: of the libraries, the network as the caller holds it, and after the run. Times are
medians over slices of one step.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
from time import perf_counter, process_time
from typing import Any

import numpy as np
import scipy.sparse
from measure.telling import print_table
from rich.table import Table

from triton_dsl import import_tri
from triton_dsl.spiking import simulator

SHEET = """
layer Sheet {{
    param weight: Tensor<int8>[{neurons}, {neurons}]

    fn forward(s: SpikeTensor[T, N, {neurons}]) -> SpikeTensor[T, N, {neurons}] {{
        return lif((s @ weight) * 0.01, tau=10.0)
    }}
}}
"""


def network(neurons: int, fan: int, rng: np.random.Generator) -> Any:
    """A CSR matrix: each input reaches one neuron of each of `fan` parts of the sheet."""
    part = neurons // fan
    indices = np.empty((neurons, fan), np.int32)
    for first in range(0, neurons, 10_000):  # no copy of all
        rows = indices[first : first + 10_000]
        rows[:] = rng.integers(0, part, rows.shape, np.int32)
        rows += np.arange(fan, dtype=np.int32) * part
    weights = rng.integers(-127, 128, neurons * fan, np.int8)
    bounds = np.arange(0, neurons * fan + 1, fan, dtype=np.int32)
    shape = (neurons, neurons)
    return scipy.sparse.csr_array((weights, indices.reshape(-1), bounds), shape=shape)


def most_memory() -> float:
    """MiB that this process had at most; Linux counts in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measured(neurons: int, options: argparse.Namespace) -> dict[str, float]:
    """A row of the table."""
    rng = np.random.default_rng(0)
    warm = simulator(import_tri(SHEET.format(neurons=8), weights={"weight": network(8, 2, rng)}))
    warm(np.zeros((1, 1, 8), bool))
    libraries = most_memory()
    matrix = network(neurons, options.fan, rng)
    held = most_memory()
    run = simulator(import_tri(SHEET.format(neurons=neurons), weights={"weight": matrix}))
    times: list[tuple[float, float]] = []
    fired = 0.0
    for _ in range(options.steps):
        train = rng.random((1, 1, neurons), np.float32) < options.activity
        begun = perf_counter(), process_time()
        fired += float(run(train).mean()) / options.steps
        times.append((perf_counter() - begun[0], process_time() - begun[1]))
    wall, processor = (statistics.median(column) for column in zip(*times[1:], strict=True))
    size = (matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes) / (1 << 20)
    return {
        "neurons": neurons,
        "synapses": matrix.nnz,
        "weights, MiB": size,
        "libraries, MiB": libraries,
        "with weights, MiB": held,
        "after the run, MiB": most_memory(),
        "step, ms": 1e3 * wall,
        "of the processor, ms": 1e3 * processor,
        "synaptic events a second": options.activity * matrix.nnz / processor,
        "fired": fired,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--neurons", default="10000,100000,1000000")
    parser.add_argument("--activity", type=float, default=0.01, help="of the inputs")
    parser.add_argument("--fan", type=int, default=100, help="synapses of a neuron")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--only", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only is not None:
        print(json.dumps(measured(options.only, options)))
        return
    rows: list[dict[str, float]] = []
    for neurons in options.neurons.split(","):
        command = [sys.executable, __file__, "--only", neurons, "--steps", str(options.steps)]
        command += ["--activity", str(options.activity), "--fan", str(options.fan)]
        rows.append(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))
    if options.json:
        print(json.dumps({"processors": os.cpu_count(), "rows": rows}, indent=2))
        return
    table = Table(title=f"{options.activity:.1%} of the inputs fire", title_justify="left")
    for name in rows[0]:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*(f"{n:.1%}" if k == "fired" else f"{n:,.4g}" for k, n in row.items()))
    print_table(table, 160)


if __name__ == "__main__":
    main()
