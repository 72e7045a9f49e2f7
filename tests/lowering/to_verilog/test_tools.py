"""Verilog for a tool has that tool's words, and every tool reads it."""

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.ir.errors import OptionError
from triton_dsl.lowering.artifact import write_artifact
from triton_dsl.lowering.targets import compile_to_target, read_options
from triton_dsl.lowering.to_verilog.circuit.memories import Memory
from triton_dsl.lowering.to_verilog.options import VerilogOptions, tool_for
from triton_dsl.lowering.to_verilog.simulation import run_verilog
from triton_dsl.lowering.to_verilog.target import VerilogTarget
from triton_dsl.lowering.to_verilog.tools import TOOLS, ToolName, memory_text

RequireTool = Callable[[str, str], str]

BLOCK = Memory.ram(1024, 8, "block")
TABLES = Memory.ram(40, 8, "distributed")
ROM = Memory.rom(list(range(64)), 8, "distributed")

WORDS: dict[ToolName, tuple[str, str, str]] = {
    "vivado": ('ram_style = "block"', 'ram_style = "distributed"', 'rom_style = "distributed"'),
    "quartus": ('ramstyle = "M10K"', 'ramstyle = "MLAB"', 'romstyle = "logic"'),
    "yosys": ('ram_style = "block"', 'ram_style = "distributed"', 'rom_style = "logic"'),
    "lattice": (
        'syn_ramstyle = "block_ram"', 'syn_ramstyle = "distributed"', 'syn_romstyle = "logic"'
    ),
}  # fmt: skip
"""By UG901, the Quartus Prime help on HDL attributes, Yosys' manual and LSE's user guide."""

READERS = {
    "iverilog": ["iverilog", "-g2005", "-Wall", "-o", "out"],
    "verilator": ["verilator", "--lint-only", "-Wall"],
    "yosys": ["yosys", "-q", "-p", "proc; memory -nomap; check -assert"],
}


def attributes(text: str) -> list[str]:
    return re.findall(r"\(\* (.*?) \*\)", text)


@pytest.mark.parametrize("name", WORDS)
def test_memories_ask_in_the_words_of_the_tool(name: ToolName) -> None:
    tool = TOOLS[name]
    for memory, word in zip((BLOCK, TABLES, ROM), WORDS[name], strict=True):
        assert word in attributes(memory_text(memory, "m", tool))
        assert not attributes(memory_text(memory, "m", TOOLS["none"]))


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", TOOLS)
def test_every_tool_reads_it(
    name: ToolName, reader: str, require_tool: RequireTool, tmp_path: Path
) -> None:
    if shutil.which(reader) is None:
        require_tool(reader, f"apt-get install {reader}")
    for number, memory in enumerate((BLOCK, ROM)):
        file = tmp_path / f"m{number}.v"
        file.write_text(memory_text(memory, f"m{number}", TOOLS[name]))
        done = subprocess.run(
            [*READERS[reader], file.name], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_device_chooses_the_tool() -> None:
    assert tool_for(VerilogOptions(device="xc7a35t")) == "vivado"
    assert tool_for(VerilogOptions(device="ecp5-25")) == tool_for(VerilogOptions()) == "yosys"
    assert tool_for(VerilogOptions(device="xc7a35t", tool="none")) == "none"
    with pytest.raises(OptionError, match="'tool' expects one of vivado, quartus, yosys"):
        read_options(VerilogTarget(), {"tool": "diamond"})
    with pytest.raises(OptionError, match="tool=quartus asks in words that no tool of 'ecp5-25'"):
        tool_for(VerilogOptions(device="ecp5-25", tool="quartus"))


def test_yosys_makes_the_memories_that_quartus_is_asked_for(
    program: Callable[..., ModuleOp], require_tool: RequireTool, tmp_path: Path
) -> None:
    """By the script of the folder, for a device that has them."""
    yosys = require_tool("yosys", "apt-get install yosys")
    text = """func.func @forward(%x: tensor<?x2x5x40xi8>) -> tensor<?x2x4x39xi8> {
  %y = tensor.max_pool %x {kernel = array<i64: 2, 2>, strides = array<i64: 1, 1>,
       padding = array<i64: 0, 0, 0, 0>} : (tensor<?x2x5x40xi8>) -> tensor<?x2x4x39xi8>
  func.return %y : tensor<?x2x4x39xi8>
}"""
    artifact = compile_to_target(program(text, {}), "verilog", {"tool": "quartus", "vectors": 2})
    write_artifact(artifact, tmp_path / "circuit")
    done = subprocess.run(
        [yosys, "-q", "synth.ys"], cwd=tmp_path / "circuit", capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "synth_intel_alm" in artifact.text("synth.ys")


@pytest.mark.usefixtures("iverilog")
def test_sums_are_plain_where_the_tool_wants_them(small: ModuleOp) -> None:
    """The same results, by `a + b` in place of a difference from the inverse."""
    options: dict[str, Any] = {"pipeline": 0, "vectors": 4, "time_budget": 0.02}
    x = np.random.default_rng(3).integers(-128, 128, (20, 12))
    found: list[Any] = []
    for more, differences in (
        ({"tool": "quartus"}, False),
        ({"tool": "yosys"}, True),
        ({"device": "ecp5-25"}, False),
        ({"device": "hx8k"}, True),
    ):
        artifact = compile_to_target(small.clone(), "verilog", options | more)
        core = artifact.text("rtl/net_core.v")
        assert ("1'd0} - " in core) == differences
        found.append(run_verilog(artifact, [x])[1][0])
    assert all(np.array_equal(y, found[0]) for y in found)


@pytest.mark.usefixtures("iverilog")
def test_rows_are_made_for_families_that_have_them(program: Callable[..., ModuleOp]) -> None:
    """Other tools get adders, and the same results."""
    text = """func.func @forward(%x: tensor<?x24xi8>) -> tensor<?x32xi32> {
  %w = ternary.parameter "w" : tensor<24x32x!ternary.trit>
  %y = ternary.matmul %x, %w : tensor<?x24xi8>, tensor<24x32x!ternary.trit> -> tensor<?x32xi32>
  func.return %y : tensor<?x32xi32>
}"""
    rng = np.random.default_rng(4)
    x, w = rng.integers(-8, 8, (20, 24)), rng.integers(-1, 2, (24, 32), np.int8)
    options = {"vectors": 2, "time_budget": 0.02, "input_bits": 4}
    for more, rows in (
        ({}, True),
        ({"tool": "vivado"}, True),
        ({"tool": "quartus"}, False),
        ({"tool": "none"}, False),
        ({"tool": "lattice"}, False),
        ({"device": "ecp5-25"}, False),
    ):
        artifact = compile_to_target(program(text, {"w": w}), "verilog", options | more)
        assert ("TRITON_CARRY8" in artifact.text("rtl/network_core.v")) == rows
        assert np.array_equal(run_verilog(artifact, [x])[1][0], x @ w)
