"""What families of FPGAs build logic from, as far as it decides how much of it a circuit takes.

The rules are those of Yosys' `synth_xilinx`, `synth_ecp5` and `synth_ice40`, in which the numbers
can be checked. Not here: how fast (`delays`), how much a device has (`devices`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ....ir.errors import OptionError

FamilyName = Literal["ultrascale+", "7-series", "ecp5", "ice40"]


@dataclass(frozen=True)
class Family:
    """A family of devices.

    Attributes:
        name: as in `FAMILIES`.
        inputs: of a look-up table.
        costs: for each size of a function, from one input on, what covering tries to make small.
        tables: for each size of a function, the look-up tables it takes.
        least_adder: narrower adders become plain logic.
        chained_compare: comparisons go, a look-up table of operand bits at a time, through a carry
            chain; else the numbers are subtracted.
        own_adder: an adder's bit is a cell of its own; else a look-up table before the chain takes
            the exclusive or, and may take logic before it.
        inverts: an adder's cell inverts the second number itself.
        shift_registers: a look-up table can be a shift register.
        gated_reset: a reset can wait for the enable (and only so); else it never waits.
        paired: a cell has one look-up table and one register, which takes the table's output or
            leaves it unused.
        carry_bits: bits in a carry cell.
        block_widths: for each depth of a block its greatest width.
        distributed_bits: of one look-up table as memory; 0 for none.
    """

    name: FamilyName
    inputs: int
    costs: tuple[int, ...]
    tables: tuple[int, ...]
    least_adder: int
    chained_compare: bool
    own_adder: bool
    inverts: bool
    shift_registers: bool
    gated_reset: bool
    paired: bool
    carry_bits: int
    block_widths: Mapping[int, int]
    distributed_bits: int

    @property
    def block_bits(self) -> int:
        """The bits of a block memory."""
        return max(depth * width for depth, width in self.block_widths.items())


_XILINX_COSTS = (2, 2, 3, 5, 5, 5)
_EIGHTEEN_KBIT = {512: 36, 1024: 18, 2048: 9, 4096: 4, 8192: 2, 16384: 1}

FAMILIES: dict[FamilyName, Family] = {
    "ultrascale+": Family(
        name="ultrascale+",
        inputs=6,
        costs=_XILINX_COSTS,
        tables=(1,) * 6,
        least_adder=3,
        chained_compare=True,
        own_adder=False,
        inverts=False,
        shift_registers=True,
        gated_reset=False,
        paired=False,
        carry_bits=8,
        block_widths=_EIGHTEEN_KBIT,
        distributed_bits=64,
    ),
    "7-series": Family(
        name="7-series",
        inputs=6,
        costs=_XILINX_COSTS,
        tables=(1,) * 6,
        least_adder=3,
        chained_compare=True,
        own_adder=False,
        inverts=False,
        shift_registers=True,
        gated_reset=False,
        paired=False,
        carry_bits=4,
        block_widths=_EIGHTEEN_KBIT,
        distributed_bits=64,
    ),
    "ecp5": Family(
        name="ecp5",
        inputs=4,
        costs=(1, 1, 1, 1, 2, 4, 8),
        tables=(1, 1, 1, 1, 2, 4, 8),
        least_adder=5,
        chained_compare=False,
        own_adder=True,
        inverts=True,
        shift_registers=False,
        gated_reset=False,
        paired=False,
        carry_bits=2,
        block_widths=_EIGHTEEN_KBIT,
        distributed_bits=16,
    ),
    "ice40": Family(
        name="ice40",
        inputs=4,
        costs=(1,) * 4,
        tables=(1,) * 4,
        least_adder=3,
        chained_compare=False,
        own_adder=True,
        inverts=False,
        shift_registers=False,
        gated_reset=True,
        paired=True,
        carry_bits=1,
        block_widths={256: 16, 512: 8, 1024: 4, 2048: 2},
        distributed_bits=0,
    ),
}
"""The families by name."""


def family_of(name: str) -> Family:
    """The family of that name.

    Raises:
        OptionError: there is none.
    """
    for known, family in FAMILIES.items():
        if known == name:
            return family
    raise OptionError(f"no family of FPGAs is called '{name}'; there are {', '.join(FAMILIES)}")
