"""What families of FPGAs build logic from, and how long signals take in each of their speed grades.

The numbers are in `families.toml`. The rules are those of Yosys, in which they can be checked.
Delays are those of a slow corner, rounded to a hundredth of a nanosecond, for deciding where a
register goes before anything is placed; what a design reaches, place and route says. Not here: how
much a device has (`devices`), which path of a circuit is the longest (`timing`).
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Literal

from ....ir.errors import OptionError

Kind = Literal["add", "compare", "logic", "mux", "register", "net", "memory"]
"""What takes time: see `delay`."""

EIGHTEEN_KBIT = {512: 36, 1024: 18, 2048: 9, 4096: 4, 8192: 2, 16384: 1}
"""For each depth of a block memory of 18 kbit its greatest width."""


@dataclass(frozen=True)
class Family:
    """A family of devices, in one speed grade.

    Attributes:
        name: of the family.
        grade: of the devices, as in `FAMILIES`.
        inputs: of a look-up table.
        costs: for each size of a function, from one input on, what covering tries to make small.
        tables: for each size of a function, the look-up tables it takes.
        widest: the inputs that a function of gates has at most; larger ones are ROMs alone.
        least_adder: narrower adders become plain logic.
        carry_bits: bits in a carry cell.
        adder_luts: look-up tables that a bit takes of shared adders with a register a level, as
            measured with Yosys on products of 512 to 8,192 weights.
        counted_luts: the same of a bit among those of which the sums are counted.
        register_luts: what a register weighs where forms are compared, in look-up tables.
        block_luts: look-up tables that devices have for each block memory, about.
        distributed_bits: of one look-up table as memory; 0 for none.
        synthesis: what Yosys runs; products with trits need no multipliers.
        constraints: the suffix of files of constraints.
        order, part: of order numbers.
        lut: through a look-up table, its slowest input.
        wide: more for each input of a function beyond `inputs`, up to `widest`, by the
            multiplexers behind look-up tables.
        carry_start: from the operands of an adder of one bit to its sum.
        carry_bit: more for each further bit.
        carry_block: the bits of a carry block.
        carry_pass: through a whole block, for adders of more than one.
        net: a routed connection to one reader.
        fanout: more for each doubling of the readers.
        clock_to_q: from the clock edge to a register's output.
        setup: before the edge; where registers take a look-up table's output, behind it.
        memory: from the clock edge to what a block memory without an output register gives.
        source: which delays are published, which read off placed designs, and which round numbers
            or guesses.
        chained_compare: comparisons go, a look-up table of operand bits at a time, through a carry
            chain; else the numbers are subtracted.
        own_adder: an adder's bit is a cell of its own; else a look-up table before the chain takes
            the exclusive or, and may take logic before it.
        inverts: an adder's cell inverts the second number itself.
        shift_registers: a look-up table can be a shift register.
        gated_reset: a register's reset can wait for its enable.
        merges_controls: see `registers`.
        paired: a cell has one look-up table and one register, which takes the table's output or
            leaves it unused.
        macro: what is defined for a family with primitives for rows, see `templates/row.v`; others
            have none, as a site with one output beside its carry makes no more than one bit fewer.
        nextpnr: its flags for a device.
        packages: what it calls packages, by how order numbers begin with them.
        clock: in MHz, of boards, where nobody says; 0 without an open route to a bitstream.
        block_widths: for each depth of a block its greatest width.
        reads_new: a block gives no old word while another is written in its place, so that
            synthesis writes a cycle later, and selects what was not yet written.
    """

    name: str
    grade: str
    inputs: int
    costs: Sequence[int]
    tables: Sequence[int]
    widest: int
    least_adder: int
    carry_bits: int
    adder_luts: float
    counted_luts: float
    register_luts: float
    block_luts: int
    distributed_bits: int
    synthesis: str
    constraints: str
    order: str
    part: str
    lut: float
    wide: float
    carry_start: float
    carry_bit: float
    carry_block: int
    carry_pass: float
    net: float
    fanout: float
    clock_to_q: float
    setup: float
    memory: float
    source: str
    chained_compare: bool = False
    own_adder: bool = False
    inverts: bool = False
    shift_registers: bool = False
    gated_reset: bool = False
    merges_controls: bool = False
    paired: bool = False
    macro: str = ""
    nextpnr: str = ""
    packages: Mapping[str, str] = field(default_factory=dict[str, str])
    clock: float = 0.0
    block_widths: Mapping[int, int] = field(default_factory=lambda: EIGHTEEN_KBIT)
    reads_new: bool = False

    @property
    def block_bits(self) -> int:
        """The bits of a block memory."""
        return max(depth * width for depth, width in self.block_widths.items())


def entries(file: str) -> dict[str, dict[str, Any]]:
    """The tables of a file beside this one."""
    return tomllib.loads(files(f"{__package__}").joinpath(file).read_text(encoding="utf-8"))


def _families() -> Iterator[Family]:
    for name, entry in entries("families.toml").items():
        widths = entry.pop("block_widths", None)
        if widths is not None:
            entry["block_widths"] = {int(depth): width for depth, width in widths.items()}
        for grade, delays in entry.pop("grades").items():
            yield Family(name, grade, **entry, **delays)


FAMILIES: dict[str, Family] = {family.grade: family for family in _families()}
"""The families by grade."""


def family_of(grade: str) -> Family:
    """The family of a grade.

    Raises:
        OptionError: there is none of that name.
    """
    if grade not in FAMILIES:
        raise OptionError(f"no delays are known for '{grade}'; there are {', '.join(FAMILIES)}")
    return FAMILIES[grade]


def block_memories(depth: int, width: int, shapes: Mapping[int, int]) -> int:
    """How many block memories a memory takes, in the best of their shapes: widths by depth."""
    return min(-(-depth // d) * -(-width // w) for d, w in shapes.items())


def delay(grade: str, kind: Kind, width: int = 1) -> float:
    """How long a part of a path takes, in nanoseconds, without the nets before and after it.

    Args:
        grade: see `FAMILIES`.
        kind: `add` (a sum or difference of two numbers), `compare` (of two numbers, or of one
            with a constant), `logic` (a function of `width` bits), `mux` (a selection by one bit),
            `net`, `register` (clock to output and setup together), `memory` (clock to output).
        width: bits of the numbers, or inputs of the function; nothing for the last three.

    Raises:
        OptionError: the grade is unknown.
    """
    known = family_of(grade)
    match kind:
        case "add":
            return _carry(known, width)
        case "compare":
            return min(_carry(known, (width + 1) // 2), _logic(known, 2 * width))
        case "logic":
            return _logic(known, width)
        case "mux":
            return known.lut
        case "register":
            return known.clock_to_q + known.setup
        case "net":
            return known.net
        case "memory":
            return known.memory


def _carry(known: Family, width: int) -> float:
    blocks, rest = divmod(max(width, 1) - 1, known.carry_block)
    return known.carry_start + blocks * known.carry_pass + rest * known.carry_bit


def _logic(known: Family, inputs: int) -> float:
    """Levels of look-up tables, with a net between two."""
    if inputs <= known.widest:
        return known.lut + known.wide * max(0, inputs - known.inputs)
    return _logic(known, known.inputs) + known.net + _logic(known, -(-inputs // known.inputs))
