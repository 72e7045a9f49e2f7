"""`triton verify --layers`: the table, JSON, exit codes, and one message for what is wrong."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from shutil import which

import numpy as np
import pytest

from triton_dsl.tools.cli import main

RequireTool = Callable[[str, str], str]

PROGRAM = """builtin.module @net {
func.func @forward(%x: tensor<?x4xi8>) -> tensor<?x2xi32> {
  %w1 = ternary.constant [1, 0, -1, 1, 1, 0, -1, -1, 0, 1, 0, 0] : tensor<4x3x!ternary.trit>
  %w2 = ternary.constant [1, 1, -1, 0, 0, -1] : tensor<3x2x!ternary.trit>
  %t = tensor.constant dense<[[-2, 1, 3]]> : tensor<1x3xi32>
  %b = tensor.constant dense<[5, -6]> : tensor<2xi32>
  %h = ternary.linear %x, %w1 thresholds(%t : tensor<1x3xi32>)
       : tensor<?x4xi8>, tensor<4x3x!ternary.trit> -> tensor<?x3xi8>
  %y = ternary.linear %h, %w2 bias(%b : tensor<2xi32>)
       : tensor<?x3xi8>, tensor<3x2x!ternary.trit> -> tensor<?x2xi32>
  func.return %y : tensor<?x2xi32>
}
}
"""
TARGET = "verilog{input-bits=2 time-budget=0.01}"
CALL = ("verify", "net.mlir", "--layers", "-t", TARGET, "--vectors", "50")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, require_tool: RequireTool) -> Path:
    require_tool("iverilog", "apt-get install iverilog")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.mlir").write_text(PROGRAM)
    x = np.random.default_rng(0).integers(-2, 2, (7, 4)).astype(np.int8)
    np.savez(tmp_path / "x.npz", x=x)
    return tmp_path


def run(*arguments: str, code: int = 0) -> None:
    assert main(list(arguments)) == code


def test_a_row_a_layer(capsys: pytest.CaptureFixture[str]) -> None:
    run(*CALL, "-i", "x.npz")
    shown = capsys.readouterr()
    rows = [line for line in shown.out.splitlines() if line.startswith("│")]
    assert [row.split("│")[1].strip() for row in rows] == [
        *("w1", "w2", "one after another", "all together")
    ]
    assert "linear, multi_threshold" in rows[0] and "57" in rows[0] and "equal" in rows[0]
    assert "Icarus" in rows[-1] and "57" in rows[-1] and "equal" in rows[-1]
    assert not shown.err


def test_json_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    run(*CALL, "--json", "--seed", "3")
    report = json.loads(capsys.readouterr().out)
    assert report["agrees"] and report["chain"] and report["first_wrong"] is None
    first, second = report["layers"]
    assert (first["layer"], first["vectors"], first["samples"]) == ("w1", 50, 0)
    assert second["difference"] is None and second["proof"] is None
    assert report["whole"]["agrees"] and report["whole"]["vectors"] > report["whole"]["samples"]


def test_without_a_target_it_is_verilog(capsys: pytest.CaptureFixture[str]) -> None:
    run("verify", "net.mlir", "--layers", "--vectors", "20", "--json")
    assert len(json.loads(capsys.readouterr().out)["layers"]) == 2


def test_proofs_have_a_column(
    capsys: pytest.CaptureFixture[str], require_tool: RequireTool
) -> None:
    require_tool("yosys-abc", "apt-get install yosys")
    run(*CALL, "--prove", "120")
    assert capsys.readouterr().out.count("proved in") == 2


@pytest.fixture(params=["net_w2_core.v"])
def broken_tool(
    folder: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """An `iverilog` that adds another bias in one file."""
    tools = folder / "tools"
    tools.mkdir()
    script = tools / "iverilog"
    script.write_text(
        f'#!/bin/sh\n[ -f {request.param} ] && sed -i "s/d5;/d4;/" {request.param}\n'
        f'exec {which("iverilog")} "$@"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.usefixtures("broken_tool")
def test_a_layer_that_differs_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    run(*CALL, code=1)
    shown = capsys.readouterr()
    assert "triton: error: layer 'w2' is not what the interpreter gives: vector " in shown.err
    assert "expected" in shown.err and "Traceback" not in shown.err
    assert "equal" in shown.out
    run(*CALL, "--json", code=1)
    report = json.loads(capsys.readouterr().out)
    assert not report["agrees"] and report["first_wrong"] == "w2"
    difference = report["layers"][1]["difference"]
    assert len(difference["inputs"][0]) == 3 and difference["expected"] != difference["got"]


@pytest.mark.usefixtures("broken_tool")
@pytest.mark.parametrize("broken_tool", ["net_core.v"], indirect=True)
def test_the_whole_circuit_is_simulated(capsys: pytest.CaptureFixture[str]) -> None:
    """Every layer is right by itself, and what they are together is not."""
    run(*CALL, "-i", "x.npz", code=1)
    shown = capsys.readouterr()
    assert "the whole circuit is not what the interpreter gives: vector " in shown.err
    assert shown.out.count("equal") == 3


def test_a_circuit_that_cannot_be_built_is_not_equal(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its layers can: but all of them have no room on the device."""
    (folder / "wide.mlir").write_text(
        "builtin.module @wide {\nfunc.func @forward(%x: tensor<?x28xi16>) -> tensor<?x28xi32> {\n"
        '  %w = ternary.parameter "w" : tensor<28x28x!ternary.trit>\n'
        "  %y = ternary.linear %x, %w\n"
        "     : tensor<?x28xi16>, tensor<28x28x!ternary.trit> -> tensor<?x28xi32>\n"
        "  func.return %y : tensor<?x28xi32>\n}\n}\n"
    )
    target = "verilog{time-budget=0.01 device=ice40-up5k}"
    call = ("verify", "wide.mlir", "--random-weights", "--layers", "-t", target, "--vectors", "2")
    run(*call, "--json", code=1)
    shown = capsys.readouterr()
    assert "the whole circuit is not what the interpreter gives: it cannot be" in shown.err
    assert "ice40-up5k" in shown.err and "Traceback" not in shown.err
    report = json.loads(shown.out)
    assert report["chain"] and report["layers"][0]["agrees"]
    assert report["first_wrong"] == "all together"
    assert "does not fit" in report["whole"]["complaint"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--layers", "-t", "onnx"], 1, "no layers of neurons"),
        (["--layers", "-t", "verilog", "-t", "onnx"], 2, "one target"),
        (["--layers", "--vectors", "1"], 2, "vectors"),
        (["--prove", "5"], 2, "--prove needs --layers"),
        (["--layers", "-p", "convert-ternary-to-hw"], 1, "no function 'forward'"),
    ],
)
def test_a_wrong_call_gets_one_message(
    arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run("verify", "net.mlir", *arguments, code=code)
    shown = capsys.readouterr()
    assert message in " ".join(shown.err.split()), shown.err
    assert "Traceback" not in shown.err and not shown.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "a Verilog simulator is missing: install iverilog or verilator"),
        (["--prove", "5"], "proofs need yosys and yosys-abc"),
    ],
)
def test_missing_tools_get_one_message(
    arguments: list[str],
    message: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tools = folder / "tools"
    tools.mkdir()
    if arguments:
        (tools / "iverilog").symlink_to(str(which("iverilog")))
    monkeypatch.setenv("PATH", str(tools))
    run(*CALL, *arguments, code=1)
    shown = capsys.readouterr()
    assert message in shown.err and not shown.out
    assert shown.err.count("\n") == 1
