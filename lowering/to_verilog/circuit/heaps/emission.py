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

_BANK = 32
"""Bits of a register, of several rows: one for each row would be half of a circuit's ops."""

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
        self.cycles = [circuit.slot(start, level, self.cost)[0] for level in range(plan.levels)]
        self.end, self.level = circuit.slot(start, plan.levels - 1, self.cost)
        if pacing.clock is not None and any(word.is_inverted for word in plan.words):
            self.end, self.level = circuit.slot((self.end, self.level), 0, pacing.cost("mux"))
        self.inputs: dict[int, tuple[Wire, int]] = {}
        for wire, nets in zip(wires, plan.nets, strict=True):
            self.inputs |= {net: (wire, place) for place, net in enumerate(nets)}
        self.last: dict[int, int] = {}
        for level, row in plan.rows:
            for net in row.reads():
                self.last[net] = max(self.last.get(net, 0), self.cycles[level - 1])
        self.results = {literal >> 1 for word in plan.words for literal in word.literals}
        self.last |= dict.fromkeys(self.results, self.end)
        self.cycle = self.cycles[0] if self.cycles else self.end
        # Where bits are in this cycle: of rows, and of inputs and constants.
        self.places: dict[int, Place] = {}
        self.given: dict[int, Place] = {}
        # Inputs that wait long do so bit by bit, as what is kept apart is not made smaller.
        self.apart = {
            net
            for net, (wire, _) in self.inputs.items()
            if self.last.get(net, 0) - wire.cycle >= SHORTEST_SHIFT and wire.low < wire.high
        }
        self.places |= {net: self._bit(net) for net in self.apart}

    def outputs(self) -> list[Signal]:
        """Everything, in the order of the levels."""
        for level, row in self.plan.rows:
            while self.cycle < self.cycles[level - 1]:
                self._wait()
            self._row(row)
        while self.cycle < self.end:
            self._wait()
        return [self._number(index, word) for index, word in enumerate(self.plan.words)]

    def _row(self, row: Row) -> None:
        circuit, places = self.circuit, self.places
        inputs = [places.get(net) or self._bit(net) for net in row.inputs]
        op = RowOp(inputs, self._bit(row.carry_in), row.tables, row.direct, row.linked)
        value = circuit.put(op, circuit.name("row"))
        for net, place in row.gives():
            if net in self.last:
                self.places[net] = value, place
                # A result has another register behind the last cycle.
                if self.last[net] - self.cycle + (net in self.results) >= SHORTEST_SHIFT:
                    self.apart.add(net)

    def _wait(self) -> None:
        """Keep what rows have given and others still read for another cycle."""
        circuit, places = self.circuit, self.places
        nets = [net for net in places if self.last[net] > self.cycle]
        self.cycle, self.places, self.given = self.cycle + 1, {}, {}
        short, long = (
            [net for net in nets if (net in self.apart) == is_long] for is_long in (0, 1)
        )
        banks = [g[k : k + _BANK] for g in (short, long) for k in range(0, len(g), _BANK)]
        for kept in banks:
            name = circuit.name("row_r")
            value = circuit.register(self._picked([places[net] for net in kept]), name)
            self.places |= {net: (value, place) for place, net in enumerate(kept)}
            if kept[0] in self.apart:
                # A shift register would be a look-up table, which is what rows are short of.
                assert isinstance(value.owner, Operation)
                value.owner.attributes[APART] = UnitAttr()

    def _bit(self, net: int) -> Place:
        """Where a bit is now."""
        if net in self.places:
            return self.places[net]
        if net not in self.given:
            if net in (FALSE_NET, TRUE_NET):
                self.given[net] = self.circuit.constant(int(net == TRUE_NET), 1), 0
            else:
                wire, place = self.inputs[net]
                self.given[net] = self.circuit.at(wire, self.cycle).value, place
        return self.given[net]

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
        bits = [self._bit(literal >> 1) for literal in word.literals]
        for index, literal in enumerate(word.literals):
            if literal & 1:
                bits[index] = circuit.bit(*bits[index], inverted=True), 0
        value = self._picked(bits, name if len(bits) > 1 else None)
        assert bit_width(value.type) == len(bits)
        return Signal(Wire(value, word.low, word.high, self.end, self.level), 1, word.offset)
