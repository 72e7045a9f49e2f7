"""Plans for counting single bits: which bits go into which row of a carry chain.

A *row* is one adder: a number, another number or the count of up to five bits, and one bit into
the carry. On a fabric with look-up tables of six inputs the count costs nothing: each bit of it is
a function of five bits, and so is part of the look-up table that the adder takes anyway. Seven bits
become three in three look-up tables, and six more join a number for three more; a tree of
full adders takes one for each bit that goes away. The idea is that of generalised parallel
counters (Kumm and Zipf 2014, "Pipelined compressor tree optimization"). A fabric of four inputs
has no room for that, and gets tables and rows of two numbers; single bits do not enter its rows, as
a bit that many columns count comes a long way, and the carry chain takes most of the cycle.

Not here: the circuit (`compressors`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from .areas import LUT_PER_PASSED_CARRY, LUT_PER_REGISTER

COUNTED = 5
"""The bits whose count is part of a row: with the number's own bit they are six inputs."""

EXHAUSTIVE = 40
"""Up to so many bits every way to divide them between two numbers is tried."""


@dataclass(frozen=True)
class Plan:
    """How `count` bits become a number in `stages` rows, one after another.

    Attributes:
        kind: `bit` (one bit as it is), `table` (a function for each bit of the number), `row`.
        count: the bits that it counts.
        stages: rows on the longest way.
        cost: in look-up tables, those of all rows.
        number: of a row, its first number.
        other: of a row, its second number; without one it is the count of `counted` bits.
        counted: bits that are counted inside the row.
        carry: 1 for a bit at the carry input, else 0.
    """

    kind: Literal["bit", "table", "row"]
    count: int
    stages: int
    cost: float
    number: Plan | None = None
    other: Plan | None = None
    counted: int = 0
    carry: int = 0

    @cached_property
    def width(self) -> int:
        """The bits of the number."""
        return self.count.bit_length()

    @property
    def row_luts(self) -> int:
        """The look-up tables of the last row alone, as Yosys counts them."""
        second = self.counted if self.other is None else self.other.count
        first = 0 if self.number is None else self.number.count
        if self.kind == "table":
            return self.width
        return second.bit_length() if self.other is None else min(first, second).bit_length()

    @cached_property
    def luts(self) -> int:
        """The look-up tables of all rows, as Yosys counts them for tables of six inputs."""
        if self.kind == "bit":
            return 0
        parts = [part for part in (self.number, self.other) if part is not None]
        return self.row_luts + sum(part.luts for part in parts)


_BIT = Plan("bit", 1, 0, 0.0)


@dataclass
class Planner:
    """The cheapest plans for look-up tables of so many inputs, found once for each size.

    Attributes:
        inputs: of a look-up table: six, or four.
    """

    inputs: int = 6
    _known: dict[tuple[int, int], Plan | None] = field(
        default_factory=dict[tuple[int, int], "Plan | None"], init=False
    )

    def plan(self, count: int, stages: int) -> Plan | None:
        """The cheapest plan that takes exactly so many stages (one bit takes none, or any)."""
        if count == 1:
            return _BIT
        if stages < 1:
            return None
        key = (count, stages)
        if key not in self._known:
            cheapest = min(self._ways(count, stages), key=lambda plan: plan.cost, default=None)
            self._known[key] = cheapest
        return self._known[key]

    def least_stages(self, count: int) -> int:
        """The fewest stages there is a plan for."""
        stages = 0
        while self.plan(count, stages) is None:
            stages += 1
        return stages

    def together(self, counts: Sequence[int]) -> int:
        """The stages that are cheapest for all those numbers of bits at once: at most one more
        than needed."""
        least = max(map(self.least_stages, counts), default=0)
        return min((least, least + 1), key=lambda stages: self.cost(counts, stages))

    def cost(self, counts: Sequence[int], stages: int) -> float:
        """Of all those numbers of bits, counted in so many stages, in look-up tables."""
        plans = [self.plan(count, stages) for count in counts if count]
        return sum(float("inf") if plan is None else plan.cost for plan in plans)

    def _ways(self, count: int, stages: int) -> Iterator[Plan]:
        if count <= self.inputs:
            width = count.bit_length()
            yield Plan("table", count, stages, width * (1 + LUT_PER_REGISTER))
        if self.inputs <= COUNTED:
            for first in _divisions(count):
                if first < count - 1:
                    yield from self._sums(count, stages, first, 0)
            return
        for carry in (0, 1):
            for counted in range(COUNTED + 1):
                rest = count - carry - counted
                number = self.plan(rest, stages - 1) if rest >= 1 and rest < count else None
                if number is not None:
                    cost = number.cost + self._row_cost(rest, counted, count)
                    yield Plan("row", count, stages, cost, number, None, counted, carry)
            for first in _divisions(count - carry):
                yield from self._sums(count, stages, first, carry)

    def _sums(self, count: int, stages: int, first: int, carry: int) -> Iterator[Plan]:
        """A row of two numbers, the first of which counts `first` bits."""
        second = count - carry - first
        number, other = self.plan(first, stages - 1), self.plan(second, stages - 1)
        if number is not None and other is not None:
            cost = number.cost + other.cost + self._row_cost(first, second, count)
            yield Plan("row", count, stages, cost, number, other, 0, carry)

    def _row_cost(self, first: int, second: int, count: int) -> float:
        """Of one row alone, with the registers behind it."""
        wide, narrow = first.bit_length(), second.bit_length()
        if wide < narrow:
            wide, narrow = narrow, wide
        width = count.bit_length()
        if self.inputs > COUNTED:
            passed = LUT_PER_PASSED_CARRY * (wide - narrow)
            return narrow + passed + LUT_PER_REGISTER * width
        return width


def _divisions(count: int) -> Iterator[int]:
    """Sizes of the larger of two parts: all, or for many bits those near a half and full widths."""
    half = -(-count // 2)
    if count <= EXHAUSTIVE:
        yield from range(half, count)
        return
    yield from range(half, half + 4)
    full = (1 << (count - 1).bit_length()) - 1
    while full >= half:
        if half + 4 <= full < count:
            yield full
        full >>= 1
