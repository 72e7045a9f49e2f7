"""The steps of a program in phases, for one sample in several threads (`abi.phases`).

A phase is a step whose things threads share out: turns of its outermost loop, or of a loop over
steps that may go in any order, or parts of a kernel, as panels of a product with trits, whose rows
are prepared before; or it is some steps that are not worth it. Not here: how many
threads, who takes what (`runtime.native`), code (`assembly`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .loops import first_loop
from .program import Program, SharedStep, Step
from .repetition import LoopStep
from .structured import NestStep
from .trace import facts_of
from .views import Buffer

_LEAST_TURNS = 6
"""Turns of a loop over steps from which on threads share them out, not what is done in each."""
_WORTH = 30.0
"""Microseconds of a step for which threads may meet behind it."""
_RATES = {"bytes": 400e3, "i16": 200e3, "f32": 60e3}
_OTHERS, _BYTES = 30e3, 20e3
"""Operations and bytes that a thread does in a microsecond, about."""


@dataclass(frozen=True)
class Phase:
    """One of them.

    Attributes:
        things: that are shared out; 1 where all is one thread's.
        steps: what is done, each at so many turns of the loops around it. A phase of several things
            is one step: a nest, a loop of which things are turns, or a kernel.
    """

    things: int
    steps: Sequence[tuple[Step, Mapping[Buffer, int]]]

    @property
    def nest(self) -> NestStep | None:
        """The nest of which threads share out the outermost loop."""
        step = self.steps[0][0]
        return step if self.things > 1 and isinstance(step, NestStep) else None

    @property
    def turns(self) -> LoopStep | None:
        """The loop of which threads share out the turns."""
        step = self.steps[0][0]
        return step if self.things > 1 and isinstance(step, LoopStep) else None

    @property
    def kernel(self) -> SharedStep | None:
        """The kernel of which threads share out the things."""
        step = self.steps[0][0]
        return step if self.things > 1 and isinstance(step, SharedStep) else None


def phases_of(program: Program) -> list[Phase]:
    """The phases of a program for a batch of one."""
    phases: list[Phase] = []

    def add(things: int, step: Step, turns: Mapping[Buffer, int]) -> None:
        if things == 1 and phases and phases[-1].things == 1:
            phases[-1] = Phase(1, [*phases[-1].steps, (step, turns)])
        else:
            phases.append(Phase(things, [(step, turns)]))

    for step, turns in _flat(program.steps, {}):
        things = _things(program, step)
        if things > 1 and isinstance(step, SharedStep) and step.preparation is not None:
            add(1, step.preparation, turns)
        add(things, step, turns)
    return phases


def things_of(step: NestStep) -> tuple[int, int, int]:
    """The outermost loop of a nest, how many of its turns are one thing, and things of a sample."""
    found = first_loop(step.nest, step.plan)
    if found is None:
        return 0, 1, 1
    d, each = found
    return d, each, -(-step.nest.sizes[d].at(1) // each)


def _flat(
    steps: Sequence[Step], turns: Mapping[Buffer, int]
) -> list[tuple[Step, Mapping[Buffer, int]]]:
    """Loops of few turns as what is done in each."""
    found: list[tuple[Step, Mapping[Buffer, int]]] = []
    for step in steps:
        if isinstance(step, LoopStep) and step.apart and step.count.at(1) < _LEAST_TURNS:
            for turn in range(step.count.at(1)):
                found += _flat(step.repeated, {**turns, **dict.fromkeys(step.slices, turn)})
        else:
            found.append((step, turns))
    return found


def _things(program: Program, step: Step) -> int:
    """Of one step."""
    if isinstance(step, LoopStep):
        return step.count.at(1) if step.apart else 1
    if not isinstance(step, NestStep | SharedStep):
        return 1
    facts = facts_of(program, step, 1)
    rate = _RATES.get(facts.unit, _OTHERS)
    worth = max((facts.operations or 0) / rate, facts.bytes / _BYTES) >= _WORTH
    if isinstance(step, SharedStep):
        return step.things if worth else 1
    return things_of(step)[2] if worth else 1
