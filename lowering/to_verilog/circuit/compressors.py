"""Sums of columns of bits: each bit of the inputs' numbers is counted on its own, by `popcounts`.

For inputs of one bit or two this takes fewer look-up tables than any shared graph of adders that is
known, as adders of few bits waste theirs on carries. A subtracted bit is counted inverted, which
costs nothing: -b = ~b - 1. Not here: which layers are summed so (`circuit_rules`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.dialects import comb
from xdsl.ir import SSAValue

from . import ops
from .circuit import Circuit
from .popcounts import Plan, Planner
from .signals import Signal, Wire


@dataclass(frozen=True)
class Bit:
    """One bit of a wire, as it is or inverted."""

    wire: Wire
    index: int = 0
    inverted: bool = False


@dataclass(frozen=True)
class Plane:
    """The bits of one weight in a column: Σ plus - Σ minus, all times 2^weight."""

    weight: int
    plus: tuple[Bit, ...]
    minus: tuple[Bit, ...]

    @property
    def bits(self) -> int:
        """The number of bits."""
        return len(self.plus) + len(self.minus)


def planes(column: Sequence[tuple[Wire, int]]) -> list[Plane]:
    """The bits of Σ sign·wire, by weight; the top bit of a signed wire counts negative."""
    sides: dict[int, tuple[list[Bit], list[Bit]]] = {}
    for wire, sign in column:
        for index in range(wire.width):
            negative = wire.low < 0 and index == wire.width - 1
            plus, minus = sides.setdefault(index, ([], []))
            (plus if (sign > 0) != negative else minus).append(Bit(wire, index))
    return [Plane(weight, tuple(p), tuple(m)) for weight, (p, m) in sorted(sides.items())]


class ColumnSums:
    """Sums of columns in the same rows: all of them are ready after the same number of stages.

    Args:
        circuit: where they go.
        columns: the planes of each.
        exact: whether the sums are wanted as they are, and not with an offset that costs nothing
            where thresholds follow.
        asked: whether thresholds are all that follows.
    """

    def __init__(
        self,
        circuit: Circuit,
        columns: Sequence[list[Plane]],
        *,
        exact: bool,
        asked: bool = False,
    ) -> None:
        self.circuit = circuit
        self.planner = Planner(circuit.pacing.lut_inputs)
        self.exact = exact
        self.asked = asked and not exact
        self.columns = columns
        every = [plane for column in columns for plane in column]
        self.stages = max(
            self.planner.together([plane.bits for plane in every]),
            max((self._least_exact(p) for p in every), default=0) if exact else 0,
        )
        wires = [bit.wire for p in every for bit in (*p.plus, *p.minus)]
        self.start = circuit.start_of(wires)
        widest = max((plane.bits for plane in every), default=1).bit_length()
        self.cost = circuit.pacing.cost("add", widest)

    @property
    def luts(self) -> int:
        """About the look-up tables of all columns."""
        return sum(
            self._plane_luts(plane) + (plane.bits.bit_length() if index else 0)
            for column in self.columns
            if not self._is_free(column)
            for index, plane in enumerate(column)
        )

    def _is_free(self, column: Sequence[Plane]) -> bool:
        """Whether each bit of what thresholds make of the sum is one look-up table of its bits."""
        return self.asked and len(column) == 1 and column[0].bits <= self.planner.inputs

    def _function(self, plane: Plane) -> Signal:
        """A sum that is part of the look-up tables that follow, in the same cycle."""
        cycle = self.circuit.slot(self.start, 0, 0)
        wires = [self._bit(bit, cycle) for bit in _Pool(plane.plus, plane.minus).any(plane.bits)]
        name = self.circuit.name("acc")
        value = self.circuit.concatenated(
            self._counted(wires), plane.bits.bit_length(), name if plane.bits > 1 else None
        )
        return Signal(self.circuit.made(value, 0, plane.bits, wires, 0), 1, -len(plane.minus))

    def _plane_luts(self, plane: Plane) -> int:
        sizes, stages = [plane.bits], self.stages
        if self.exact and plane.minus:
            sizes, stages = [len(plane.plus), len(plane.minus)], stages - 1
        plans = [self.planner.plan(size, stages) for size in sizes if size]
        joint = max(sizes).bit_length() if len(sizes) == 2 else 0
        return joint + sum(plan.luts for plan in plans if plan is not None)

    def _least_exact(self, plane: Plane) -> int:
        """The stages of a difference of two counts."""
        sizes = (len(plane.plus), len(plane.minus))
        if not sizes[1]:
            return self.planner.least_stages(sizes[0])
        return 1 + max(self.planner.least_stages(size) for size in sizes)

    def total(self, column: list[Plane]) -> Signal:
        """Σ 2^weight · (Σ plus - Σ minus)."""
        result = Signal.constant(0)
        for plane in column:
            number = self._plane(plane) if not self._is_free(column) else self._function(plane)
            offset = result.offset + (number.offset << plane.weight)
            wire = number.wire
            if wire is not None:
                wire = self.circuit.shifted(wire, plane.weight)
                if result.wire is not None:
                    wire = self.circuit.added(result.wire, wire, 1, self.circuit.name("acc"))
            result = Signal(wire or result.wire, 1, offset)
        return result

    def _plane(self, plane: Plane) -> Signal:
        plus, minus = list(plane.plus), list(plane.minus)
        if self.exact and minus:
            return Signal(self._difference(plus, minus))
        bits = _Pool(plus, minus)
        plan = self.planner.plan(plane.bits, self.stages)
        assert plan is not None
        return Signal(self._number(plan, bits, self.stages), 1, -len(minus))

    def _difference(self, plus: list[Bit], minus: list[Bit]) -> Wire:
        """Two counts, and a row that subtracts one from the other."""
        numbers: list[Wire | None] = []
        for side in (plus, minus):
            plan = self.planner.plan(len(side), self.stages - 1) if side else None
            numbers.append(
                None if plan is None else self._number(plan, _Pool(side, []), self.stages - 1)
            )
        first, second = numbers
        assert second is not None
        if first is None:
            first = self.circuit.number(0, second)
        return self.circuit.added(first, second, -1, self.circuit.name("acc"))

    def _number(self, plan: Plan, bits: _Pool, stage: int) -> Wire:
        """What a plan counts, ready after so many stages, with bits taken from the pool."""
        circuit = self.circuit
        cycle = circuit.slot(self.start, max(stage - 1, 0), self.cost)
        if plan.kind == "bit":
            return self._bit(bits.plain(), cycle)
        name = circuit.name("acc" if stage == self.stages else "count")
        if plan.kind == "table":
            wires = [self._bit(bit, cycle) for bit in bits.any(plan.count)]
            value = circuit.concatenated(self._counted(wires), plan.width, name)
            return circuit.made(value, 0, plan.count, wires, self.cost)
        assert plan.number is not None
        number = circuit.at(self._number(plan.number, bits, stage - 1), cycle)
        carry = [self._bit(bits.plain(), cycle) for _ in range(plan.carry)]
        if plan.other is not None:
            wires = [circuit.at(self._number(plan.other, bits, stage - 1), cycle)]
            second = [wires[0].value]
        else:
            wires = [self._bit(bit, cycle) for bit in bits.any(plan.counted)]
            second = self._counted(wires)
        value = circuit.row(number.value, second, [wire.value for wire in carry], plan.width, name)
        return circuit.made(value, 0, plan.count, [number, *wires, *carry], self.cost)

    def _bit(self, bit: Bit, cycle: int) -> Wire:
        wire = self.circuit.at(bit.wire, cycle)
        value = self.circuit.bit(wire.value, bit.index, inverted=bit.inverted)
        return Wire(value, 0, 1, wire.cycle, wire.level)

    def _counted(self, wires: Sequence[Wire]) -> list[SSAValue]:
        """How many of up to six bits are 1, as bits, the highest first."""
        values = [wire.value for wire in wires]
        if len(values) < 2:
            return values
        low, *carries = self._full(values[:3])
        if len(values) > 3:
            other, *more = self._full(values[3:])
            low, last = self._full([low, other])
            carries += [*more, last]
        number = [low, *(carries if len(carries) == 1 else self._full(carries))]
        return number[: len(values).bit_length()][::-1]

    def _full(self, bits: Sequence[SSAValue]) -> list[SSAValue]:
        """The sum and the carry of two or three bits; of one, that bit."""
        circuit = self.circuit
        if len(bits) == 1:
            return list(bits)
        total = circuit.put(ops.alike(comb.XorOp, bits), circuit.name("xor"))
        if len(bits) == 2:
            return [total, circuit.put(ops.alike(comb.AndOp, bits), circuit.name("both"))]
        a, b, c = bits
        pairs = [circuit.put(ops.alike(comb.AndOp, [x, y])) for x, y in ((a, b), (a, c), (b, c))]
        return [total, circuit.put(ops.alike(comb.OrOp, pairs), circuit.name("most"))]


def compressed_sum(circuit: Circuit, plus: Sequence[Wire], minus: Sequence[Wire]) -> Signal:
    """The number of ones in `plus`, less that in `minus`; each is one bit."""
    if not plus and not minus:
        return Signal.constant(0)
    plane = Plane(0, tuple(map(Bit, plus)), tuple(map(Bit, minus)))
    return ColumnSums(circuit, [[plane]], exact=False).total([plane])


class _Pool:
    """The bits of a column that are not counted yet."""

    def __init__(self, plus: Sequence[Bit], minus: Sequence[Bit]) -> None:
        self._bits = [*plus[::-1], *(replace(bit, inverted=True) for bit in minus)]

    def any(self, count: int) -> list[Bit]:
        """Bits for look-up tables: those that go in inverted first."""
        last = self._bits[len(self._bits) - count :]
        del self._bits[len(self._bits) - count :]
        return last[::-1]

    def plain(self) -> Bit:
        """A bit for an input of a carry chain, where inverting one may cost a look-up table."""
        return self._bits.pop(0)
