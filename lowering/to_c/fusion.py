"""What follows a sum, computed where the sum is known: its tensor never stands in memory.

What follows a convolution is computed place by place: its loops run over channels and places,
merged or apart, and those over places become the loop of the convolution. What follows loops with
reductions becomes a part of them. Not here: the code (`text`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import SSAValue

from ...runtime.native.abi.sizes import ZERO, Size
from ..to_native.program.nests import Access, Nest
from ..to_native.program.program import Program, Step
from ..to_native.program.repetition import LoopStep
from ..to_native.program.structured import NestStep, add_copy
from ..to_native.program.views import Buffer
from .nests import number
from .products import IMAGE, PLACE, ProductStep
from .steps import Behind, SumStep, users


def fuse(program: Program, outputs: Sequence[Buffer]) -> None:
    """Join steps of a program, and those of its loops."""
    program.steps[:] = _fused(program, program.steps, program.steps, outputs)


def _fused(
    program: Program, steps: Sequence[Step], every: Sequence[Step], outputs: Sequence[Buffer]
) -> list[Step]:
    done: list[Step] = []
    for step in [*steps]:
        if isinstance(step, LoopStep):
            step.repeated = _fused(program, step.repeated, every, outputs)
        before = done[-1] if done else None
        joined = None
        if isinstance(step, NestStep) and before is not None:
            y = before.writes[0].buffer
            if y.place == "workspace" and y not in outputs and users(every, y) == 2:
                joined = _joined(program, before, step)
        if joined is None:
            done.append(step)
        else:
            joined.location = before.location if before is not None else None
            done[-1] = joined
    for step in done:
        if isinstance(step, ProductStep) and step.window is not None and step.behind is None:
            _store(program, step)
    return done


def _joined(program: Program, before: Step, step: NestStep) -> Step | None:
    """Two steps as one; `None` if they stay apart."""
    if isinstance(before, ProductStep) and before.window is not None and before.behind is None:
        behind = _behind_convolution(before, step)
        return None if behind is None else _with(program, before, behind)
    if isinstance(before, NestStep) and before.nest.reductions and len(before.nest.writes) == 1:
        return _behind_sums(before, step)
    return None


def _read(nest: Nest, buffer: Buffer, others: Sequence[Buffer]) -> Access | None:
    """How loops read a buffer, if in one way and nothing of `others` is written."""
    accesses = {a for a in nest.reads.values() if a.view.buffer is buffer}
    named = any(isinstance(op, linalg.IndexOp) for op in nest.body.ops)
    touched = [a.view.buffer for a in nest.writes]
    tables = [view.buffer for view in nest.views()]
    if len(accesses) != 1 or named or buffer in (*touched, *tables):
        return None
    (read,) = accesses
    disjoint = not any(other in touched for other in others)
    return read if disjoint and read.offset == ZERO else None


# Behind sums


def _behind_sums(before: NestStep, step: NestStep) -> SumStep | None:
    """Loops with reductions, and what follows each sum."""
    sums, nest = before.nest, step.nest
    (write,) = sums.writes
    buffer = write.view.buffer
    read = _read(nest, buffer, [view.buffer for view in before.reads])
    if read is None or write.offset != ZERO or not write.view.whole:
        return None
    if any(isinstance(op, linalg.IndexOp) for op in sums.body.ops):
        return None
    for edge in {number(stride) for stride in write.strides}:
        nest = _cut(nest, buffer, edge)
    for edge in {number(stride) for stride in read.strides}:
        sums = _cut(sums, buffer, edge)
    read = _read(nest, buffer, ())
    assert read is not None
    (write,) = sums.writes
    known = {
        (number(stride), number(sums.sizes[d])): f"i{d}"
        for d, stride in enumerate(write.strides)
        if stride != ZERO
    }
    fixed: dict[int, str] = {}
    for d, stride in enumerate(read.strides):
        if stride != ZERO and not nest.parallel[d]:
            return None
        if stride != ZERO:
            index = known.pop((number(stride), number(nest.sizes[d])), None)
            if index is None:
                return None
            fixed[d] = index
        elif nest.parallel[d]:
            return None
    if known:
        return None
    return SumStep(NestStep(sums, before.plan), Behind(NestStep(nest, step.plan), fixed), read)


# Behind convolutions


def _with(program: Program, product: ProductStep, behind: Behind) -> ProductStep:
    """A convolution with sums of one place, and the loops behind it."""
    sums = product.y
    row = program.new(sums.element, (Size.of(product.kernel.places), *sums.sizes[1:2]))
    nest = behind.step.nest
    places = prod(number(size) for size in sums.sizes[2:])

    def of_place(a: Access) -> Access:
        if a.view.buffer is not sums.buffer:
            return a
        strides = (
            ZERO if d in behind.fixed else Size.of(number(stride) // places)
            for d, stride in enumerate(a.strides)
        )
        return Access(row, ZERO, tuple(strides))

    reads: Mapping[SSAValue, Access] = {v: of_place(a) for v, a in nest.reads.items()}
    step = NestStep(replace(nest, reads=reads), behind.step.plan)
    return replace(product, y=row, behind=Behind(step, behind.fixed))


def _store(program: Program, product: ProductStep) -> None:
    """Let a convolution copy its sums where they shall go."""
    y = product.y
    product.y = program.new(y.element, y.sizes)
    add_copy(program, product.y, y)
    copy = program.steps.pop()
    assert isinstance(copy, NestStep)
    behind = _behind_convolution(product, copy)
    assert behind is not None
    joined = _with(program, product, behind)
    product.y, product.behind = joined.y, joined.behind


def _behind_convolution(product: ProductStep, step: NestStep) -> Behind | None:
    """The loops of a step, those over places and images apart; `None` where they are not so."""
    nest, buffer = step.nest, product.y.buffer
    if _read(nest, buffer, [product.x.buffer]) is None:
        return None
    _, outs, *image = (number(size) for size in product.y.sizes)
    places = prod(image)
    for edge in (places, outs * places):
        nest = _cut(nest, buffer, edge)
    read = _read(nest, buffer, ())
    assert read is not None
    fixed: dict[int, str] = {}
    for d, stride in enumerate(number(stride) for stride in read.strides):
        size = number(nest.sizes[d])
        if (stride == 0) == nest.parallel[d]:
            return None
        if stride == 0:
            continue
        if stride * size <= places:
            index = PLACE if stride == 1 else f"({PLACE} / {stride})"
            fixed[d] = index if stride * size == places else f"({index} % {size})"
        elif stride % (outs * places) == 0:
            fixed[d] = IMAGE
        elif stride % places or stride * size > outs * places:
            return None
    covered = prod(number(nest.sizes[d]) for d in range(len(nest.sizes)) if read.depends_on(d))
    if covered != prod(number(size) for size in product.y.sizes):
        return None
    return Behind(NestStep(nest, step.plan), fixed)


# Loops cut in two


def _cut(nest: Nest, buffer: Buffer, edge: int) -> Nest:
    """The nest with each loop over a multiple of `edge` elements of a buffer cut there."""
    a = next(a for a in nest.accesses if a.view.buffer is buffer)
    for d, stride in enumerate(number(stride) for stride in a.strides):
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
