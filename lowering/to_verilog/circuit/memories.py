"""Memories of a circuit: a declaration that a Verilog printer writes as inferable hardware.

xDSL's dialects have no memory. Here one is an `hw.module.extern` with the attribute
`verilog.memory`, used by `hw.instance`; equal memories share a declaration. Reads are registered:
the word of an address comes one clock cycle after it, and stays while nothing is read.

    rom: inputs clock, enable, address; output data
    ram: inputs clock, write_enable, write_address, write_data, read_enable, read_address;
         output read_data. A read in the cycle of a write to the same address gives the old word.

Not here: the Verilog (`to_verilog.tools`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from xdsl.dialects import hw, seq
from xdsl.dialects.builtin import (
    DictionaryAttr,
    IntegerType,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    i1,
)
from xdsl.ir import SSAValue, TypeAttribute

from ....ir.attribute_data import data_of, dictionary_of
from .modules import module_type

MEMORY_PREFIX = "triton_"
"""The names of memories begin so; no other module's does."""

MEMORY = "verilog.memory"
"""The attribute of an `hw.module.extern` that is a memory."""

Style = Literal["block", "distributed", "registers"]

_DISTRIBUTED_DEPTH = 64
"""Up to so many words stand in LUTs unless something else is asked for."""


_FEW_BITS = 256
"""So many bits are no matter as registers."""


@dataclass(frozen=True)
class Memory:
    """A memory of `depth` words.

    Attributes:
        kind: `rom` has its words for ever, `ram` has one port that writes and one that reads.
        depth: words, at least two.
        width: bits of a word.
        style: what hardware it asks for.
        contents: the words of a ROM, or those that a RAM begins with; numbers in [0, 2^width).
        label: of a RAM with contents: what it is called by, as no other has its words.
        apart: whether no word is ever read in the cycle in which it is written.
    """

    kind: Literal["rom", "ram"]
    depth: int
    width: int
    style: Style
    contents: tuple[int, ...] = ()
    label: str = ""
    apart: bool = False

    def __post_init__(self) -> None:
        if self.depth < 2 or self.width < 1:
            raise ValueError(f"a memory of {self.depth} words of {self.width} bits")
        if len(self.contents) != (self.depth if self.kind == "rom" or self.label else 0):
            raise ValueError(f"{len(self.contents)} words for a {self.kind} of {self.depth}")
        if any(word < 0 or word >> self.width for word in self.contents):
            raise ValueError(f"a word of the {self.kind} does not fit in {self.width} bits")

    @staticmethod
    def rom(contents: Sequence[int], width: int, style: Style | None = None) -> Memory:
        """A ROM of those words; a single one is there twice."""
        words = tuple(contents) * (2 if len(contents) == 1 else 1)
        return Memory("rom", len(words), width, style or default_style(len(words)), words)

    @staticmethod
    def ram(depth: int, width: int, style: Style | None = None, *, apart: bool = False) -> Memory:
        """A RAM of at least so many words."""
        depth = max(2, depth)
        return Memory("ram", depth, width, style or default_style(depth), apart=apart)

    @staticmethod
    def loadable(label: str, contents: Sequence[int], width: int, style: Style) -> Memory:
        """A RAM called so that begins with those words; a single one is there twice."""
        words = Memory.rom(contents, width).contents
        return Memory("ram", len(words), width, style, words, label)

    def made_of(self, *, in_tables: bool) -> Style:
        """What it is made of where look-up tables can be memories, or where none can.

        There small ones are registers, as synthesis would refuse tables. Many bits stand in a block
        if they are loaded, or if the block need not give an old word while another is written.
        """
        if self.kind == "rom" or self.style != "distributed" or in_tables:
            return self.style
        many = self.depth * self.width > _FEW_BITS
        return "block" if many and (self.label or self.apart) else "registers"

    @property
    def address_width(self) -> int:
        """Bits of an address."""
        return (self.depth - 1).bit_length()

    @property
    def symbol(self) -> str:
        """The name of its module: the same for equal memories."""
        if self.label:
            return f"{MEMORY_PREFIX}{self.label}"
        name = f"{MEMORY_PREFIX}{self.kind}_{self.depth}x{self.width}"
        if self.style != default_style(self.depth):
            name += f"_{self.style}"
        if self.apart:
            name += "_apart"
        if self.contents:
            words = ",".join(f"{word:x}" for word in self.contents).encode()
            name += f"_{hashlib.sha256(words).hexdigest()[:12]}"
        return name

    @property
    def inputs(self) -> list[tuple[str, TypeAttribute]]:
        """Names and types of its inputs."""
        address, word = IntegerType(self.address_width), IntegerType(self.width)
        if self.kind == "rom":
            return [("clock", seq.clock), ("enable", i1), ("address", address)]
        return [
            ("clock", seq.clock),
            ("write_enable", i1),
            ("write_address", address),
            ("write_data", word),
            ("read_enable", i1),
            ("read_address", address),
        ]

    @property
    def output(self) -> tuple[str, TypeAttribute]:
        """Name and type of its output."""
        return ("data" if self.kind == "rom" else "read_data", IntegerType(self.width))

    def declaration(self) -> hw.HWModuleExternOp:
        """The module; one for all instances."""
        type = module_type(self.inputs, [self.output])
        op = hw.HWModuleExternOp(StringAttr(self.symbol), type)
        entries = {key: getattr(self, key) for key in ("kind", "depth", "width", "style")}
        further = {
            "contents": " ".join(f"{word:x}" for word in self.contents),
            "label": self.label,
            "apart": self.apart and UnitAttr(),
        }
        entries |= {key: value for key, value in further.items() if value}
        op.attributes[MEMORY] = dictionary_of(entries)
        return op

    def instance(self, name: str, operands: Sequence[SSAValue]) -> hw.InstanceOp:
        """An instance; operands in the order of `inputs`. Its one result is the word read."""
        names = [port for port, _ in self.inputs]
        return hw.InstanceOp(
            name,
            SymbolRefAttr(self.symbol),
            list(zip(names, operands, strict=True)),
            [self.output],
        )


def default_style(depth: int) -> Style:
    """What a memory of so many words is made of where nobody says."""
    return "distributed" if depth <= _DISTRIBUTED_DEPTH else "block"


def memory_of(op: hw.HWModuleExternOp) -> Memory | None:
    """The memory that a declaration stands for; `None` if it is another module."""
    noted = op.attributes.get(MEMORY)
    if not isinstance(noted, DictionaryAttr):
        return None
    entries = data_of(noted)
    words = tuple(int(word, 16) for word in entries.pop("contents", "").split())
    return Memory(**entries | {"contents": words, "apart": "apart" in entries})
