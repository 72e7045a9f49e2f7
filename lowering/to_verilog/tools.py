"""What Verilog says to one tool alone: attributes of memories and registers, forms of sums.

Each tool leaves alone what it does not know, so that text for one is Verilog for all; the words are
in `tools.toml`. Memories are what synthesis infers: an array with registered reads; small ROMs a
case, of which Yosys takes the statement's attribute, `logic` (without one it makes blocks of large
ones, as measured), others that of the register; on AMD devices, which a macro names, their look-up
tables. Not here: what a memory is and who uses it
(`to_verilog.circuit.memories`).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Literal

from .circuit.memories import Memory, Style
from .circuit.rom_tables import AddressBit, Choice, Part, Table, parts_in, rom_parts
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
    tables, bits = _tables(memory) if rom == "logic_rom.v" and memory.kind == "rom" else ([], [])
    return filled(
        rom if memory.kind == "rom" else "ram.v",
        name=name,
        memory=memory,
        address=bit_range(memory.address_width),
        word=bit_range(memory.width),
        style=attribute(", ".join(filter(None, attributes))),
        register_style=attribute(tool.case_register),
        case_style=attribute(tool.case),
        tables=tables,
        bits=bits,
    )


def _tables(memory: Memory) -> tuple[list[str], list[str]]:
    """The primitives that a ROM is made of, and from them the bits of the word, the highest first.

    No primitives where synthesis makes all of it.
    """
    names: dict[Part, str] = {}
    lines: list[str] = []
    parts = rom_parts(memory.contents, memory.width)
    for part in (below for whole in parts for below in parts_in(whole)):
        if part not in names:
            names[part] = _expression(part, names) or f"t[{len(lines)}]"
            if names[part].startswith("t["):
                lines.append(_primitive(part, names, len(lines)))
    return lines, [names[part] for part in reversed(parts)]


def _expression(part: Part, names: Mapping[Part, str]) -> str:
    """What gives a bit without a primitive; nothing else."""
    match part:
        case bool():
            return f"1'b{int(part)}"
        case AddressBit(place):
            return f"address[{place}]"
        case Table(pins, table) if part.is_shared:
            chosen = [f"1'b{table >> i & 1}" for i in range(1 << len(pins))]
            for pin in pins:
                pairs = zip(chosen[::2], chosen[1::2], strict=True)
                chosen = [f"({names[pin]} ? {one} : {zero})" for zero, one in pairs]
            return chosen[0]
        case _:
            return ""


def _primitive(part: Part, names: Mapping[Part, str], index: int) -> str:
    """The instance that gives a bit."""
    if isinstance(part, Table):
        pins = [names[pin] for pin in part.pins]
        given = ", ".join(f".I{i}({pin})" for i, pin in enumerate(pins))
        table = f"{1 << len(pins)}'h{part.table:x}"
        return f"LUT{len(pins)} #(.INIT({table})) t_{index} ({given}, .O(t[{index}]));"
    assert isinstance(part, Choice)
    no, yes, bit = (names[pin] for pin in (part.no, part.yes, part.bit))
    return f"MUXF{part.level} t_{index} (.I0({no}), .I1({yes}), .S({bit}), .O(t[{index}]));"
