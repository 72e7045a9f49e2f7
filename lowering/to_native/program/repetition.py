"""`spike.scan` in memory: a loop over the steps, which reads and writes runs in their places.

What the body leaves for the next step is copied to where the body looks for it. Not here: the ops
of the body, which are planned like all others (`compilation`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from ....dialects import spike
from ....dialects.shapes import DYNAMIC
from ....dialects.spike.types import dense_type
from ....runtime.native.abi.sizes import ONE, ZERO, Size, product
from .nests import Access
from .program import Program, Step
from .structured import add_copy
from .views import Buffer, View


@dataclass(eq=False)
class LoopStep(Step):
    """Steps that are repeated.

    Attributes:
        count: how often.
        repeated: the steps.
        slices: the buffers that are one step of a run.
        apart: whether no time needs what another leaves, so that they may go in any order.
        once: whether only the first call of the program takes them; what they leave is `kept`.
    """

    count: Size
    repeated: Sequence[Step]
    slices: Sequence[Buffer]
    apart: bool = False
    once: bool = False

    @property
    def reads(self) -> Sequence[View]:
        """What they read, of runs all."""
        return [_whole(view) for step in self.repeated for view in step.reads]

    @property
    def writes(self) -> Sequence[View]:
        """What they write, of runs all, and their scratch memory."""
        written = [_whole(view) for step in self.repeated for view in step.writes]
        scratch = [step.scratch for step in self.repeated]
        return [*written, *(View(buffer, (), ()) for buffer in scratch if buffer is not None)]


def flat(steps: Sequence[Step]) -> Iterator[Step]:
    """Steps, with those of loops in the place of these."""
    for step in steps:
        if isinstance(step, LoopStep):
            yield from flat(step.repeated)
        else:
            yield step


def _whole(view: View) -> View:
    return view if view.buffer.run is None else view.buffer.run


class Turns:
    """Loops of a nest around steps that stand in its place."""

    def __init__(self, loops: Sequence[tuple[int, Size, Size]]) -> None:
        """Take loops of the nest, the outermost first.

        Args:
            loops: each with how many of its turns one turn is, and how many of those there are.
        """
        self._loops = [loop for loop in loops if loop[2] != ONE]
        self._slices: list[list[Buffer]] = [[] for _ in self._loops]
        self._known: dict[tuple[View, Size, Size], View] = {}

    def at(self, a: Access) -> tuple[View, Size]:
        """Where an operand of the nest stands at the turns that the loops are at."""
        view, offset = a.view, a.offset
        for (loop, each, _), slices in zip(self._loops, self._slices, strict=True):
            if not a.depends_on(loop):
                continue
            count, stride = view.buffer.count, a.strides[loop] * each
            known = self._known.get((view, offset, stride))
            if known is None:
                run = View(view.buffer, (count,), (stride,), offset)
                buffer = Buffer(view.element, count, "step", low=view.buffer.low, run=run)
                slices.append(buffer)
                known = self._known[view, offset, stride] = View(buffer, (count,), (ONE,))
            view, offset = known, ZERO
        return view, offset

    def around(self, steps: list[Step]) -> list[Step]:
        """The loops, whose turns may go in any order, around steps."""
        for (_, _, turns), slices in reversed([*zip(self._loops, self._slices, strict=True)]):
            steps = [LoopStep(turns, steps, slices, apart=True)]
        return steps


class Repetition:
    """One `spike.scan`; its body is planned between the making of this and `finish`."""

    def __init__(self, program: Program, op: spike.ScanOp) -> None:
        """Say where the arguments of the body stand.

        Raises:
            RefusedError: runs that are never of one length.
        """
        self._program, self._op = program, op
        runs = [program.view(value) for value in op.runs]
        self._count = runs[0].sizes[0]
        for run in runs:
            program.meet(self._count, run.sizes[0])
        self._sources = runs[0].sizes
        self._slices: list[Buffer] = []
        steps, fixed, states = op.arguments()
        for argument, run in zip(steps, runs, strict=True):
            program.views[argument] = self._step_of(run)
        for argument, value in zip(fixed, op.fixed, strict=True):
            program.views[argument] = program.view(value)
        self._states: list[View] = []
        for argument, value in zip(states, op.states, strict=True):
            state = program.new(dense_type(argument).element_type, self._sizes(argument))
            add_copy(program, _stretched(program, program.view(value), state), state)
            program.views[argument] = state
            self._states.append(state)
        self._first = len(program.steps)

    def finish(self) -> None:
        """Make a loop of the steps that were planned since, and say where the results stand."""
        program, op = self._program, self._op
        after, outputs = op.yielded()
        for result, value in zip(op.outputs, outputs, strict=True):
            view = program.view(value)
            run = program.new(view.element, (self._count, *view.sizes[1:]))
            add_copy(program, view, self._step_of(run))
            program.views[result] = run
        self._carry([program.view(value) for value in after])
        for result, state in zip(op.final, self._states, strict=True):
            program.views[result] = state
        repeated = program.steps[self._first :]
        del program.steps[self._first :]
        for step in repeated:
            step.location = step.location or op.location
        program.steps.append(LoopStep(self._count, repeated, self._slices))

    def _carry(self, after: Sequence[View]) -> None:
        """Copy the new states; those that stand where another state goes by way of a copy."""
        buffers = [state.buffer for state in self._states]
        sources: list[View] = []
        for view, state in zip(after, self._states, strict=True):
            if view != state and view.buffer in buffers:
                copy = self._program.new(view.element, view.sizes)
                add_copy(self._program, view, copy)
                view = copy
            sources.append(view)
        for view, state in zip(sources, self._states, strict=True):
            if view != state:
                add_copy(self._program, view, state)

    def _step_of(self, run: View) -> View:
        """The step of a run that the loop is at."""
        sizes = (ONE, *run.sizes[1:])
        buffer = Buffer(run.element, product(sizes), "step", run=run)
        self._slices.append(buffer)
        return View(buffer, sizes, run.strides)

    def _sizes(self, argument: SSAValue) -> tuple[Size, ...]:
        """The sizes of a state; see `spike.ScanOp.source_axis`."""
        return tuple(
            self._sources[self._op.source_axis(argument, axis)]
            if size == DYNAMIC
            else Size.of(size)
            for axis, size in enumerate(dense_type(argument).get_shape())
        )


def _stretched(program: Program, view: View, like: View) -> View:
    """A scalar, or a tensor with axes of size 1, as one with the sizes of another."""
    if not view.rank:
        return View(view.buffer, like.sizes, (ZERO,) * like.rank, view.offset)
    for size, wanted in zip(view.sizes, like.sizes, strict=True):
        program.meet(wanted if size == ONE else size, wanted)
    strides = tuple(
        ZERO if size == ONE and wanted != ONE else stride
        for size, wanted, stride in zip(view.sizes, like.sizes, view.strides, strict=True)
    )
    return View(view.buffer, like.sizes, strides, view.offset)
