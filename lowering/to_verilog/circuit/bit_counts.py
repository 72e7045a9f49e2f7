"""Sums of columns of bits: which bits go into which row of a carry chain, and the rows.

A *row* is one adder: a number, another number or the count of up to five bits, and one bit into
the carry. On a fabric with look-up tables of six inputs the count costs nothing: each bit of it is
a function of five bits, and so is part of the look-up table that the adder takes anyway. Seven bits
become three in three look-up tables, and six more join a number for three more; a tree of
full adders takes one for each bit that goes away. The idea is that of generalised parallel
counters (Kumm and Zipf 2014, "Pipelined compressor tree optimization"). A fabric of four inputs
has no room for that, and gets tables and rows of two numbers; single bits do not enter its rows, as
a bit that many columns count comes a long way, and the carry chain takes most of the cycle.

For inputs of one bit or two this takes fewer look-up tables than any shared graph of adders that is
known, as adders of few bits waste theirs on carries. A subtracted bit is counted inverted, which
costs nothing: -b = ~b - 1. Not here: which layers are summed so (`products`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, count
from math import inf
from typing import NamedTuple

from xdsl.dialects import comb
from xdsl.ir import SSAValue

from ..estimate.areas import Areas
from . import ops
from .arithmetic import add, scaled
from .circuit import Circuit
from .signals import Signal, Wire

COUNTED = 5
"""The bits whose count is part of a row: with the number's own bit they are six inputs."""

EXHAUSTIVE = 40
"""Up to so many bits every way to divide them between two numbers is tried."""


@dataclass(frozen=True)
class Plan:
    """How `count` bits become a number in rows, one after another.

    Without numbers, all bits are counted by a table of each bit of the number; a single bit is
    itself the number.

    Attributes:
        count: the bits that it counts.
        cost: in look-up tables, those of all rows and the registers behind them.
        numbers: that the last row adds, one or two.
        counted: bits that are counted inside the row, in place of a second number.
        carry: 1 for a bit at the carry input, else 0.
    """

    count: int
    cost: float
    numbers: tuple[Plan, ...] = ()
    counted: int = 0
    carry: int = 0

    @property
    def width(self) -> int:
        """The bits of the number."""
        return self.count.bit_length()


@cache
def cheapest_plan(areas: Areas, count: int, stages: int) -> Plan | None:
    """The cheapest plan of rows on exactly so many levels (one bit takes none, or any).

    Args:
        areas: of the family.
        count: the bits, at least one.
        stages: the levels.
    """
    if stages < (count > 1):
        return None
    if count == 1:
        return Plan(1, 0.0, counted=1)
    return min(_plans(areas, count, stages), key=lambda plan: plan.cost, default=None)


def _plans(areas: Areas, count: int, stages: int) -> Iterator[Plan]:
    is_large = areas.is_large
    width = count.bit_length()
    if count <= areas.family.inputs:
        yield Plan(count, areas.kept(width, width), counted=count)
    for carry in (0, 1) if is_large else (0,):
        rest = count - carry
        ways = [((rest - counted,), counted) for counted in range(COUNTED + 1) if is_large]
        ways += [((first, rest - first), 0) for first in _divisions(rest)]
        for sizes, counted in ways:
            if max(sizes) == count or min(sizes) < (1 if is_large else 2):
                continue
            found = [cheapest_plan(areas, size, stages - 1) for size in sizes]
            numbers = tuple(number for number in found if number is not None)
            if len(numbers) == len(sizes):
                first, second = sizes if len(sizes) == 2 else (*sizes, counted)
                cost = sum(number.cost for number in numbers)
                cost += areas.row(first.bit_length(), second.bit_length(), width)
                yield Plan(count, cost, numbers, counted, carry)


def _stages(areas: Areas, sizes: Sequence[int]) -> int:
    """The stages that are cheapest for all those numbers of bits: at most one more than needed."""

    def cost(stages: int) -> float:
        plans = [cheapest_plan(areas, size, stages) for size in sizes]
        return sum(inf if plan is None else plan.cost for plan in plans)

    least = next(stages for stages in count() if cost(stages) < inf)
    return min((least, least + 1), key=cost)


def _divisions(count: int) -> list[int]:
    """Sizes of the larger of two parts: all, or for many bits those near a half and full widths."""
    half = -(-count // 2)
    if count <= EXHAUSTIVE:
        return list(range(half, count))
    near = range(half, half + 4)
    full = [(1 << width) - 1 for width in range(count.bit_length(), 0, -1)]
    return [*near, *(size for size in full if near.stop <= size < count)]


class Bit(NamedTuple):
    """One bit of a wire, as it is or inverted."""

    wire: Wire
    place: int
    inverted: bool = False


class Plane(NamedTuple):
    """The bits of one weight in a column: 2^weight · (Σ plus - Σ minus + offset).

    Inputs of carry chains take the first bits, where inverting one may cost a look-up table.
    """

    weight: int
    plus: list[Bit]
    minus: list[Bit]
    offset: int = 0


def planes(column: Iterable[tuple[Wire, int]], *, exact: bool) -> list[Plane]:
    """The bits of Σ sign·wire, by weight; the top bit of a signed wire counts negative.

    Args:
        column: the wires with their signs.
        exact: whether the sum is wanted as it is, and not with an offset that costs nothing where
            thresholds follow: then no bit is subtracted.
    """
    sides: dict[int, tuple[list[Bit], list[Bit]]] = {}
    for wire, sign in column:
        for place in range(wire.width):
            negative = wire.low < 0 and place == wire.width - 1
            plus, minus = sides.setdefault(place, ([], []))
            (plus if (sign > 0) != negative else minus).append(Bit(wire, place))
    found: list[Plane] = []
    for weight, (plus, minus) in sorted(sides.items()):
        if exact:
            found.append(Plane(weight, plus[::-1], minus[::-1]))
        else:
            inverted = [bit._replace(inverted=True) for bit in minus]
            found.append(Plane(weight, plus[::-1] + inverted, [], -len(minus)))
    return found


class ColumnSums:
    """Sums of columns in the same rows: all of them are ready after the same number of stages, the
    cheapest of those needed and one more.

    Args:
        columns: the planes of each.
        asked: whether thresholds are all that follows: each bit of what they make of six bits or
            fewer is one look-up table.
    """

    def __init__(
        self, circuit: Circuit, columns: Sequence[list[Plane]], *, asked: bool = False
    ) -> None:
        self.circuit = circuit
        self.areas, self.inputs = circuit.pacing.areas, circuit.pacing.lut_inputs
        self.asked = asked
        self.columns = columns
        every = [plane for column in columns for plane in column]
        sizes = [len(plane.plus) + len(plane.minus) for plane in every]
        self.stages = _stages(self.areas, sizes)
        while any(plan is None for plane in every for _, plan in self._plans(plane)):
            self.stages += 1
        sides = [side for plane in every for side in (plane.plus, plane.minus)]
        self.start = circuit.start_of([bit.wire for side in sides for bit in side])
        self.row_cost = circuit.pacing.cost("add", max(sizes, default=1).bit_length())

    @property
    def cost(self) -> float:
        """About what all columns take, in look-up tables with registers."""
        cost = 0.0
        for column in self.columns:
            for index, plane in enumerate(() if self._is_free(column) else column):
                cost += sum(plan.cost for _, plan in self._plans(plane) if plan is not None)
                sizes = [len(side).bit_length() for side in (plane.plus, plane.minus)]
                if plane.minus:
                    cost += self.areas.row(max(sizes), max(sizes), max(sizes) + 1)
                if index:
                    width = sum(map(len, (plane.plus, plane.minus))).bit_length()
                    cost += self.areas.row(width, width, width + 1)
        return cost

    def _plans(self, plane: Plane) -> list[tuple[list[Bit], Plan | None]]:
        """What is counted, and how: two sides of a difference are ready one stage earlier."""
        stages = self.stages - bool(plane.minus)
        return [
            (side.copy(), cheapest_plan(self.areas, len(side), stages))
            for side in (plane.plus, plane.minus)
            if side
        ]

    def _is_free(self, column: Sequence[Plane]) -> bool:
        return self.asked and len(column) == 1 and len(column[0].plus) <= self.inputs

    def total(self, column: list[Plane]) -> Signal:
        """Σ 2^weight · (Σ plus - Σ minus + offset)."""
        circuit, total = self.circuit, Signal.constant(0)
        for plane in column:
            if self._is_free(column):  # a part of the look-up tables that follow
                table = Plan(len(plane.plus), 0.0, counted=len(plane.plus))
                wire = self._number(table, plane.plus[:], self.stages, 0)
            else:
                wire = self._difference(plane)
            number = scaled(circuit, Signal(wire, 1, plane.offset), 1 << plane.weight)
            name = None if total.wire is None else circuit.name("acc")
            total = add(circuit, total, number, name)
        return total

    def _difference(self, plane: Plane) -> Wire:
        """What is added less what is subtracted."""
        stage = self.stages - bool(plane.minus)
        wires: list[Wire] = []
        for bits, plan in self._plans(plane):
            assert plan is not None
            wires.append(self._number(plan, bits, stage, self.row_cost))
        if not plane.minus:
            return wires[0]
        first = wires[0] if plane.plus else self.circuit.number(0, wires[0])
        return self.circuit.added(first, wires[-1], -1, self.circuit.name("acc"))

    def _number(self, plan: Plan, bits: list[Bit], stage: int, row_cost: float) -> Wire:
        """What a plan counts, ready after so many stages, of bits that are taken from the list."""
        circuit = self.circuit
        cycle, _ = circuit.slot(self.start, max(stage - 1, 0), row_cost)
        if plan.count == 1:
            return self._bit(bits.pop(0), cycle)
        name = circuit.name("acc" if stage == self.stages else "count")

        def number(plan: Plan) -> Wire:
            return circuit.at(self._number(plan, bits, stage - 1, row_cost), cycle)

        numbers = [number(first) for first in plan.numbers[:1]]
        carry = [self._bit(bits.pop(0), cycle) for _ in range(plan.carry)]
        numbers += [number(second) for second in plan.numbers[1:]]
        place = len(bits) - plan.counted
        tabled = [self._bit(bit, cycle) for bit in bits[place:][::-1]]
        del bits[place:]
        parts = [wire.value for wire in numbers] + self._counted([wire.value for wire in tabled])
        if numbers:
            below = [wire.value for wire in carry]
            value = circuit.row(parts[0], parts[1:], below, plan.width, name)
        else:
            value = circuit.joined(parts, name, plan.width)
        return circuit.made(value, 0, plan.count, [*numbers, *tabled, *carry], row_cost)

    def _bit(self, bit: Bit, cycle: int) -> Wire:
        wire = self.circuit.at(bit.wire, cycle)
        value = self.circuit.bit(wire.value, bit.place, inverted=bit.inverted)
        return Wire(value, 0, 1, wire.cycle, wire.level)

    def _counted(self, values: Sequence[SSAValue]) -> list[SSAValue]:
        """How many of up to six bits are 1, as bits, the lowest first."""
        if len(values) < 2:
            return list(values)
        low, *carries = self._full(values[:3])
        if len(values) > 3:
            other, *more = self._full(values[3:])
            low, last = self._full([low, other])
            carries += [*more, last]
        number = [low, *(carries if len(carries) == 1 else self._full(carries))]
        return number[: len(values).bit_length()]

    def _full(self, bits: Sequence[SSAValue]) -> list[SSAValue]:
        """The sum and the carry of two or three bits; of one, that bit."""
        circuit = self.circuit
        if len(bits) == 1:
            return list(bits)
        total = circuit.put(ops.alike(comb.XorOp, bits), circuit.name("xor"))
        if len(bits) == 2:
            return [total, circuit.all_of(*bits, name=circuit.name("both"))]
        pairs = [circuit.all_of(*pair) for pair in combinations(bits, 2)]
        return [total, circuit.any_of(*pairs, name=circuit.name("most"))]


def ones_among(circuit: Circuit, bits: Sequence[Wire]) -> Signal:
    """How many of some wires of one bit are 1."""
    column = planes([(bit, 1) for bit in bits], exact=False)
    return ColumnSums(circuit, [column]).total(column)
