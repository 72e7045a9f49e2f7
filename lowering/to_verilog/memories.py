"""Memories as Verilog that synthesis infers: an array with registered reads; small ROMs as a case.

What a memory is made of stands there as an attribute (`tools`). Of a case Yosys takes the
statement's, `logic` (without one it makes blocks of large ones, as measured), others that of the
register.

The words of a ROM stand in the text, so that a design in one file is whole. Not here: what a memory
is and who uses it (`to_verilog.circuit.memories`).
"""

from __future__ import annotations

from .circuit.memories import Memory
from .tools import Tool, attribute

_LOGIC_ROM = """\
// ROM of {of.depth} words of {of.width} bits, in logic; a word comes one cycle after its address.
module {name} (
  input wire clock,
  input wire enable,
  input wire {address}address,
  {register_style}output reg {word}data
);
  always @(posedge clock)
    if (enable)
      {case_style}case (address)
{cases}
      endcase
endmodule
"""

_ROM = """\
// ROM of {of.depth} words of {of.width} bits; a word comes one cycle after its address.
module {name} (
  input wire clock,
  input wire enable,
  input wire {address}address,
  output reg {word}data
);
  {style}reg {word}words [0:{last}];
  initial begin
{contents}
  end
  always @(posedge clock) if (enable) data <= words[address];
endmodule
"""

_RAM = """\
// RAM of {of.depth} words of {of.width} bits{begins}; a word comes one cycle after its address, the
// old one where it is written in that cycle.
module {name} (
  input wire clock,
  input wire write_enable,
  input wire {address}write_address,
  input wire {word}write_data,
  input wire read_enable,
  input wire {address}read_address,
  output reg {word}read_data
);
  {style}reg {word}words [0:{last}];
{initial}  always @(posedge clock) begin
    if (write_enable) words[write_address] <= write_data;
    if (read_enable) read_data <= words[read_address];
  end
endmodule
"""


def memory_text(memory: Memory, name: str, tool: Tool, *, in_tables: bool = True) -> str:
    """The module of a memory, called so.

    Args:
        memory: which.
        name: of its module.
        tool: whose attributes there are.
        in_tables: whether look-up tables can be memories, see `Memory.made_of`.
    """
    style = memory.made_of(in_tables=in_tables)
    words = list(enumerate(memory.contents))
    hexadecimal = f"{memory.width}'h"
    contents = "\n".join(f"    words[{index}] = {hexadecimal}{word:x};" for index, word in words)
    labels = [f"{memory.address_width}'d{index}" for index, _ in words[:-1]] + ["default"]
    cases = "\n".join(
        f"        {label}: data <= {hexadecimal}{word:x};"
        for label, (_, word) in zip(labels, words, strict=False)
    )
    begins = ", which begin with those below" if words else ""
    rom = _ROM if memory.style == "block" else _LOGIC_ROM
    template = rom if memory.kind == "rom" else _RAM
    attributes = [(tool.ram if memory.kind == "ram" else tool.rom).get(style, "")]
    attributes += [tool.ram_apart] if memory.apart else []
    return template.format(
        name=name,
        of=memory,
        last=memory.depth - 1,
        address=_range(memory.address_width),
        word=_range(memory.width),
        style=attribute(", ".join(filter(None, attributes))),
        register_style=attribute(tool.case_register),
        case_style=attribute(tool.case),
        contents=contents,
        cases=cases,
        begins=begins,
        initial=f"  initial begin\n{contents}\n  end\n" if words else "",
    )


def _range(bits: int) -> str:
    return "" if bits == 1 else f"[{bits - 1}:0] "
