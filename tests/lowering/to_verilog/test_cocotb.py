"""The test for cocotb passes on the circuit, and not on another one."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.lowering.artifact import write_artifact

from .designs import hardware

Program = Callable[..., ModuleOp]
RequireTool = Callable[[str, str], str]

pytest.importorskip("cocotbext.axi", reason="pip install cocotbext-axi")


def simulated(folder: Path, require_tool: RequireTool) -> str:
    make = require_tool("make", "apt-get install make")
    here = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{here}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [make, "-f", "cocotb.mk"],
        cwd=folder / "test",
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    "name",
    [
        *("conv", "combinational"),
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("dense", "folded")),
    ],
)
def test_it_passes(
    require_tool: RequireTool, iverilog: str, program: Program, tmp_path: Path, name: str
) -> None:
    _, artifact = hardware(program, name)
    write_artifact(artifact, tmp_path)
    log = simulated(tmp_path, require_tool)
    assert "TESTS=3 PASS=3 FAIL=0" in log, log


def test_it_sees_a_wrong_result(
    require_tool: RequireTool, iverilog: str, program: Program, tmp_path: Path
) -> None:
    _, artifact = hardware(program, "folded")
    write_artifact(artifact, tmp_path)
    expected = tmp_path / "test" / "net_expected.mem"
    words = expected.read_text().split()
    words[-1] = f"{int(words[-1], 16) ^ 1:0{len(words[-1])}x}"
    expected.write_text("\n".join(words))
    assert "TESTS=3 PASS=0 FAIL=3" in simulated(tmp_path, require_tool)
