"""Which form each product takes: the least area at a pace, or the best pace in an area.

All products of a network work side by side; the slowest one sets the pace, by the formulas. Stages
that wait for each other make a network slower, and its area is not that of its products alone: so
circuits are built, and the choice is made again where they miss the goal. Not here: the forms
(`choice`), and what is built (`measuring`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from .....ir.errors import OptionError
from ...estimate.areas import Cost
from .choice import Choice, FoldableLayer, Goal, Measured, area_of
from .forms import Form, Unrolled

_TRIES = 4
"""Circuits that are built for a goal, at most."""

Build = Callable[[Sequence[Choice]], Measured]
"""What a circuit with these forms takes."""

Found = tuple[list[Choice], Measured]


def by_formulas(choices: Sequence[Choice]) -> Measured:
    """What products with these forms take, by the formulas, if nothing else were there."""
    slowest = max((choice.cycles for choice in choices), default=0)
    return Measured(slowest, sum((choice.cost for choice in choices), Cost()))


def reached(
    layers: Sequence[FoldableLayer],
    given: Mapping[str, Form],
    goal: Goal,
    build: Build = by_formulas,
) -> Found:
    """A choice for each layer, and the circuit that it makes, which reaches the goal.

    Args:
        layers: in order.
        given: forms by the names of layers, which are kept.
        goal: with cycles alone the least area that keeps up; with LUTs the quickest that fits, and
            of those the smallest; without either all layers are unrolled.
        build: makes a circuit.

    Raises:
        OptionError: a given name is no layer's, a layer cannot take a form, or no circuit that was
            tried reaches the goal: the message says how far they came.
    """
    unknown = sorted(given.keys() - {layer.name for layer in layers})
    if unknown:
        names = ", ".join(layer.name for layer in layers)
        raise OptionError(f"folding names '{unknown[0]}'; the layers are {names}")
    return _Reaching(layers, given, goal, build).found()


@dataclass
class _Reaching:
    layers: Sequence[FoldableLayer]
    given: Mapping[str, Form]
    goal: Goal
    build: Build
    _built: dict[tuple[Form, ...], Measured] = field(
        default_factory=dict[tuple[Form, ...], Measured], init=False
    )

    def found(self) -> Found:
        if self.goal.luts is None:
            return self._paced()
        quickest = self._within(self.goal.luts)
        cycles = self.goal.cycles
        if cycles is None or quickest[1].interval <= cycles:
            return quickest
        smallest = self._paced()
        if smallest[1].cost.area <= self.goal.luts:
            return smallest
        raise OptionError(
            f"lut-budget={self.goal.luts:,} allows {self.goal.rate(quickest[1].interval)} at "
            f"best; {self.goal.rate(cycles)} take {smallest[1].cost.area:,} LUTs"
        )

    def _at(self, cycles: int | None) -> list[Choice]:
        """Each layer's smallest choice of at most so many cycles; unrolled without a number."""
        choices: list[Choice] = []
        for layer in self.layers:
            if layer.name in self.given or cycles is None:
                choices.append(layer.choice(self.given.get(layer.name, Unrolled())))
            else:
                choices.append(layer.within(cycles) or layer.choices[0])
        return choices

    def _fitting(self, luts: int) -> list[Choice]:
        """The quickest choices of at most so many LUTs; the smallest where none are."""
        every = {choice.cycles for layer in self.layers for choice in layer.choices}
        least = by_formulas(self._at(1)).interval
        paces = sorted({least, *(cycles for cycles in every if cycles > least)})
        place = bisect_left(paces, True, key=lambda pace: area_of(self._at(pace)) <= luts)
        return self._at(paces[min(place, len(paces) - 1)])

    def _measured(self, choices: Sequence[Choice]) -> Measured:
        forms = tuple(choice.form for choice in choices)
        if forms not in self._built:
            self._built[forms] = self.build(choices)
        return self._built[forms]

    def _paced(self) -> Found:
        """The smallest that keeps up; layers get less time for as long as the circuit is slow."""
        cycles = allowed = self.goal.cycles
        best: Measured | None = None
        for _ in range(_TRIES):
            choices = self._at(allowed)
            slowest = max(choices, key=lambda choice: choice.cycles, default=None)
            if allowed is not None and slowest is not None and slowest.cycles > allowed:
                if best is None:
                    raise OptionError(
                        f"a frame may take {cycles:,} cycles, and layer "
                        f"'{self.layers[choices.index(slowest)].name}' takes {slowest.cycles:,} at "
                        f"least: the best is {self.goal.rate(slowest.cycles)}; raise the clock or "
                        "lower target-fps"
                    )
                break
            circuit = self._measured(choices)
            if cycles is None or allowed is None or circuit.interval <= cycles:
                return choices, circuit
            if best is None or circuit.interval < best.interval:
                best = circuit
            most = slowest.cycles if slowest is not None else 0
            allowed = min(allowed * cycles // circuit.interval, most - 1)
        assert best is not None
        raise OptionError(
            f"a frame may take {cycles:,} cycles, and the circuit takes {best.interval:,}, because "
            "its stages wait for each other: the best found is "
            f"{self.goal.rate(best.interval)}; raise the clock, lower target-fps, or give forms "
            "with folding"
        )

    def _within(self, luts: int) -> Found:
        """The quickest found that fits; products get what the last circuit left of the budget."""
        budget, best, seen = luts, None, set[tuple[Form, ...]]()
        for _ in range(_TRIES):
            choices = self._fitting(budget)
            forms = tuple(choice.form for choice in choices)
            if forms in seen:
                break
            seen.add(forms)
            circuit = self._measured(choices)
            if circuit.cost.area <= luts and (best is None or _better(circuit, best[1])):
                best = choices, circuit
            budget = luts - circuit.cost.area + area_of(choices)
        if best is None:
            smallest = self._fitting(0)
            circuit = self._measured(smallest)
            if circuit.cost.area > luts:
                raise OptionError(
                    f"lut-budget={luts:,} is too small: the circuit takes "
                    f"{circuit.cost.area:,} LUTs at least, folded to "
                    f"{self.goal.rate(circuit.interval)}"
                )
            best = smallest, circuit
        return best


def _better(one: Measured, other: Measured) -> bool:
    return (one.interval, one.cost.area) < (other.interval, other.cost.area)
