"""Sizes of memories: by hand, and ROMs of logic by Yosys."""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerAttr, IntegerType, ModuleOp, i1
from xdsl.dialects.comb import ConcatOp, ExtractOp
from xdsl.dialects.hw import ConstantOp, HWModuleOp, InstanceOp
from xdsl.rewriter import Rewriter

from triton_dsl.lowering.to_verilog.circuit.memories import Memory
from triton_dsl.lowering.to_verilog.estimate.estimate import Resources, estimate
from triton_dsl.lowering.to_verilog.tools import TOOLS, memory_text

from .test_estimate import circuit

CELLS = Path("/usr/share/yosys/xilinx/cells_sim.v")
"""Models of AMD's primitives, which come with Yosys."""


def with_memory(memory: Memory, body: str = "%y0 = hw.constant 0 : i{}") -> ModuleOp:
    """A circuit that reads a memory for each constant, and writes it if that can be."""
    bits, width = memory.address_width, memory.width
    ports = f"in %from: i{bits}, in %to: i{bits}, in %word: i{width}"
    module = circuit(body.replace("{}", str(width)), ports, f"i{width}")
    (top,) = module.ops
    assert isinstance(top, HWModuleOp)
    clock, enable, _, address, to, word = top.body.block.args
    writes = [enable, to, word] if memory.kind == "ram" else []
    for number, op in enumerate(list(top.body.block.ops)):
        if isinstance(op, ConstantOp):
            instance = memory.instance(f"memory_{number}", [clock, *writes, enable, address])
            Rewriter.replace_op(op, instance)
    module.body.block.insert_op_before(memory.declaration(), top)
    return module


def test_equal_roms_at_one_address_are_read_into_one_register() -> None:
    memory = Memory.rom([5, 3, 6, 4], 3, "distributed")
    body = "%a = hw.constant 0 : i{}\n%b = hw.constant 0 : i{}\n%y0 = comb.xor %a, %b : i{}"
    assert estimate(with_memory(memory, body)).total == Resources()


def test_what_is_always_or_twice_written_takes_no_registers() -> None:
    module = with_memory(Memory.ram(4, 3, "registers"))
    *_, top = module.ops
    assert isinstance(top, HWModuleOp)
    (read,) = (op for op in top.body.block.ops if isinstance(op, InstanceOp))
    one, low = ConstantOp(1, 1), ExtractOp(top.body.block.args[-1], IntegerAttr(0, 32), i1)
    word = ConcatOp([one, low, low], IntegerType(3))
    top.body.block.insert_ops_before([one, low, word], read)
    read.operands[3] = word.result
    # A bit in each of four words, and the one that is read; four decoders, a selection of four.
    size = estimate(module).total
    assert (size.flip_flops, size.luts) == (5, 5)


def test_blocks_that_give_no_old_word_are_written_a_cycle_later() -> None:
    # Registers as Yosys 0.23 has them, for where, whether and what, twice; it takes 13 tables.
    size = estimate(with_memory(Memory.ram(89, 8, "block")), "ice40-hx").total
    assert (size.flip_flops, size.luts, size.block_memories) == (25, 14, 1)
    size = estimate(with_memory(Memory.ram(89, 8, "block", apart=True)), "ice40-hx").total
    assert (size.flip_flops, size.luts, size.block_memories) == (0, 0, 1)


def test_memories() -> None:
    large = Memory.ram(1024, 36, "block")
    assert estimate(with_memory(large)).total == Resources(block_memories=2)
    assert estimate(with_memory(large), "ice40-hx").total.block_memories == 9
    small = estimate(with_memory(Memory.ram(32, 14, "distributed"))).total
    assert (small.memory_luts, small.flip_flops) == (8, 14)
    registers = estimate(with_memory(Memory.ram(4, 3, "registers"))).total
    # A word of registers each, and the one that is read; four decoders; three selections of four.
    assert (registers.flip_flops, registers.luts) == (15, 7)
    words = [(1 << 40) - 1 - (i << 5) for i in range(512)]
    # Nine bits of forty differ from word to word.
    assert estimate(with_memory(Memory.rom(words, 40, "block"))).total.block_memories == 1
    rom = estimate(with_memory(Memory.rom([5, 5, 5, 4], 3, "distributed"))).total
    # One bit is always 1, one always 0: only one depends on the address.
    assert (rom.luts, rom.flip_flops) == (1, 1)


def structured(depth: int) -> tuple[list[int], int]:
    """Words of random bits, with equal, constant and half constant ones and bits of the address."""
    rng = np.random.default_rng(depth)
    bits = rng.integers(0, 2, (9, depth))
    number = np.arange(depth)
    bits[1], bits[2], bits[3] = bits[0], 1, number >> 1 & 1
    bits[4] *= number < depth // 2
    bits[5] = np.where(number < depth * 5 // 8, bits[5], 1)
    bits[6], bits[7] = number & number >> 1 & 1, bits[7, number & 31]
    return [sum(int(b) << i for i, b in enumerate(word)) for word in bits.T], 9


@pytest.mark.parametrize(
    "depth", [2, 3, 5, 60, 100, 130, 300, pytest.param(1050, marks=pytest.mark.slow)]
)
def test_tables_of_a_rom_have_its_words(
    depth: int, tmp_path: Path, require_tool: Callable[[str, str], str], iverilog: str
) -> None:
    require_tool("yosys", "apt-get install yosys")
    words, width = structured(depth)
    memory = Memory.rom(words, width, "distributed")
    bench = f"""
module bench;
  reg clock = 0;
  reg [{memory.address_width - 1}:0] address;
  wire [{width - 1}:0] data;
  {memory.symbol} rom (clock, 1'b1, address, data);
  integer i;
  initial for (i = 0; i < {1 << memory.address_width}; i = i + 1) begin
    address = i;
    #1 clock = 1;
    #1 clock = 0;
    $display("%0d", data);
  end
endmodule"""
    text = memory_text(memory, memory.symbol, TOOLS["vivado"])
    assert ("LUT" in text) == (depth > 4)
    (tmp_path / "rom.v").write_text(text + bench, encoding="utf-8")
    command = [iverilog, "-g2005-sv", "-DTRITON_CARRY4", "-s", "bench", "-o", "run", "rom.v"]
    subprocess.run([*command, "-l", str(CELLS)], cwd=tmp_path, check=True)
    shown = subprocess.run(["vvp", "-N", "run"], cwd=tmp_path, check=True, capture_output=True)
    # Behind the last word it is there again.
    expected = words + words[-1:] * ((1 << memory.address_width) - depth)
    assert list(map(int, shown.stdout.split())) == expected


@pytest.mark.slow
@pytest.mark.parametrize("depth", [12, 60, 100, 200, 300, 1050])
def test_roms_of_logic_take_the_tables_that_are_told(
    depth: int, tmp_path: Path, require_tool: Callable[[str, str], str]
) -> None:
    yosys = require_tool("yosys", "apt-get install yosys")
    words, width = structured(depth)
    memory = Memory.rom(words, width, "distributed")
    text = memory_text(memory, memory.symbol, TOOLS["yosys"])
    (tmp_path / "rom.v").write_text(text, encoding="utf-8")
    script = (
        "read_verilog -DTRITON_CARRY8 rom.v; synth_xilinx -family xcup -noiopad; "
        "tee -o stat.json stat -json"
    )
    command = [yosys, "-q", "-p", script]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    text = (tmp_path / "stat.json").read_text(encoding="utf-8")
    cells = json.loads(text)["design"]["num_cells_by_type"]
    assert not any(name.startswith("RAM") for name in cells)
    found = estimate(with_memory(memory)).total
    registers = sum(count for name, count in cells.items() if name.startswith("FD"))
    assert found.flip_flops == registers and not found.block_memories
    assert found.luts == sum(n for name, n in cells.items() if re.match("LUT|INV", name))
