"""What follows a sum element by element becomes a part of its loops: sums never stand in memory.

Not here: ops on elements that follow each other (the pass `fuse-elementwise`), what follows
products with trits (`products`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.dialects import arith
from xdsl.dialects.linalg import ops as linalg

from ....runtime.native.abi.sizes import ONE, ZERO
from .nests import Access, Behind, Nest
from .program import Program, Step
from .structured import NestStep, planned
from .writer import rules


def fuse(program: Program) -> None:
    """Join steps of a program."""
    steps: list[Step] = []
    for step in program.steps:
        found = _sum_before(program, steps, step)
        if found is None:
            steps.append(step)
            continue
        place, nest = found
        sums = steps.pop(place)
        joined = planned(program, nest)
        joined.location = sums.location
        steps.append(joined)
    program.steps[:] = steps


def _sum_before(program: Program, before: Sequence[Step], step: Step) -> tuple[int, Nest] | None:
    """The place of the sum that a step follows, and both as one nest; `None` if they stay apart."""
    if not isinstance(step, NestStep) or step.given is None or not _follows(step.given):
        return None
    for place in range(len(before) - 1, -1, -1):
        sums = before[place]
        if not isinstance(sums, NestStep) or not sums.nest.reductions or sums.given is None:
            continue
        y = sums.writes[0].buffer
        if y not in [view.buffer for view in step.reads] or y.place != "workspace":
            continue
        users = [s for s in program.steps if y in [v.buffer for v in (*s.reads, *s.writes)]]
        needed = {view.buffer for view in sums.reads}
        changed = {v.buffer for s in before[place + 1 :] for v in s.writes}
        if users == [sums, step] and needed.isdisjoint(changed):
            joined = _joined(sums.given, step.given)
            return None if joined is None else (place, joined)
    return None


def _follows(nest: Nest) -> bool:
    """Whether a nest maps elements, and can do so in vectors wherever they come from."""
    known = (linalg.YieldOp, arith.ConstantOp, *rules())
    return (
        not nest.reductions
        and not nest.captured
        and len(nest.writes) == 1
        and not nest.read_back(0)
        and all(isinstance(op, known) for op in nest.body.ops)
    )


def _joined(sums: Nest, nest: Nest) -> Nest | None:
    """A sum, and in its loops what follows it."""
    if len(sums.writes) != 1 or sums.starts[0] is None or sums.behind is not None:
        return None
    (written,) = sums.writes
    reading = [v for v, a in nest.reads.items() if a.view.buffer is written.view.buffer]
    first = nest.reads[reading[0]]
    if first.offset != written.offset or any(nest.reads[v] != first for v in reading):
        return None
    ours = {
        (sums.sizes[d], written.strides[d]): d
        for d, parallel in enumerate(sums.parallel)
        if parallel and sums.sizes[d] != ONE
    }
    theirs = {
        (nest.sizes[d], first.strides[d]): d for d in range(len(nest.sizes)) if nest.sizes[d] != ONE
    }
    if ours.keys() != theirs.keys() or len(theirs) != sum(size != ONE for size in nest.sizes):
        return None
    loop_of = {ours[key]: theirs[key] for key in ours}

    def moved(a: Access) -> Access:
        strides = [a.strides[loop_of[d]] if d in loop_of else ZERO for d in range(len(sums.sizes))]
        return replace(a, strides=tuple(strides))

    write = moved(nest.writes[0])
    along = [d for d in ours.values() if written.strides[d] == ONE]
    if nest.is_copy and any(write.strides[d] != ONE for d in along):
        return None  # a copy turns a matrix by whole vectors
    reads = {v: moved(a) for v, a in nest.reads.items() if v not in reading}
    behind = Behind(nest.body, tuple(reading), reads)
    return replace(sums, writes=(write,), behind=behind)
