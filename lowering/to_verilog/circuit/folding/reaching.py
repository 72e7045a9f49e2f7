"""Forms with which a built circuit reaches a goal: the choice, made again where formulas are wrong.

Stages that wait for each other make a network slower than its slowest layer, and its area is not
that of its products alone. Not here: the choice (`choice`), and what is built (`measuring`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from .....ir.errors import OptionError
from .choice import Choice, FoldableLayer, Goal, area_of, chosen
from .forms import Form
from .measuring import Measured

_TRIES = 4
"""Circuits that are built for a goal, at most."""

Build = Callable[[Sequence[Choice]], Measured]
"""What a circuit with these forms takes."""

Found = tuple[list[Choice], Measured]


def reached(
    layers: Sequence[FoldableLayer], forms: Mapping[str, Form], goal: Goal, build: Build
) -> Found:
    """A choice for each layer, and the circuit that it makes, which reaches the goal.

    Args:
        layers: in order.
        given: forms by the names of layers, which are kept.
        goal: cycles are those of the whole circuit, LUTs are those of all of it.
        build: makes a circuit.

    Raises:
        OptionError: as for `chosen`, or no circuit that was tried reaches the goal: the message
            says how far they came.
    """
    return _Reaching(layers, forms, goal, build).found()


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

    def _chosen(self, cycles: int | None, luts: int | None) -> list[Choice]:
        return chosen(self.layers, self.given, replace(self.goal, cycles=cycles, luts=luts))

    def _measured(self, choices: Sequence[Choice]) -> Measured:
        forms = tuple(choice.form for choice in choices)
        if forms not in self._built:
            self._built[forms] = self.build(choices)
        return self._built[forms]

    def _paced(self) -> Found:
        """The smallest that keeps up; layers get less time for as long as the circuit is slow."""
        cycles = self.goal.cycles
        assert cycles is not None
        allowed, best = cycles, None
        for _ in range(_TRIES):
            try:
                choices = self._chosen(allowed, None)
            except OptionError:
                if best is None:
                    raise
                break
            circuit = self._measured(choices)
            if circuit.interval <= cycles:
                return choices, circuit
            if best is None or circuit.interval < best.interval:
                best = circuit
            slowest = max((choice.cycles for choice in choices), default=0)
            allowed = min(allowed * cycles // circuit.interval, slowest - 1)
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
        smallest = self._chosen(_FOREVER, None)
        for _ in range(_TRIES):
            try:
                choices = self._chosen(None, budget)
            except OptionError:
                choices = smallest
            forms = tuple(choice.form for choice in choices)
            if forms in seen:
                break
            seen.add(forms)
            circuit = self._measured(choices)
            if circuit.cost.area <= luts and (best is None or _better(circuit, best[1])):
                best = choices, circuit
            budget = luts - circuit.cost.area + area_of(choices)
        if best is None:
            circuit = self._measured(smallest)
            if circuit.cost.area > luts:
                raise OptionError(
                    f"lut-budget={luts:,} is too small: the circuit takes "
                    f"{circuit.cost.area:,} LUTs at least, folded to "
                    f"{self.goal.rate(circuit.interval)}"
                )
            best = smallest, circuit
        return best


_FOREVER = 1 << 62


def _better(one: Measured, other: Measured) -> bool:
    return (one.interval, one.cost.area) < (other.interval, other.cost.area)
