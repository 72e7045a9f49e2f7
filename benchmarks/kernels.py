"""Native ternary kernels beside other engines, on this machine.

    python benchmarks/kernels.py [SECTION ...] [--shapes 784x256,4096x4096] [--rows 1,8,32]
        [--rounds 31] [--threads 1,2] [--plot FILE] [--json] [--ggml DIR] [--bitnet DIR]
        [--as avx2]

Sections (all by default):
  linear    one ternary linear layer, float32 in and out, activations rounded to int8; `hot` repeats
            calls on the same weights, `cold` reads 256 MB of other memory and runs a layer of other
            weights before each call; `plain read` is code that only reads as many bytes as our
            weights have, in the same state
  accurate  the same layer as accurate as float32
  sparse    blocks of 4 inputs x 256 outputs that are zero, beside the same layer in dense panels
  mlp       a ternary 784-256-128-10 perceptron in one native call, beside the same in one call of
            each peer; `bound` has its arrays in place, as LiteRT has
  conv      ternary convolutions of PyTorch's tensors, images of float32 [channels, size, size], at
            both precisions, beside float convolutions
  costs     seconds to compile, to load what was compiled, microseconds of a call without work

All engines hold the same trits and take turns in one process; a figure is the median of the rounds,
of processor time where there is one thread, and `x ours` says how many times as long as ours it
took. A ratio is left out when either side's median is over 1.3 times its fastest round. Engines
that are not installed are left out (`pip install '.[peers]'`); ggml and bitnet.cpp join when the
folder of their libraries is given. Each result is checked against float64 first.

With `--as avx2` all engines, ours too, take this processor for one with AVX2 and no later vectors;
ggml and bitnet.cpp stay what they were built for.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
from measure.as_processor import add_processor, run_as
from measure.convs import conv_runs, expected_conv
from measure.ggml import I2_S, TQ2_0, ggml
from measure.peers import Floats, Make, Trits, installed_peers, runs_of
from measure.rounds import Contender, Figure, Run, contenders, figures, plot, show, take_turns
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.ternary.sparsity import DEFAULT_BLOCK as BLOCK
from triton_dsl.ir.errors import TritonError
from triton_dsl.ir.trits import pack_trits
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.lowering.to_native.callables import native_linear, native_program
from triton_dsl.lowering.to_native.kernels.kernel import kernel_module
from triton_dsl.lowering.to_native.kernels.recipes import best_recipe
from triton_dsl.lowering.to_native.object_code import compile_object
from triton_dsl.lowering.to_native.roofs import rate, read_bandwidth, reader
from triton_dsl.runtime.native.abi.linear import KINDS, Precision
from triton_dsl.runtime.native.cache import ObjectCache
from triton_dsl.runtime.native.jit import load
from triton_dsl.runtime.native.processor import host_features


@dataclass(frozen=True)
class Cost:
    """Something measured without a peer."""

    name: str
    value: float
    unit: str


DRAM, LARGE_CACHE = 512 << 20, 4 << 20
MOST_ROWS_COLD, LEAST_WEIGHTS_COLD = 8, 1 << 24


def random_layer(ins: int, outs: int, rows: int, seed: int = 0) -> tuple[Trits, Floats]:
    """Trits and activations."""
    rng = np.random.default_rng(seed)
    trits = rng.integers(-1, 2, (outs, ins)).astype(np.int8)
    return trits, rng.standard_normal((rows, ins)).astype(np.float32)


def shapes_of(options: argparse.Namespace) -> Iterator[tuple[int, int, int, int]]:
    """Every shape with every count of rows and of threads."""
    for ins, outs in options.shapes:
        for rows in options.rows:
            for threads in options.threads:
                yield ins, outs, rows, threads


def linear(section: str, options: argparse.Namespace) -> Iterator[list[Figure]]:
    """One layer of ours and of each peer."""
    precision: Precision = "float32" if section == "accurate" else "dynamic-int8"
    peers: dict[str, Make] = options.peers
    if section == "accurate":
        peers = {name: make for name, make in peers.items() if name.endswith("fp32")}
    for shape in shapes_of(options):
        yield from one_layer(*shape, precision, peers, options.rounds)


def one_layer(
    ins: int,
    outs: int,
    rows: int,
    threads: int,
    precision: Precision,
    peers: dict[str, Make],
    rounds: int,
) -> Iterator[list[Figure]]:
    """One layer, hot, and cold where its weights are large."""
    trits, x = random_layer(ins, outs, rows)
    expected = x.astype(np.float64) @ trits.T.astype(np.float64)

    def engines() -> dict[str, Run]:
        ours = native_linear(trits, threads=threads, precision=precision)
        return {"ours": lambda: ours(x), **runs_of(peers, [trits], x, threads)}

    runs, twins = engines(), engines()
    for state in ("hot", "cold"):
        if state == "cold" and (rows > MOST_ROWS_COLD or ins * outs < LEAST_WEIGHTS_COLD):
            continue
        found = contenders(runs, twins, expected, threads)
        if state == "cold" and threads == 1:
            size = ins * outs // 4
            found.append(Contender("plain read", reader(size), reader(size)))
        take_turns(found, rounds, cold=state == "cold")
        yield figures(f"{ins}x{outs} M{rows}", found, state=state, threads=threads)


def sparse(options: argparse.Namespace) -> Iterator[list[Figure]]:
    """Layers with blocks of zeros: as they are, and in panels that hold the zeros too."""
    ins = outs = 4096
    for share in (0.5, 0.75, 0.9):
        for rows in (1, 8):
            trits, x = random_layer(ins, outs, rows)
            rng = np.random.default_rng(1)
            kept = rng.random((outs // BLOCK[1], ins // BLOCK[0])) >= share
            trits *= np.repeat(np.repeat(kept, BLOCK[1], axis=0), BLOCK[0], axis=1)
            for threads in options.threads:
                layers = {
                    "ours": native_linear(trits, threads=threads),
                    "ours, dense": native_linear(trits, threads=threads, layout="panels"),
                }
                runs: dict[str, Run] = {name: partial(run, x) for name, run in layers.items()}
                expected = x.astype(np.float64) @ trits.T.astype(np.float64)
                found = contenders(runs, {}, expected, threads)
                take_turns(found, options.rounds)
                yield figures(f"{ins}x{outs} M{rows}, {share:.0%} zero", found, threads=threads)


def perceptron(layers: Sequence[Trits]) -> ModuleOp:
    """The program of linear layers with ReLU between."""
    names = [f"fc{i}" for i in range(len(layers))]
    lets = [
        f"let {name} = TernaryLinear({trits.shape[1]}, {trits.shape[0]}, bias=false)"
        for name, trits in zip(names, layers, strict=True)
    ]
    body = "x"
    for i, name in enumerate(names):
        body = f"{name}(relu({body}))" if i else f"{name}({body})"
    ins, outs = layers[0].shape[1], layers[-1].shape[0]
    forward = f"fn forward(x: Tensor[N, {ins}]) -> Tensor[N, {outs}] {{ return {body} }}"
    weights = {
        f"{name}.weight": pack_trits(np.ascontiguousarray(trits.T))
        for name, trits in zip(names, layers, strict=True)
    }
    with TemporaryDirectory() as folder:
        source = Path(folder) / "perceptron.tri"
        source.write_text(
            "layer Perceptron {\n" + "\n".join([*lets, forward]) + "\n}\n", encoding="utf-8"
        )
        return import_tri(source, weights=weights)


def mlp(options: argparse.Namespace) -> Iterator[list[Figure]]:
    """A whole perceptron."""
    sizes = (784, 256, 128, 10)
    layers = [random_layer(ins, outs, 0, ins)[0] for ins, outs in pairwise(sizes)]
    module = perceptron(layers)
    for rows in (1, 32):
        x = random_layer(sizes[0], 1, rows)[1]
        expected = x.astype(np.float64)
        for i, trits in enumerate(layers):
            expected = np.maximum(expected, 0) @ trits.T if i else expected @ trits.T
        for precision in ("dynamic-int8", "float32"):
            program = native_program(module, {"precision": precision})
            bound = program.bind(x)
            runs: dict[str, Run] = {
                "ours, bound": bound,
                "ours": partial(program, x),
                **runs_of(options.peers, layers, x, 1),
            }
            found = contenders(runs, {}, expected)
            take_turns(found, options.rounds)
            yield figures(f"M{rows}, {precision}", found)


CONVS: dict[str, tuple[int, int, int, int, int]] = {
    "64 to 64, 3x3, 32x32": (64, 64, 3, 32, 1),
    "64 to 64, 1x1, 32x32": (64, 64, 1, 32, 1),
    "512 to 512, 3x3, 7x7": (512, 512, 3, 7, 1),
    "64 depthwise, 3x3, 32x32": (64, 64, 3, 32, 64),
}
"""Channels, outputs, size of the window, size of the images, groups."""


def conv(options: argparse.Namespace) -> Iterator[list[Figure]]:
    """Single convolutions, on one image and on eight."""
    rng = np.random.default_rng(0)
    for name, (channels, outs, window, size, groups) in CONVS.items():
        trits = rng.integers(-1, 2, (outs, channels // groups, window, window)).astype(np.int8)
        for batch in (1, 8):
            x = rng.standard_normal((batch, channels, size, size)).astype(np.float32)
            expected = expected_conv(trits, x, groups)
            for threads in options.threads:
                for precision in ("dynamic-int8", "float32"):
                    runs = conv_runs(precision, trits, x, groups, threads)
                    found = contenders(runs, {}, expected, threads)
                    take_turns(found, options.rounds)
                    yield figures(f"{name}, {batch} images, {precision}", found, threads=threads)


def costs(options: argparse.Namespace) -> list[Cost]:
    """What compiling, loading and calling cost."""
    recipe = best_recipe(host_features())
    layout, kind = "panels", KINDS[1]

    def generate() -> bytes:
        return compile_object(kernel_module(recipe, layout, kind))

    def seconds(run: Run) -> float:
        start = perf_counter()
        run()
        return perf_counter() - start

    with TemporaryDirectory() as folder:
        cache = ObjectCache(Path(folder))
        compiling = [seconds(lambda i=i: load(str(i), generate, cache=cache)) for i in range(5)]
        loading = [seconds(lambda i=i: load(str(i), generate, cache=cache)) for i in range(5)]
    trits, x = random_layer(16, 64, 1)
    layer = native_linear(trits)
    layer(x)

    def calls() -> None:
        for _ in range(1000):
            layer(x)

    calling = [seconds(calls) / 1000 for _ in range(options.rounds)]
    return [
        Cost("compile the kernels of a layer", median(compiling) * 1e3, "ms"),
        Cost("load compiled kernels from disk", median(loading) * 1e3, "ms"),
        Cost("call a layer of 16x64, one row", median(calling) * 1e6, "µs"),
    ]


def pairs(text: str) -> list[tuple[int, int]]:
    """`784x256,1024x1024` as numbers."""
    return [(int(a), int(b)) for a, b in (shape.split("x") for shape in text.split(","))]


def numbers(text: str) -> list[int]:
    """`1,8,32` as numbers."""
    return [int(number) for number in text.split(",")]


FIGURES: dict[str, Callable[[argparse.Namespace], Iterator[list[Figure]]]] = {
    "linear": partial(linear, "linear"),
    "accurate": partial(linear, "accurate"),
    "sparse": sparse,
    "mlp": mlp,
    "conv": conv,
}
SECTIONS = (*FIGURES, "costs")


def options_of(line: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=", ".join(SECTIONS))
    default = "784x256,1024x1024,4096x4096,4096x11008"
    parser.add_argument("--shapes", type=pairs, default=pairs(default), help="ins x outs")
    parser.add_argument("--rows", type=numbers, default=[1, 8, 32, 128], help="of activations")
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--threads", type=numbers, default=sorted({1, os.cpu_count() or 1}))
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--plot", metavar="FILE", help="write a picture of the ratios")
    parser.add_argument("--ggml", type=Path, metavar="DIR", help="folder of ggml's libraries")
    parser.add_argument("--bitnet", type=Path, metavar="DIR", help="folder of bitnet.cpp's")
    add_processor(parser)
    options = parser.parse_args(line)
    run_as(options.processor)
    for section in options.sections:
        if section not in SECTIONS:
            parser.error(f"no section '{section}'; there are {', '.join(SECTIONS)}")
    options.sections = options.sections or list(SECTIONS)
    peers: dict[str, Make] = installed_peers()
    if options.ggml:
        peers["ggml TQ2_0"] = ggml(options.ggml, TQ2_0)
    if options.bitnet:
        peers["bitnet.cpp I2_S"] = ggml(options.bitnet, I2_S)
    options.peers = peers
    return options


def main(line: Sequence[str] | None = None) -> None:
    """Measure and print."""
    options = options_of(line)
    everything: list[Figure] = []
    for name, section in FIGURES.items():
        if name not in options.sections:
            continue
        lines: list[Figure] = []
        for problem in section(options):
            if not options.json:
                sys.stderr.write(f"  {problem[0].problem}, {problem[0].state}\n")
            lines += problem
        if not options.json:
            show(name, lines)
        everything += lines
    known = costs(options) if "costs" in options.sections else []
    roofs = [
        Cost("read from memory, one thread", read_bandwidth(DRAM) / 1e9, "GB/s"),
        Cost("read from the cache, one thread", read_bandwidth(LARGE_CACHE, 64) / 1e9, "GB/s"),
        Cost("products of bytes, one thread", rate("bytes") / 1e9, "GMAC/s"),
    ]
    load_now = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    if options.plot:
        plot(options.plot, everything)
    if options.json:
        document = {
            "processors": os.cpu_count(),
            "load": load_now,
            "figures": [asdict(figure) for figure in everything],
            "costs": [asdict(cost) for cost in [*known, *roofs]],
        }
        print(json.dumps(document, indent=2))
        return
    for cost in [*known, *roofs]:
        print(f"{cost.name:<36}{cost.value:>10.2f} {cost.unit}")
    print(f"{os.cpu_count()} processors, load {load_now}")


if __name__ == "__main__":
    try:
        main()
    except TritonError as problem:
        sys.exit(f"benchmarks/kernels.py: error: {problem}")
