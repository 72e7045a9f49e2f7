"""Writing a circuit: bits, exact widths, and registers so that all operands arrive together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from xdsl.dialects import comb, hw
from xdsl.dialects.builtin import IntegerType, StringAttr, i1
from xdsl.ir import Block, Operation, SSAValue

from ....dialects.shapes import bit_width
from ....passes.adder_graph.graph import width_of
from . import ops
from .pacing import Pacing
from .signals import Wire

NAME = "sv.namehint"
"""The attribute of an op with the name of its result: CIRCT's, as SSA names end in no number."""

COMMENT = "verilog.comment"
"""The attribute of an op that starts a part of the circuit: a line of text about the part."""


_NUMBERS = re.compile(r"(_[0-9]+)+$")

APART = "verilog.apart"
"""The attribute of a register that must not become part of a shift register."""


@dataclass(frozen=True)
class Search:
    """How adders of products are searched for, see `optimize_matrix`."""

    cost: str = "bits"
    time_budget: float = 1.0
    max_depth: int | None = None


@dataclass(eq=False)
class Writer:
    """Ops at the end of a block.

    Attributes:
        block: where they go.
    """

    block: Block
    _constants: dict[tuple[int, int], SSAValue] = field(default_factory=dict, init=False)  # pyright: ignore[reportUnknownVariableType]

    def put(self, op: Operation, name: str | None = None) -> SSAValue:
        """Append an op; its one result."""
        self.block.add_op(op)
        (result,) = op.results
        return result if name is None else named(result, name)

    def constant(self, value: int, bits: int) -> SSAValue:
        """The low bits of a number."""
        key = (value % (1 << bits), bits)
        if key not in self._constants:
            self._constants[key] = self.put(
                hw.ConstantOp(key[0], IntegerType(bits), truncate_bits=True)
            )
        return self._constants[key]

    def extract(self, value: SSAValue, low: int, bits: int, name: str | None = None) -> SSAValue:
        """So many bits from `low` on."""
        return self.put(ops.extract(value, low, bits), name)

    def extended(self, value: SSAValue, signed: bool, bits: int) -> SSAValue:
        """A number in so many bits: with its sign or zeros above, or cut."""
        have = bit_width(value.type) or 1
        if bits <= have:
            return value if bits == have else self.extract(value, 0, bits)
        if not signed:
            return self.joined([value], bits=bits)
        top = self.extract(value, have - 1, 1) if have > 1 else value
        return self.joined([value, self.repeated(top, bits - have)])

    def joined(
        self, values: Sequence[SSAValue], name: str | None = None, bits: int = 0
    ) -> SSAValue:
        """All values in one, the first in the lowest bits, below as many zeros as make `bits`."""
        have = sum(bit_width(value.type) or 0 for value in values)
        if bits > have:
            values = [*values, self.constant(0, bits - have)]
        if len(values) == 1:
            return values[0]
        return self.put(ops.concat(values[::-1], max(bits, have)), name)

    def repeated(self, bit: SSAValue, times: int) -> SSAValue:
        """A bit so many times."""
        return bit if times == 1 else self.put(ops.replicate(bit, times))

    def all_of(self, *values: SSAValue, name: str | None = None) -> SSAValue:
        """Where all values have a 1."""
        if len(values) == 1:
            return values[0]
        return self.put(ops.alike(comb.AndOp, values), name) if values else self.constant(1, 1)

    def any_of(self, *values: SSAValue, name: str | None = None) -> SSAValue:
        """Where a value has a 1."""
        if len(values) == 1:
            return values[0]
        return self.put(ops.alike(comb.OrOp, values), name) if values else self.constant(0, 1)

    def either(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Where exactly one of two values has a 1."""
        return self.put(ops.alike(comb.XorOp, [a, b]))

    def inverse(self, value: SSAValue, name: str | None = None) -> SSAValue:
        """All bits the other way."""
        bits = bit_width(value.type) or 1
        return self.put(ops.alike(comb.XorOp, [value, self.constant(-1, bits)]), name)

    def select(
        self, condition: SSAValue, yes: SSAValue, no: SSAValue, name: str | None = None
    ) -> SSAValue:
        """`yes` where the condition is 1, else `no`."""
        return yes if yes is no else self.put(ops.mux(condition, yes, no), name)

    def either_of(
        self, condition: SSAValue, yes: SSAValue, no: SSAValue, name: str | None = None
    ) -> SSAValue:
        """A selection in gates, of which synthesis makes no reset where one side is known, nor an
        enable where one is the register itself: their nets are long."""
        sides = ((yes, condition), (no, self.inverse(condition)))
        bits = bit_width(yes.type) or 1
        parts = [self.all_of(side, self.repeated(c, bits)) for side, c in sides]
        return self.any_of(*parts, name=name)

    def compare(self, a: SSAValue, predicate: str, b: SSAValue | int) -> SSAValue:
        """A comparison: `eq`, `ne`; `ult`, `uge`, … of unsigned, `slt`, … of signed numbers."""
        other = self.constant(b, bit_width(a.type) or 1) if isinstance(b, int) else b
        return self.put(comb.ICmpOp(a, other, predicate))

    def add(self, a: SSAValue, b: SSAValue | int, name: str | None = None) -> SSAValue:
        """a + b in the bits of a."""
        other = self.constant(b, bit_width(a.type) or 1) if isinstance(b, int) else b
        return self.put(ops.alike(comb.AddOp, [a, other]), name)

    def subtract(self, a: SSAValue, b: SSAValue, name: str | None = None) -> SSAValue:
        """a - b in their bits."""
        return self.put(ops.alike(comb.SubOp, [a, b]), name)


@dataclass
class Circuit(Writer):
    """Numbers with exact widths, in `hw`, `comb` and `seq` at the end of a block.

    Attributes:
        block: where they go.
        clock: of all registers.
        enable: an i1; registers keep their value while it is 0.
        pacing: where registers are wanted, and for which device.
        search: how adders are searched for.
    """

    clock: SSAValue
    enable: SSAValue
    pacing: Pacing
    search: Search = field(default_factory=Search)
    _extended: dict[tuple[SSAValue, bool, int], SSAValue] = field(default_factory=dict, init=False)  # pyright: ignore[reportUnknownVariableType]
    _delayed: dict[SSAValue, list[SSAValue]] = field(default_factory=dict, init=False)  # pyright: ignore[reportUnknownVariableType]
    _bits: dict[tuple[SSAValue, int, bool], SSAValue] = field(default_factory=dict, init=False)  # pyright: ignore[reportUnknownVariableType]
    _names: Counter[str] = field(default_factory=Counter[str], init=False)
    _origins: dict[SSAValue, tuple[SSAValue, int]] = field(default_factory=dict, init=False)  # pyright: ignore[reportUnknownVariableType]
    _layer: str = field(default="", init=False)
    _comment: str | None = field(default=None, init=False)
    _element: int | None = field(default=None, init=False)

    def begin(self, name: str, source: str) -> None:
        """Start another layer of the program; names of values start with `name`."""
        self._layer = name
        self._comment = f"{name}: {source}"

    def put(self, op: Operation, name: str | None = None) -> SSAValue:
        """Append an op; its one result, called `name` with a number behind."""
        if self._comment is not None and not isinstance(op, hw.ConstantOp):
            op.attributes[COMMENT] = StringAttr(self._comment)
            self._comment = None
        return super().put(op, name)

    @contextmanager
    def element(self, index: int | None) -> Generator[None]:
        """Name what is made in here after a position in the layer's result."""
        self._element = index
        try:
            yield
        finally:
            self._element = None

    def name(self, kind: str) -> str:
        """The name of another value of that kind: `fc1_acc_12` for element 12 of the layer."""
        base = f"{self._layer}_{kind}"
        if self._element is not None:
            base += f"_{self._element}"
        number = self._names[base]
        self._names[base] += 1
        return base if self._element is not None and not number else f"{base}_{number}"

    def at(self, wire: Wire, cycle: int) -> Wire:
        """The wire's value in a later cycle, by registers that its users share."""
        if wire.cycle == cycle:
            return wire
        if wire.low == wire.high:
            return replace(wire, cycle=cycle, level=0)
        assert cycle > wire.cycle and self.pacing
        first, delay = self._origins.get(wire.value, (wire.value, 0))
        chain = self._delayed.setdefault(first, [first])
        delay += cycle - wire.cycle
        while len(chain) <= delay:
            suffix = "_r" if len(chain) == 1 else f"_r{len(chain)}"
            name = name_of(first)
            name = None if name is None else name + suffix
            late = len(chain) == 1 and not self.pacing.has_room_for_reset(wire.level)
            source = self._without_reset(first) if late else chain[-1]
            chain.append(self.register(source, name))
            self._origins[chain[-1]] = (first, len(chain) - 1)
        return Wire(chain[delay], wire.low, wire.high, cycle)

    def register(self, value: SSAValue, name: str | None) -> SSAValue:
        """A register that takes `value` while the circuit is enabled."""
        selection = ops.mux(self.enable, value, value)
        self.put(selection)
        result = self.put(ops.register(selection.result, self.clock), name)
        selection.operands[2] = result
        return result

    def _without_reset(self, value: SSAValue) -> SSAValue:
        """Selections of constants in gates, of which synthesis makes no resets of registers."""
        op = value.owner
        if isinstance(op, comb.ConcatOp):
            parts = [self._without_reset(part) for part in op.inputs]
            changed = any(a is not b for a, b in zip(parts, op.inputs, strict=True))
            return self.joined(parts[::-1]) if changed else value
        if not isinstance(op, comb.MuxOp) or not any(
            isinstance(choice.owner, hw.ConstantOp | comb.ConcatOp)
            for choice in (op.true_value, op.false_value)
        ):
            return value
        return self.either_of(op.cond, op.true_value, op.false_value)

    def together(self, wires: Sequence[Wire], cost: float = 1) -> list[Wire]:
        """The wires in the first cycle that has room for an op of that cost (see `Pacing`)."""
        cycle, level = self.start_of(wires)
        if not self.pacing.fits(level, cost):
            cycle += 1
        return [self.at(wire, cycle) for wire in wires]

    def made(self, value: SSAValue, low: int, high: int, of: Sequence[Wire], cost: float) -> Wire:
        """A wire for `value`, computed from wires of one cycle at that cost."""
        return Wire(value, low, high, of[0].cycle, max(wire.level for wire in of) + cost)

    def bits(self, wire: Wire, width: int) -> SSAValue:
        """The wire's value in so many bits: extended by its sign, or cut where it fits in fewer."""
        if wire.width == width:
            return wire.value
        if wire.low == wire.high:
            return self.constant(wire.low, width)
        key = (wire.value, wire.low < 0, width)
        if key not in self._extended:
            self._extended[key] = self.extended(*key)
        return self._extended[key]

    def shifted(self, wire: Wire, places: int) -> Wire:
        """The wire's value · 2^places; no adder."""
        if not places:
            return wire
        value = self.joined([self.constant(0, places), wire.value])
        low, high = wire.low << places, wire.high << places
        width = width_of(low, high)
        if width != wire.width + places:
            value = self.extract(value, 0, width)
        return Wire(value, low, high, wire.cycle, wire.level)

    def added(self, a: Wire, b: Wire, sign: int, name: str) -> Wire:
        """a + sign·b, exactly."""
        other = (b.low, b.high) if sign > 0 else (-b.high, -b.low)
        low, high = a.low + other[0], a.high + other[1]
        width = width_of(low, high)
        cost = self.pacing.cost("add", width)
        a, b = self.together([a, b], cost)
        operands = self.bits(a, width), self.bits(b, width)
        if (a.level or b.level) and self.pacing.keeps_sums_apart:
            value = self._chained(operands, sign, width, name)
        else:
            value = (self.add if sign > 0 else self.subtract)(*operands, name)
        return self.made(value, low, high, [a, b], cost)

    def _chained(
        self, operands: tuple[SSAValue, SSAValue], sign: int, width: int, name: str
    ) -> SSAValue:
        """A sum of sums of the same cycle, which synthesis must not merge into one: see `row`."""
        first, second = operands
        if sign > 0:
            return self.row(first, [second], [], width, name)
        one = self.constant(1, 1)
        left, right = (self.joined([one, value]) for value in (first, second))
        return self.extract(self.subtract(left, right), 1, width, name)

    def compared(self, a: Wire, b: Wire, predicate: str) -> Wire:
        """a ⋈ b as a bit; the predicate is `ge`, `gt` or `eq`."""
        low, high = min(a.low, b.low), max(a.high, b.high)
        width = width_of(low, high)
        cost = self.pacing.comparison(width, 2)
        a, b = self.together([a, b], cost)
        value = self._comparison(self.bits(a, width), self.bits(b, width), predicate, low)
        return self.made(value, 0, 1, [a, b], cost)

    def compared_with(self, wire: Wire, number: int, predicate: str) -> Wire:
        """wire ⋈ number as a bit, for a number that the wire can hold; `le` may be asked too."""
        width = wire.width
        bound = number + (predicate == "gt" or predicate == "le")
        # Below the lowest 1 of the bound no bit matters.
        read = width if predicate == "eq" else width - max(0, (bound & -bound).bit_length() - 1)
        cost = self.pacing.comparison(read, 1)
        (wire,) = self.together([wire], cost)
        if predicate != "eq" and self.pacing.is_logic(read):
            value = self._reached(wire, bound)
            if predicate == "le":
                value = self.bit(value, 0, inverted=True)
        else:
            other = self.constant(number, width)
            value = self._comparison(wire.value, other, predicate, wire.low)
        return self.made(value, 0, 1, [wire], cost)

    def _reached(self, wire: Wire, number: int) -> SSAValue:
        """wire ≥ number, bit by bit: few look-up tables, where synthesis would take a carry chain
        for a comparison, and what makes the bits may become part of the tables.
        """
        width = wire.width
        if not wire.low < number <= wire.high:
            return self.constant(int(number <= wire.low), 1)
        reached: SSAValue | None = None
        for place in range(width):
            top = wire.low < 0 and place == width - 1
            bit = self.bit(wire.value, place, inverted=top)
            asked = bool(number >> place & 1) != top
            if reached is None:
                reached = bit if asked else None
            else:
                name = self.name("is") if place == width - 1 else None
                reached = (self.all_of if asked else self.any_of)(bit, reached, name=name)
        assert reached is not None
        return reached

    def _comparison(self, a: SSAValue, b: SSAValue, predicate: str, low: int) -> SSAValue:
        signed = predicate if predicate == "eq" else f"{'s' if low < 0 else 'u'}{predicate}"
        return self.put(comb.ICmpOp(a, b, signed), self.name("is"))

    def selected(
        self,
        condition: Wire,
        yes: Wire,
        no: Wire,
        bounds: tuple[int, int],
        name: str,
        levels: int = 0,
    ) -> Wire:
        """`yes` where the condition is 1, else `no`; what is chosen lies in `bounds`.

        A choice is a level of its own where `levels` says so, else part of the comparison's.
        """
        cost = self.pacing.cost("mux", levels=levels)
        condition, yes, no = self.together([condition, yes, no], cost)
        width = width_of(*bounds)
        known = any(isinstance(w.value.owner, hw.ConstantOp) for w in (yes, no))
        ways = condition.value, self.bits(yes, width), self.bits(no, width)
        value = self.either_of(*ways, name) if known else self.select(*ways, name)
        return self.made(value, *bounds, [condition, yes, no], cost)

    def beside(self, top: Wire, low: Wire, width: int, name: str) -> Wire:
        """top · 2^width + low, for an unsigned `low` of at most `width` bits."""
        top, low = self.together([top, low], 0)
        value = self.joined([self.bits(low, width), top.value], name)
        return self.made(value, 0, (top.high << width) + (1 << width) - 1, [top, low], 0)

    def start_of(self, wires: Sequence[Wire]) -> tuple[int, float]:
        """The cycle in which all of the wires are there, and the level within it."""
        cycle = max((wire.cycle for wire in wires), default=0)
        return cycle, max((wire.level for wire in wires if wire.cycle == cycle), default=0)

    def slot(self, start: tuple[int, float], step: int, cost: float) -> tuple[int, float]:
        """Where an op ends that comes after `step` others of the same cost, one by one: its cycle,
        and the level within it."""
        cycle, level = start
        for _ in range(step + 1):
            if not self.pacing.fits(level, cost):
                cycle, level = cycle + 1, 0
            level += cost
        return cycle, level

    def bit(self, value: SSAValue, index: int, *, inverted: bool) -> SSAValue:
        """One bit of a value, or the inverse of it; asked for again, the same op."""
        key = (value, index, inverted)
        if key not in self._bits:
            if inverted:
                self._bits[key] = self.inverse(self.bit(value, index, inverted=False))
            else:
                self._bits[key] = value if value.type == i1 else self.extract(value, index, 1)
        return self._bits[key]

    def row(
        self,
        first: SSAValue,
        second: Sequence[SSAValue],
        carry: Sequence[SSAValue],
        width: int,
        name: str,
    ) -> SSAValue:
        """first + second + carry, unsigned, in so many bits; `second` is bits, lowest first.

        Written as a difference from the inverse, with the carry in a place below the lowest one.
        A synthesis tool may swap the operands of a sum, but of a difference it keeps the first one
        at the carry chain, and then what makes the second one becomes part of the adder's look-up
        tables. Nor does it merge such rows into one sum of many operands.
        """
        below = list(carry) or [self.constant(0, 1)]
        left = self.joined([*below, first], bits=width + 1)
        right = self.joined([*below, *second], bits=width + 1)
        return self.extract(self.subtract(left, self.inverse(right)), 1, width, name)

    def gathered(self, bits: Sequence[SSAValue], of: Sequence[Wire]) -> Wire:
        """Bits of one cycle as an unsigned number, the lowest first, made from the wires `of`."""
        return self.made(self.joined(bits), 0, (1 << len(bits)) - 1, of, 0)

    def number(self, value: int, like: Wire) -> Wire:
        """A constant as a wire that is there when `like` is."""
        width = width_of(value, value)
        return Wire(self.constant(value, width), value, value, like.cycle)


def named(value: SSAValue, name: str) -> SSAValue:
    """Give an op's result a name."""
    assert isinstance(value.owner, Operation)
    value.owner.attributes[NAME] = StringAttr(name)
    # A hint that ends in a number can meet the number that printing gives to another one.
    value.name_hint = _NUMBERS.sub("", name) or None
    return value


def name_of(value: SSAValue) -> str | None:
    """The name of an op's result, as given by `named`."""
    if not isinstance(value.owner, Operation):
        return None
    name = value.owner.attributes.get(NAME)
    return name.data if isinstance(name, StringAttr) else None
