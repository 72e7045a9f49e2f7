"""Whole networks as native code: ours beside ONNX Runtime, LiteRT and PyTorch.

    python benchmarks/models.py [--networks resnet18,keyword] [--as avx2] [--recipe NAME]
        [--threads 1] [--rounds 15] [--json]
    python benchmarks/models.py --files model.tflite model.onnx ...

Networks are those of the benchmarks of files and ResNet-8 (MLPerf Tiny), with random weights. Each
comes in five forms: its floats, the same with trits for weights (`ternarize`), both as integers of
8 bits on ranges from samples (`quantize-activations`), and trits with activations rounded to int8
in each run (`dynamic-int8`). Peers run floats or int8: ONNX Runtime and LiteRT our files of the
network, those for processors with VNNI where this is one, PyTorch the module. Trits on 8 bits stand
beside the int8 files. `--files` measures files in place of that, beside the engine that they are
for.

All engines of a network take turns in one process; a figure is the median over the rounds, in
microseconds for one sample: of processor time with one thread, of the wall with more. `x` is ours
as a multiple of a peer's; a ratio is left out when either median is over 1.3 times its fastest
round. `error` is the largest difference over the largest value: from float64 for floats, from the
peer's result for files, else from the reference interpreter.

With `--as avx2` all engines, ours too, take this processor for one with AVX2 and no later vectors.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from measure.as_processor import add_processor, run_as
from measure.exported_files import Array, runner
from measure.integer_files import sample_of
from measure.networks import SHIPPED, SMALL, example, network
from measure.rounds import Contender, Run, take_turns
from measure.telling import chosen, load_average, print_table, tell
from rich.table import Table
from xdsl.dialects.builtin import ModuleOp

from triton_dsl import compile_model, import_model
from triton_dsl.dialects.interpret import run_module
from triton_dsl.lowering.stages import apply_passes
from triton_dsl.lowering.to_native.kernels.recipes import recipe_for
from triton_dsl.runtime.native.processor import host_features
from triton_dsl.targets import native_program

NETWORKS = (*SHIPPED, *SMALL)
INTEGER_FORMS = {"int8": "weights=8", "trits, int8": ""}
"""What makes weights of each form integers."""
INTEGERS = (
    "free-batch,expose-logits,drop-dynamic-rounding,fold-constants,fuse-linear,fold-constants,"
    "canonicalize,split-layers,expand-attention,"
    'quantize-activations{{data="{samples}" bits=8 {weights} signed=false products=true}},'
    "requantize,cse,dce"
)
"""What makes integers of a network, see `docs/quantization.md`."""
ENGINES = ("ONNX Runtime", "LiteRT", "PyTorch")


@dataclass
class Figure:
    """One form of a network.

    Attributes:
        network: its name.
        form: `float`, `int8`, `trits`, `trits, int8`, `trits, dynamic` or `file`.
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


def integers_of(name: str, form: str) -> ModuleOp:
    """A network as integers of 8 bits, in one of `INTEGER_FORMS`."""
    module = import_model(network(name), example_inputs=(example(name, 2),))
    if form != "int8":
        apply_passes(module, "ternarize,fuse-linear")
    with TemporaryDirectory() as folder:
        samples = Path(folder, "samples.npy")
        np.save(samples, example(name, 4).numpy())
        apply_passes(module, INTEGERS.format(samples=samples, weights=INTEGER_FORMS[form]))
    return module


def of_network(name: str, options: Mapping[str, str], threads: int, rounds: int) -> list[Figure]:
    """The forms of one network."""
    import torch

    module, x = network(name), example(name, 1)
    content = x.numpy()
    program = import_model(module, example_inputs=(example(name, 2),))
    trits = program.clone()
    apply_passes(trits, "ternarize,fuse-linear")
    programs = {"float": program, "trits": trits, "trits, dynamic": trits}
    dynamic = {**options, "precision": "dynamic-int8"}

    def eager() -> Array:
        with torch.inference_mode():
            return module(x).numpy()

    with TemporaryDirectory() as folder:
        samples = Path(folder, "samples.npy")
        np.save(samples, example(name, 4).numpy())
        programs |= {form: integers_of(name, form) for form in INTEGER_FORMS}
        forms: dict[str, Run] = {
            form: native_program(
                p, dynamic if "dynamic" in form else options, threads=threads
            ).bind(content)
            for form, p in programs.items()
        }
        peers: dict[str, dict[str, Run]] = {"float": {"PyTorch": eager}, "int8": {}}
        for engine, backend in (("ONNX Runtime", "onnx"), ("LiteRT", "tflite")):
            for form, settings in peer_forms(samples, backend, options).items():
                path = Path(folder, f"{form}.{backend}")
                compile_model(program, backend=backend, backend_options=settings).save(path)
                peers[form][engine] = runner(path, content, threads)
        theirs = {
            (form, engine): run for form, runs in peers.items() for engine, run in runs.items()
        }
        times = measured({**forms, **theirs}, rounds, threads)
    with torch.no_grad():
        exact = module.double()(x.double()).numpy()
    told: list[Figure] = []
    for form, run in forms.items():
        floats = form in ("float", "trits")
        expected = exact if form == "float" else run_module(programs[form], [content])[0]
        beside = "float" if floats else "int8"
        found = {engine: times[beside, engine] for engine in peers[beside]}
        told.append(figure(name, form, times[form], found, run(), expected))
    return told


def peer_forms(
    samples: Path, backend: str, options: Mapping[str, str]
) -> dict[str, dict[str, str]]:
    """What our files of floats and of int8 are made with, for one backend."""
    integers = {"precision": "int8", "calibration": str(samples)}
    if backend == "onnx" and "vnni" in recipe_for(options.get("recipe"), host_features()).name:
        integers["int8_weights"] = "always"
    return {"float": {}, "int8": integers}


def of_file(path: Path, options: Mapping[str, str], threads: int, rounds: int) -> Figure:
    """A file beside the engine that it is for."""
    x = sample_of(path)
    ours = native_program(import_model(path), options, threads=threads).bind(x)
    engine = "LiteRT" if path.suffix == ".tflite" else "ONNX Runtime"
    peers: dict[str, Run] = {engine: runner(path, x, threads)}
    times = measured({"file": ours, **peers}, rounds, threads)
    found = {engine: times[engine]}
    return figure(path.name, "file", times["file"], found, ours(), peers[engine]())


def measured(runs: Mapping[Any, Run], rounds: int, threads: int) -> dict[Any, Contender]:
    """All engines, in turns."""
    found = {name: Contender(str(name), r, r, threads=threads) for name, r in runs.items()}
    take_turns(list(found.values()), rounds)
    return found


def figure(
    name: str,
    form: str,
    mine: Contender,
    peers: Mapping[str, Contender],
    result: Array,
    expected: Array,
) -> Figure:
    """One form beside all peers."""
    wanted = np.asarray(expected, np.float64)
    told = Figure(name, form, mine.median * 1e6)
    told.error = float(np.abs(result - wanted).max() / max(np.abs(wanted).max(), 1e-30))
    for engine, other in peers.items():
        steady = mine.steady and other.steady
        told.peers[engine] = other.median * 1e6
        told.ratios[engine] = mine.median / other.median if steady else None
    return told


def show(figures: Sequence[Figure], threads: int) -> None:
    """A table on stdout."""
    table = Table(title=f"Networks as native code, threads: {threads}", title_justify="left")
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
    print_table(table, 130)


def main(line: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--files", nargs="+", type=Path, default=[], help="models in files")
    parser.add_argument("--recipe", help="instruction set of our code; by default the best")
    parser.add_argument("--threads", type=int, default=1, help="the most that an engine takes")
    parser.add_argument("--rounds", type=int, default=15)
    add_processor(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    given = parser.parse_args(line)
    run_as(given.processor)
    names = chosen(given.networks, NETWORKS, "network")
    import torch

    torch.set_num_threads(given.threads)
    options: dict[str, Any] = {} if given.recipe is None else {"recipe": given.recipe}
    if given.files:
        figures = [of_file(path, options, given.threads, given.rounds) for path in given.files]
    else:
        figures = [
            told
            for name in names
            for told in of_network(name, options, given.threads, given.rounds)
        ]
    tell(figures, lambda: show(figures, given.threads), as_json=given.json, load=load_average())


if __name__ == "__main__":
    main()
