"""Integer arithmetic on signals: sums, products with constants, bounds, thresholds, rescaling.

Each function computes exactly what its name says, for every number within the bounds of its
operands. Not here: which op of a program needs what (`circuit_rules`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from xdsl.ir import SSAValue

from ....passes.adder_graph.graph import width_of
from ....passes.requantize.rescaling import Rescaling, cheapest, signed_digits, steps
from .arrays import in_pairs
from .circuit import Circuit
from .signals import Signal, Wire

_PLACES_OF_A_LEVEL = 3
"""Selections one after another that still count as part of the comparisons before them."""


def unpacked(
    circuit: Circuit, bus: SSAValue, bounds: Sequence[tuple[int, int]], name: str, level: float = 0
) -> list[Signal]:
    """The numbers on a bus, the first in the lowest bits, each with exactly its bits."""
    signals: list[Signal] = []
    low = 0
    for index, ends in enumerate(bounds):
        width = width_of(*ends)
        if ends[0] == ends[1]:
            signals.append(Signal.constant(ends[0]))
        else:
            value = circuit.extract(bus, low, width, f"{name}_{index}")
            signals.append(Signal.of(value, ends, level))
        low += width
    return signals


def packed(
    circuit: Circuit, signals: Sequence[Signal], widths: Sequence[int], cycle: int
) -> SSAValue:
    """The inverse of `unpacked`, in a cycle in which all of the numbers are there."""
    parts = [
        circuit.constant(signal.offset, width)
        if signal.wire is None
        else circuit.bits(circuit.at(signal.wire, cycle), width)
        for signal, width in zip(signals, widths, strict=True)
    ]
    return circuit.joined(parts)


def end_of(circuit: Circuit, wires: Sequence[Wire]) -> int:
    """The cycle in which all wires come from registers, if there are registers."""
    return max((wire.cycle + bool(circuit.pacing and wire.level) for wire in wires), default=0)


def plain(circuit: Circuit, x: Signal, name: str | None = None) -> Signal:
    """The number itself on a wire (or a constant): at most one adder."""
    if x.wire is None or (x.sign == 1 and x.offset == 0):
        return x
    low, high = x.bounds
    if low == high:
        return Signal.constant(low)
    offset = circuit.number(x.offset, x.wire)
    wire = name or circuit.name("sum")
    if x.sign > 0:
        return Signal(circuit.added(x.wire, offset, 1, wire))
    return Signal(circuit.added(offset, x.wire, -1, wire))


def add(circuit: Circuit, a: Signal, b: Signal, name: str | None = None) -> Signal:
    """a + b."""
    if a.wire is None:
        return b.plus(a.offset)
    if b.wire is None:
        return a.plus(b.offset)
    name = name or circuit.name("sum")
    offset = a.offset + b.offset
    if a.wire is b.wire and a.sign != b.sign:
        return Signal.constant(offset)
    if a.sign == b.sign:
        return _kept(circuit.added(a.wire, b.wire, 1, name), a.sign, offset)
    plus, minus = (a.wire, b.wire) if a.sign > 0 else (b.wire, a.wire)
    return _kept(circuit.added(plus, minus, -1, name), 1, offset)


def _kept(wire: Wire, sign: int, offset: int) -> Signal:
    """A wire that can hold one number only is a constant."""
    if wire.low == wire.high:
        return Signal.constant(sign * wire.low + offset)
    return Signal(wire, sign, offset)


def scaled(circuit: Circuit, x: Signal, factor: int) -> Signal:
    """x · factor, as a sum of shifted copies."""
    if x.wire is None or factor == 0:
        return Signal.constant(x.offset * factor)
    terms = [
        Signal(circuit.shifted(x.wire, place), x.sign * digit)
        for place, digit in signed_digits(factor)
    ]
    total = in_pairs(lambda a, b: add(circuit, a, b, circuit.name("mul")), terms)
    return total.plus(x.offset * factor)


def at_least(circuit: Circuit, x: Signal, bound: int) -> Signal:
    """1 where x ≥ bound, else 0."""
    low, high = x.bounds
    if low >= bound:
        return Signal.constant(1)
    if high < bound or x.wire is None:
        return Signal.constant(0)
    if x.sign > 0:
        return Signal(circuit.compared_with(x.wire, bound - x.offset, "ge"))
    return Signal(circuit.compared_with(x.wire, x.offset - bound, "le"))


def equal_to(circuit: Circuit, x: Signal, number: int) -> Signal:
    """1 where x = number, else 0."""
    low, high = x.bounds
    if x.wire is None or not low <= number <= high:
        return Signal.constant(int(low == high == number))
    return Signal(circuit.compared_with(x.wire, x.sign * (number - x.offset), "eq"))


def inverted(bit: Signal) -> Signal:
    """1 - bit."""
    return bit.negated().plus(1)


def greater_equal(circuit: Circuit, a: Signal, b: Signal, predicate: str = "ge") -> Signal:
    """1 where a ≥ b (or a > b, a = b, as the predicate says), else 0."""
    if b.wire is None:
        if predicate == "eq":
            return equal_to(circuit, a, b.offset)
        return at_least(circuit, a, b.offset + (predicate == "gt"))
    if a.wire is None:
        if predicate == "eq":
            return equal_to(circuit, b, a.offset)
        return inverted(at_least(circuit, b, a.offset + (predicate == "ge")))
    if a.bounds[0] > b.bounds[1]:
        return Signal.constant(int(predicate != "eq"))
    first, second = plain(circuit, a), plain(circuit, b)
    assert first.wire is not None and second.wire is not None
    return Signal(circuit.compared(first.wire, second.wire, predicate))


def select(
    circuit: Circuit,
    condition: Signal,
    yes: Signal,
    no: Signal,
    bounds: tuple[int, int],
    name: str,
    levels: int = 0,
) -> Signal:
    """`yes` where the condition is 1, else `no`; what is chosen lies within `bounds`."""
    if bounds[0] == bounds[1]:
        return Signal.constant(bounds[0])
    if condition.wire is None:
        return yes if condition.offset else no
    if condition.sign < 0:
        return select(circuit, inverted(condition), no, yes, bounds, name, levels)
    chosen = [plain(circuit, yes), plain(circuit, no)]
    first, second = (
        circuit.number(s.offset, condition.wire) if s.wire is None else s.wire for s in chosen
    )
    return Signal(circuit.selected(condition.wire, first, second, bounds, name, levels))


def clamp(circuit: Circuit, x: Signal, low: int | None, high: int | None, name: str) -> Signal:
    """min(max(x, low), high); the comparisons and the number itself are made side by side."""
    least, most = x.bounds
    floor = least if low is None else max(least, low)
    ceiling = most if high is None else min(most, high)
    if low is not None and most <= low:
        return Signal.constant(low)
    if high is not None and least >= high:
        return Signal.constant(high)
    result = x
    if most > ceiling:
        above = at_least(circuit, x, ceiling + 1)
        result = select(
            circuit, above, Signal.constant(ceiling), result, (min(least, floor), ceiling), name
        )
    if least < floor:
        inside = at_least(circuit, x, floor)
        result = select(circuit, inside, result, Signal.constant(floor), (floor, ceiling), name)
    return result


def larger(circuit: Circuit, a: Signal, b: Signal, kind: str = "max") -> Signal:
    """max(a, b), called by its kind."""
    name = circuit.name(kind)
    if b.wire is None:
        return clamp(circuit, a, b.offset, None, name)
    if a.wire is None:
        return clamp(circuit, b, a.offset, None, name)
    bounds = max(a.bounds[0], b.bounds[0]), max(a.bounds[1], b.bounds[1])
    a, b = plain(circuit, a), plain(circuit, b)
    return select(circuit, greater_equal(circuit, a, b), a, b, bounds, name)


def smaller(circuit: Circuit, a: Signal, b: Signal) -> Signal:
    """min(a, b)."""
    return larger(circuit, a.negated(), b.negated(), "min").negated()


def count_reached(circuit: Circuit, x: Signal, thresholds: Sequence[int]) -> Signal:
    """The number of thresholds ≤ x: one comparison each, and selections instead of a sum."""
    low, high = x.bounds
    always = sum(t <= low for t in thresholds)
    asked = sorted(t for t in thresholds if low < t <= high)
    known: dict[int, Signal] = {}
    for t in asked:
        if t not in known:
            known[t] = at_least(circuit, x, t)
    return _counted(circuit, [known[t] for t in asked]).plus(always)


def _counted(circuit: Circuit, bits: Sequence[Signal]) -> Signal:
    """How many of the bits are 1, when no 1 follows a 0."""
    if not bits:
        return Signal.constant(0)
    if len(bits) == 1:
        return bits[0]
    places = len(bits).bit_length() - 1
    half = 1 << places
    upper = _counted(circuit, bits[half:])
    lower = _counted(circuit, bits[: half - 1])
    rest = select(
        circuit,
        bits[half - 1],
        upper,
        lower,
        (0, half - 1),
        circuit.name("count"),
        levels=int(places > _PLACES_OF_A_LEVEL),
    )
    top = bits[half - 1].wire
    assert top is not None
    low = circuit.number(rest.offset, top) if rest.wire is None else rest.wire
    joined = circuit.beside(top, low, places, circuit.name("count"))
    return Signal(replace(joined, high=len(bits)))


def rescaled(
    circuit: Circuit, x: Signal, by: Rescaling, zero_point: int, bounds: tuple[int, int], name: str
) -> Signal:
    """clamp(by(x) + zero_point, bounds), in the cheapest form that gives the same for every x."""
    low, high = bounds
    if x.wire is None or by.multiplier == 0:
        return Signal.constant(min(max(by(x.offset) + zero_point, low), high))
    sign = x.sign if by.multiplier > 0 else -x.sign
    addend = by.addend + by.multiplier * x.offset + (zero_point << by.shift)
    by = Rescaling(abs(by.multiplier), addend, by.shift)
    u = Signal(x.wire, sign)
    first, last = (min(max(by(end), low), high) for end in u.bounds)
    if first == last:
        return Signal.constant(first)
    best = cheapest(by, first, last)
    if last - first <= 2 + best.adders * 2:
        return count_reached(circuit, u, steps(by, first, last)).plus(first)
    product = plain(circuit, scaled(circuit, u, best.multiplier).plus(best.addend))
    assert product.wire is not None
    return clamp(circuit, _shifted_down(circuit, product.wire, best.shift, name), first, last, name)


def _shifted_down(circuit: Circuit, wire: Wire, places: int, name: str) -> Signal:
    """⌊wire / 2^places⌋."""
    low, high = wire.low >> places, wire.high >> places
    if low == high:
        return Signal.constant(low)
    width = Wire(wire.value, low, high).width
    value = circuit.extract(wire.value, places, width, name) if places else wire.value
    return Signal(Wire(value, low, high, wire.cycle, wire.level))


def first_largest(circuit: Circuit, numbers: Sequence[Signal]) -> Signal:
    """The index of the first of the largest numbers, by rounds of pairs."""
    field = [(plain(circuit, x), Signal.constant(i)) for i, x in enumerate(numbers)]
    return in_pairs(partial(_winner, circuit), field)[1]


def _winner(
    circuit: Circuit, a: tuple[Signal, Signal], b: tuple[Signal, Signal]
) -> tuple[Signal, Signal]:
    first = greater_equal(circuit, a[0], b[0])
    if first.wire is None:
        return a if first.offset else b
    bounds = tuple(max(ends) for ends in zip(a[0].bounds, b[0].bounds, strict=True))
    indices = (min(a[1].bounds[0], b[1].bounds[0]), max(a[1].bounds[1], b[1].bounds[1]))
    value = select(circuit, first, a[0], b[0], (bounds[0], bounds[1]), circuit.name("best"))
    index = select(circuit, first, a[1], b[1], indices, circuit.name("index"))
    return value, index
