"""What Verilog says to one tool alone: attributes of memories and registers, forms of sums.

Each tool leaves alone what it does not know, so that text for one is Verilog for all. The names are
those of Vivado (UG901, "Synthesis Attributes"), Quartus ("Verilog HDL Synthesis Attributes"),
Yosys' `memory_libmap` and `proc_rom`, and Lattice's LSE and Synplify Pro (Diamond and Radiant).
Not here: where attributes stand (`memories`, `printer`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from .circuit.memories import Style

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


def _styles(attribute: str, block: str, distributed: str, registers: str) -> dict[Style, str]:
    words: dict[Style, str] = {
        "block": block,
        "distributed": distributed,
        "registers": registers,
    }  # fmt: skip
    return {style: f'{attribute} = "{word}"' for style, word in words.items()}


_YOSYS = Tool(
    ram=_styles("ram_style", "block", "distributed", "registers"),
    rom=_styles("rom_style", "block", "distributed", "logic"),
    case='rom_style = "logic"',
    apart="keep",
    ram_apart="no_rw_check",
)

TOOLS: dict[ToolName, Tool] = {
    # The folder of an AMD device has a script for Yosys too, which takes the same words.
    "vivado": Tool(
        ram=_YOSYS.ram,
        rom=_YOSYS.rom,
        case=_YOSYS.case,
        case_register='rom_style = "distributed"',
        apart='keep, shreg_extract = "no"',
        ram_apart=_YOSYS.ram_apart,
    ),
    "quartus": Tool(
        ram=_styles("ramstyle", "M10K", "MLAB", "logic"),
        rom=_styles("romstyle", "M10K", "logic", "logic"),
        case_register='romstyle = "logic"',
        apart="preserve",
    ),
    "yosys": _YOSYS,
    "lattice": Tool(
        ram=_styles("syn_ramstyle", "block_ram", "distributed", "registers"),
        rom=_styles("syn_romstyle", "EBR", "logic", "logic"),
        case_register='syn_romstyle = "logic"',
        apart="syn_preserve = 1",
    ),
    "none": Tool(),
}
"""The tools by name; `none` is Verilog without attributes."""


def attribute(text: str) -> str:
    """An attribute as it stands before a declaration; nothing for none."""
    return f"(* {text} *) " if text else ""
