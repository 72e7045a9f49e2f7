"""What Verilog says to one tool alone: attributes of memories and registers, forms of sums.

Each tool leaves alone what it does not know, so that text for one is Verilog for all; the words are
in `tools.toml`. Memories are what synthesis infers: an array with registered reads; small ROMs a
case, of which Yosys takes the statement's attribute, `logic` (without one it makes blocks of large
ones, as measured), others that of the register. Not here: what a memory is and who uses it
(`to_verilog.circuit.memories`).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Literal

from .circuit.memories import Memory, Style
from .templates import filled

ToolName = Literal["vivado", "quartus", "yosys", "lattice", "none"]


@dataclass(frozen=True)
class Tool:
    """A synthesis tool.

    Attributes:
        ram: attribute and value for what a RAM is made of.
        rom: the same of a ROM that is an array.
        case: the attribute before a `case` that is a ROM in logic.
        case_register: that of the register which takes such a ROM's word.
        apart: that of a register which is to become no part of a shift register.
        ram_apart: that of a RAM of which no word is read in the cycle in which it is written.
    """

    ram: Mapping[Style, str] = field(default_factory=dict[Style, str])
    rom: Mapping[Style, str] = field(default_factory=dict[Style, str])
    case: str = ""
    case_register: str = ""
    apart: str = ""
    ram_apart: str = ""


_WORDS = files(f"{__package__}").joinpath("tools.toml").read_text(encoding="utf-8")

TOOLS = {name: Tool(**entry) for name, entry in tomllib.loads(_WORDS).items()}
"""The tools by name; `none` is Verilog without attributes."""


def attribute(text: str) -> str:
    """An attribute as it stands before a declaration; nothing for none."""
    return f"(* {text} *) " if text else ""


def bit_range(bits: int) -> str:
    """The range of so many bits in a declaration; one bit has none."""
    return "" if bits == 1 else f"[{bits - 1}:0] "


def memory_text(memory: Memory, name: str, tool: Tool, *, in_tables: bool = True) -> str:
    """The module of a memory, with the words of a ROM, so that a design in one file is whole.

    Args:
        memory: which.
        name: of its module.
        tool: whose attributes there are.
        in_tables: whether look-up tables can be memories, see `Memory.made_of`.
    """
    style = memory.made_of(in_tables=in_tables)
    rom = "rom.v" if memory.style == "block" else "logic_rom.v"
    attributes = [(tool.ram if memory.kind == "ram" else tool.rom).get(style, "")]
    attributes += [tool.ram_apart] if memory.apart else []
    return filled(
        rom if memory.kind == "rom" else "ram.v",
        name=name,
        memory=memory,
        address=bit_range(memory.address_width),
        word=bit_range(memory.width),
        style=attribute(", ".join(filter(None, attributes))),
        register_style=attribute(tool.case_register),
        case_style=attribute(tool.case),
    )
