"""PyTorch modules as ONNX and TFLite files: ours beside the exporters that people use.

    python benchmarks/export.py [--networks resnet18,keyword] [--exporters "ours onnx,torch.onnx"]
        [--peer-python PATH ...] [--rounds 3] [--threads 1] [--as avx2] [--json]
    python benchmarks/export.py --integers model.tflite model.onnx ... [--as avx2]

Networks: ResNet-18, MobileNetV2, a vision transformer of DeiT-Ti's size, DS-CNN for spoken words,
and linear layers whose weights are trits times a scale. Exporters: ours, `torch.onnx.export` (on
`torch.export`, and on TorchScript), litert-torch, and onnx2tf on the latter's file. Each runs in a
process of its own, in this environment or in the first of `--peer-python` that has it; one that
nobody has is left out with a line.

`first` is the first export of the network in its process, `export` the median of the rounds, which
find caches filled: seconds of processor time beyond imports, with all checks that an exporter
makes. `imports` is what loading the libraries takes, also those that the first export of any
network loads: a small one is exported before.

Latency is for one sample, of processor time where there is one thread, the engines of a network in
turns, and `x ours` says how many times as long as our file of the same format it takes; a ratio is
left out when either side's median is over 1.3 times its fastest round. `error` is the largest
difference from PyTorch in float64 over the largest value, `names` the share of weights (tensors of
two or more axes) whose name stands in the file.

`--integers` measures files of integer models in place of that: TFLite files beside our ONNX of
them, ONNX files (pairs of quantisation) beside what leaves again, and native objects: bytes, times
and how far results are apart. LiteRT is run with the kernels that it takes by default.

With `--as avx2` all engines, ours too, take this processor for one with AVX2 and no later vectors.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from measure.as_processor import add_processor, run_as
from measure.exported_files import contents, names_kept, runner
from measure.exporters import EXPORTERS
from measure.integer_files import integer_table
from measure.networks import NETWORKS, example, network
from measure.rounds import Contender, take_turns
from measure.telling import chosen, load_average, print_table, tell
from rich.table import Table

WORKER = Path(__file__).with_name("measure") / "exporters.py"
MOST_SECONDS = 1800
TURNS = 31
WIDTH = 150


@dataclass
class Figure:
    """One exporter on one network; `problem` says why there are no numbers.

    Attributes:
        network: its name.
        format: `onnx` or `tflite`.
        exporter: who exported.
        problem: the error; empty where there is a file.
        imports: seconds of processor time before the network.
        first: seconds of processor time of the first round.
        export: the median of all rounds.
        export_ratio: `export` as a multiple of ours.
        kilobytes: of the file.
        latency: microseconds a sample.
        latency_ratio: `latency` as a multiple of ours.
        error: from float64, of the largest value.
        transposes: operators that transpose.
        names: the share of weights that kept their name.
    """

    network: str
    format: str
    exporter: str
    problem: str = ""
    imports: float = 0.0
    first: float = 0.0
    export: float = 0.0
    export_ratio: float | None = None
    kilobytes: float = 0.0
    latency: float = 0.0
    latency_ratio: float | None = None
    error: float = 0.0
    transposes: int = 0
    names: float = 0.0


def interpreters(wanted: Sequence[str], pythons: Sequence[str]) -> dict[str, str]:
    """The Python that has each exporter; those that none has are left out, with a line."""
    found: dict[str, str] = {}
    for exporter in wanted:
        _, libraries, _ = EXPORTERS[exporter]
        test = "import sys, importlib.util as u; sys.exit(not all(map(u.find_spec, sys.argv[1:])))"
        for python in pythons:
            command = [python, "-c", test, *libraries]
            if subprocess.run(command, check=False, capture_output=True).returncode == 0:
                found[exporter] = python
                break
        else:
            print(f"{exporter}: no environment has {', '.join(libraries)}", file=sys.stderr)
    return found


def exported(python: str, exporter: str, name: str, folder: str, rounds: int) -> dict[str, Any]:
    """What the exporter says: `file` and `seconds`, or `error`."""
    command = [python, str(WORKER), exporter, name, folder, str(rounds)]
    quiet = os.environ | {"OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    try:
        ended = subprocess.run(
            command,
            check=False,
            capture_output=True,
            encoding="utf-8",
            env=quiet,
            timeout=MOST_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"no result in {MOST_SECONDS} s"}
    lines = ended.stdout.strip().splitlines()
    if ended.returncode or not lines:
        told = ended.stderr.strip().splitlines()
        return {"error": told[-1][:200] if told else f"ended with {ended.returncode}"}
    return json.loads(lines[-1])


def measured(name: str, pythons: dict[str, str], rounds: int, threads: int) -> list[Figure]:
    """All exporters on one network."""
    import torch

    module, x = network(name), example(name, 1)
    with torch.no_grad():
        expected = deepcopy(module).double()(x.double()).numpy()
    keys = [key for key, value in module.state_dict().items() if value.ndim > 1]
    figures: list[Figure] = []
    runs: dict[str, Contender] = {}
    with TemporaryDirectory() as folder:
        for exporter, python in pythons.items():
            figure = Figure(name, EXPORTERS[exporter][0], exporter)
            figures.append(figure)
            told = exported(python, exporter, name, folder, rounds)
            if "error" in told:
                figure.problem = told["error"]
                continue
            path = Path(told["file"])
            inside = contents(path)
            figure.imports, figure.first = told["imports"], told["seconds"][0]
            figure.export, figure.kilobytes = median(told["seconds"]), path.stat().st_size / 1000
            figure.transposes = inside.transposes
            figure.names = names_kept(keys, inside.constants)
            run = runner(path, x.numpy(), threads)
            figure.error = float(np.abs(run() - expected).max() / np.abs(expected).max())
            runs[exporter] = Contender(exporter, run, run, threads=threads)
        take_turns(list(runs.values()), TURNS)
    for figure in figures:
        compare(figure, figures, runs)
    return figures


def compare(figure: Figure, figures: Sequence[Figure], runs: dict[str, Contender]) -> None:
    """Fill in the latency, and ratios to our file of the same format."""
    if figure.exporter not in runs:
        return
    run = runs[figure.exporter]
    figure.latency = run.median * 1e6
    mine = f"ours {figure.format}"
    ours = next((one for one in figures if one.exporter == mine and not one.problem), None)
    if ours is None or figure is ours:
        return
    figure.export_ratio = figure.export / ours.export
    if run.steady and runs[mine].steady:
        figure.latency_ratio = run.median / runs[mine].median


def show(figures: Sequence[Figure]) -> None:
    """A table on stdout."""
    table = Table(title="PyTorch modules that leave", title_justify="left")
    for column in ("network", "exporter"):
        table.add_column(column)
    heads = ("imports, s", "first, s", "export, s", "x ours", "kB", "latency, µs", "x ours")
    heads = (*heads, "error", "transposes", "names")
    for column in heads:
        table.add_column(column, justify="right")
    previous = figures[0] if figures else None
    for figure in figures:
        if previous and (figure.network, figure.format) != (previous.network, previous.format):
            table.add_section()
        previous = figure
        if figure.problem:
            table.add_row(figure.network, figure.exporter, figure.problem)
            continue
        table.add_row(
            figure.network,
            figure.exporter,
            f"{figure.imports:.2f}",
            f"{figure.first:.2f}",
            f"{figure.export:.2f}",
            ratio(figure.export_ratio),
            f"{figure.kilobytes:.0f}",
            f"{figure.latency:.1f}",
            ratio(figure.latency_ratio),
            f"{figure.error:.1e}",
            str(figure.transposes),
            f"{figure.names:.0%}",
        )
    print_table(table, WIDTH)


def ratio(value: float | None) -> str:
    """As it stands in the table."""
    return "-" if value is None else f"{value:.2f}"


def main(line: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--exporters", default=",".join(EXPORTERS))
    parser.add_argument(
        "--peer-python", action="append", default=[], help="the Python of another environment"
    )
    parser.add_argument("--integers", nargs="+", type=Path, default=[], help="integer models")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1, help="of the engines")
    add_processor(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args(line)
    run_as(options.processor)
    if options.integers:
        print_table(integer_table(options.integers, options.threads, TURNS), WIDTH)
        return
    networks = chosen(options.networks, NETWORKS, "network")
    wanted = chosen(options.exporters, tuple(EXPORTERS), "exporter")
    pythons = interpreters(wanted, [sys.executable, *options.peer_python])
    figures = [
        figure
        for name in networks
        for figure in measured(name, pythons, options.rounds, options.threads)
    ]
    tell(figures, lambda: show(figures), as_json=options.json, load=load_average())


if __name__ == "__main__":
    main()
