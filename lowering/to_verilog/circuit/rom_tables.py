"""ROMs as look-up tables of six inputs and the multiplexers behind them.

A bit of the word is a function of the address. Four tables of 64 words each meet in multiplexers
that cost no table; beyond that a table selects from four parts. Synthesis alone makes resets of
registers out of such functions, each with a gate, and takes half as much again for deep ROMs. Not
here: the Verilog (`to_verilog.tools`), what a ROM is (`memories`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ....dialects.fabric import INPUTS
from ....ir.arrays import Array

MULTIPLEXED = 8
"""Address bits of four tables behind multiplexers."""

SHARED = 2
"""Functions of so few bits are left to synthesis: other ROMs may have the same."""


@dataclass(frozen=True)
class AddressBit:
    """A bit of the address, by its place."""

    place: int


@dataclass(frozen=True)
class Table:
    """A look-up table.

    Attributes:
        pins: what it takes, the lowest first.
        table: the bit for each number of the pins.
    """

    pins: tuple[Part, ...]
    table: int

    @property
    def is_shared(self) -> bool:
        """Whether it is left to synthesis."""
        return len(self.pins) <= SHARED and all(isinstance(p, AddressBit) for p in self.pins)


@dataclass(frozen=True)
class Choice:
    """A multiplexer behind look-up tables.

    Attributes:
        bit: which address bit selects.
        yes, no: what it gives where that is 1, or 0.
        level: 7 or 8, as AMD calls those behind tables and those behind them.
    """

    bit: AddressBit
    yes: Part
    no: Part
    level: int


Part = bool | AddressBit | Table | Choice
"""What gives a bit; constants too."""


def rom_parts(words: Sequence[int], width: int) -> list[Part]:
    """What gives each bit of the word, the lowest first; behind the last word it is there again."""
    bits = max(1, (len(words) - 1).bit_length())
    filled = [*words, *[words[-1]] * ((1 << bits) - len(words))]
    places = list(range(bits))
    columns = (np.array([word >> i & 1 for word in filled], bool) for i in range(width))
    # The highest bit of the address is the first axis.
    return [_part(column.reshape((2,) * bits), places) for column in columns]


def parts_in(part: Part) -> Iterator[Part]:
    """A part behind those that it takes."""
    taken: tuple[Part, ...] = ()
    if isinstance(part, Table):
        taken = part.pins
    elif isinstance(part, Choice):
        taken = part.no, part.yes, part.bit
    for pin in taken:
        yield from parts_in(pin)
    yield part


def _part(column: Array, places: Sequence[int]) -> Part:
    """A bit for all numbers of address bits at `places`, the first axis for the last of them."""
    column, places = _needed(column, places)
    count = len(places)
    if not count:
        return bool(column)
    if count == 1 and column[1]:
        return AddressBit(places[0])
    if count <= INPUTS:
        return _table(column, places)
    if count <= MULTIPLEXED:
        return _multiplexed(column, places)
    own = min(2, count - MULTIPLEXED)
    parts = [_part(part, places[:-own]) for part in column.reshape(1 << own, *column.shape[own:])]
    return _selection(parts, places[-own:])


def _needed(column: Array, places: Sequence[int]) -> tuple[Array, list[int]]:
    """The function without the bits that it does not depend on."""
    left: list[int] = []
    for place in reversed(places):
        axis = len(left)
        halves = np.moveaxis(column, axis, 0)
        if (halves[0] == halves[1]).all():
            column = halves[0]
        else:
            left.append(place)
    return column, left[::-1]


def _table(column: Array, places: Sequence[int]) -> Table:
    bits = column.reshape(-1).tolist()
    return Table(tuple(map(AddressBit, places)), sum(bit << i for i, bit in enumerate(bits)))


def _multiplexed(column: Array, places: Sequence[int]) -> Part:
    """Tables behind multiplexers; where one would be constant, there is none."""
    if column.all() or not column.any():
        return bool(column.flat[0])
    if len(places) <= INPUTS:
        return _table(column, places)
    no, yes = (_multiplexed(half, places[:-1]) for half in column)
    return Choice(AddressBit(places[-1]), yes, no, len(places))


def _selection(parts: Sequence[Part], places: Sequence[int]) -> Table:
    """The part of the number that address bits have."""
    pins = dict.fromkeys(part for part in parts if not isinstance(part, bool))
    pins |= dict.fromkeys(map(AddressBit, places))
    inputs = list(pins)
    table = 0
    for number in range(1 << len(inputs)):
        known = {pin: number >> i & 1 for i, pin in enumerate(inputs)}
        chosen = parts[sum(known[AddressBit(p)] << i for i, p in enumerate(places))]
        table |= int(chosen if isinstance(chosen, bool) else known[chosen]) << number
    return Table(tuple(inputs), table)
