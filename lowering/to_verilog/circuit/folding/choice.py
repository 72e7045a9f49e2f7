"""Which form each product takes: the least area at a pace, or the best pace in an area.

Only forms that can be built are looked at, so that every choice is legal. All products of a network
work side by side; the slowest one sets the pace. Not here: which products there are (`layers`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from .....ir.errors import OptionError
from .costs import Cost, folded_cost, serial_cost, unrolled_cost
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
        foldable: whether it may take a form other than unrolled.
    """

    name: str
    product: Product
    beats: int
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
                    return Choice(form, self.beats, unrolled_cost(self.product))
                case Serial(digit):
                    cycles = serial_cycles(self.product, digit)
                    cost = serial_cost(self.product, digit, cycles)
                    return Choice(form, self.beats * cycles, cost)
                case Folded(folding):
                    folded = FoldedProduct(self.product, folding)
                    return Choice(form, self.beats * folded.cycles, folded_cost(folded))
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
        luts: that all products may take, with memories counted as LUTs.
        clock: in MHz, for messages.
    """

    cycles: int | None = None
    luts: int | None = None
    clock: float = 100.0

    def rate(self, cycles: int) -> str:
        """Frames a second, in words."""
        return f"{self.clock * 1e6 / cycles:,.0f} frames/s at {self.clock:g} MHz"


def chosen(layers: Sequence[FoldableLayer], forms: Mapping[str, Form], goal: Goal) -> list[Choice]:
    """A choice for each layer.

    Args:
        layers: in order.
        given: forms by the names of layers, which are kept.
        goal: with cycles alone the least area that keeps up; with LUTs the quickest that fits, and
            of those the smallest.

    Raises:
        OptionError: a given name is no layer's, or the goal cannot be reached: then the message
            says what can.
    """
    unknown = sorted(forms.keys() - {layer.name for layer in layers})
    if unknown:
        names = ", ".join(layer.name for layer in layers)
        raise OptionError(f"folding names '{unknown[0]}'; the layers are {names}")
    search = _Search(layers, forms, goal)
    if not layers:
        return []
    if goal.luts is not None:
        return search.within(goal.luts, goal.cycles)
    return search.at(None) if goal.cycles is None else search.paced(goal.cycles)


@dataclass(frozen=True)
class _Search:
    layers: Sequence[FoldableLayer]
    given: Mapping[str, Form]
    goal: Goal

    def at(self, cycles: int | None) -> list[Choice]:
        """Each layer's smallest choice of at most so many cycles; unrolled without a number."""
        choices_at: list[Choice] = []
        for layer in self.layers:
            if layer.name in self.given:
                choices_at.append(layer.choice(self.given[layer.name]))
            elif cycles is None:
                choices_at.append(layer.choice(Unrolled()))
            else:
                choices_at.append(layer.within(cycles) or layer.choices[0])
        return choices_at

    @property
    def paces(self) -> list[int]:
        """The cycles a frame that some choice takes, from the fewest that all can keep to."""
        least = max(choice.cycles for choice in self.at(1))
        every = {c.cycles for layer in self.layers for c in layer.choices}
        return sorted({least, *(cycles for cycles in every if cycles > least)})

    def paced(self, cycles: int) -> list[Choice]:
        """The smallest that takes at most so many cycles a frame."""
        smallest = self.at(cycles)
        slowest = max(smallest, key=lambda choice: choice.cycles)
        if slowest.cycles > cycles:
            layer = self.layers[smallest.index(slowest)].name
            raise OptionError(
                f"a frame may take {cycles:,} cycles, and layer '{layer}' takes "
                f"{slowest.cycles:,} at least: the best is "
                f"{self.goal.rate(slowest.cycles)}; raise the clock or lower target-fps"
            )
        return smallest

    def within(self, luts: int, cycles: int | None) -> list[Choice]:
        """The quickest that takes at most so many LUTs."""
        paces = self.paces
        place = bisect_left(paces, True, key=lambda pace: area_of(self.at(pace)) <= luts)
        if place == len(paces):
            raise OptionError(
                f"lut-budget={luts:,} is too small: the products take "
                f"{area_of(self.at(paces[-1])):,} LUTs at least, folded to "
                f"{self.goal.rate(paces[-1])}"
            )
        pace = paces[place]
        if cycles is not None and pace > cycles:
            least = area_of(self.paced(cycles))
            raise OptionError(
                f"lut-budget={luts:,} allows {self.goal.rate(pace)} at best; "
                f"{self.goal.rate(cycles)} take {least:,} LUTs"
            )
        return self.at(pace)


def area_of(choices: Sequence[Choice]) -> int:
    """LUTs of all of them, by the formulas."""
    return sum(choice.cost.area for choice in choices)
