"""The simulator of spiking networks beside other ones, on this machine.

    python benchmarks/simulator.py [--samples 1,64] [--steps 32] [--weights trit,i8,f32]
        [--activity 0.1] [--engines event,dense] [--rounds 31] [--threads 2] [--json]

One network, 784-1024-1024-10 leaky neurons, from spikes to spikes; a call runs all steps of all
samples from a zero state. Engines take turns; a figure is the median of the rounds, and beside it
the fastest one, of processor time where there is one thread. Sums are exact in all of ours and in
PyTorch, and each result is compared with one that NumPy computes; the other simulators write the
decay of a potential in other ways, and are not compared. Each has a process and an environment of
its own, which `python tests/nir_peers/environments.py norse sinabs snntorch spikingjelly` makes;
what has none is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from measure.rounds import Contender, Run, take_turns
from measure.spiking_peers import Peer, installed_simulators
from measure.telling import load_average, print_table
from numpy.typing import NDArray
from rich.table import Table
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.parameters import attach_store
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import TritonError
from triton_dsl.ir.store import ParameterStore
from triton_dsl.ir.trits import pack_trits
from triton_dsl.lowering.simulator import simulator
from triton_dsl.runtime.spiking.simulator import Engine

Array = NDArray[Any]
SIZES = (784, 1024, 1024, 10)
DECAY = 0.9
DRIVE = 0.58
"""Standard deviation of currents at which about a tenth of the neurons fire, as of the inputs."""


@dataclass(frozen=True)
class Line:
    """One engine on one problem; rates in steps of one sample a second."""

    weights: str
    samples: int
    engine: str
    median: float
    fastest: float
    activity: float | None


def layers_of(weights: str) -> list[tuple[Array, float]]:
    """Matrices [ins, outs] and a scale each; floats are multiples of 1/256."""
    rng = np.random.default_rng(0)
    layers: list[tuple[Array, float]] = []
    for ins, outs in pairwise(SIZES):
        match weights:
            case "trit":
                matrix = rng.integers(-1, 2, (ins, outs)).astype(np.int8)
            case "i8":
                matrix = rng.integers(-127, 128, (ins, outs)).astype(np.int8)
            case _:
                spread = DRIVE / np.sqrt(0.1 * ins)
                matrix = (np.rint(256 * spread * rng.normal(size=(ins, outs))) / 256).astype("f4")
        scale = 1.0 if weights == "f32" else DRIVE / (matrix.std() * np.sqrt(0.1 * ins))
        layers.append((matrix, float(np.float32(scale))))
    return layers


def program(weights: str, layers: Sequence[tuple[Array, float]]) -> ModuleOp:
    """The network as a program with any number of steps and samples."""
    element = "!ternary.trit" if weights == "trit" else weights
    dialect = "ternary" if weights == "trit" else "tensor"
    arrays: dict[str, Array] = {}
    lines: list[str] = []
    current = "%s"
    for n, (matrix, scale) in enumerate(layers):
        ins, outs = matrix.shape
        arrays[f"w{n}"] = pack_trits(matrix) if weights == "trit" else matrix
        lines.append(f'%w{n} = {dialect}.parameter "w{n}" : tensor<{ins}x{outs}x{element}>')
        factor = ""
        if weights != "f32":
            arrays[f"c{n}"] = np.asarray(scale, np.float32)
            lines.append(f'%c{n} = tensor.parameter "c{n}" : tensor<f32>')
            factor = f" scale(%c{n} : tensor<f32>)"
        lines.append(
            f"%i{n} = spike.linear {current}, %w{n}{factor} : !spike.train<?x?x{ins}>, "
            f"tensor<{ins}x{outs}x{element}> -> tensor<?x?x{outs}xf32>"
        )
        current = f"%o{n}"
        lines.append(
            f"{current} = spike.lif %i{n} {{beta = {DECAY} : f64}} : (tensor<?x?x{outs}xf32>) -> "
            f"!spike.train<?x?x{outs}>"
        )
    given, made = (f"!spike.train<?x?x{n}>" for n in (SIZES[0], SIZES[-1]))
    text = "\n".join([*lines, f"func.return {current} : {made}"])
    module = parse_module(f"func.func @forward(%s: {given}) -> {made} {{\n{text}\n}}")
    attach_store(module, ParameterStore.of(arrays))
    return module


def reference(layers: Sequence[tuple[Array, float]], spikes: Array) -> tuple[Array, float]:
    """Spikes of the last layer over all steps, by NumPy; the activity of the hidden layers."""
    train = spikes.astype(np.float32)
    active: list[float] = []
    for matrix, scale in layers:
        currents = (train @ matrix.astype(np.float32)) * np.float32(scale)
        v = np.zeros_like(currents[0])
        for current in currents:
            v = np.float32(DECAY) * v + current
            current[...] = v >= 1
            v -= current
        train = currents
        active.append(float(train.mean()))
    return train.sum(0), float(np.mean(active[:-1]))


def measured(options: argparse.Namespace, peers: Sequence[Peer]) -> Iterator[list[Line]]:
    """Every kind of weights with every number of samples."""
    for weights in options.weights:
        layers = layers_of(weights)
        module = program(weights, layers)
        for samples in options.samples:
            rng = np.random.default_rng(1)
            spikes = rng.random((options.steps, samples, SIZES[0])) < options.activity
            expected, activity = reference(layers, spikes)
            counts: dict[str, Array] = {}
            found: list[Contender] = []
            for engine in options.engines:
                name, run = f"ours, {engine}", ours(module, engine, spikes, options.threads)
                counts[name] = run()
                found.append(Contender(name, run, run, threads=options.threads))
            counts |= loaded(peers, layers, spikes)
            found += peers
            for name, result in counts.items():
                exact = name.startswith("ours") or name == "torch fp32"
                if exact and not np.array_equal(result, expected):
                    sys.exit(f"benchmark: error: {name} gives other spikes than NumPy")
            take_turns(found, options.rounds)
            count = options.steps * samples
            yield [
                Line(
                    weights,
                    samples,
                    one.name,
                    count / one.median,
                    count / min(one.seconds),
                    activity if one.name.startswith("ours") else None,
                )
                for one in found
            ]


def loaded(
    peers: Sequence[Peer], layers: Sequence[tuple[Array, float]], spikes: Array
) -> dict[str, Array]:
    """What peers give for a problem, which they take."""
    arrays: dict[str, Any] = {f"w{n}": matrix for n, (matrix, _) in enumerate(layers)}
    arrays |= {"x": spikes, "scales": np.array([scale for _, scale in layers])}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "problem.npz"
        np.savez(path, **arrays)
        return {peer.name: peer.load(path) for peer in peers}


def ours(module: ModuleOp, engine: Engine, spikes: Array, threads: int) -> Run:
    """A whole run from a zero state."""
    runner = simulator(module, engine, threads=threads)

    def run() -> Array:
        runner.reset()
        return runner(spikes).sum(0, dtype=np.float32)

    return run


def show(lines: Sequence[Line], threads: int) -> None:
    """A table on stdout."""
    table = Table(title=f"steps of one sample a second, {threads} thread(s)", title_justify="left")
    for column in ("weights", "samples", "engine"):
        table.add_column(column)
    for column in ("median", "fastest", "median as × best of others", "hidden activity"):
        table.add_column(column, justify="right")
    best: dict[tuple[str, int], float] = {}
    for one in lines:
        if not one.engine.startswith("ours"):
            problem = one.weights, one.samples
            best[problem] = max(best.get(problem, 0.0), one.median)
    for one in lines:
        other = best.get((one.weights, one.samples))
        table.add_row(
            one.weights,
            str(one.samples),
            one.engine,
            f"{one.median:,.0f}",
            f"{one.fastest:,.0f}",
            "-" if other is None else f"{one.median / other:.2f}",
            "" if one.activity is None else f"{one.activity:.1%}",
        )
    print_table(table, 120)


def options_of(line: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""

    def words(text: str) -> list[str]:
        return text.split(",")

    def numbers(text: str) -> list[int]:
        return [int(number) for number in text.split(",")]

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--samples", type=numbers, default=[1, 64], help="samples of a run")
    parser.add_argument("--steps", type=int, default=32)
    parser.add_argument("--weights", type=words, default=["trit", "i8", "f32"])
    parser.add_argument("--activity", type=float, default=0.1, help="of the inputs")
    parser.add_argument("--engines", type=words, default=["event", "dense"])
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser.parse_args(line)


def main(line: Sequence[str] | None = None) -> None:
    """Measure and print."""
    options = options_of(line)
    # Theirs begin with as many threads as there are processors, whatever is set later.
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    peers = installed_simulators(options.threads)
    lines = [one for problem in measured(options, peers) for one in problem]
    for peer in peers:
        peer.stop()
    load = load_average()
    if options.json:
        document = {"processors": os.cpu_count(), "load": load, "lines": list(map(asdict, lines))}
        print(json.dumps(document, indent=2))
        return
    show(lines, options.threads)
    print(f"{os.cpu_count()} processors, load {load}")


if __name__ == "__main__":
    try:
        main()
    except TritonError as problem:
        sys.exit(f"benchmarks/simulator.py: error: {problem}")
