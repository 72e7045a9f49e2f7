"""Sums of products of bytes with trits as code that adds: steps in the place of a nest.

Places of the result that stand next to each other are the lanes of registers; where windows are
some steps apart, the image is first cut into planes whose places are. Sums of 16 bits stand in
memory, for each part of the inputs; loops over them do what follows. Not here: for which sums
(`conv_costs`), the code (`kernels.additions`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects import arith, llvm
from xdsl.dialects.builtin import i8, i16, i32
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import InsertPoint

from ....ir.arrays import Array
from ..kernels.additions import Additions, groups_of, parts_of, write_additions
from .conv_costs import Plane
from .narrowing import narrowest
from .nests import Access, Behind, Nest, followed, mapping
from .program import Program, SharedStep, Step
from .repetition import Turns
from .sizes import ONE, ZERO, Size
from .structured import in_lanes_of, planned
from .views import View, holder
from .writer import Writer

_SLACK = 128
"""Bytes that may be read past the last place."""


@dataclass
class AdditionStep(SharedStep):
    """One call of a kernel of `kernels.additions`, for one image.

    Attributes:
        work: additions of numbers of 16 bits.
    """

    work: int = 0

    @property
    def things(self) -> int:
        """Groups of outputs."""
        return self.sizes[1].at(1)

    def compute(
        self,
        writer: Writer,
        address: Callable[[View], SSAValue],
        bounds: tuple[SSAValue, SSAValue],
    ) -> None:
        """See `SharedStep.compute`."""
        replace(self, sizes=()).call(writer, address, *bounds)


@dataclass(frozen=True)
class Summed:
    """What is summed, and what follows.

    Attributes:
        nest: loops that are simplified.
        image: the argument that stands for a factor.
        trits: [outs, taps…].
        taps: their sizes, and elements of the image from one to the next.
        outs: the loop over outputs.
        plane: places.
        span: the most that a byte of the image is.
        begun: what is added to each output's sum.
        behind: what follows then.
    """

    nest: Nest
    image: SSAValue
    trits: Array
    taps: Sequence[tuple[int, int]]
    outs: int
    plane: Plane
    span: int
    begun: Array
    behind: Behind | None


class _Image(NamedTuple):
    """Where the factors of a result's places stand: the first, and how far each tap is from it."""

    view: View
    offset: Size
    taps: Sequence[int]
    plane: Plane


def steps_of(program: Program, found: Summed) -> list[Step] | None:
    """What is done in the place of a nest; `None` where an image cannot be cut into planes."""
    nest, recipe = found.nest, program.recipe
    inner = (found.outs, found.plane.rows, found.plane.columns)
    outer = [d for d, kind in enumerate(nest.parallel) if kind and d not in inner]
    turns = Turns([(d, ONE, nest.sizes[d]) for d in outer])
    steps: list[Step] = []
    taps = [sum(p) for p in product(*(range(0, n * s, s) for n, s in found.taps))]
    image = _Image(*turns.at(nest.reads[found.image]), taps, found.plane)
    if image.plane.step > 1:
        cut = _planes(program, found, image)
        if cut is None:
            return None
        image, steps = cut
    trits = found.trits.reshape(len(found.trits), -1)
    vectors = -(-image.plane.places // (recipe.width // 2))
    content = np.ascontiguousarray(trits, np.int8).tobytes()
    parts = parts_of(trits, found.span)
    variant = Additions(content, len(trits), tuple(image.taps), parts, vectors)
    pitch = vectors * recipe.width // 2
    sums = program.new(i16, [Size.of(n) for n in (len(parts), len(trits), pitch)])
    memory = holder(image.view)
    memory.count = memory.count + Size.of(_SLACK)
    first = View(image.view.buffer, (), (), image.offset)
    sizes = ZERO, Size.of(groups_of(recipe, len(trits)))
    name, work = program.kernel(variant, "additions"), int(np.count_nonzero(trits)) * pitch
    steps.append(AdditionStep(name, [first], [sums], sizes, work=work))
    steps.append(_behind(program, found, sums, image.plane, turns))
    return turns.around(steps)


def _planes(program: Program, found: Summed, image: _Image) -> tuple[_Image, list[Step]] | None:
    """An image cut into planes whose places are those of the result, and the steps that cut it."""
    nest, plane = found.nest, image.plane
    step, columns = plane.step, nest.sizes[plane.columns].at(1)
    rows = 1 if plane.rows is None else nest.sizes[plane.rows].at(1)
    channels = [(n, s) for n, s in found.taps if s >= step * plane.places]
    deep = [sum(p) for p in product(*(range(0, n * s, s) for n, s in channels))]
    if len(image.taps) % len(deep) or [*found.taps[: len(channels)]] != channels:
        return None
    window = [divmod(tap, plane.pitch) for tap in image.taps[: len(image.taps) // len(deep)]]
    if plane.rows is None and any(down for down, _ in window):
        return None
    high = rows + max(down for down, _ in window) // step
    wide = columns + max(right for _, right in window) // step
    starts = list(dict.fromkeys((down % step, right % step) for down, right in window))
    depth = [Size.of(n) for n, _ in channels]
    target = program.new(
        image.view.element, [Size.of(len(starts)), *depth, *map(Size.of, (high, wide))]
    )
    target.buffer.low = image.view.buffer.low
    holder(image.view).count = holder(image.view).count + Size.of(step * (plane.pitch + 1))
    steps: list[Step] = []
    for number, (down, right) in enumerate(starts):
        body = Block(arg_types=[i8] * 2)
        Builder(InsertPoint.at_end(body)).insert(linalg.YieldOp(body.args[0]))
        offset = image.offset + Size.of(down * plane.pitch + right)
        strides = *(s for _, s in channels), step * plane.pitch, step
        read = Access(image.view, offset, tuple(Size.of(s) for s in strides))
        write = Access(target, target.strides[0] * Size.of(number), target.strides[1:])
        copy = mapping(target.sizes[1:], {body.args[0]: read}, (write,), body)
        steps.append(in_lanes_of(planned(program, copy), i8))
    taps = [
        ((starts.index((down % step, right % step)) * len(deep) + channel) * high + down // step)
        * wide
        + right // step
        for channel in range(len(deep))
        for down, right in window
    ]
    places = (rows - 1) * wide + columns
    return _Image(target, ZERO, taps, Plane(plane.rows, plane.columns, 1, wide, places)), steps


def _behind(program: Program, found: Summed, sums: View, plane: Plane, turns: Turns) -> Step:
    """What follows the sums: parts are added, then come the biases, and what else there is."""
    nest = found.nest
    loops = [d for d in (found.outs, plane.rows, plane.columns) if d is not None]
    along = {found.outs: sums.strides[1], plane.rows: Size.of(plane.pitch), plane.columns: ONE}

    def cut(a: Access) -> Access:
        view, offset = turns.at(a)
        return Access(view, offset, tuple(a.strides[d] for d in loops))

    parts = sums.sizes[0].at(1)
    body = Block(arg_types=[i32] * (parts + 1))
    builder = Builder(InsertPoint.at_end(body))
    strides = tuple(along[d] for d in loops)
    reads: dict[SSAValue, Access] = {
        body.args[n]: Access(sums, sums.strides[0] * Size.of(n), strides) for n in range(parts)
    }
    total: SSAValue = body.args[0]
    for argument in body.args[1:parts]:
        total = builder.insert(arith.AddiOp(total, argument)).result
    if found.begun.any():
        begun = program.constant(found.begun.astype(np.int32), narrowest(found.begun))
        reads[body.args[parts]] = Access(
            begun, ZERO, tuple(ONE if d == found.outs else ZERO for d in loops)
        )
        total = builder.insert(arith.AddiOp(total, body.args[parts])).result
    if found.behind is not None:
        total = followed(found.behind, total, body, reads, cut)
    builder.insert(linalg.YieldOp(total))
    body.insert_arg(total.type, len(body.args))
    writes = (cut(nest.writes[0]),)
    sizes = tuple(nest.sizes[d] for d in loops)
    return planned(program, mapping(sizes, reads, writes, body))


def functions(program: Program) -> list[llvm.FuncOp]:
    """What steps of additions call."""
    variants = program.kernels_of(Additions)
    return [write_additions(program.recipe, variant, name) for variant, name in variants]
