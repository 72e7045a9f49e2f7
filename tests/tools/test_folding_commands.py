"""Folding a convolutional network from the command line: what is shown, written and refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from triton_dsl.ir.store import save_arrays
from triton_dsl.tools.cli import main

PROGRAM = """builtin.module @net {
func.func @forward(%x: tensor<?x1x6x6xui8>) -> tensor<?xi64> {
  %w1 = ternary.parameter "conv.weight" : tensor<4x1x3x3x!ternary.trit>
  %c = ternary.conv %x, %w1 {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>,
       dilation = array<i64: 1, 1>, groups = 1 : i64}
       : tensor<?x1x6x6xui8>, tensor<4x1x3x3x!ternary.trit> -> tensor<?x4x6x6xi32>
  %b = tensor.clamp %c {min = 0.0 : f64, max = 7.0 : f64}
       : (tensor<?x4x6x6xi32>) -> tensor<?x4x6x6xi32>
  %h = tensor.convert %b : (tensor<?x4x6x6xi32>) -> tensor<?x4x6x6xi8>
  %f = tensor.flatten %h {start = 1 : i64, end = 3 : i64}
       : (tensor<?x4x6x6xi8>) -> tensor<?x144xi8>
  %w2 = ternary.parameter "fc.weight" : tensor<144x10x!ternary.trit>
  %p = ternary.matmul %f, %w2
       : tensor<?x144xi8>, tensor<144x10x!ternary.trit> -> tensor<?x10xi32>
  %y = tensor.argmax %p : (tensor<?x10xi32>) -> tensor<?xi64>
  func.return %y : tensor<?xi64>
}
}"""
LIMITS = "time-budget=0.001 vectors=2"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    monkeypatch.chdir(tmp_path)
    Path("net.mlir").write_text(PROGRAM)
    weights = {
        "conv.weight": rng.integers(-1, 2, (4, 1, 3, 3)).astype(np.int8),
        "fc.weight": rng.integers(-1, 2, (144, 10)).astype(np.int8),
    }
    save_arrays(Path("w.safetensors"), weights)


def run(options: str, code: int = 0, command: str = "compile") -> None:
    limits, where = LIMITS, list[str]()
    if command == "compile":
        limits, where = f"{LIMITS} input-bits=2", ["-o", "circuit/"]
    target = f"verilog{{{limits} {options}}}"
    assert main([command, "net.mlir", "-w", "w.safetensors", "-t", target, *where]) == code


def report() -> dict[str, Any]:
    return json.loads(Path("circuit/report.json").read_text())


@pytest.mark.parametrize(
    ("options", "cycles", "luts"),
    [
        ("fold=auto target-fps=500000", 200, None),
        ("target-fps=500000 clock=200 device=ecp5-25", 400, None),
        ("lut-budget=700", None, 700),
        ("lut-budget=900 target-fps=250000 device=xczu3eg", 400, 900),
    ],
)
def test_a_goal_is_reached_by_the_circuit(
    capsys: pytest.CaptureFixture[str], options: str, cycles: int | None, luts: int | None
) -> None:
    run(options)
    shown = " ".join(capsys.readouterr().err.split())
    assert "Folding: " in shown and "frames/s at" in shown
    found = report()
    assert cycles is None or found["initiation_interval"] <= cycles
    assert luts is None or found["estimate"]["luts"] <= luts
    assert found["initiation_interval"] == found["folding"]["interval"]
    assert [layer["layer"] for layer in found["folding"]["layers"]] == ["conv", "fc"]
    assert any(layer["form"] != "unrolled" for layer in found["folding"]["layers"])


def test_forms_by_hand_are_kept(require_tool: Callable[[str, str], str]) -> None:
    require_tool("iverilog", "apt-get install iverilog")
    run('folding="conv:digit=2;fc:pe=2,simd=12"')
    conv, fc = report()["folding"]["layers"]
    assert (conv["form"], conv["digit"]) == ("serial", 2)
    assert (fc["form"], fc["pe"], fc["simd"], fc["cycles"]) == ("folded", 2, 12, 60)
    run('folding="fc:pe=2,simd=12" target-fps=500000', command="verify")


@pytest.mark.parametrize(
    ("options", "messages"),
    [
        ("lut-budget=50", ["lut-budget=50 is too small: the circuit takes", "LUTs at least"]),
        (
            "target-fps=5000000",
            ["a frame may take 20 cycles, and layer 'conv' takes 36 at least", "lower target-fps"],
        ),
        ("lut-budget=700 target-fps=2500000", ["lut-budget=700 allows", "at best"]),
        ("fold=auto", ["fold=auto expects a goal"]),
        ("fold=none target-fps=9", ["fold=none is given together with target-fps"]),
        ("fold=some", ["fold", "none", "auto"]),
        ('folding="cnv:digit=1"', ["folding names 'cnv'; the layers are conv, fc"]),
        ('folding="conv:pe=5,simd=1"', ["a product 9x4 takes pe in [1, 4]", "got pe=5,simd=1"]),
        ('folding="conv:pe=2"', ["folding expects LAYER:unrolled", "got 'conv:pe=2'"]),
        ("lut-budget=900 device=xczu3", ["xczu3eg"]),
    ],
)
def test_what_is_refused_says_what_to_do(
    capsys: pytest.CaptureFixture[str], options: str, messages: list[str]
) -> None:
    run(options, code=2)
    shown = capsys.readouterr()
    text = " ".join(shown.err.split())
    assert all(message in text for message in messages), text
    assert "Traceback" not in text
    assert not Path("circuit").exists()
