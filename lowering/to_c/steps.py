"""What steps touch, and steps with others behind them. Not here: which are joined (`fusion`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..to_native.program.nests import Access
from ..to_native.program.program import Step
from ..to_native.program.repetition import flat
from ..to_native.program.structured import NestStep
from ..to_native.program.views import Buffer, View, holder


def touched_by(step: Step) -> set[Buffer]:
    """The buffers that a step reads or writes."""
    return {holder(view) for view in (*step.reads, *step.writes)}


def users(steps: Sequence[Step], buffer: Buffer) -> int:
    """How many steps touch a buffer."""
    return sum(buffer in touched_by(step) for step in flat(steps))


@dataclass(frozen=True)
class Behind:
    """Loops behind others that have some of their indices.

    Attributes:
        step: the loops.
        fixed: the text of each index that is known already.
    """

    step: NestStep
    fixed: Mapping[int, str]


@dataclass
class SumStep(Step):
    """Loops with reductions, and what follows each sum.

    Attributes:
        sums: the loops; their result stands in no memory.
        behind: the loops behind each sum.
        read: how these read it.
    """

    sums: NestStep
    behind: Behind
    read: Access

    @property
    def reads(self) -> Sequence[View]:
        """What both read, but for the sums."""
        own = self.read.view.buffer
        views = [*self.sums.reads, *self.behind.step.reads]
        return [view for view in views if view.buffer is not own]

    @property
    def writes(self) -> Sequence[View]:
        """What stands in memory afterwards."""
        return self.behind.step.writes
