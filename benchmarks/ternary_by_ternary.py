"""Exact products of trits by trits and of bits by trits beside other engines, on this machine.

    python benchmarks/ternary_by_ternary.py [--shapes 1024x1024x1024,4096x4096x4096]
        [--rounds 9] [--threads 1,2] [--schemes avx512vbmi,avx2] [--json]

A shape is rows x ins x outs. The right-hand matrix is packed before, the left-hand one in each
call; peers are PyTorch's int8 product (`torch._int_mm`) and its float32 product, on matrices of
their own types. All engines take turns in one process; a figure is the median of the rounds, and
`x ours` says how many times as long as ours (trits) it took. A ratio is left out when either side's
median is over 1.3 times its fastest round. Each result is checked against int64 first.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from measure.rounds import Figure, Run, contenders, figures, show, take_turns
from measure.telling import load_average, tell
from numpy.typing import NDArray

from triton_dsl.ir.errors import TritonError
from triton_dsl.lowering.to_native.kernels.bitplanes_schemes import SCHEMES, best_scheme
from triton_dsl.lowering.to_native.matmul import native_matmul, pack_columns
from triton_dsl.runtime.native.processor import host_features

Shape = tuple[int, int, int]
Runs = dict[str, Run]


def operands(shape: Shape) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    """Trits, a third of them zero."""
    rng = np.random.default_rng(0)
    rows, ins, outs = shape
    return (
        rng.integers(-1, 2, (rows, ins)).astype(np.int8),
        rng.integers(-1, 2, (ins, outs)).astype(np.int8),
    )


def engines(a: NDArray[np.int8], b: NDArray[np.int8], threads: int, schemes: list[str]) -> Runs:
    """Ours and, where PyTorch is installed, its products."""
    first, *others = schemes
    packed = pack_columns(b, scheme=first)
    runs: Runs = {f"ours, {first}": partial(native_matmul, a, packed, threads=threads)}
    for name in others:
        runs[f"ours, {name}"] = partial(
            native_matmul, a, pack_columns(b, scheme=name), threads=threads
        )
    try:
        import torch
    except ImportError:
        return runs
    int_mm: Any = getattr(torch, "_int_mm")  # noqa: B009 - no public name exists
    torch.set_num_threads(threads)
    whole = torch.from_numpy(a), torch.from_numpy(b)
    floats = [operand.float() for operand in whole]
    runs["torch._int_mm"] = lambda: int_mm(*whole).numpy()
    runs["torch fp32"] = lambda: torch.matmul(*floats).numpy()
    return runs


def expected_product(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.int64]:
    """The product by float64, exact for such numbers."""
    return np.rint(a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64)


def measured(shape: Shape, threads: int, schemes: list[str], rounds: int) -> Iterator[list[Figure]]:
    """Trits by trits with all peers, then bits by trits."""
    a, b = operands(shape)
    name = "x".join(map(str, shape))
    runs = engines(a, b, threads, schemes)
    found = contenders(runs, runs, expected_product(a, b))
    bits = a != 0
    packed = pack_columns(b, scheme=schemes[0])
    run: Run = partial(native_matmul, bits, packed, threads=threads)
    found += contenders({f"ours, bits, {schemes[0]}": run}, {}, expected_product(bits, b))
    take_turns(found, rounds)
    yield figures(name, found, threads=threads)


def shapes(text: str) -> list[Shape]:
    """`1024x1024x1024,8x784x256` as numbers."""
    return [(int(m), int(k), int(n)) for m, k, n in (s.split("x") for s in text.split(","))]


def options_of(line: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    default = "1024x1024x1024,4096x4096x4096"
    parser.add_argument("--shapes", type=shapes, default=shapes(default), help="rows x ins x outs")
    parser.add_argument("--rounds", type=int, default=9)
    numbers = [1, os.cpu_count() or 1]
    parser.add_argument(
        "--threads",
        type=lambda text: [int(number) for number in text.split(",")],
        default=sorted(set(numbers)),
    )
    parser.add_argument(
        "--schemes",
        type=lambda text: text.split(","),
        default=[best_scheme(host_features()).name],
        help=f"some of {', '.join(scheme.name for scheme in SCHEMES)}",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser.parse_args(line)


def main(line: Sequence[str] | None = None) -> None:
    """Measure and print."""
    options = options_of(line)
    lines = [
        figure
        for shape in options.shapes
        for threads in options.threads
        for part in measured(shape, threads, options.schemes, options.rounds)
        for figure in part
    ]
    tell(lines, lambda: show("trits by trits", lines), as_json=options.json, load=load_average())


if __name__ == "__main__":
    try:
        main()
    except TritonError as problem:
        sys.exit(f"benchmarks/ternary_by_ternary.py: error: {problem}")
