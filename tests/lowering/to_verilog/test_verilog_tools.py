"""What Icarus Verilog, Verilator and Yosys say about the files: only that the test passes."""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.lowering.artifact import write_artifact
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_verilog import simulation
from triton_dsl.lowering.to_verilog.circuit.interface import Interface
from triton_dsl.lowering.to_verilog.simulation import run_verilog
from triton_dsl.runtime.verilog import Simulation

RequireTool = Callable[[str, str], str]


@pytest.mark.parametrize("pipeline", [0, pytest.param(1, marks=pytest.mark.slow), 2])
def test_the_test_bench_passes(
    iverilog: str, small: ModuleOp, tmp_path: Path, pipeline: int
) -> None:
    artifact = compile_to_target(small, "verilog", {"pipeline": pipeline})
    write_artifact(artifact, tmp_path)
    rtl = sorted(str(path) for path in (tmp_path / "rtl").iterdir())
    done = subprocess.run(
        [iverilog, "-Wall", "-o", "run", *rtl, "net_tb.v"],
        cwd=tmp_path / "test",
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout + done.stderr == ""
    shown = subprocess.run(["vvp", "run"], cwd=tmp_path / "test", capture_output=True, text=True)
    latency = json.loads(artifact.text("report.json"))["latency_cycles"]
    assert shown.stdout.strip().endswith(f"PASS: 64 frames, latency {latency}")
    assert (latency == 0) == (pipeline == 0)


def test_the_test_bench_sees_a_wrong_circuit(
    iverilog: str, small: ModuleOp, tmp_path: Path
) -> None:
    artifact = compile_to_target(small, "verilog")
    write_artifact(artifact, tmp_path)
    core = tmp_path / "rtl" / "net_core.v"
    assert "assign y = " in core.read_text()
    core.write_text(core.read_text().replace("assign y = ", "assign y = ~"))
    rtl = sorted(str(path) for path in (tmp_path / "rtl").iterdir())
    folder = tmp_path / "test"
    subprocess.run([iverilog, "-o", "run", *rtl, "net_tb.v"], cwd=folder, check=True)
    shown = subprocess.run(["vvp", "run"], cwd=folder, capture_output=True, text=True, check=True)
    assert "FAIL" in shown.stdout and "expected" in shown.stdout


def lint(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("pipeline", [0, pytest.param(1, marks=pytest.mark.slow), 2])
def test_verilator_has_nothing_to_say(
    require_tool: RequireTool, small: ModuleOp, tmp_path: Path, pipeline: int
) -> None:
    verilator = require_tool("verilator", "apt-get install verilator")
    options = {"pipeline": pipeline, "vectors": 2}
    write_artifact(compile_to_target(small, "verilog", options), tmp_path)
    assert lint([verilator, "--lint-only", "-Wall", "-y", "rtl", "rtl/net.v"], tmp_path) == ""
    one = compile_to_target(small, "verilog", {**options, "form": "file"})
    write_artifact(one, tmp_path / "flat.v")
    assert lint([verilator, "--lint-only", "-Wall", "--top", "net", "flat.v"], tmp_path) == ""


CHECKS = """\
read_verilog {files}
hierarchy -check -top net; proc; flatten; opt; wreduce; opt_clean
alumacc; check -assert; stat
"""
"""The way of Yosys' own scripts to where it merges additions."""


@pytest.mark.parametrize("pipeline", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_yosys_keeps_adders_apart(
    require_tool: RequireTool, small: ModuleOp, tmp_path: Path, pipeline: int
) -> None:
    yosys = require_tool("yosys", "apt-get install yosys")
    options = {"pipeline": pipeline, "vectors": 2}
    artifact = compile_to_target(small, "verilog", options)
    write_artifact(artifact, tmp_path)
    files = " ".join(name for name in artifact.files if name.startswith("rtl/"))
    (tmp_path / "check.ys").write_text(CHECKS.format(files=files))
    log = lint([yosys, "check.ys"], tmp_path)
    assert "Warning" not in log
    assert "creating $alu cell" in log and "merging $macc" not in log


@pytest.mark.slow
def test_the_script_for_yosys_runs(
    require_tool: RequireTool, small: ModuleOp, tmp_path: Path
) -> None:
    yosys = require_tool("yosys", "apt-get install yosys")
    artifact = compile_to_target(small, "verilog", {"vectors": 2})
    write_artifact(artifact, tmp_path)
    log = lint([yosys, "synth.ys"], tmp_path)
    assert "Warning" not in log.replace("ABC: Warning", "")
    found = sum(int(n) for n in re.findall(r"LUT[1-6](?:_2)? +(\d+)", log.rpartition("=== net")[2]))
    estimate = json.loads(artifact.text("report.json"))["estimate"]["luts"]
    assert 0.5 * estimate < found < 2 * estimate


@pytest.mark.slow
def test_verilator_simulates_too(require_tool: RequireTool, small: ModuleOp) -> None:
    require_tool("verilator", "apt-get install verilator")
    require_tool("g++", "apt-get install g++")
    x = np.random.default_rng(1).integers(-128, 128, (30, 12)).astype(np.int8)
    engine, (actual,) = run_verilog(compile_to_target(small, "verilog"), [x], "verilator")
    assert engine.startswith("Verilator")
    assert np.array_equal(actual, run_module(small, [x])[0])


@pytest.mark.parametrize(("frames", "simulator"), [(100, None), (100_000, "verilator")])
def test_long_simulations_go_to_verilator(
    small: ModuleOp, monkeypatch: pytest.MonkeyPatch, frames: int, simulator: str | None
) -> None:
    asked: list[object] = []

    def simulate(*arguments: object, short: bool) -> Simulation:
        asked.append((arguments[-1], short))
        return Simulation("none", "")

    monkeypatch.setattr(simulation, "simulate", simulate)
    monkeypatch.setattr(simulation, "which", lambda name: name)
    artifact = compile_to_target(small, "verilog", {"vectors": 2})
    interface = Interface.from_dict(json.loads(artifact.text("report.json")))
    rtl = {name: artifact.text(name) for name in artifact.files if name.startswith("rtl/")}
    simulation.simulate_words(rtl, interface, [0] * frames, [0] * frames)
    assert asked == [(simulator, True)]


@pytest.mark.slow
def test_what_verilator_compiles_for_all_is_kept(
    require_tool: RequireTool, small: ModuleOp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_tool("verilator", "apt-get install verilator")
    monkeypatch.setenv("TRITON_DSL_CACHE", str(tmp_path))
    artifact = compile_to_target(small, "verilog", {"vectors": 2})
    port = Interface.from_dict(json.loads(artifact.text("report.json"))).inputs[0]
    x = np.random.default_rng(0).integers(-8, 8, (40, *port.shape[1:])).astype(port.dtype)
    want = run_module(small, [x])[0]
    kept: list[list[tuple[str, int]]] = []
    for _ in range(2):
        np.testing.assert_array_equal(run_verilog(artifact, [x], "verilator")[1][0], want)
        kept.append(sorted((path.name, path.stat().st_mtime_ns) for path in tmp_path.iterdir()))
    assert len(kept[0]) == 3
    assert kept[0] == kept[1]
