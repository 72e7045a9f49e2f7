"""How long ops take in families of FPGAs.

Not here: the numbers (`families`), which path of a circuit is the longest (`timing`).
"""

from __future__ import annotations

from typing import Literal

from .families import Family, family_of

Kind = Literal["add", "compare", "logic", "mux", "register", "net", "memory"]
"""What takes time: see `delay`."""


def delay(grade: str, kind: Kind, width: int = 1) -> float:
    """How long a part of a path takes, in nanoseconds, without the nets before and after it.

    Args:
        grade: see `families.FAMILIES`.
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
