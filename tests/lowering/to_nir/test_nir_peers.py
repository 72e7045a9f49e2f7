"""Other frameworks and we give the same spikes for the same file, whoever wrote it.

What they gave is recorded in `tests/nir_peers`; slow tests run them again, each in an environment
of its own. `docs/targets/nir.md` says what is changed for whom, and why.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import nir as nir_package
import numpy as np
import pytest
from nir_peers.cases import (
    PUBLISHED,
    READS,
    RECORDED,
    WRITES,
    Array,
    Case,
    published_currents,
    read,
    recorded,
    run,
)
from nir_peers.environments import ENVIRONMENTS, ROOT, python_of

from triton_dsl.dialects.interpret import run_module
from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.from_nir import import_nir

nir: Any = nir_package
TARGETS = {
    "pytorch": "torch",
    "onnx": "onnxruntime",
    "tflite": "ai_edge_litert",
    "native": "llvmlite",
}

pytestmark = pytest.mark.filterwarnings("ignore::triton_dsl.lowering.from_nir.NirWarning")
"""Frameworks state the batch of a sample in the shape of an Input."""


def ours(case: Case, data: bytes, currents: Array, folder: Path) -> Array:
    """What the interpreter gives for a file and currents [T, …]."""
    path = folder / "graph.nir"
    path.write_bytes(data)
    source: Any = path
    if case.change is not None:
        source = nir.read(path, type_check=False)
        case.change(source, case.options["dt"])
    (outputs,) = run_module(import_nir(source, **case.options), [currents[:, None]])
    return outputs[:, 0]


def require(peer: str) -> None:
    """Skip a test without the environment of a framework."""
    if not python_of(peer).exists():
        pytest.skip(f"no environment {ROOT / peer}: python tests/nir_peers/environments.py {peer}")


@pytest.mark.parametrize("case", [*READS, *WRITES], ids=str)
def test_the_spikes_of_a_recorded_framework(case: Case, tmp_path: Path) -> None:
    data, currents, wanted = recorded(case)
    assert 0.05 < wanted.mean() < 0.98
    np.testing.assert_array_equal(ours(case, data, currents, tmp_path), wanted)


@pytest.mark.slow
@pytest.mark.parametrize("case", [*READS, *WRITES], ids=str)
def test_the_spikes_of_a_framework(case: Case, tmp_path: Path) -> None:
    require(case.peer)
    data, currents, wanted = run(case, tmp_path)
    np.testing.assert_array_equal(ours(case, data, currents, tmp_path), wanted)
    np.testing.assert_array_equal(recorded(case)[2], wanted)


def test_every_framework_goes_both_ways() -> None:
    for cases in (READS, WRITES):
        assert {case.peer for case in cases} == set(ENVIRONMENTS)
    assert sum(path.stat().st_size for path in RECORDED.iterdir()) < 100_000


@pytest.mark.parametrize("target", ["interpreter", *TARGETS])
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_graphs_on_every_target(name: str, target: str, shared_data: Any) -> None:
    """The spikes that Norse gave for the graphs of the NIR paper.

    nirtorch, on which it stands, begins feedback with zeros, without the bias of an Affine in it
    (`dummy_state` in `_find_input_nodes`); an Input more takes that bias away for a step.
    """
    path: Path = shared_data.path("models", "nir", name)
    with np.load(RECORDED / "norse.npz") as file:
        wanted = file[name]
    graph, inputs = nir.read(path), [published_currents(path)[:, None]]
    if "lif1.w_rec" in graph.nodes:
        bias = graph.nodes["lif1.w_rec"].bias
        graph.nodes["first"] = nir.Input(np.array(bias.shape))
        graph.edges.append(("first", "lif1.lif"))
        inputs.insert(0, np.zeros((len(inputs[0]), 1, *bias.shape), np.float32))
        inputs[0][0] = -bias
    module = import_nir(graph)
    if target == "interpreter":
        (outputs,) = run_module(module, inputs)
    else:
        pytest.importorskip(TARGETS[target])
        _, (outputs,), _ = run_target(module, target, inputs)
    assert wanted.any() == (name != "two_lif_neurons.nir")  # whose second threshold is 20
    np.testing.assert_array_equal(outputs[:, 0], wanted)


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_graphs_in_norse(name: str, shared_data: Any, tmp_path: Path) -> None:
    require("norse")
    path: Path = shared_data.path("models", "nir", name)
    with np.load(RECORDED / "norse.npz") as file:
        wanted = read("norse", path, published_currents(path), tmp_path)
        np.testing.assert_array_equal(file[name], wanted)


@pytest.mark.slow
def test_sinabs_reads_no_v_reset(tmp_path: Path) -> None:
    """Why the target has an option for it."""
    require("sinabs")
    case = next(case for case in READS if str(case) == "sinabs-reads-if")
    stated = Case("sinabs", "if", case.graph, case.options, {"resets": "metadata"})
    with pytest.raises(RuntimeError, match="unexpected keyword argument 'v_reset'"):
        run(stated, tmp_path)
    assert subprocess.run([str(python_of("sinabs")), "-c", "import sinabs.nir"]).returncode == 0
