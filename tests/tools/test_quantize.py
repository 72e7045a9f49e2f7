"""`triton quantize`: its tables, JSON and file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from triton_dsl.ir.store import save_arrays
from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.models import import_model
from triton_dsl.tools.cli import main

SOURCE = """layer Net {
    let fc = Linear(5, 24)
    let head = Linear(24, 3)

    fn forward(x: Tensor[N, 5]) -> Tensor[N, 3] {
        return head(relu(fc(x)))
    }
}
"""
NET = ("quantize", "net.tri", "-w", "w.safetensors", "-s", "x.npy")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    (tmp_path / "net.tri").write_text(SOURCE, encoding="utf-8")
    shapes = {"fc.weight": (5, 24), "fc.bias": (24,), "head.weight": (24, 3), "head.bias": (3,)}
    arrays = {key: rng.normal(size=shape).astype(np.float32) for key, shape in shapes.items()}
    save_arrays(tmp_path / "w.safetensors", arrays)
    np.save(tmp_path / "x.npy", rng.normal(size=(200, 5)).astype(np.float32))
    np.save(tmp_path / "y.npy", rng.integers(0, 3, 200))
    return tmp_path


def test_the_program_is_written_and_is_what_is_told(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    assert main([*NET, "--bits", "ternary", "--drop", "100", "-o", "out.mlir", "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert [layer["key"] for layer in found["layers"]] == ["fc.weight", "head.weight"]
    assert all(layer["plain_divergence"] > 0 < layer["divergence"] for layer in found["layers"])
    assert found["measured"] == 50 and found["before"] == 1.0 and not found["labels"]
    assert (found["float_bytes"], found["bytes"]) == (192 * 4, 192 / 4)
    x = np.load(folder / "x.npy")[150:]
    _, (result,), _ = run_target(import_model("out.mlir"), "onnx", [x])
    source = import_model("net.tri", weights="w.safetensors")
    _, (wanted,), _ = run_target(source, "onnx", [x])
    assert found["accuracy"] == np.mean(result.argmax(1) == wanted.argmax(1))


def test_tables_name_each_layer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*NET, "--labels", "y.npy", "--keep", "fc.weight", "--drop", "100"]) == 0
    text = capsys.readouterr().out
    lines = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines()]
    rows = {line[0]: line[1:] for line in lines if line}
    assert rows["fc.weight"][1:3] == ["120", "32"]
    assert rows["head.weight"][1:3] == ["72", "8"]
    assert "accuracy alone" in text and rows["float"][0] == "768"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--bits", "int3"), 2, "expected bits one of int8, int4, ternary, got 'int3'"),
        (("--keep", "fc.weights"), 2, "no layer has the weight 'fc.weights'; did you mean"),
        (("-o", "out.onnx"), 2, "a program of integers is IR; name it .mlir"),
        (("--labels", "x.npy"), 1, "labels"),
        (("--budget", "3"), 2, "expected a budget of 8 bits or more a weight, got 3.0"),
    ],
)
def test_mistakes_are_one_message(
    capsys: pytest.CaptureFixture[str], folder: Path, arguments: tuple[str, ...], code: int,
    message: str,
) -> None:  # fmt: skip
    assert main([*NET, *arguments]) == code
    error = capsys.readouterr().err
    assert message in error and "Traceback" not in error
    assert not (folder / "out.onnx").exists()
