"""What families of FPGAs build logic from, as far as it decides how much of it a circuit takes.

The rules are those of Yosys' `synth_xilinx`, `synth_ecp5` and `synth_ice40`, in which the numbers
can be checked. Not here: how fast (`delays`), how much a device has (`devices`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

FamilyName = Literal["ultrascale+", "7-series", "ecp5", "ice40"]


EIGHTEEN_KBIT = {512: 36, 1024: 18, 2048: 9, 4096: 4, 8192: 2, 16384: 1}
"""For each depth of a block memory of 18 kbit its greatest width."""


@dataclass(frozen=True)
class Family:
    """A family of devices.

    Attributes:
        name: as in `FAMILIES`.
        inputs: of a look-up table.
        costs: for each size of a function, from one input on, what covering tries to make small.
        tables: for each size of a function, the look-up tables it takes.
        widest: the inputs that a function of gates has at most; larger ones are ROMs alone.
        least_adder: narrower adders become plain logic.
        carry_bits: bits in a carry cell.
        distributed_bits: of one look-up table as memory; 0 for none.
        chained_compare: comparisons go, a look-up table of operand bits at a time, through a carry
            chain; else the numbers are subtracted.
        own_adder: an adder's bit is a cell of its own; else a look-up table before the chain takes
            the exclusive or, and may take logic before it.
        inverts: an adder's cell inverts the second number itself.
        keeps_constants: a multiplexer of look-up tables has one for a constant too.
        shift_registers: a look-up table can be a shift register.
        gated_reset: a register's reset can wait for its enable.
        merges_controls: see `controls`.
        paired: a cell has one look-up table and one register, which takes the table's output or
            leaves it unused.
        block_widths: for each depth of a block its greatest width.
    """

    name: FamilyName
    inputs: int
    costs: tuple[int, ...]
    tables: tuple[int, ...]
    widest: int
    least_adder: int
    carry_bits: int
    distributed_bits: int
    chained_compare: bool = False
    own_adder: bool = False
    inverts: bool = False
    keeps_constants: bool = False
    shift_registers: bool = False
    gated_reset: bool = False
    merges_controls: bool = False
    paired: bool = False
    block_widths: Mapping[int, int] = field(default_factory=lambda: EIGHTEEN_KBIT)

    @property
    def block_bits(self) -> int:
        """The bits of a block memory."""
        return max(depth * width for depth, width in self.block_widths.items())


_XILINX = Family(
    "ultrascale+",
    inputs=6,
    costs=(2, 2, 3, 5, 5, 5, 10, 20, 40),
    tables=(*(1,) * 6, 2, 4, 8),
    # abc takes up to nine on longest paths, and finds others for most of those.
    widest=8,
    least_adder=3,
    carry_bits=8,
    distributed_bits=64,
    chained_compare=True,
    shift_registers=True,
    merges_controls=True,
)

_LATTICE = Family(
    "ecp5",
    inputs=4,
    costs=(1, 1, 1, 1, 2, 4, 8),
    tables=(1, 1, 1, 1, 2, 4, 8),
    widest=7,
    least_adder=5,
    carry_bits=2,
    distributed_bits=16,
    own_adder=True,
    inverts=True,
    keeps_constants=True,
)

_ICE = Family(
    "ice40",
    inputs=4,
    costs=(1,) * 4,
    tables=(1,) * 4,
    widest=4,
    least_adder=3,
    carry_bits=1,
    distributed_bits=0,
    own_adder=True,
    gated_reset=True,
    paired=True,
    block_widths={256: 16, 512: 8, 1024: 4, 2048: 2},
)

FAMILIES: dict[FamilyName, Family] = {
    family.name: family
    for family in (_XILINX, replace(_XILINX, name="7-series", carry_bits=4), _LATTICE, _ICE)
}
"""The families by name."""


def family_of(grade: str) -> Family:
    """The family whose devices have a grade, see `delays.DELAYS`."""
    return next(family for name, family in FAMILIES.items() if grade.startswith(name))


def block_memories(depth: int, width: int, shapes: Mapping[int, int]) -> int:
    """How many block memories a memory takes, in the best of their shapes: widths by depth."""
    return min(-(-depth // d) * -(-width // w) for d, w in shapes.items())
