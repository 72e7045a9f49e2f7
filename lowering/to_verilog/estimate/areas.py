"""What the parts of circuits take in a family: what every choice between forms goes by.

The numbers that are a family's own are in `families.toml`. Not here: what a form is made of
(`circuit.folding`, `circuit.heaps`, `circuit.bit_counts`), and what a finished circuit takes, which
is counted part by part (`estimate`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from .families import Family, block_memories, family_of

SIX = 6
"""The inputs of large look-up tables: one selects from four, and counts bits before a carry."""

SITES_OF_A_BIT = 0.5
"""Of rows of look-up tables before a carry chain: a full one makes two bits fewer for each site."""

_REGISTERS_OF_ADDER = 1.2
"""A bit of an adder has, with those that wait."""


@dataclass(frozen=True)
class Cost:
    """What hardware takes.

    Attributes:
        luts: look-up tables.
        flip_flops: bits of registers.
        blocks: of memory.
        worth: look-up tables that the device has beside these blocks.
    """

    luts: int = 0
    flip_flops: int = 0
    blocks: int = 0
    worth: int = 0

    @property
    def area(self) -> int:
        """LUTs, with memories counted as those that a device has for each."""
        return self.luts + self.worth

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.luts + other.luts,
            self.flip_flops + other.flip_flops,
            self.blocks + other.blocks,
            self.worth + other.worth,
        )

    def __mul__(self, count: int) -> Cost:
        each = (self.luts, self.flip_flops, self.blocks, self.worth)
        return Cost(*(count * number for number in each))


@dataclass(frozen=True, eq=False)
class Areas:
    """What parts take in a family."""

    family: Family

    @property
    def is_large(self) -> bool:
        """Whether look-up tables have six inputs."""
        return self.family.inputs >= SIX

    def kept(self, luts: float, registers: float) -> float:
        """Look-up tables with registers, where forms are compared."""
        return luts + self.family.register_luts * registers

    def adders(self, bits: float) -> float:
        """So many bits of shared adders, with the registers behind them."""
        return self.kept(self.family.adder_luts * bits, _REGISTERS_OF_ADDER * bits)

    def row(self, first: int, second: int, total: int) -> float:
        """A row of a carry chain that adds numbers of so many bits, with its registers."""
        narrow, wide = sorted((first, second))
        if self.family.own_adder:
            return self.kept(total, total)
        # A look-up table that only passes a carry on is there, though Yosys does not count it.
        return self.kept(narrow + (wide - narrow) / 2, total)

    def selection(self, count: int) -> float:
        """A bit chosen from so many."""
        return (count - 1) / (3 if self.is_large else 1)

    def comparison(self, width: int) -> float:
        """A number compared with a known one."""
        return (width / 2 if self.family.chained_compare else width) + 0.7

    def in_blocks(self, count: int) -> Cost:
        """Blocks of memory."""
        return Cost(0, 0, count, count * self.family.block_luts)

    def rom(self, depth: int, width: int) -> Cost:
        """A ROM, of what it is best made of."""
        blocks = self.in_blocks(block_memories(depth, width, self.family.block_widths))
        logic = Cost(self.rom_luts(depth, width), width if depth > 1 else 0)
        return blocks if logic.area > blocks.area else logic

    def rom_luts(self, depth: int, width: int) -> int:
        """A ROM without a block: tables, and what selects from them."""
        tables = -(-depth // (1 << self.family.inputs))
        # Multiplexers that cost nothing stand behind four large tables.
        selecting = -(-((depth - 1) // 256) // 3) if self.is_large else tables - 1
        return 0 if depth < 2 else width * (tables + selecting)


@cache
def areas_of(grade: str) -> Areas:
    """What parts take in the family of a grade.

    Raises:
        OptionError: there is none of that name.
    """
    return Areas(family_of(grade))


def memory_tables(depth: int, width: int, family: Family) -> int:
    """How many look-up tables a distributed RAM takes."""
    if family.distributed_bits == 16:
        # Four bits of 16 words in four look-up tables, and two more for the port that writes.
        return -(-depth // 16) * -(-width // 4) * 6
    tables, bits = (8, 7) if family.name == "ultrascale+" else (4, 3)
    return -(-depth // 64) * -(-width // (bits if depth > 32 else 2 * bits)) * tables
