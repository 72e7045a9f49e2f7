"""What hardware takes in look-up tables: the numbers that all choices between forms go by.

Tables have six inputs, as Yosys maps to UltraScale+. Not here: what a form is made of (`folding`,
`heaps`, `bit_counts`), and what a finished circuit takes (`to_verilog.estimate`).
"""

from __future__ import annotations

from dataclasses import dataclass

from ..estimate.families import EIGHTEEN_KBIT, block_memories
from .memories import Style

LUT_PER_ADDER_BIT = 0.85
"""Of shared graphs of adders with a register a level, as measured with Yosys."""

LUT_PER_COUNTED_BIT = 0.66
"""Of sums of single bits."""

LUT_PER_REGISTER = 0.25
"""What a register weighs where forms are compared: there are two for each look-up table."""

LUT_PER_PASSED_CARRY = 0.5
"""What a bit of a carry chain costs that only passes a carry on: a look-up table on the device,
and none in the count of Yosys."""

LUTS_OF_A_BLOCK = 200
"""A block of 18 Kbit is worth so many LUTs: about their ratio in devices of several families."""


@dataclass(frozen=True)
class Cost:
    """What hardware takes.

    Attributes:
        luts: look-up tables.
        flip_flops: bits of registers.
        blocks: memories of 18 Kbit.
    """

    luts: int = 0
    flip_flops: int = 0
    blocks: int = 0

    @property
    def area(self) -> int:
        """LUTs, with memories counted as those that a device has for each."""
        return self.luts + LUTS_OF_A_BLOCK * self.blocks

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.luts + other.luts,
            self.flip_flops + other.flip_flops,
            self.blocks + other.blocks,
        )

    def __mul__(self, count: int) -> Cost:
        return Cost(self.luts * count, self.flip_flops * count, self.blocks * count)


def rom_luts(depth: int, width: int) -> int:
    """LUTs of a ROM without a block: tables of 64 words, and what selects from four times four."""
    selecting = -(-((depth - 1) // 256) // 3)
    return 0 if depth < 2 else width * (-(-depth // 64) + selecting)


def rom_style(depth: int, width: int) -> Style:
    """What a ROM is best made of."""
    blocks = block_memories(depth, width, EIGHTEEN_KBIT)
    return "block" if rom_luts(depth, width) > LUTS_OF_A_BLOCK * blocks else "distributed"


def rom_cost(depth: int, width: int) -> Cost:
    """What a ROM takes, of what it is best made of."""
    if rom_style(depth, width) == "block":
        return Cost(0, 0, block_memories(depth, width, EIGHTEEN_KBIT))
    return Cost(rom_luts(depth, width), width if depth > 1 else 0)
