"""A plan of rows as a circuit: `fabric.row`s, and registers for the bits that wait.

Not here: which rows (`plan`).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation, SSAValue

from .....dialects.fabric import BitsOp, RowOp
from .....dialects.shapes import bit_width
from ..circuit import APART, Circuit
from ..signals import Signal, Wire
from .plan import HeapPlan, Word
from .rows import FALSE_NET, TRUE_NET, Row

SHORTEST_SHIFT = 3
"""Registers in a row of which synthesis makes a look-up table."""

Place = tuple[SSAValue, int]
"""A bit: a value and the place in it."""


def rows_of_plan(circuit: Circuit, plan: HeapPlan, wires: Sequence[Wire]) -> list[Signal]:
    """The outputs of a plan.

    Args:
        circuit: where the rows go.
        plan: what they are.
        wires: the inputs, in the plan's order.
    """
    return _Emission(circuit, plan, wires).outputs()


class _Emission:
    def __init__(self, circuit: Circuit, plan: HeapPlan, wires: Sequence[Wire]) -> None:
        self.circuit, self.plan = circuit, plan
        pacing = circuit.pacing
        longest = max((row.sites for _, row in plan.rows), default=1)
        self.cost = pacing.row(longest, plan.readers)
        start = circuit.start_of(wires)
        self.cycles = [circuit.slot(start, level, self.cost) for level in range(plan.levels)]
        self.end = self.cycles[-1] if self.cycles else start[0]
        self.inputs: dict[int, tuple[Wire, int]] = {}
        for wire, nets in zip(wires, plan.nets, strict=True):
            self.inputs |= {net: (wire, place) for place, net in enumerate(nets)}
        self.last: dict[int, int] = {}
        for level, row in plan.rows:
            for net in row.reads():
                self.last[net] = max(self.last.get(net, 0), self.cycles[level - 1])
        self.results = {literal >> 1 for word in plan.words for literal in word.literals}
        self.last |= dict.fromkeys(self.results, self.end)
        self.places: dict[int, list[Place]] = {}
        self.first: dict[int, int] = {}

    def outputs(self) -> list[Signal]:
        """Everything, in the order of the levels."""
        for level, row in self.plan.rows:
            self._row(row, self.cycles[level - 1])
        return [self._number(index, word) for index, word in enumerate(self.plan.words)]

    def _row(self, row: Row, cycle: int) -> None:
        circuit = self.circuit
        inputs = self._picked([self._bit(net, cycle) for net in row.inputs])
        carry = circuit.bit(*self._bit(row.carry_in, cycle), inverted=False)
        op = RowOp(inputs, carry, row.tables, row.direct, row.linked)
        name = circuit.name("row")
        value = circuit.put(op, name)
        given = {net: place for net, place in row.gives() if net in self.last}
        for net, place in given.items():
            self.first[net], self.places[net] = cycle, [(value, place)]
        longest = max((self.last[net] - cycle for net in given), default=0)
        # A result of this row has another register behind the last cycle.
        run = longest + any(net in self.results for net in given)
        for delay in range(1, longest + 1):
            waiting = [net for net in given if self.last[net] >= cycle + delay]
            register = self._wait(waiting, f"{name}_r" if delay == 1 else f"{name}_r{delay}")
            if run >= SHORTEST_SHIFT:
                # A shift register would be a look-up table, which is what rows are short of.
                register.attributes[APART] = UnitAttr()

    def _wait(self, nets: Sequence[int], name: str) -> Operation:
        """Keep bits for another cycle."""
        circuit = self.circuit
        value = circuit.register(self._picked([self.places[net][-1] for net in nets]), name)
        for place, net in enumerate(nets):
            self.places[net].append((value, place))
        assert isinstance(value.owner, Operation)
        return value.owner

    def _bit(self, net: int, cycle: int) -> Place:
        """Where a bit is in a cycle."""
        circuit = self.circuit
        if net in (FALSE_NET, TRUE_NET):
            return circuit.constant(int(net == TRUE_NET), 1), 0
        if net in self.inputs:
            wire, place = self.inputs[net]
            return circuit.at(wire, cycle).value, place
        return self.places[net][cycle - self.first[net]]

    def _picked(self, bits: Sequence[Place], name: str | None = None) -> SSAValue:
        """Bits as one value, the lowest first."""
        value = bits[0][0]
        if [*bits] == [(value, place) for place in range(bit_width(value.type) or 1)]:
            return value
        return self.circuit.put(BitsOp(bits), name)

    def _number(self, index: int, word: Word) -> Signal:
        if word.low == word.high:
            return Signal.constant(word.low + word.offset)
        circuit = self.circuit
        with circuit.element(index):
            name = circuit.name("acc")
        bits = [self._bit(literal >> 1, self.end) for literal in word.literals]
        for index, literal in enumerate(word.literals):
            if literal & 1:
                bits[index] = circuit.bit(*bits[index], inverted=True), 0
        value = self._picked(bits, name if len(bits) > 1 else None)
        assert bit_width(value.type) == len(bits)
        level = (
            self.cost if self.cycles else circuit.start_of([w for w, _ in self.inputs.values()])[1]
        )
        return Signal(Wire(value, word.low, word.high, self.end, level), 1, word.offset)
