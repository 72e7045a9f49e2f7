"""The forms that a product can take, with what each means by the formulas; what is asked of all.

Only forms that can be built are looked at, so that every choice is legal. Not here: which one is
taken (`reaching`), and which products there are (`layers`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from .....ir.errors import OptionError
from ...estimate.areas import Areas, Cost
from .costs import folded_cost, serial_cost, unrolled_cost
from .digit_serial import serial_cycles, serial_width
from .forms import Folded, Form, Serial, Unrolled
from .product import FoldedProduct, Folding, Product

_DIGITS = (1, 2)
"""Bits of digits that are looked at: sums of more are carry chains, as unrolled ones are."""


@dataclass(frozen=True)
class Choice:
    """A form of a layer, and what it means.

    Attributes:
        form: of the product.
        cycles: a frame takes, when nobody waits.
        cost: of the product and what follows it.
    """

    form: Form
    cycles: int
    cost: Cost


@dataclass(frozen=True, eq=False)
class FoldableLayer:
    """A product as the choice sees it.

    Attributes:
        name: of the layer.
        product: with its function.
        beats: of a frame.
        areas: of the family that it is for.
        foldable: whether it may take a form other than unrolled.
    """

    name: str
    product: Product
    beats: int
    areas: Areas
    foldable: bool = True

    def choice(self, form: Form) -> Choice:
        """What a form means.

        Raises:
            OptionError: the product cannot take it.
        """
        if not self.foldable and not isinstance(form, Unrolled):
            raise OptionError(f"layer '{self.name}' can only be unrolled, got {form}")
        try:
            match form:
                case Unrolled():
                    return Choice(form, self.beats, unrolled_cost(self.areas, self.product))
                case Serial(digit):
                    cycles = serial_cycles(self.product, digit)
                    cost = serial_cost(self.areas, self.product, digit, cycles)
                    return Choice(form, self.beats * cycles, cost)
                case Folded(folding):
                    folded = FoldedProduct(self.product, folding)
                    return Choice(form, self.beats * folded.cycles, folded_cost(self.areas, folded))
        except OptionError as error:
            raise OptionError(f"layer '{self.name}': {error}") from None

    @cached_property
    def choices(self) -> list[Choice]:
        """The forms that no other one beats in cycles and in area, the quickest first."""
        candidates = [self.choice(Unrolled())]
        if self.foldable:
            if self.product.is_ternary:
                candidates += [
                    self.choice(Serial(n)) for n in _DIGITS if n < serial_width(self.product)
                ]
            k, n = self.product.shape
            candidates += [
                self.choice(Folded(Folding(pe, simd)))
                for pe in _columns(n, self.product.groups)
                for simd in _least(k)
                if pe * simd < k * n
            ]
        candidates.sort(key=lambda c: (c.cycles, c.cost.area, c.cost.flip_flops))
        best: list[Choice] = []
        for choice in candidates:
            if not best or choice.cost.area < best[-1].cost.area:
                best.append(choice)
        return best

    def within(self, cycles: int) -> Choice | None:
        """The smallest choice of at most so many cycles a frame."""
        index = bisect_right(self.choices, cycles, key=lambda choice: choice.cycles)
        return self.choices[index - 1] if index else None


def _columns(count: int, groups: int) -> list[int]:
    """Numbers of columns at once: some of a group, or all of several."""
    own = count // groups
    return sorted({*_least(own), *(own * number for number in _least(groups))})


def _least(count: int) -> list[int]:
    """For each number of groups the smallest size of a group."""
    groups = {-(-count // size) for size in range(1, count + 1)}
    return sorted({-(-count // number) for number in groups})


@dataclass(frozen=True)
class Goal:
    """What is asked of a network.

    Attributes:
        cycles: that a frame may take.
        luts: that the circuit may take, with memories counted as LUTs.
        clock: in MHz, for messages.
    """

    cycles: int | None = None
    luts: int | None = None
    clock: float = 100.0

    def rate(self, cycles: int) -> str:
        """Frames a second, in words."""
        return f"{self.clock * 1e6 / cycles:,.0f} frames/s at {self.clock:g} MHz"


def area_of(choices: Sequence[Choice]) -> int:
    """LUTs of all of them, by the formulas."""
    return sum(choice.cost.area for choice in choices)


@dataclass(frozen=True)
class Measured:
    """A circuit.

    Attributes:
        interval: cycles from frame to frame.
        cost: of all of it; nothing where nobody asks.
    """

    interval: int
    cost: Cost = field(default_factory=Cost)
