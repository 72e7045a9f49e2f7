"""Converted networks in PyNN: what NEST gives is the program of floats, and sPyNNaker places it."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from pynn_peers.environments import python_of
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import UnsupportedError
from triton_dsl.lowering.conversion import convert_to_snn
from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.lowering.models import import_model
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.runtime.random_values import fill_parameters

RECORDED = Path(__file__).parents[2] / "pynn_peers" / "recorded"
"""What NEST gave for the program as it was converted once: other processors sum floats in another
order, and convert to another."""

PROGRAM = """
layer Images {
    let conv = Conv2d(1, 4, 3, padding=1)
    let conv2 = Conv2d(4, 6, 3, padding=1)
    let fc = Linear(24, 12)
    let head = Linear(12, 5)

    fn forward(x: Tensor[N, 1, 8, 8]) -> Tensor[N, 5] {
        let a = avg_pool2d(relu(conv(x)), 2)
        let b = avg_pool2d(relu(conv2(a)), 2)
        return head(relu(fc(flatten(b))))
    }
}
"""
IMAGES = np.random.default_rng(0).random((60, 1, 8, 8), np.float32)
SHOWN = 4


def converted(folder: Path, reset: str = "to_value") -> ModuleOp:
    path = folder / "net.tri"
    path.write_text(PROGRAM)
    program = fill_parameters(import_tri(path), 3)
    return convert_to_snn(program, IMAGES, 6, pools="before", reset=reset)


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> ModuleOp:
    return converted(tmp_path_factory.mktemp("net"))


def test_what_nest_gave() -> None:
    (ours,) = run_module(import_model(RECORDED / "converted.mlir"), [IMAGES[:SHOWN]])
    with np.load(RECORDED / "converted.npz") as file:
        np.testing.assert_allclose(file["images"], ours, rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("options", ["", "{nest-only=true}"])
def test_what_nest_gives(module: ModuleOp, options: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the small leaks that SpiNNaker needs, and without."""
    if not python_of("nest").exists():
        pytest.skip("no NEST: python tests/pynn_peers/environments.py nest")
    monkeypatch.setenv("TRITON_NEST", str(python_of("nest")))
    _, (found,), _ = run_target(module, f"spinnaker{options}", [IMAGES[:SHOWN]])
    (ours,) = run_module(module, [IMAGES[:SHOWN]])
    np.testing.assert_allclose(found, ours, rtol=0, atol=1e-5)


def test_the_host_adds_up_what_inputs_bring(module: ModuleOp) -> None:
    """Synapses of the first layer are for the host: they stand on no core."""
    artifact = compile_to_target(module, "spinnaker")
    data = json.loads(artifact.text("network.json"))
    (current,) = data["currents"]
    assert data["held"] == {"x": [1, 8, 8]} and data["steps"] == 6
    assert data["inputs"] == [] and data["means"] == data["results"]
    placed = {
        s["population"]: s["stop"] for s in json.loads(artifact.text("placement.json"))["slices"]
    }
    # As sPyNNaker 7.4.1 places it on a virtual board: 4 layers and the source of constants.
    assert sorted(placed.values()) == [4, 5, 12, 96, 256] and current["source"] == "x"
    leaks = [p["parameters"]["tau_m"] for p in data["populations"]]
    assert np.exp(-1 / np.array(leaks)) == pytest.approx(1 - 2.0**-12, rel=1e-12)


def test_neurons_that_subtract_are_refused_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="reset=to_value"):
        compile_to_target(converted(tmp_path, "subtract"), "spinnaker")


def record() -> None:
    """Run NEST and keep what it gave: `TRITON_NEST=… python …/test_converted.py`."""
    with TemporaryDirectory() as folder:
        found: Any = run_target(converted(Path(folder)), "spinnaker", [IMAGES[:SHOWN]])[1][0]
    np.savez_compressed(RECORDED, allow_pickle=False, images=found)


if __name__ == "__main__":
    record()
