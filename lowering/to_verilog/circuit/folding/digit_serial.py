"""A shared adder graph that takes a few bits of every number a cycle, lowest first.

An adder of d bits and a bit of carry stands for one of the whole width: with d = 1 a tenth of the
area or so, for as many cycles a beat as the sums have digits. All sharing stays. Numbers are in
two's complement and wrap around at the highest digit, where every result fits.

Thresholds are asked of the digits as they come: a comparison is a bit of state and a digit of the
threshold, which depends on the step alone. Hartley and Corbett 1990 for digit-serial arithmetic.
Not here: how the graph is found (`passes.adder_graph`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from xdsl.ir import SSAValue

from .....ir.errors import OptionError
from .....passes.adder_graph.graph import AdderGraph, width_of
from ..arithmetic import plain
from ..pacing import Pacing
from ..signals import Signal, Wire
from ..stages.counters import clog2
from ..stages.stage import Layout, Stage
from .channel_functions import Bounded, Staircase
from .control import Beat, SteppedBody
from .product import Product

_RIPPLE_DIGIT = 2
"""Digits of up to so many bits are added by functions of single bits, which LUTs take whole."""


@dataclass(frozen=True, eq=False)
class SerialProduct:
    """A product, the adder graph that computes it, and the bits of a digit.

    Attributes:
        product: what is computed; a `Bounded` function adds and bounds nothing.
        graph: of the product's matrix, without shifts.
        digit: bits of each number a cycle.

    Raises:
        OptionError: see `serial_cycles`.
    """

    product: Product
    graph: AdderGraph
    digit: int

    def __post_init__(self) -> None:
        function = self.product.function
        if isinstance(function, Bounded):
            assert not any(function.offsets) and (function.low, function.high) == (None, None)
        assert self.cycles and not any(shift for _, _, _, shift in self.graph.nodes)

    @cached_property
    def cycles(self) -> int:
        """Cycles a beat: digits of a sum."""
        return serial_cycles(self.product, self.digit)


def serial_cycles(product: Product, digit: int) -> int:
    """The digits of a product's sums.

    Raises:
        OptionError: weights are no trits, or the digit is not in [1, the width of the sums].
    """
    width = serial_width(product)
    if not product.is_ternary:
        raise OptionError(
            f"a product with weights of several bits takes no digits of inputs, got digit={digit}"
        )
    if not 1 <= digit <= width:
        raise OptionError(f"a product takes digits of 1 to {width} bits here, got {digit}")
    return -(-width // digit)


def serial_width(product: Product) -> int:
    """The bits in which the sums of a product fit, whatever the signs in its graph."""
    low, high = (int(f(end)) for f, end in zip((np.min, np.max), product.ends, strict=True))
    both = isinstance(product.function, Staircase)
    sums = width_of(min(low, -high if both else low, -1), max(high, -low if both else high))
    return max(sums, product.width + (not product.signed))


def serial_stage(
    name: str, source: str, serial: SerialProduct, *, keep_beat: bool = True, beats: int = 1
) -> Stage:
    """The stage of a digit-serial product.

    Args:
        keep_beat: as for `folded_stage`.
    """
    product = serial.product
    input, output = (Layout(tuple(bounds), beats) for bounds in (product.inputs, product.outputs))
    body = SteppedBody(name, source, input, Pacing())
    return _Writer(serial, body).stage(output, keep_beat=keep_beat)


class _Writer:
    def __init__(self, serial: SerialProduct, body: SteppedBody) -> None:
        self.serial, self.product = serial, serial.product
        self.body, self.circuit = body, body.circuit
        self._restarts: dict[int, SSAValue] = {}

    def stage(self, output: Layout, *, keep_beat: bool) -> Stage:
        body, circuit, graph = self.body, self.circuit, self.serial.graph
        beat = body.beats(self.serial.cycles, keep_beat=keep_beat)
        digits = self._digits(beat)
        goes_on = body.all_of(beat.busy, body.inverse(beat.at_end))
        between = body.register(body.inverse(goes_on), body.enable, "between")
        self.between = Wire(between, 0, 1)
        index = body.register(beat.index, body.enable, "digit")
        last = body.flag(body.all_of(beat.busy, beat.at_end), "last")
        values = self._graph(digits)
        columns = [self._signed(values[value], sign) for value, sign in graph.outputs]
        end = max((wire.cycle for wire, sign in columns if sign), default=0)
        self.index = circuit.at(Wire(index, 0, self.serial.cycles - 1), end)
        parts = [
            self._result(column, circuit.at(wire, end) if sign else wire, sign)
            for column, (wire, sign) in enumerate(columns)
        ]
        result = body.flags(last, end + 1, "last")
        return body.end_with(output, beat.in_ready, result, body.joined(parts))

    def _digits(self, beat: Beat) -> list[Wire]:
        """The digit of each input in this step, a cycle later."""
        body, digit, cycles = self.body, self.serial.digit, self.serial.cycles
        width, signed = self.product.width, self.product.signed
        # From this digit on all bits are copies of the sign, or zeros.
        different = min(cycles, -(-(width - signed) // digit) + 1)
        low, high = (-(1 << (width - 1)), 0) if signed else (0, (1 << width) - 1)
        place = self._place(beat, different)
        digits: list[Wire] = []
        for position, value in enumerate(body.elements(beat.data, self.product.inputs, width)):
            whole = self.circuit.bits(Wire(value, low, high), different * digit)
            words = [body.extract(whole, i * digit, digit) for i in range(different)]
            chosen = body.register(body.picked(words, place), body.enable, f"x_{position}")
            digits.append(self._wire(chosen))
        return digits

    def _place(self, beat: Beat, different: int) -> SSAValue:
        """Which digit of the inputs a step takes: in the last steps the last one that differs.

        A register of its own, so that every input asks for as few bits as there are digits.
        """
        body = self.body
        if different in (1, self.serial.cycles):
            return beat.index
        bits = clog2(different)
        place = body.state(bits, "place", 0)
        is_last = body.compare(place, "eq", different - 1)
        following = body.select(is_last, place, body.add(place, 1))
        body.drive(place, body.select(beat.at_end, body.constant(0, bits), following), beat.step)
        return place

    def _wire(self, value: SSAValue, cycle: int = 0) -> Wire:
        return Wire(value, 0, (1 << self.serial.digit) - 1, cycle)

    def _signed(self, wire: Wire, sign: int) -> tuple[Wire, int]:
        """A column's number, negative where thresholds do not take the sign in."""
        if sign >= 0 or isinstance(self.product.function, Staircase):
            return wire, sign
        zero = Wire(self.body.constant(0, self.serial.digit), 0, 0)
        return self._sum(zero, wire, -1, "negative"), 1

    def _graph(self, values: list[Wire]) -> list[Wire]:
        for number, (a, b, sign, _) in enumerate(self.serial.graph.nodes):
            values.append(self._sum(values[a], values[b], sign, f"sum_{number}"))
        return values

    def _sum(self, a: Wire, b: Wire, sign: int, name: str) -> Wire:
        """a ± b, a cycle later; the carry waits for the next digit."""
        body, circuit = self.body, self.circuit
        cycle = max(a.cycle, b.cycle)
        a, b = circuit.at(a, cycle), circuit.at(b, cycle)
        carry = self._remembered(f"{name}_carry", int(sign < 0), cycle)
        other = b.value if sign > 0 else body.inverse(b.value)
        total, after = self._added(a.value, other, carry)
        body.drive(carry, after, body.enable)
        return self._wire(body.register(total, body.enable, name), cycle + 1)

    def _remembered(self, name: str, first: int, cycle: int) -> SSAValue:
        """A bit that is kept from digit to digit; before each number it is `first`."""
        if cycle not in self._restarts:
            between = self.circuit.at(self.between, cycle).value
            self._restarts[cycle] = self.body.all_of(between, self.body.enable)
        return self.body.state(1, name, first, self._restarts[cycle])

    def _added(self, a: SSAValue, b: SSAValue, carry: SSAValue) -> tuple[SSAValue, SSAValue]:
        """The sum of two digits and a carry, and its carry."""
        body, digit = self.body, self.serial.digit
        if digit > _RIPPLE_DIGIT:
            one, zero = body.constant(1, 1), body.constant(0, 1)
            total = body.add(body.joined([one, a, zero]), body.joined([carry, b, zero]))
            return body.extract(total, 1, digit), body.extract(total, digit + 1, 1)
        bits: list[SSAValue] = []
        for place in range(digit):
            x, y = (value if digit == 1 else body.extract(value, place, 1) for value in (a, b))
            half = body.either(x, y)
            bits.append(body.either(half, carry))
            # No selection of what it was: Yosys would make an enable of its own for each carry.
            carry = body.any_of(body.all_of(x, y), body.all_of(half, carry))
        return body.joined(bits), carry

    def _result(self, column: int, wire: Wire, sign: int) -> SSAValue:
        """A column's result in the step after its last digit."""
        function = self.product.function
        bounds = self.product.outputs[column]
        width = width_of(*bounds)
        if bounds[0] == bounds[1]:
            return self.body.constant(bounds[0], width)
        if not isinstance(function, Staircase):
            return self._collected(wire, f"y_{column}", width)
        always, bits = self._reached(column, wire, sign)
        number = Signal(Wire(self.body.counted(bits), 0, len(bits), wire.cycle + 1))
        with self.circuit.element(column):
            total = plain(self.circuit, number.plus(function.base + always)).wire
        assert total is not None
        return self.circuit.bits(total, width)

    def _collected(self, wire: Wire, name: str, width: int) -> SSAValue:
        """The lowest bits of the number whose digits come; the last digit is the highest."""
        body, serial = self.body, self.serial
        if serial.cycles == 1:
            whole = body.register(wire.value, body.enable, name)
        else:
            have = serial.cycles * serial.digit
            whole = body.state(have, name)
            rest = body.extract(whole, serial.digit, have - serial.digit)
            body.drive(whole, body.joined([rest, wire.value]), body.enable)
        return body.extract(whole, 0, width)

    def _reached(self, column: int, wire: Wire, sign: int) -> tuple[int, list[SSAValue]]:
        """How many thresholds are reached always; whether each other one is, in rising order."""
        function = self.product.function
        assert isinstance(function, Staircase)
        turned = function.signs[column]
        low, high = sorted(turned * int(end[column]) for end in self.product.ends)
        row = function.thresholds[column]
        flipped = self._top_inverted(wire.value)
        known: dict[int, SSAValue] = {}
        for threshold in row:
            if low < threshold <= high and threshold not in known:
                if turned * sign > 0:
                    bit = self._at_least(flipped, threshold, column)
                else:
                    bit = self.body.inverse(self._at_least(flipped, 1 - threshold, column))
                known[threshold] = bit
        return sum(t <= low for t in row), [known[t] for t in row if t in known]

    def _top_inverted(self, digit: SSAValue) -> SSAValue:
        """The digit; of the highest one the highest bit, the sign, the other way."""
        body, bits, cycles = self.body, self.serial.digit, self.serial.cycles
        at_end = body.constant(1, 1)
        if cycles > 1:
            at_end = body.compare(self.index.value, "eq", cycles - 1)
        flip = at_end if bits == 1 else body.joined([body.constant(0, bits - 1), at_end])
        return body.either(digit, flip)

    def _at_least(self, digit: SSAValue, bound: int, column: int) -> SSAValue:
        """Whether the number whose digits come is ≥ `bound`, in the step after the last one."""
        body, bits, cycles = self.body, self.serial.digit, self.serial.cycles
        moved = (bound + (1 << (bits * cycles - 1))) % (1 << (bits * cycles))
        words = [
            body.constant((moved >> (bits * step)) % (1 << bits), bits) for step in range(cycles)
        ]
        other = body.picked(words, self.index.value)
        so_far = body.state(1, f"reached_{column}")
        before = body.constant(1, 1)
        if cycles > 1:
            # Of the step alone, so that the whole of it is a function of few bits.
            before = body.any_of(so_far, body.compare(self.index.value, "eq", 0))
        for place in range(bits):
            own, bound_bit = (body.extract(word, place, 1) for word in (digit, other))
            before = body.select(body.either(own, bound_bit), own, before)
        body.drive(so_far, before, body.enable)
        return so_far
