"""The steps of a program in phases, for one sample in several threads (`abi.phases`).

A phase is a step whose things threads share out: turns of one of its loops, or of a loop over steps
that may go in any order, or parts of a kernel, as rows of a product with trits, or panels of it,
for which rows are prepared before; or it is some steps that are not worth it. Not here: how many
threads, who takes what (`runtime.native`), code (`assembly`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .additions import AdditionStep
from .dots import DotStep
from .nests import Access
from .program import Program, SharedStep, Step
from .repetition import LoopStep
from .schedule import ENOUGH_THINGS
from .structured import NestStep
from .trace import StepFacts, facts_of
from .views import Buffer, holder

_LEAST_TURNS = 6
"""Turns of a loop over steps from which on threads share them out, not what is done in each."""
_WORTH, _WORTH_BYTES = 8.0, 600e3
"""Microseconds of computing, or bytes of memory that others may have written, of a step for which
threads may meet behind it."""
_WORTH_CALLING = 200.0
"""Microseconds of what is shared for which others are called, who may sleep."""
_RATES = {"bytes": 400e3, "i16": 200e3, "f32": 60e3}
_APART, _OTHERS = 100e3, 30e3
"""Operations that a thread does in a microsecond with registers of 64 bytes, about; those of sums
that have factors of their own; and others."""


@dataclass(frozen=True)
class Phase:
    """One of them.

    Attributes:
        things: that are shared out; 1 where all is one thread's.
        steps: what is done, each at so many turns of the loops around it. A phase of several things
            is one step: a nest, a loop of which things are turns, or a kernel.
        loop: of a nest, which things are turns of.
    """

    things: int
    steps: Sequence[tuple[Step, Mapping[Buffer, int]]]
    loop: int = 0

    @property
    def nest(self) -> NestStep | None:
        """The nest of which threads share out a loop."""
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
    shares = _Shares(program)

    def add(step: Step, turns: Mapping[Buffer, int], things: int = 1, loop: int = 0) -> None:
        if things == 1 and phases and phases[-1].things == 1:
            phases[-1] = Phase(1, [*phases[-1].steps, (step, turns)])
        else:
            phases.append(Phase(things, [(step, turns)], loop))

    for step, turns in _flat(program.steps, {}):
        things, loop = shares.of(step)
        if things > 1 and isinstance(step, SharedStep) and step.preparation is not None:
            add(step.preparation, turns)
        add(step, turns, things, loop)
    if shares.time < _WORTH_CALLING:
        return [Phase(1, [each for phase in phases for each in phase.steps])]
    return phases


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


@dataclass
class _Shares:
    """How threads share out one step after the other.

    Attributes:
        program: whose steps they are.
        strides: of tensors that threads wrote, how far from each other things begin there.
        time: microseconds that one thread takes for all that is shared, about.
    """

    program: Program
    strides: dict[Buffer, int] = field(default_factory=dict[Buffer, int])
    time: float = 0.0

    def of(self, step: Step) -> tuple[int, int]:
        """The things of a step, and the loop of a nest which they are turns of."""
        if not isinstance(step, LoopStep | NestStep | SharedStep):
            return 1, 0
        if isinstance(step, LoopStep):
            things, loop = step.count.at(1) if step.apart else 1, 0
        elif not self._worth(step):
            return 1, 0
        elif isinstance(step, NestStep):
            things, loop = self._of_nest(step)
        else:
            things, loop = step.things, 0
        if isinstance(step, AdditionStep):
            self.strides |= {holder(view): step.pitch for view in step.writes}
        if things > 1:
            self.time += self._time(step)
        return things, loop

    def _of_nest(self, step: NestStep) -> tuple[int, int]:
        """Of loops with enough things that along which threads go on with what they wrote, and
        whose results lie far apart, so that no line of a cache is two threads'; where none has so
        many, that with the most."""
        nest = step.nest

        def worth(loop: int) -> tuple[int, int, int]:
            follows = sum(
                abs(read.strides[loop].at(1)) in (written, 2 * written)
                for read in nest.reads.values()
                if (written := self.strides.get(holder(read.view)))
            )
            return min(things[loop], ENOUGH_THINGS), follows, _distance(nest.writes, loop)

        each = step.plan.parallel
        things = {loop: -(-nest.sizes[loop].at(1) // turns) for loop, turns in each.items()}
        loop = max(things, key=worth, default=0)
        for write in nest.writes:
            self.strides[holder(write.view)] = _distance([write], loop)
        return things.get(loop, 1), loop

    def _worth(self, step: NestStep | SharedStep) -> bool:
        return self._time(step) >= _WORTH or self._facts(step).bytes >= _WORTH_BYTES

    def _time(self, step: Step) -> float:
        """Microseconds that one thread computes."""
        facts = self._facts(step)
        apart = isinstance(step, DotStep) and step.dots is not None and step.dots.lanes
        rate = _APART if apart else _RATES.get(facts.unit, _OTHERS)
        return (facts.operations or 0) / rate * 64 / self.program.recipe.width

    def _facts(self, step: Step) -> StepFacts:
        return facts_of(self.program, step, 1)


def _distance(accesses: Sequence[Access], loop: int) -> int:
    """Elements from one turn of a loop to the next."""
    return sum(abs(a.strides[loop].at(1)) for a in accesses)
