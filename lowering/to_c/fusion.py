"""What follows a convolution, computed place by place, so that no image of sums stands in memory.

The loops behind a convolution run over its channels and its places, merged or apart. Those over
places become the loop of the convolution. Not here: the convolution (`products`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from xdsl.dialects.linalg import ops as linalg

from ..to_native.program.nests import Access, Nest
from ..to_native.program.program import Program, Step
from ..to_native.program.repetition import LoopStep
from ..to_native.program.sizes import ZERO, Size
from ..to_native.program.structured import NestStep, add_copy
from ..to_native.program.views import Buffer
from .nests import number
from .products import IMAGE, PLACE, Behind, ProductStep


def fuse(program: Program, outputs: Sequence[Buffer]) -> None:
    """Put what follows convolutions into them, in the steps of a program and of its loops."""
    program.steps[:] = _fused(program, program.steps, program.steps, outputs)


def _fused(
    program: Program, steps: Sequence[Step], every: Sequence[Step], outputs: Sequence[Buffer]
) -> list[Step]:
    done: list[Step] = []
    for step in [*steps]:
        if isinstance(step, LoopStep):
            step.repeated = _fused(program, step.repeated, every, outputs)
        before = done[-1] if done else None
        if (
            isinstance(before, ProductStep)
            and isinstance(step, NestStep)
            and before.window is not None
            and before.behind is None
            and _users(every, before.y.buffer) == 2
            and before.y.buffer not in outputs
            and (behind := _behind(before, step)) is not None
        ):
            _join(program, before, behind)
        else:
            done.append(step)
    for step in done:
        if isinstance(step, ProductStep) and step.window is not None and step.behind is None:
            _store(program, step)
    return done


def _store(program: Program, product: ProductStep) -> None:
    """Let a convolution copy its sums where they shall go."""
    y = product.y
    product.y = program.new(y.element, y.sizes)
    add_copy(program, product.y, y)
    copy = program.steps.pop()
    assert isinstance(copy, NestStep)
    behind = _behind(product, copy)
    assert behind is not None
    _join(program, product, behind)


def _users(steps: Sequence[Step], buffer: Buffer) -> int:
    """How many steps touch a buffer."""
    count = 0
    for step in steps:
        if isinstance(step, LoopStep):
            count += _users(step.repeated, buffer)
        else:
            count += any(view.buffer is buffer for view in (*step.reads, *step.writes))
    return count


def _join(program: Program, product: ProductStep, behind: Behind) -> None:
    """Give a convolution sums of one place, and the loops behind it."""
    sums = product.y
    row = program.new(sums.element, sums.sizes[1:2])
    nest = behind.step.nest
    channels = prod(number(size) for size in sums.sizes[2:])

    def of_place(a: Access) -> Access:
        if a.view.buffer is not sums.buffer:
            return a
        strides = (
            ZERO if d in behind.fixed else Size.of(number(stride) // channels)
            for d, stride in enumerate(a.strides)
        )
        return Access(row, ZERO, tuple(strides))

    reads = {value: of_place(a) for value, a in nest.reads.items()}
    product.y = row
    product.behind = replace(behind, step=NestStep(replace(nest, reads=reads), behind.step.plan))


def _behind(product: ProductStep, step: NestStep) -> Behind | None:
    """The loops of a step with those over places apart; `None` where they are not so."""
    nest, buffer = step.nest, product.y.buffer
    accesses = {a for a in nest.reads.values() if a.view.buffer is buffer}
    named = any(isinstance(op, linalg.IndexOp) for op in nest.body.ops)
    touched = [a.view.buffer for a in nest.writes] + [view.buffer for view in nest.views()]
    if len(accesses) != 1 or named or buffer in touched or product.x.buffer in touched:
        return None
    (read,) = accesses
    _, outs, *image = (number(size) for size in product.y.sizes)
    places = prod(image)
    if read.offset != ZERO:
        return None
    for edge in (places, outs * places):
        nest = _cut(nest, buffer, edge)
    (read,) = {a for a in nest.reads.values() if a.view.buffer is buffer}
    fixed: dict[int, str] = {}
    for d, stride in enumerate(number(stride) for stride in read.strides):
        size = number(nest.sizes[d])
        if stride == 0:
            if nest.parallel[d]:
                return None
        elif stride * size <= places:
            index = PLACE if stride == 1 else f"{PLACE} / {stride}"
            fixed[d] = index if stride * size == places else f"({index}) % {size}"
        elif stride % (outs * places) == 0:
            fixed[d] = IMAGE
        elif stride % places or stride * size > outs * places:
            return None
    covered = prod(number(nest.sizes[d]) for d in range(len(nest.sizes)) if read.depends_on(d))
    if covered != prod(number(size) for size in product.y.sizes):
        return None
    return Behind(NestStep(nest, step.plan), fixed)


def _cut(nest: Nest, buffer: Buffer, edge: int) -> Nest:
    """The nest with each loop over a multiple of `edge` elements of a buffer cut there."""
    for d in range(len(nest.sizes)):
        stride = next(number(a.strides[d]) for a in nest.reads.values() if a.view.buffer is buffer)
        size = number(nest.sizes[d])
        if 0 < stride < edge < stride * size and edge % stride == 0:
            inner = edge // stride
            if size % inner == 0:
                return _cut(_split(nest, d, inner), buffer, edge)
    return nest


def _split(nest: Nest, dimension: int, inner: int) -> Nest:
    """The nest with a loop as two, the inner one of a size."""
    outer = number(nest.sizes[dimension]) // inner

    def cut(a: Access) -> Access:
        stride = a.strides[dimension]
        strides = [*a.strides]
        strides[dimension] = stride * Size.of(inner)
        return replace(a, strides=(*strides, stride))

    sizes = [*nest.sizes]
    sizes[dimension] = Size.of(outer)
    return replace(
        nest,
        sizes=(*sizes, Size.of(inner)),
        parallel=(*nest.parallel, nest.parallel[dimension]),
        reads={value: cut(a) for value, a in nest.reads.items()},
        writes=tuple(cut(a) for a in nest.writes),
    )
