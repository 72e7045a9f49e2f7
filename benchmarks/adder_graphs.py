"""How small, how flat and how fast the adder graphs of ternary matrices are.

    python benchmarks/adder_graphs.py [MATRICES] [--cost bits|adders|depth] [--time-budget SECONDS]
        [--max-depth N] [--bits N] [--limit N] [--peer-python PYTHON] [--json]

MATRICES is a folder of `*.npy` and `*_weights.csv` files, inputs × outputs; without it random
matrices of the usual kinds are made from a seed. `da4ml` runs in turn on the same matrices where it
is installed, here or for the Python that is given. Seconds are processor time, which other work on
the machine disturbs less than wall time; memory is the peak of what Python and NumPy allocate, in a
second run. The exit code is 1 if a graph is not its matrix.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triton_dsl.passes.adder_graph import (
    COSTS,
    AdderGraph,
    InputRange,
    least_depth,
    optimize_matrix,
)

Matrix = NDArray[np.int8]

RANDOM = (
    (64, 64, 0.5),
    (256, 64, 0.5),
    (576, 64, 0.5),
    (576, 64, 0.75),
    (784, 128, 0.5),
)
"""Inputs, outputs and the share of zeros."""


@dataclass(frozen=True)
class Row:
    """One matrix: its adders without sharing, and what the graph has."""

    name: str
    naive: int
    adders: int
    bits: int
    depth: int
    least_depth: int
    seconds: float
    megabytes: float
    exact: bool
    da4ml_adders: int | None
    da4ml_seconds: float | None


def random_matrices(seed: int) -> Iterator[tuple[str, Matrix]]:
    """Random matrices with independent zeros and signs."""
    for inputs, outputs, zeros in RANDOM:
        rng = np.random.default_rng([seed, inputs, outputs, round(100 * zeros)])
        signs = rng.choice([-1, 1], (inputs, outputs))
        kept = rng.random((inputs, outputs)) >= zeros
        yield f"{inputs}x{outputs} z{zeros:.2f}", (signs * kept).astype(np.int8)


def read_matrices(folder: Path) -> Iterator[tuple[str, Matrix]]:
    """The matrices of a folder and its subfolders, in the order of their names."""
    for path in sorted([*folder.rglob("*.npy"), *folder.rglob("*_weights.csv")]):
        if path.suffix == ".npy":
            yield path.stem, np.load(path).astype(np.int8)
        else:
            yield path.stem, np.loadtxt(path, delimiter=",", ndmin=2).astype(np.int8)


def measure(
    name: str, matrix: Matrix, bits: int, options: dict[str, Any], python: str | None = None
) -> Row:
    """Optimise one matrix, twice: for the time and for the memory."""
    inputs = InputRange.of_bits(bits)
    start = process_time()
    graph = optimize_matrix(matrix, inputs=inputs, **options)
    seconds = process_time() - start
    tracemalloc.start()
    once: dict[str, Any] = {**options, "time_budget": 0.0}
    again = optimize_matrix(matrix, inputs=inputs, **once)
    megabytes = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    peer = da4ml_graph(matrix, bits, python)
    return Row(
        name,
        int(np.maximum(np.count_nonzero(matrix, axis=0) - 1, 0).sum()),
        graph.adders,
        graph.bits(inputs),
        graph.depth,
        least_depth(matrix),
        seconds,
        megabytes,
        is_exact(graph, matrix) and is_exact(again, matrix),
        *(peer or (None, None)),
    )


def is_exact(graph: AdderGraph, matrix: Matrix) -> bool:
    """Whether the graph computes x · M for random x, in NumPy."""
    x = np.random.default_rng(0).integers(-128, 128, (16, len(matrix)))
    return np.array_equal(graph.evaluate(x), x @ matrix.astype(np.int64))


PATIENCE = 600
"""Seconds that da4ml may take for a matrix."""

DA4ML = """
import json, sys
from time import process_time
import numpy as np
from da4ml.cmvm import solve
matrix, end = np.load(sys.argv[1]), 2.0 ** (int(sys.argv[2]) - 1)
start = process_time()
found = solve(matrix.astype(np.float32), qintervals=[(-end, end - 1, 1.0)] * len(matrix))
seconds = process_time() - start
adders = sum(op.opcode in (0, 1) for s in found.solutions for op in s.ops)
print(json.dumps([adders, seconds]))
"""


def da4ml_graph(matrix: Matrix, bits: int, python: str | None) -> tuple[int, float] | None:
    """Adders and processor seconds of da4ml, by another Python if one is given.

    `None` where it is not installed, and where it takes more than `PATIENCE` seconds.
    """
    if python is None and find_spec("da4ml") is None:
        return None
    with TemporaryDirectory() as folder:
        path = f"{folder}/matrix.npy"
        np.save(path, matrix)
        command = [python or sys.executable, "-c", DA4ML, path, str(bits)]
        try:
            done = subprocess.run(
                command, check=True, capture_output=True, encoding="utf-8", timeout=PATIENCE
            )
        except subprocess.TimeoutExpired:
            print(f"da4ml: stopped after {PATIENCE} s", file=sys.stderr, flush=True)
            return None
    adders, seconds = json.loads(done.stdout)
    return adders, seconds


def table(rows: list[Row]) -> str:
    """The rows as text."""
    head = f"{'matrix':<20}{'naive':>7}{'adders':>8}{'bits':>9}{'depth':>7}{'least':>7}"
    lines = [f"{head}{'s':>8}{'MB':>7}   da4ml adders / s"]
    for row in rows:
        peer = (
            "" if row.da4ml_adders is None else f"   {row.da4ml_adders} / {row.da4ml_seconds:.1f}"
        )
        lines.append(
            f"{row.name:<20}{row.naive:>7}{row.adders:>8}{row.bits:>9}{row.depth:>7}"
            f"{row.least_depth:>7}{row.seconds:>8.2f}{row.megabytes:>7.1f}{peer}"
            + ("" if row.exact else "   WRONG")
        )
    return "\n".join(lines)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("matrices", nargs="?", type=Path, help="a folder; random ones without it")
    parser.add_argument("--cost", choices=COSTS, default="adders")
    parser.add_argument("--time-budget", type=float, default=1.0)
    parser.add_argument("--max-depth", type=int, default=None)
    parser.add_argument("--bits", type=int, default=4, help="the width of the inputs")
    parser.add_argument("--limit", type=int, default=None, help="the most matrices to run")
    parser.add_argument("--seed", type=int, default=0, help="of the random matrices")
    parser.add_argument("--peer-python", help="a Python with da4ml")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found = read_matrices(arguments.matrices) if arguments.matrices else None
    matrices = list(found or random_matrices(arguments.seed))[: arguments.limit]
    if not matrices:
        sys.exit(f"benchmarks/adder_graphs.py: error: no matrices in {arguments.matrices}")
    options: dict[str, Any] = {
        "cost": arguments.cost,
        "max_depth": arguments.max_depth,
        "time_budget": arguments.time_budget,
    }
    rows = [
        measure(name, matrix, arguments.bits, options, arguments.peer_python)
        for name, matrix in matrices
    ]
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        print(table(rows))
    if not all(row.exact for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
