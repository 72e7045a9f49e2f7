"""`triton profile`: tables, JSON, other engines, and what it refuses."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import numpy as np
import pytest

from triton_dsl.lowering import peers
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.lowering.to_native.program.trace import COUNTERS
from triton_dsl.runtime.random_values import fill_parameters
from triton_dsl.tools.cli import main

pytest.importorskip("llvmlite")

if platform.machine().lower() not in COUNTERS:
    pytest.skip("no counter to time steps with", allow_module_level=True)

SOURCE = """layer Net {
    param weights: TernaryTensor[40, 30]
    param head: Tensor[30, 7]
    fn forward(x: Tensor[N, 40]) -> Tensor[N, 7] {
        return relu(x @ weights) @ head
    }
}
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "net.tri"
    path.write_text(SOURCE)
    return path


def test_json_has_every_step_and_engine(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["profile", str(model), "--random-weights", "--samples", "3", "--json"]
    assert (
        main([*arguments, "--target", "native{precision=dynamic-int8}", "--seconds", "0.02"]) == 0
    )
    report = json.loads(capsys.readouterr().out)
    assert report["sizes"] == {"batch": 3} and report["seconds"] > 0
    products = [step["operations"] for step in report["steps"] if step["unit"] == "bytes"]
    assert products == [2 * 3 * 40 * 30]
    assert sum(step["seconds"] for step in report["steps"]) <= 1.1 * report["seconds"]
    assert all(isinstance(time, float) for time in report["peers"].values())


def test_a_table_names_the_lines_of_the_program(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["profile", str(model), "--random-weights", "--no-peers", "--seconds", "0.02"]
    assert main(arguments) == 0
    text = capsys.readouterr().out
    assert "net.tri:5:" in text and "a call" in text and "% of bound" in text
    assert "Other engines" not in text


def test_another_target_is_refused(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", str(model), "-t", "onnx", "--random-weights"]) == 2
    assert "steps of 'native' are timed, and not those of 'onnx'" in capsys.readouterr().err


def test_an_engine_that_refuses_says_why() -> None:
    pytest.importorskip("onnxruntime")
    module = fill_parameters(import_tri(SOURCE), 0)
    found = peers.peer_times(module, [np.zeros((2, 41), np.float32)], seconds=0.01)
    assert all(isinstance(said, str) and said for said in found.values())
