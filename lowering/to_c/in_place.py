"""States of a loop that are computed where they stand, with no copy at the end of each step.

Not here: how a loop carries its states (`to_native.program.repetition`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from xdsl.ir import SSAValue

from ..to_native.program.nests import Access, Nest
from ..to_native.program.program import Step
from ..to_native.program.repetition import LoopStep
from ..to_native.program.structured import NestStep
from ..to_native.program.views import Buffer, View, holder
from .nests import number
from .steps import touched_by, users


def keep_in_place(steps: Sequence[Step]) -> None:
    """Let loops write states to where they stand, where each element is read before it is written.

    Args:
        steps: of a program, in their order.
    """
    for loop in steps:
        if isinstance(loop, LoopStep):
            keep_in_place(loop.repeated)
            for copy in [*loop.repeated]:
                ends = _copied(copy)
                if (
                    ends is not None
                    and users(steps, ends[0]) == users(loop.repeated, ends[0])
                    and _can_stand(loop.repeated, copy, *ends)
                ):
                    _replace(loop, copy, *ends)


def _copied(step: Step) -> tuple[Buffer, Buffer] | None:
    """From where and to where a step copies a whole temporary tensor."""
    if not isinstance(step, NestStep) or len(step.nest.writes) != 1 or step.nest.reductions:
        return None
    (result,), (write,) = step.nest.results(), step.nest.writes
    read = step.nest.reads.get(result)
    if read is None or not _same(read, write):
        return None
    source, target = read.view.buffer, write.view.buffer
    whole = read.view.whole and write.view.whole and source.element == target.element
    temporary = source.place == target.place == "workspace"
    return (source, target) if whole and temporary and source.count == target.count else None


def _same(read: Access, write: Access) -> bool:
    return (read.offset, read.strides) == (write.offset, write.strides)


def _can_stand(body: Sequence[Step], copy: Step, new: Buffer, state: Buffer) -> bool:
    """Whether a new state can stand where the old one does, in the body of a loop."""
    using = [step for step in body if new in touched_by(step)]
    writing = [step for step in using if any(view.buffer is new for view in step.writes)]
    if len(writing) != 1 or not all(
        isinstance(step, NestStep) and step.nest.behind is None for step in using
    ):
        return False
    (writer,) = writing
    assert isinstance(writer, NestStep)
    nest = writer.nest
    (write,) = (a for a in nest.writes if a.view.buffer is new)
    once = prod(map(number, nest.sizes)) == number(new.count) and not nest.reductions
    alike = all(_same(a, write) for a in nest.read if a.view.buffer is state)
    looked_up = any(view.buffer in (new, state) for view in nest.views())
    later = [step for step in body[body.index(writer) + 1 :] if step is not copy]
    others = [step for step in body if step is not copy]
    return (
        once
        and write.view.whole
        and alike
        and not looked_up
        and not any(state in touched_by(step) for step in later)
        and not any(state is holder(view) for step in others for view in step.writes)
    )


def _replace(loop: LoopStep, copy: Step, old: Buffer, new: Buffer) -> None:
    """Put a buffer in the place of another, which was copied to it."""
    loop.repeated = [
        replace(step, nest=_moved(step.nest, old, new), given=None)
        if isinstance(step, NestStep) and old in touched_by(step)
        else step
        for step in loop.repeated
        if step is not copy
    ]


def _moved(nest: Nest, old: Buffer, new: Buffer) -> Nest:
    def view(view: View) -> View:
        return replace(view, buffer=new) if view.buffer is old else view

    def access(a: Access) -> Access:
        return replace(a, view=view(a.view))

    def accesses(reads: Mapping[SSAValue, Access]) -> dict[SSAValue, Access]:
        return {value: access(a) for value, a in reads.items()}

    return replace(
        nest,
        reads=accesses(nest.reads),
        behind=nest.behind and replace(nest.behind, reads=accesses(nest.behind.reads)),
        writes=tuple(map(access, nest.writes)),
        captured={k: view(v) if isinstance(v, View) else v for k, v in nest.captured.items()},
    )
