"""Memories as Verilog: no tool warns of them, and words come one cycle after their address."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from triton_dsl.lowering.to_verilog.circuit.memories import Memory, Style, memory_of
from triton_dsl.lowering.to_verilog.tools import TOOLS, memory_text

RequireTool = Callable[[str, str], str]
MEMORIES = [
    Memory.ram(1, 1),
    Memory.ram(5, 7),
    Memory.ram(100, 40),
    Memory.ram(3, 4, "registers"),
    Memory.rom([9], 4),
    Memory.rom([3, 1, 2], 2),
    Memory.rom([2**39 + i for i in range(100)], 40),
    Memory.rom(list(range(10)), 4, "block"),
]
LINTS = {
    "iverilog": ["iverilog", "-Wall", "-g2001", "-o", "out"],
    "verilator": ["verilator", "--lint-only", "-Wall"],
    "yosys": ["yosys", "-q", "-p", "proc; memory -nomap; check -assert"],
}

BENCH = """
module bench;
  reg clock, write_enable, read_enable;
  reg [2:0] write_address, read_address;
  reg [6:0] write_data;
  wire [6:0] ram_data, rom_data;
  {ram} ram (clock, write_enable, write_address, write_data, read_enable, read_address, ram_data);
  {rom} rom (clock, read_enable, read_address, rom_data);
  integer step;
  initial begin
    clock = 0; read_enable = 0; write_enable = 1;
    for (step = 0; step < 12; step = step + 1) begin
      write_address = step % 5; write_data = step * 3;
      read_address = step % 5; read_enable = step >= 5 && step != 8;
      #1 clock = 1;
      #1 clock = 0;
      if (step >= 5) $display("%0d %0d", ram_data, rom_data);
    end
  end
endmodule
"""


@pytest.mark.parametrize("memory", MEMORIES, ids=lambda memory: memory.symbol)
def test_declarations_hold_the_memory(memory: Memory) -> None:
    assert memory_of(memory.declaration()) == memory


@pytest.mark.parametrize("tool", LINTS)
@pytest.mark.parametrize("memory", MEMORIES, ids=lambda memory: memory.symbol)
def test_no_tool_warns(
    memory: Memory, tool: str, tmp_path: Path, require_tool: RequireTool
) -> None:
    require_tool(tool, f"apt-get install {tool}")
    (tmp_path / f"{memory.symbol}.v").write_text(
        memory_text(memory, memory.symbol, TOOLS["vivado"])
    )
    command = [*LINTS[tool], f"{memory.symbol}.v"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("memory", MEMORIES, ids=lambda memory: memory.symbol)
def test_every_memory_is_found_in_a_device(
    memory: Memory, tmp_path: Path, require_tool: RequireTool
) -> None:
    require_tool("yosys", "apt-get install yosys")
    (tmp_path / "memory.v").write_text(memory_text(memory, memory.symbol, TOOLS["vivado"]))
    command = ["yosys", "-p", "synth_xilinx -family xcup -noiopad", "memory.v"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert memory.style != "block" or "RAMB" in done.stdout


@pytest.mark.parametrize("style", ["block", "distributed"])
def test_words_come_one_cycle_later(
    style: Style, tmp_path: Path, require_tool: RequireTool
) -> None:
    require_tool("iverilog", "apt-get install iverilog")
    ram, rom = Memory.ram(5, 7, style), Memory.rom([11, 22, 33, 44, 55], 7, style)
    text = (
        BENCH.format(ram=ram.symbol, rom=rom.symbol)
        + memory_text(ram, ram.symbol, TOOLS["none"])
        + memory_text(rom, rom.symbol, TOOLS["none"])
    )
    (tmp_path / "bench.v").write_text(text)
    iverilog, vvp = shutil.which("iverilog"), shutil.which("vvp")
    assert iverilog and vvp
    subprocess.run([iverilog, "-g2001", "-o", "run", "bench.v"], cwd=tmp_path, check=True)
    out = subprocess.run([vvp, "-N", "run"], cwd=tmp_path, check=True, capture_output=True)
    seen = [tuple(map(int, line.split())) for line in out.stdout.decode().splitlines()]
    # the word of five steps ago, as a write in the same cycle comes later; nothing new at step 8
    expected = [(3 * (step - 5), 11 * (step % 5 + 1)) for step in range(5, 12)]
    expected[3] = expected[2]
    assert seen == expected


@pytest.mark.parametrize("words", [[4], [-1, 0]])
def test_words_must_fit(words: list[int]) -> None:
    with pytest.raises(ValueError, match="does not fit in 2 bits"):
        Memory.rom(words, 2)
