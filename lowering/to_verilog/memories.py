"""Memories as Verilog that synthesis infers: an array with registered reads; small ROMs as a case.

What a memory is made of stands there as an attribute (`tools`). Of a case Yosys takes the
statement's, `logic` (without one it makes blocks of large ones, as measured), others that of the
register.

The words of a ROM stand in the text, so that a design in one file is whole. Not here: what a memory
is and who uses it (`to_verilog.circuit.memories`).
"""

from __future__ import annotations

from .circuit.memories import Memory
from .templates import filled
from .tools import Tool, attribute


def memory_text(memory: Memory, name: str, tool: Tool, *, in_tables: bool = True) -> str:
    """The module of a memory, called so.

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
        address=_range(memory.address_width),
        word=_range(memory.width),
        style=attribute(", ".join(filter(None, attributes))),
        register_style=attribute(tool.case_register),
        case_style=attribute(tool.case),
    )


def _range(bits: int) -> str:
    return "" if bits == 1 else f"[{bits - 1}:0] "
