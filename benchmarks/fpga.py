"""Circuits of ternary networks: adders, look-up tables, clock, and MNIST beside the literature.

    python benchmarks/fpga.py [SECTION …] [--matrices FOLDER] [--vgg FOLDER] [--mnist FOLDER]
        [--peer-python PYTHON] [--slow] [--json]

- `adders`: adders of each matrix, beside da4ml and published numbers
- `sizes`: LUTs, registers and clock of one layer; the compiler's estimate beside Yosys and nextpnr
- `time`: seconds and memory to compile a layer 576x64 to Verilog
- `lookup`: networks of look-up tables for MNIST, trained here; `--epochs`, `--hidden`, `--votes`
- `perceptron`: a ternary 784-256-128-10 for MNIST whole in one circuit; `--lut-budget`

FOLDER of the matrices holds `*.npy`, inputs x outputs; random ones are made without it. That of
VGG-7 holds `conv1_weights.csv` and `conv2_weights.csv` of the ternary network of Tridgell et al.
2019, that of MNIST the four idx files. `--slow` synthesises conv2 too. Fmax is there where nextpnr
is installed. All images of the test are simulated by Verilator; the exit code is 1 if one result is
not that of NumPy (`lookup`) or ONNX Runtime (`perceptron`), or if a graph is not its matrix.
"""

from __future__ import annotations

import argparse
import sys
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from shutil import which
from time import perf_counter, process_time
from typing import Any

import numpy as np
from adder_graphs import Matrix, measure, random_matrices, read_matrices
from measure.circuits import Size, compiled, routed_mhz, size_of
from measure.digits import Digits, Recipe, bits, read_digits, train_votes
from rich.console import Console
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.parameters import attach_store
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.store import ParameterStore
from triton_dsl.ir.trits import pack_trits
from triton_dsl.lowering.to_verilog.simulation import run_verilog
from triton_dsl.tools.console import print_json, table

Row = dict[str, Any]

PUBLISHED = {
    "r64x64_s50": 966,
    "r256x64_s50": 3632,
    "conv1": 295,
    "conv2": 3686,
}
"""Adders by the generator of Tridgell et al. 2019 (arXiv 1909.04509) and of its published lists;
not run here. The random matrices are files of the same names."""

LITERATURE: tuple[Row, ...] = (
    {"network": "FINN SFC-max", "accuracy": 96.0, "luts": 91131, "ns": 310.0},
    {"network": "hls4ml, ternary", "accuracy": 95.0, "luts": 260092, "ns": 190.0},
    {"network": "PolyLUT", "accuracy": 96.0, "luts": 70673, "ns": 16.0},
    {"network": "NeuraLUT", "accuracy": 96.0, "luts": 54798, "ns": 12.0},
    {"network": "TreeLUT", "accuracy": 97.0, "luts": 4478, "ns": 2.5},
)
"""MNIST as published: LUTs after synthesis by Vivado, latency after routing; not run here."""


def layer(matrix: Matrix, element: str) -> ModuleOp:
    """The program of one product."""
    k, n = matrix.shape
    module = parse_module(f"""builtin.module @layer {{
func.func @forward(%x: tensor<?x{k}x{element}>) -> tensor<?x{n}xi32> {{
  %w = ternary.parameter "weight" : tensor<{k}x{n}x!ternary.trit>
  %y = ternary.matmul %x, %w
     : tensor<?x{k}x{element}>, tensor<{k}x{n}x!ternary.trit> -> tensor<?x{n}xi32>
  func.return %y : tensor<?x{n}xi32>
}}
}}""")
    attach_store(module, ParameterStore.of({"weight": pack_trits(matrix)}))
    return module


def vgg(folder: Path | None) -> dict[str, Matrix]:
    """The published matrices of VGG-7 by name; none without the folder."""
    if folder is None:
        return {}
    return {
        name: np.loadtxt(folder / f"{name}_weights.csv", delimiter=",", ndmin=2).astype(np.int8)
        for name in ("conv1", "conv2")
    }


def adders(options: argparse.Namespace) -> Iterator[Row]:
    """Adders of each matrix."""
    folder: Path | None = options.matrices
    matrices = dict(random_matrices(0) if folder is None else read_matrices(folder))
    for name, matrix in {**matrices, **vgg(options.vgg)}.items():
        given = {"cost": "adders", "max_depth": None, "time_budget": 1.0}
        width = 8 if name == "conv1" else 4
        note(f"{name}: adders")
        row = asdict(measure(name, matrix, width, given, options.peer_python))
        yield row | {"published": PUBLISHED.get(name)}


def layers(options: argparse.Namespace) -> Iterator[tuple[str, Matrix, str, Row, str | None]]:
    """Names, matrices, types, options and devices to be placed on, if any, of single layers."""
    given = {} if options.matrices is None else dict(read_matrices(options.matrices))
    square = given.get("r64x64_s50", dict(random_matrices(0))["64x64 z0.50"])
    yield "64x64, 4 bits", square, "i8", {"input_bits": 4}, None
    yield "64x64, 1 bit", square, "ui8", {"input_bits": 1}, "ice40-hx8k"
    for name, matrix in vgg(options.vgg).items():
        if name == "conv1":
            yield "VGG-7 conv1, 8 bits", matrix, "i8", {"input_bits": 8}, "ecp5-25"
        elif options.slow:
            for pipeline in (1, 2):
                how = {"input_bits": 4, "pipeline": pipeline}
                yield f"VGG-7 conv2, 4 bits, pipeline={pipeline}", matrix, "i8", how, None


def sizes(options: argparse.Namespace) -> Iterator[Row]:
    """What layers take, by Yosys and by the estimate, and the clock after placement."""
    for name, matrix, element, given, device in layers(options):
        module = layer(matrix, element)
        note(f"{name}: Yosys")
        size = size_of(compiled(module, given))
        note(f"{name}: {size}")
        mhz = None if device is None else routed_mhz(module, device, given)
        note(f"{name}: placed at {mhz} MHz")
        yield {"layer": name, **of_size(size), "placed_on": mhz and device, "placed_mhz": mhz}


def of_size(size: Size) -> Row:
    """The columns of a circuit's size."""
    off = None if not size.luts else 100 * (size.estimated_luts / size.luts - 1)
    return {
        "luts": size.luts,
        "estimated_luts": size.estimated_luts,
        "luts_off": off,
        "flip_flops": size.flip_flops,
        "estimated_flip_flops": size.estimated_flip_flops,
        "latency": size.latency,
        "estimated_mhz": size.estimated_mhz,
    }


def time(options: argparse.Namespace) -> Iterator[Row]:
    """Seconds and memory of the whole way to Verilog, in two runs."""
    del options
    matrix = dict(random_matrices(0))["576x64 z0.50"]
    given: dict[str, Any] = {"input_bits": 4, "time_budget": 0.0}
    start = process_time()
    artifact = compiled(layer(matrix, "i8"), given)
    seconds = process_time() - start
    tracemalloc.start()
    compiled(layer(matrix, "i8"), given)
    megabytes = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    text = sum(len(content) for name, content in artifact.files.items() if name.endswith(".v"))
    yield {"layer": "576x64, 4 bits", "seconds": seconds, "MB": megabytes, "Verilog_kB": text / 1e3}


def lookup(options: argparse.Namespace) -> Iterator[Row]:
    """Networks of look-up tables: trained, compiled, synthesised, simulated."""
    data = digits(options)
    for hidden, votes in zip(options.hidden, options.votes, strict=True):
        recipe = Recipe(hidden, 6, votes, options.epochs)
        start = perf_counter()
        network = train_votes(data, recipe, lambda epoch: note(f"epoch {epoch + 1}"))
        seconds = perf_counter() - start
        note(f"{recipe}: trained in {seconds:.0f} s")
        expected = network.classes(bits(data.test_images))
        yield circuit_row(
            f"ours, 784-{hidden}-10, fan-in 6 and {votes}",
            network.program(),
            {"input_bits": 1, "pipeline": 2},
            (bits(data.test_images), expected, data.test_labels),
        )
    yield from LITERATURE


def perceptron(options: argparse.Namespace) -> Iterator[Row]:
    """The ternary perceptron of `examples/mnist.py`, whole in one folded circuit."""
    from measure.perceptron import by_onnx_runtime, integer_perceptron

    data = digits(options)
    folder: Path = options.folder
    module = integer_perceptron(options.mnist, folder)
    images = (data.test_images[:, None] / np.float32(255)).astype(np.float32)
    expected = by_onnx_runtime(module, images)
    yield circuit_row(
        "ours, 784-256-128-10",
        module,
        {"lut_budget": options.lut_budget},
        (images, expected, data.test_labels),
    )
    yield from LITERATURE


def circuit_row(
    name: str, module: ModuleOp, given: dict[str, Any], test: tuple[Any, Any, Any]
) -> Row:
    """A network as a circuit, simulated on all images of the test.

    Args:
        name: of the row.
        module: an integer program.
        given: options of the target `verilog`.
        test: inputs, the results that the circuit must give, and the labels.
    """
    inputs, expected, labels = test
    artifact = compiled(module, given)
    note(f"{name}: compiled")
    size = size_of(artifact)
    note(f"{name}: {size}")
    start = perf_counter()
    engine, (found,) = run_verilog(artifact, [inputs], "verilator")
    note(f"{name}: {len(found)} images on {engine} in {perf_counter() - start:.0f} s")
    classes = found if found.ndim == 1 else found.argmax(1)
    return {
        "network": name,
        "accuracy": 100 * float((classes == labels).mean()),
        "ns": size.nanoseconds,
        **of_size(size),
        "interval": size.interval,
        "differs": int((found != expected).reshape(len(found), -1).any(1).sum()),
    }


def digits(options: argparse.Namespace) -> Digits:
    """MNIST; ends the program where it is missing."""
    if options.mnist is None or not (options.mnist / "train-labels-idx1-ubyte.gz").is_file():
        sys.exit("benchmarks/fpga.py: error: --mnist expects a folder with the idx files of MNIST")
    return read_digits(options.mnist)


def note(text: str) -> None:
    """One line on stderr."""
    print(text, file=sys.stderr, flush=True)


SECTIONS: dict[str, Callable[[argparse.Namespace], Iterator[Row]]] = {
    "adders": adders,
    "sizes": sizes,
    "time": time,
    "lookup": lookup,
    "perceptron": perceptron,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the sections; 1 if a result is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument("--matrices", type=Path)
    parser.add_argument("--vgg", type=Path)
    parser.add_argument("--mnist", type=Path)
    parser.add_argument("--peer-python", help="a Python with da4ml")
    parser.add_argument("--slow", action="store_true")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--hidden", type=_numbers, default=[800], help="such as 400,800")
    parser.add_argument("--votes", type=_numbers, default=[70], help="one for each of --hidden")
    parser.add_argument("--lut-budget", type=int, default=30_000)
    parser.add_argument("--folder", type=Path, default=Path("build/mnist"))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    # Without an answer to where MNIST is, networks are left out unless they are asked for.
    usual = list(SECTIONS) if options.mnist else ["adders", "sizes", "time"]
    chosen: list[str] = options.sections or usual
    if unknown := set(chosen) - set(SECTIONS):
        parser.error(f"unknown section {', '.join(sorted(unknown))}")
    if {"lookup", "perceptron"} & set(chosen) and which("verilator") is None:
        parser.error("networks are simulated: verilator is missing")
    found: dict[str, list[Row]] = {}
    for name in chosen:
        rows = found[name] = list(SECTIONS[name](options))
        if not options.json:
            columns = list(dict.fromkeys(key for row in rows for key in row))
            cells = [[row.get(key) for key in columns] for row in rows]
            Console(width=None if sys.stdout.isatty() else 160).print(table(name, columns, cells))
    if options.json:
        print_json(found)
    every = [row for rows in found.values() for row in rows]
    return int(any(row.get("differs") or row.get("exact") is False for row in every))


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


if __name__ == "__main__":
    sys.exit(main())
