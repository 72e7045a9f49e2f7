"""Networks for PyNN, what NEST gave for them, and where sPyNNaker placed them.

python -m pynn_peers.cases    # in tests/: runs both, writes recorded/
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.parameters import attach_store
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.store import ParameterStore
from triton_dsl.lowering.artifact import write_artifact
from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.targets import compile_to_target

from .environments import CONFIGURATION, python_of

Array = NDArray[Any]
RECORDED = Path(__file__).parent / "recorded"
BOARDS = {5: "spinnaker1", 201: "spin2-1node", 248: "spin2-48node"}
"""Versions of sPyNNaker's boards, and what they are called here."""
STEPS = 40


def network(body: str, inputs: dict[str, tuple[int, ...]], outputs: dict[str, str]) -> str:
    """A module with a network and the function that runs it; sizes of inputs, types of outputs."""
    sizes = {name: "x".join(map(str, ("?", "?", *shape))) for name, shape in inputs.items()}
    given = ", ".join(f"%{name}: !spike.train<{size}>" for name, size in sizes.items())
    takes = ", ".join(f"!spike.train<{size}>" for size in sizes.values())
    gives = ", ".join(outputs.values())
    results, last = ", ".join(f"%{n}" for n in outputs), ", ".join(f"%{n}" for n in inputs)
    return f"""
    spike.network @net dt = 1.0e-3 {{ {body} }}
    func.func @forward({given}) -> ({gives}) {{
      {results} = spike.simulate @net({last}) : ({takes}) -> ({gives})
      func.return {results} : {gives}
    }}"""


def mixed() -> ModuleOp:
    """Feedback, a bias, a leak to elsewhere, delays, a threshold, and potentials that are read."""
    body = """
    %w = tensor.constant dense<[[1.0, 0.5, -0.5], [0.25, 1.0, 0.5], [-0.25, 1.0, 0.75],
        [0.5, 0.5, 0.5]]> : tensor<4x3xf32>
    %b = tensor.constant dense<[0.125, 0.0, -0.0625]> : tensor<3xf32>
    %r = tensor.constant dense<[[0.0, -1.0, 0.0], [0.0, 0.0, 0.5], [0.25, 0.0, 0.0]]>
       : tensor<3x3xf32>
    %o = tensor.constant dense<[[1.0], [1.0], [-0.5]]> : tensor<3x1xf32>
    %d = tensor.constant dense<[0, 1, 2, 3]> : tensor<4xi32>
    %p = tensor.constant dense<[1.0, 0.75, 1.25]> : tensor<3xf32>
    spike.input @x {shape = array<i64: 4>}
    spike.population @h values(%p : tensor<3xf32>) {model = "lif", shape = array<i64: 3>,
        parameters = {tau = 1.0e-2 : f64, r = 10.0 : f64, v_leak = 0.01 : f64,
            v_reset = -0.25 : f64},
        each = ["v_threshold"]}
    spike.population @t {model = "threshold", shape = array<i64: 3>,
        parameters = {threshold = 0.5 : f64}}
    spike.population @out {model = "leaky_integrator", shape = array<i64: 1>,
        parameters = {tau = 1.0e-2 : f64}}
    spike.projection @fc @x -> @h weights(%w : tensor<4x3xf32>) bias(%b : tensor<3xf32>)
        delays(%d : tensor<4xi32>)
    spike.projection @rec @h -> @h weights(%r : tensor<3x3xf32>) {delay = 1 : i64}
    spike.projection @ht @h -> @t {connection = "one_to_one", delay = 2 : i64}
    spike.projection @to @t -> @out weights(%o : tensor<3x1xf32>)
    spike.projection @ho @h -> @out weights(%o : tensor<3x1xf32>)
    spike.probe @hs @h
    spike.probe @hv @h {variable = "v"}
    spike.probe @ts @t
    spike.probe @v @out {variable = "v"}
    """
    trains = {"hs": "!spike.train<?x?x3>", "hv": "tensor<?x?x3xf32>"}
    rest = {"ts": "!spike.train<?x?x3>", "v": "tensor<?x?x1xf32>"}
    return parse_module(network(body, {"x": (4,)}, {**trains, **rest}))


def filled(text: str, values: dict[str, Array]) -> ModuleOp:
    """A module with the values of its parameters."""
    module, store = parse_module(text), ParameterStore()
    for name, value in values.items():
        store.add(name, value)
    attach_store(module, store)
    return module


def layers() -> ModuleOp:
    """Two hidden layers of more neurons than a core takes, a tenth of all synapses."""
    sizes, rng = (784, 1000, 600, 10), np.random.default_rng(1)
    values, parts = dict[str, Array](), [f"spike.input @n0 {{shape = array<i64: {sizes[0]}>}}"]
    for i, (a, b) in enumerate(pairwise(sizes)):
        weight = rng.normal(0.15, 1, (a, b)) * (rng.random((a, b)) < 0.1) / np.sqrt(a)
        values[f"w{i}"] = (np.rint(weight * 256) / 64).astype(np.float32)
        type = f"tensor<{a}x{b}xf32>"
        parts += [
            f'%w{i} = tensor.parameter "w{i}" : {type}',
            f'spike.population @n{i + 1} {{model = "lif", shape = array<i64: {b}>, '
            "parameters = {tau = 8.0e-3 : f64, r = 8.0 : f64}}",
            f"spike.projection @p{i} @n{i} -> @n{i + 1} weights(%w{i} : {type})",
            f"spike.probe @s{i} @n{i + 1}",
        ]
    outputs = {f"s{i}": f"!spike.train<?x?x{b}>" for i, b in enumerate(sizes[1:])}
    return filled(network("\n".join(parts), {"n0": (784,)}, outputs), values)


def convolutions() -> ModuleOp:
    """A strided convolution with a bias, a pool, a convolution in two groups, and a dense layer."""
    rng = np.random.default_rng(2)
    values = {
        "c": np.rint(rng.normal(0.2, 1, (4, 1, 3, 3)) * 16) / 16,
        "b": np.rint(rng.normal(0, 1, 4) * 16) / 64,
        "g": np.rint(rng.normal(0.2, 1, (6, 2, 3, 3)) * 16) / 16,
        "d": np.rint(rng.normal(0.1, 1, (6 * 36, 10)) * 16) / 64,
    }
    lif = "parameters = {tau = 1.0e-2 : f64, r = 10.0 : f64, v_threshold = 0.97 : f64}"
    body = f"""
    %c = tensor.parameter "c" : tensor<4x1x3x3xf32>
    %b = tensor.parameter "b" : tensor<4xf32>
    %g = tensor.parameter "g" : tensor<6x2x3x3xf32>
    %d = tensor.parameter "d" : tensor<216x10xf32>
    spike.input @x {{shape = array<i64: 1, 24, 24>}}
    spike.population @a {{model = "lif", shape = array<i64: 4, 12, 12>, {lif}, compare = "ge"}}
    spike.population @p {{model = "lif", shape = array<i64: 4, 6, 6>, {lif}}}
    spike.population @e {{model = "lif", shape = array<i64: 6, 6, 6>, {lif}}}
    spike.population @o {{model = "lif", shape = array<i64: 10>, {lif}}}
    spike.projection @xa @x -> @a weights(%c : tensor<4x1x3x3xf32>) bias(%b : tensor<4xf32>)
        {{connection = "conv", strides = array<i64: 2, 2>, padding = array<i64: 1, 1, 1, 1>}}
    spike.projection @ap @a -> @p {{connection = "sum_pool", kernel = array<i64: 2, 2>}}
    spike.projection @pe @p -> @e weights(%g : tensor<6x2x3x3xf32>)
        {{connection = "conv", padding = array<i64: 1, 1, 1, 1>, groups = 2 : i64}}
    spike.projection @eo @e -> @o weights(%d : tensor<216x10xf32>)
    spike.probe @sa @a
    spike.probe @sp @p
    spike.probe @se @e
    spike.probe @so @o
    """
    sizes = {"sa": "4x12x12", "sp": "4x6x6", "se": "6x6x6", "so": "10"}
    outputs = {name: f"!spike.train<?x?x{size}>" for name, size in sizes.items()}
    text = network(body, {"x": (1, 24, 24)}, outputs)
    return filled(text, {name: value.astype(np.float32) for name, value in values.items()})


CASES: dict[str, Callable[[], ModuleOp]] = {
    "mixed": mixed,
    "layers": layers,
    "convolutions": convolutions,
}
_SHAPES = {"mixed": (4,), "layers": (784,), "convolutions": (1, 24, 24)}


def inputs_of(name: str) -> list[Array]:
    """Random trains [T, N, …]."""
    return [np.random.default_rng(0).random((STEPS, 2, *_SHAPES[name])) < 0.3]


def nest_results(name: str) -> list[Array]:
    """What NEST gives for a case."""
    os.environ["TRITON_NEST"] = str(python_of("nest"))
    return run_target(CASES[name](), "spinnaker", inputs_of(name))[1]


def spynnaker_slices(name: str, version: int) -> dict[str, list[list[int]]]:
    """First and last neuron of each core by population, as sPyNNaker's report has them."""
    artifact = compile_to_target(CASES[name](), f"spinnaker{{device={BOARDS[version]}}}")
    with TemporaryDirectory() as folder:
        place = Path(folder)
        (place / ".spynnaker.cfg").write_text(CONFIGURATION.format(version=version))
        write_artifact(artifact, place)
        subprocess.run(
            [str(python_of("spynnaker")), "run.py", "spiNNaker", "--steps", "4"],
            cwd=place,
            env={**os.environ, "HOME": folder},
            check=True,
            capture_output=True,
        )
        (report,) = place.glob("reports/*/run_1/placement_by_vertex_using_graph.rpt")
        slices: dict[str, list[list[int]]] = {}
        for vertex in report.read_text().split("**** Vertex: ")[1:]:
            found = re.findall(r"Slice \((\d+):(\d+)\) on core", vertex)
            slices[vertex.split("'")[1]] = sorted([int(a), int(b)] for a, b in found)
        return slices


def record() -> None:
    """Run both simulators and keep what they gave."""
    arrays, placed = dict[str, Array](), dict[str, dict[str, dict[str, list[list[int]]]]]()
    for name in CASES:
        for index, result in enumerate(nest_results(name)):
            key = f"{name}.{index}"
            arrays[key] = np.packbits(result) if result.dtype == np.bool_ else result
            print(key, result.mean())
        placed[name] = {str(version): spynnaker_slices(name, version) for version in BOARDS}
    np.savez_compressed(RECORDED / "nest.npz", allow_pickle=False, **arrays)
    (RECORDED / "spynnaker.json").write_text(json.dumps(placed, indent=1) + "\n")


if __name__ == "__main__":
    record()
