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
from xdsl.dialects.builtin import i16, i32
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import InsertPoint

from ....ir.arrays import Array
from ....runtime.native.abi.sizes import ONE, ZERO, Size
from ..kernels.additions import Additions, parts_of, pieces_of, write_additions
from .conv_costs import Plane
from .intervals import Interval
from .narrowing import narrowest
from .nests import Access, Behind, Nest, followed, mapping
from .program import Program, SharedStep, Step
from .repetition import Turns
from .schedule import ENOUGH_THINGS
from .structured import in_lanes_of, planned
from .views import View, holder
from .writer import Writer

_SLACK = 64
"""Words that may be read past the last place."""
_LEAST_VECTORS = 16
"""Registers of places of a stretch, for which code comes into the nearest cache."""


@dataclass
class AdditionStep(SharedStep):
    """One call of a kernel of `kernels.additions`, for one image.

    Attributes:
        work: additions of numbers of 16 bits.
        pieces, vectors: of code, and registers of places, of which it does all with all.
        pitch: words from a row of places to the next.
    """

    work: int = 0
    pieces: int = 0
    vectors: int = 0
    pitch: int = 0

    @property
    def _stretches(self) -> int:
        """Into how many the places are cut for threads, which then write rows of their own."""
        wanted = max(2, -(-ENOUGH_THINGS // self.pieces))
        return max(1, min(wanted, self.vectors // _LEAST_VECTORS))

    @property
    def things(self) -> int:
        """Pieces of code, for each stretch of places."""
        return self._stretches * self.pieces

    def numbers(self, writer: Writer) -> list[SSAValue]:
        """All pieces and places."""
        return [writer.constant(n) for n in (0, self.pieces, 0, self.vectors)]

    def compute(
        self,
        writer: Writer,
        address: Callable[[View], SSAValue],
        bounds: tuple[SSAValue, SSAValue],
    ) -> None:
        """See `SharedStep.compute`."""
        with writer.each(*bounds) as thing:
            stretch = writer.udiv(thing, self.pieces)
            piece = writer.sub(thing, writer.mul(stretch, self.pieces))
            places = [
                writer.udiv(writer.mul(bound, self.vectors), self._stretches)
                for bound in (stretch, writer.add(stretch, 1))
            ]
            views = [address(view) for view in (*self.reads, *self.writes)]
            writer.call(self.name, *views, piece, writer.add(piece, 1), *places)


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
        held: the least and the most that stands in the image.
        begun: what is added to each output's sum.
        behind: what follows then.
    """

    nest: Nest
    image: SSAValue
    trits: Array
    taps: Sequence[tuple[int, int]]
    outs: int
    plane: Plane
    held: Interval
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
    taps = [sum(p) for p in product(*(range(0, n * s, s) for n, s in found.taps))]
    image = _Image(*turns.at(nest.reads[found.image]), taps, found.plane)
    cut = _planes(program, found, image)
    if cut is None:
        return None
    image, steps = cut
    trits = found.trits.reshape(len(found.trits), -1)
    vectors = -(-image.plane.places // (recipe.width // 2))
    content = np.ascontiguousarray(trits, np.int8).tobytes()
    parts = parts_of(recipe, trits, found.held)
    variant = Additions(content, len(trits), tuple(image.taps), parts, vectors)
    pitch = vectors * recipe.width // 2
    sums = program.new(i16, [Size.of(n) for n in (len(parts), len(trits), pitch)])
    first = View(image.view.buffer, (), (), image.offset)
    name, work = program.kernel(variant, "additions"), int(np.count_nonzero(trits)) * pitch
    shared = pieces_of(recipe, variant), vectors, image.plane.pitch
    steps.append(AdditionStep(name, [first], [sums], (), None, None, work, *shared))
    steps.append(_behind(program, found, sums, image.plane, turns))
    return turns.around(steps)


def _planes(program: Program, found: Summed, image: _Image) -> tuple[_Image, list[Step]] | None:
    """An image in words, cut into planes whose places are those of the result, and the steps that
    cut it."""
    plane = image.plane
    holder(image.view).count = holder(image.view).count + Size.of(plane.step * (plane.pitch + 1))
    if plane.step == 1 and image.view.element == i16:
        holder(image.view).count = holder(image.view).count + Size.of(_SLACK)
        return image, []
    if plane.step == 1:
        count = max(image.taps) + plane.places
        target = _words(program, image, [Size.of(count)])
        copy = _copied(program, image, image.offset, [ONE], target)
        return _Image(target, ZERO, image.taps, plane), [copy]
    nest, step, columns = found.nest, plane.step, found.nest.sizes[plane.columns].at(1)
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
    sizes = [Size.of(len(starts)), *depth, *map(Size.of, (high, wide))]
    target = _words(program, image, sizes, rows=2)
    strides = [Size.of(s) for s in (*(s for _, s in channels), step * plane.pitch, step)]
    steps: list[Step] = []
    for number, (down, right) in enumerate(starts):
        offset = image.offset + Size.of(down * plane.pitch + right)
        each = replace(target, sizes=target.sizes[1:], strides=target.strides[1:])
        each = replace(each, offset=target.strides[0] * Size.of(number))
        steps.append(_copied(program, image, offset, strides, each))
    apart = target.strides[len(depth)].at(1)
    taps = [
        (starts.index((down % step, right % step)) * len(deep) + channel) * apart
        + down // step * wide
        + right // step
        for channel in range(len(deep))
        for down, right in window
    ]
    places = (rows - 1) * wide + columns
    return _Image(target, ZERO, taps, Plane(plane.rows, plane.columns, 1, wide, places)), steps


def _words(program: Program, image: _Image, sizes: Sequence[Size], rows: int = 0) -> View:
    """Memory for numbers of an image, as they stand there."""
    target = program.new(i16, sizes, rows=rows)
    target.buffer.low = image.view.buffer.low
    target.buffer.count = target.buffer.count + Size.of(_SLACK)
    return target


def _copied(
    program: Program, image: _Image, offset: Size, strides: Sequence[Size], target: View
) -> Step:
    body = Block(arg_types=[i16] * 2)
    Builder(InsertPoint.at_end(body)).insert(linalg.YieldOp(body.args[0]))
    read = Access(image.view, offset, tuple(strides))
    write = Access(target, target.offset, target.strides)
    step = planned(program, mapping(target.sizes, {body.args[0]: read}, (write,), body))
    return in_lanes_of(step, i16)


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
    return [*write_additions(program.recipe, program.kernels_of(Additions))]
