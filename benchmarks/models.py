"""Whole networks as native code: ours beside ONNX Runtime, LiteRT and PyTorch, in one thread.

    python benchmarks/models.py [--networks resnet18,keyword] [--recipe avx2] [--rounds 15] [--json]
    python benchmarks/models.py --files model.tflite model.onnx ...

Networks are those of the benchmarks of files and ResNet-8 (MLPerf Tiny), with random weights. Each
comes in three forms: its floats, the same with trits for weights (`ternarize`), and trits with
activations rounded to int8 (`dynamic-int8`). Peers run the floats: ONNX Runtime and LiteRT our
files of the network, PyTorch the module. `--files` measures files in place of that, integer ones
above all, beside the engine that they are for.

All engines of a network take turns in one process; a figure is the median over the rounds, in
microseconds of processor time for one sample. `x` is ours as a multiple of a peer's; a ratio is
left out when either median is over 1.3 times its fastest round. `error` is the largest difference
over the largest value: from float64 for floats, from the peer's result for files, and for trits
from the reference interpreter.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import numpy as np
from measure.exported_files import Array, runner
from measure.integer_files import sample_of
from measure.networks import SHIPPED, SMALL, example, network
from measure.rounds import Contender, Run, take_turns
from rich.console import Console
from rich.table import Table

from triton_dsl import compile_model, import_model
from triton_dsl.dialects.interpret import run_module
from triton_dsl.lowering.stages import apply_passes
from triton_dsl.targets import native_program

NETWORKS = (*SHIPPED, *SMALL)
ENGINES = ("ONNX Runtime", "LiteRT", "PyTorch")


@dataclass
class Figure:
    """One form of a network.

    Attributes:
        network: its name.
        form: `float`, `trits`, `trits, int8` or `file`.
        ours: microseconds.
        peers: microseconds of each engine.
        ratios: ours as a multiple of each; `None` where the rounds differed too much.
        error: see the head of this file.
    """

    network: str
    form: str
    ours: float
    peers: dict[str, float] = field(default_factory=dict[str, float])
    ratios: dict[str, float | None] = field(default_factory=dict[str, "float | None"])
    error: float = 0.0


def of_network(name: str, options: Mapping[str, str], rounds: int) -> list[Figure]:
    """The forms of one network."""
    import torch

    module, x = network(name), example(name, 1)
    content = x.numpy()
    program = import_model(module, example_inputs=(example(name, 2),))
    trits = program.clone()
    apply_passes(trits, "ternarize,fuse-linear")
    forms: dict[str, Run] = {
        "float": native_program(program, options).bind(content),
        "trits": native_program(trits, options).bind(content),
        "trits, int8": native_program(trits, {**options, "precision": "dynamic-int8"}).bind(
            content
        ),
    }

    def eager() -> Array:
        with torch.inference_mode():
            return module(x).numpy()

    with TemporaryDirectory() as folder:
        peers: dict[str, Run] = {"PyTorch": eager}
        for engine, backend in (("ONNX Runtime", "onnx"), ("LiteRT", "tflite")):
            path = Path(folder, f"model.{backend}")
            compile_model(program, backend=backend).save(path)
            peers[engine] = runner(path, content, 1)
        times = measured({**forms, **peers}, rounds)
    with torch.no_grad():
        exact = module.double()(x.double()).numpy()
    expected = {"float": exact}
    expected["trits"] = expected["trits, int8"] = run_module(trits, [content])[0]
    return [figure(name, form, times, peers, run(), expected[form]) for form, run in forms.items()]


def of_file(path: Path, options: Mapping[str, str], rounds: int) -> Figure:
    """A file beside the engine that it is for."""
    x = sample_of(path)
    ours = native_program(import_model(path), options).bind(x)
    engine = "LiteRT" if path.suffix == ".tflite" else "ONNX Runtime"
    peers: dict[str, Run] = {engine: runner(path, x, 1)}
    times = measured({"file": ours, **peers}, rounds)
    return figure(path.name, "file", times, peers, ours(), peers[engine]())


def measured(runs: Mapping[str, Run], rounds: int) -> dict[str, Contender]:
    """All engines, in turns."""
    found = {name: Contender(name, run, run, clock=process_time) for name, run in runs.items()}
    take_turns(list(found.values()), rounds)
    return found


def figure(
    name: str,
    form: str,
    times: Mapping[str, Contender],
    peers: Mapping[str, Run],
    result: Array,
    expected: Array,
) -> Figure:
    """One form beside all peers."""
    mine, wanted = times[form], np.asarray(expected, np.float64)
    told = Figure(name, form, mine.median * 1e6)
    told.error = float(np.abs(result - wanted).max() / max(np.abs(wanted).max(), 1e-30))
    for engine in peers:
        other = times[engine]
        steady = mine.steady and other.steady
        told.peers[engine] = other.median * 1e6
        told.ratios[engine] = mine.median / other.median if steady else None
    return told


def show(figures: Sequence[Figure]) -> None:
    """A table on stdout."""
    table = Table(title="Networks as native code, one thread", title_justify="left")
    table.add_column("network")
    table.add_column("form")
    for head in ("ours, µs", *(part for engine in ENGINES for part in (f"{engine}, µs", "x"))):
        table.add_column(head, justify="right")
    table.add_column("error", justify="right")
    for told in figures:
        cells = [told.network, told.form, f"{told.ours:.0f}"]
        for engine in ENGINES:
            ratio = told.ratios.get(engine)
            cells.append(f"{told.peers[engine]:.0f}" if engine in told.peers else "")
            cells.append("-" if ratio is None else f"{ratio:.2f}")
        table.add_row(*cells, f"{told.error:.1e}")
    Console(width=None if sys.stdout.isatty() else 130).print(table)


def main(line: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--files", nargs="+", type=Path, default=[], help="models in files")
    parser.add_argument("--recipe", help="instruction set of our code; by default the best")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    given = parser.parse_args(line)
    names = [name.strip() for name in given.networks.split(",")]
    unknown = [name for name in names if name not in NETWORKS]
    if unknown:
        known = ", ".join(NETWORKS)
        sys.exit(f"benchmarks/models.py: error: no network '{unknown[0]}'; there are {known}")
    import torch

    torch.set_num_threads(1)
    options: dict[str, Any] = {} if given.recipe is None else {"recipe": given.recipe}
    if given.files:
        figures = [of_file(path, options, given.rounds) for path in given.files]
    else:
        figures = [told for name in names for told in of_network(name, options, given.rounds)]
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    if given.json:
        found = [asdict(told) for told in figures]
        print(json.dumps({"processors": os.cpu_count(), "load": load, "figures": found}, indent=2))
        return
    show(figures)
    print(f"{os.cpu_count()} processors, load {load}")


if __name__ == "__main__":
    main()
