"""Numbers on their way through a circuit: what a wire holds, when, and what it stands for."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.ir import SSAValue

from ....passes.adder_graph.graph import width_of


@dataclass(frozen=True)
class Wire:
    """Bits that hold every integer in [low, high], and when they do.

    Attributes:
        value: of type i*width*; two's complement if `low` is negative, else unsigned.
        low: the least integer it can hold.
        high: the largest one.
        cycle: registers on the way from the inputs.
        level: what is on the way from the last of those registers, in the unit of `Pacing`.
    """

    value: SSAValue
    low: int
    high: int
    cycle: int = 0
    level: float = 0

    @property
    def width(self) -> int:
        """The bits of `value`."""
        return width_of(self.low, self.high)


@dataclass(frozen=True)
class Signal:
    """The integer sign·wire + offset; without a wire, the constant `offset`.

    Signs and offsets cost nothing until something needs the number itself: thresholds and further
    additions take them in.
    """

    wire: Wire | None
    sign: int = 1
    offset: int = 0

    @staticmethod
    def constant(value: int) -> Signal:
        """A number known before the circuit runs."""
        return Signal(None, 1, value)

    @staticmethod
    def of(value: SSAValue, bounds: tuple[int, int], level: float = 0) -> Signal:
        """What a value of the first cycle holds that lies within bounds."""
        if bounds[0] == bounds[1]:
            return Signal.constant(bounds[0])
        return Signal(Wire(value, *bounds, level=level))

    @property
    def bounds(self) -> tuple[int, int]:
        """The interval that the number lies in."""
        if self.wire is None:
            return self.offset, self.offset
        ends = (self.sign * self.wire.low, self.sign * self.wire.high)
        return min(ends) + self.offset, max(ends) + self.offset

    def plus(self, number: int) -> Signal:
        """The number and a constant; no adder."""
        return replace(self, offset=self.offset + number)

    def negated(self) -> Signal:
        """The negative number; no adder."""
        return Signal(self.wire, -self.sign, -self.offset)
