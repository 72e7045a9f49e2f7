"""Two threads and one, alone and beside other busy processes, on this machine.

    python benchmarks/contention.py [--busy 0,1] [--threads 1,2] [--rounds 300] [--torch] [--json]

Each problem runs over and over while so many other processes compute without end, thirty calls of
each number of threads in turn. A figure is the time of one call; `× alone` is the median as a
multiple of the median of one thread with no busy process beside. Networks are MobileNetV2 and
DeiT-Ti as integers of 8 bits (`models.py`). With `--torch`, PyTorch is loaded first. On a machine
that others use, `nice -n -20` keeps them out of the figures (not the caches).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from time import perf_counter, sleep

import numpy as np
from kernels import perceptron
from measure.networks import example
from measure.rounds import Run
from measure.telling import load_average, print_table, tell
from models import INTEGER_FORMS, integers_of
from rich.table import Table
from simulator import layers_of, ours
from simulator import program as spiking_program

from triton_dsl.ir.errors import TritonError
from triton_dsl.lowering.to_native.callables import native_linear, native_program

TURN = 30


@dataclass(frozen=True)
class Figure:
    """Microseconds of a call."""

    problem: str
    busy: int
    threads: int
    median: float
    fastest: float
    late: float
    slowest: float
    alone: float


@contextmanager
def busy_processes(count: int) -> Generator[None]:
    """So many processes that compute, for a `with` block."""
    line = [sys.executable, "-c", "while True: pass"]
    running = [subprocess.Popen(line) for _ in range(count)]
    sleep(0.3 if count else 0)
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def problems(threads: Sequence[int]) -> Iterator[tuple[str, dict[int, Run]]]:
    """What is run, by the number of its threads."""
    rng = np.random.default_rng(0)
    for ins, outs, rows in ((4096, 4096, 1), (1024, 1024, 8), (2048, 2048, 64)):
        trits = rng.integers(-1, 2, (outs, ins)).astype(np.int8)
        x = rng.standard_normal((rows, ins)).astype(np.float32)
        runs: dict[int, Run] = {}
        for count in threads:
            layer = native_linear(trits, threads=count)
            runs[count] = lambda layer=layer, x=x: layer(x)
        yield f"linear {ins}x{outs} M{rows}", runs
    layers = [rng.integers(-1, 2, shape).astype(np.int8) for shape in ((512, 784), (512, 512))]
    module = perceptron(layers)
    for rows in (1, 16, 64):
        x = rng.standard_normal((rows, 784)).astype(np.float32)
        runs = {}
        for count in threads:
            program = native_program(module, threads=count)
            runs[count] = lambda program=program, x=x: program(x)
        yield f"perceptron M{rows}", runs

    for name, form in product(("mobilenet_v2", "vit_tiny"), INTEGER_FORMS):
        network, x = integers_of(name, form), example(name, 1).numpy()
        programs = {count: native_program(network, threads=count) for count in threads}
        yield f"{name}, {form}", {count: p.bind(x) for count, p in programs.items()}

    layers_and_scales = layers_of("trit")
    spiking = spiking_program("trit", layers_and_scales)
    for samples in (1, 64):
        spikes = rng.random((32, samples, layers_and_scales[0][0].shape[0])) < 0.1
        yield (
            f"spiking, {samples} samples",
            {count: ours(spiking, "event", spikes, count) for count in threads},
        )


def measured(runs: dict[int, Run], rounds: int) -> dict[int, list[float]]:
    """Seconds of each call, by the number of threads."""
    seconds: dict[int, list[float]] = {count: [] for count in runs}
    for _ in range(-(-rounds // TURN)):
        for count, run in runs.items():
            run()
            for _ in range(TURN):
                start = perf_counter()
                run()
                seconds[count].append(perf_counter() - start)
    return seconds


def figures(options: argparse.Namespace) -> Iterator[Figure]:
    """Each problem beside each number of busy processes."""
    for name, runs in problems(options.threads):
        alone = 0.0
        for busy in options.busy:
            with busy_processes(busy):
                found = measured(runs, options.rounds)
            if not alone:
                alone = float(np.median(found[min(found)]))
            for count, seconds in found.items():
                times = np.array(seconds) * 1e6
                middle, late = np.quantile(times, [0.5, 0.95])
                yield Figure(
                    name,
                    busy,
                    count,
                    float(middle),
                    float(times.min()),
                    float(late),
                    float(times.max()),
                    float(middle) / alone / 1e6,
                )


def show(lines: Sequence[Figure]) -> None:
    """A table on stdout."""
    table = Table(title="microseconds of a call", title_justify="left")
    table.add_column("problem")
    for column in ("busy", "threads", "median", "fastest", "95 %", "slowest", "× alone"):
        table.add_column(column, justify="right")
    previous = ""
    for line in lines:
        if previous and line.problem != previous:
            table.add_section()
        previous = line.problem
        times = (line.median, line.fastest, line.late, line.slowest)
        numbers = [f"{value:.0f}" for value in times]
        table.add_row(
            line.problem, str(line.busy), str(line.threads), *numbers, f"{line.alone:.2f}"
        )
    print_table(table, 120)


def numbers(text: str) -> list[int]:
    """Comma-separated numbers."""
    return [int(part) for part in text.split(",")]


def options_of(line: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--busy", type=numbers, default=[0, 1], help="processes beside")
    parser.add_argument("--threads", type=numbers, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=300, help="calls of each")
    parser.add_argument("--torch", action="store_true", help="load PyTorch first")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser.parse_args(line)


def main(line: Sequence[str] | None = None) -> None:
    """Measure and print."""
    options = options_of(line)
    if options.torch:
        import torch

        torch.set_num_threads(max(options.threads))
    load = load_average()
    lines = list(figures(options))
    tell(lines, lambda: show(lines), as_json=options.json, load=load)


if __name__ == "__main__":
    try:
        main()
    except TritonError as problem:
        sys.exit(f"benchmarks/contention.py: error: {problem}")
