"""How long signals take in the families of FPGAs: look-up tables, carry chains, nets, registers.

The numbers are those of a slow corner, rounded to a hundredth of a nanosecond; `Delays.source` says
which are published, which read off placed designs, and which round numbers or guesses. They are for
deciding where a register goes before anything is placed; what a design reaches, place and route
says. Not here: which path of a circuit is the longest (`timing`), how large it is (`estimate`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ....ir.errors import OptionError

Grade = Literal["ultrascale+", "7-series", "ecp5", "ice40-hx", "ice40-up"]
"""A family, with the speed grade of the devices that `devices` knows."""

Kind = Literal["add", "compare", "logic", "mux", "register", "net", "memory"]
"""What takes time: see `delay`."""


@dataclass(frozen=True)
class Delays:
    """Delays of a family in nanoseconds.

    Attributes:
        inputs: of a look-up table.
        lut: through a look-up table, its slowest input.
        wide: more for each input of a function beyond `inputs`, up to `widest`, by the
            multiplexers behind look-up tables.
        widest: the inputs of a function that takes one level.
        carry_start: from the operands of an adder of one bit to its sum.
        carry_bit: more for each further bit.
        carry_block: the bits of a carry block.
        carry_pass: through a whole block, for adders of more than one.
        net: a routed connection to one reader.
        fanout: more for each doubling of the readers.
        clock_to_q: from the clock edge to a register's output.
        setup: before the edge; where registers take a look-up table's output, behind it.
        memory: from the clock edge to what a block memory without an output register gives.
        source: where the numbers are from.
    """

    inputs: int
    lut: float
    wide: float
    widest: int
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


# fmt: off
DELAYS: dict[Grade, Delays] = {
    "ultrascale+": Delays(
        inputs=6, lut=0.15, wide=0.10, widest=8,
        carry_start=0.27, carry_bit=0.025, carry_block=8, carry_pass=0.07,
        net=0.35, fanout=0.06, clock_to_q=0.08, setup=0.025, memory=1.0,
        source="RapidWright's timing model (v0.5, intrasite_delay_terms.txt): look-up table 150 "
        "ps, F7MUX 95 to 102, CARRY8 from S0 65 to O0 and 241 to O7, from CIN 23 to CO7, clock to "
        "output 77, setup 25, memory 1003; carry chains are straight lines through these, "
        "with the wires in the slice. It names no speed grade: Vivado's reports of an "
        "xczu3eg-1 have 179 for the look-up table and 93 for clock to output. Net: the "
        "model's terms of a quad and two doubles. Fan-out: a guess",
    ),
    "7-series": Delays(
        inputs=6, lut=0.124, wide=0.30, widest=8,
        carry_start=0.45, carry_bit=0.12, carry_block=4, carry_pass=0.114,
        net=0.60, fanout=0.12, clock_to_q=0.46, setup=0.06, memory=2.45,
        source="Artix-7, speed grade -1. Look-up table, clock to output and memory: as in Vivado's "
        "reports. Carry chains: Project X-Ray's CLBLL_L.sdf (as in Yosys' xilinx/cells_sim.v, "
        "where CARRY4 takes 223 ps from S0 to O0, 582 to O3, 114 from CI to CO3) as straight "
        "lines, with a round number to begin. Wide functions, setup, net: round numbers. "
        "Fan-out: a guess",
    ),
    "ecp5": Delays(
        inputs=4, lut=0.24, wide=0.20, widest=7,
        carry_start=0.80, carry_bit=0.03, carry_block=2, carry_pass=0.07,
        net=1.0, fanout=0.14, clock_to_q=0.53, setup=0.0, memory=5.8,
        source="Project Trellis, speed grade 6 (timing/speed_6/cells.json, slowest): look-up table "
        "236 ps, clock to output 525, setup 0, carry 71 through a cell, memory from 5535 to "
        "5724. Carry chains to begin with, wide functions, nets and fan-out: read off "
        "critical paths of nextpnr-ecp5",
    ),
    "ice40-hx": Delays(
        inputs=4, lut=0.45, wide=0.0, widest=4,
        carry_start=0.83, carry_bit=0.126, carry_block=8, carry_pass=1.20,
        net=1.0, fanout=0.14, clock_to_q=0.54, setup=0.02, memory=2.15,
        source="Project IceStorm, timings_hx8k.txt (as in Yosys' ice40/cells_sim.v): look-up table "
        "449 ps, carry 126 a bit and 259 to begin, clock to output 540, setup 21, memory "
        "2146. A carry chain's sum and its way to the next tile, nets and fan-out: read off "
        "critical paths of nextpnr-ice40",
    ),
    "ice40-up": Delays(
        inputs=4, lut=1.25, wide=0.0, widest=4,
        carry_start=2.20, carry_bit=0.278, carry_block=8, carry_pass=2.78,
        net=2.0, fanout=0.28, clock_to_q=1.39, setup=0.02, memory=1.18,
        source="Project IceStorm, timings_up5k.txt (as in Yosys' ice40/cells_sim.v): look-up table "
        "1245 ps, carry 278 a bit and 675 to begin, clock to output 1391, setup 0, memory "
        "1179. A carry chain's sum and its way to the next tile: in proportion to the HX "
        "devices. Setup, nets and fan-out: round numbers",
    ),
}
# fmt: on
"""For each grade its delays."""


def delays(grade: str) -> Delays:
    """The delays of a grade.

    Raises:
        OptionError: there is none of that name.
    """
    for known, entry in DELAYS.items():
        if known == grade:
            return entry
    raise OptionError(f"no delays are known for '{grade}'; there are {', '.join(DELAYS)}")


def delay(grade: str, kind: Kind, width: int = 1) -> float:
    """How long a part of a path takes, in nanoseconds, without the nets before and after it.

    Args:
        grade: see `Grade`.
        kind: `add` (a sum or difference of two numbers), `compare` (of two numbers, or of one
            with a constant), `logic` (a function of `width` bits), `mux` (a selection by one bit),
            `net`, `register` (clock to output and setup together), `memory` (clock to output).
        width: bits of the numbers, or inputs of the function; nothing for the last three.

    Raises:
        OptionError: the grade is unknown.
    """
    known = delays(grade)
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


def _carry(known: Delays, width: int) -> float:
    blocks, rest = divmod(max(width, 1) - 1, known.carry_block)
    return known.carry_start + blocks * known.carry_pass + rest * known.carry_bit


def _logic(known: Delays, inputs: int) -> float:
    """Levels of look-up tables, with a net between two."""
    if inputs <= known.widest:
        return known.lut + known.wide * max(0, inputs - known.inputs)
    return _logic(known, known.inputs) + known.net + _logic(known, -(-inputs // known.inputs))
