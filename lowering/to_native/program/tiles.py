"""Convolutions with windows of 3×3 by Winograd's tiles: 16 products for 36, or 36 for 144.

Tiles of the image are transformed (`transforms`) into a matrix for each of their places, these are
multiplied by those of the weights, and what comes out is transformed into places of the result. It
is done for some rows of tiles at a time, so that they stay in a near cache. Where a size is no
multiple the last tiles overlap those before. Not here: for which convolutions (`winograd`), loops
around steps (`repetition`), code (`loops`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import NamedTuple

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects import arith
from xdsl.dialects.builtin import f32, i32
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.rewriter import InsertPoint

from ....runtime.native.abi.sizes import ONE, ZERO, Size
from ..llvm.types import width as width_of
from .combiners import fuse_products
from .conv_costs import WORDS
from .dot_layout import best_tile
from .dots import Dots, DotStep
from .known_factors import known_values
from .nests import Access, Nest, followed, mapping
from .program import Program, Step
from .repetition import Turns
from .schedule import Part, Schedule, in_order
from .structured import NestStep, in_lanes_of, planned
from .transform_code import TransformStep, has_grids
from .transforms import Form, Matrix, both, divided, scaled
from .views import Buffer, View, whole_view

_NEAR = 192 << 10
"""Bytes of tiles, before and behind the products, that stay in a near cache; half of what weights
take where that is more, since every turn reads all of them."""
_APART = 80
"""Floats between one matrix and the next: some lines of a cache."""
_MOST_APART = 2
"""Places on an axis of tiles up to which each place has what follows in its own code."""


class Convolution(NamedTuple):
    """A convolution: arguments of its body and loops of its nest, the image's rows before columns.

    Attributes:
        form: of its tiles.
        batch: the loop over images, if there is more than one.
        outs, rows, columns: loops over the result.
        channels, down, right: loops of the sum.
    """

    form: Form
    image: SSAValue
    weights: SSAValue
    batch: int | None
    outs: int
    rows: int
    columns: int
    channels: int
    down: int
    right: int


class _Span(NamedTuple):
    """Tiles along an axis: the first place, how many, and the number of the first."""

    start: int
    tiles: int
    number: int


def _spans(size: int, step: int) -> list[_Span]:
    """Tiles for so many places; the last one overlaps those before where some are left."""
    whole = _Span(0, size // step, 0)
    return [whole, _Span(size - step, 1, size // step)] if size % step else [whole]


def tiles_of(nest: Nest, conv: Convolution) -> int:
    """How many tiles an image has."""
    return prod(-(-nest.sizes[d].at(1) // conv.form.step) for d in (conv.rows, conv.columns))


def steps_of(program: Program, nest: Nest, conv: Convolution, *, keep: bool) -> list[Step]:
    """What is done in the place of a convolution.

    Args:
        program: that is planned.
        nest, conv: the convolution.
        keep: whether weights that are made of integers stay from one call to the next.
    """
    sizes = [nest.sizes[d].at(1) for d in (conv.rows, conv.columns, conv.channels, conv.outs)]
    height, width, channels, outs = sizes
    before, weights = _transformed(program, nest, conv, keep=keep)
    behind: list[Step] = []
    batch = [] if conv.batch is None else [conv.batch]
    x, y = nest.reads[conv.image], nest.writes[0]
    if x.strides[conv.channels] != ONE:
        loops = [*batch, conv.rows, conv.columns, conv.channels]
        _, turned, copy = _turned(program, nest, x, loops, more=2)
        before.append(planned(program, copy))
        stride = dict(zip(loops, turned.strides, strict=True))
        stride |= {conv.down: stride[conv.rows], conv.right: stride[conv.columns]}
        nest = replace(nest, reads={**nest.reads, conv.image: _in_loops(nest, turned, stride)})
    if y.strides[conv.outs] != ONE:
        loops = [*batch, conv.rows, conv.columns, conv.outs]
        given, turned, copy = _turned(program, nest, y, loops)
        copy = replace(copy, reads=dict.fromkeys(copy.reads, turned), writes=(given,))
        behind.append(planned(program, copy))
        stride = dict(zip(loops, turned.strides, strict=True))
        nest = replace(nest, writes=(_in_loops(nest, turned, stride),))
    form = conv.form
    down, across = (_spans(size, form.step) for size in (height, width))
    along = sum(span.tiles for span in across)
    element, kind = width_of(form.element) // 8, width_of(form.kind) // 8
    near = max(_NEAR, form.places * element * channels * outs // 2)
    most = max(1, near // (form.places * along * (element * channels + kind * outs)))
    if sum(span.tiles for span in down) <= most:
        return [*before, *_Group(program, nest, conv, weights).steps(down, across, 1), *behind]
    count = down[0].tiles
    each = max((n for n in range(1, count + 1) if count % n == 0 and n <= most), default=1)
    if 2 * each < most:
        each = -(-count // -(-count // most))
    steps = _Group(program, nest, conv, weights).steps([_Span(0, each, 0)], across, count // each)
    rest = count % each
    spans = [_Span(form.step * (count - rest), rest, 0)] if rest else []
    for last in (*spans, *down[1:]):
        steps += _Group(program, nest, conv, weights).steps([last._replace(number=0)], across, 1)
    return [*before, *steps, *behind]


def _in_loops(nest: Nest, a: Access, stride: Mapping[int, Size]) -> Access:
    """An operand of a nest with these strides."""
    return replace(a, strides=tuple(stride.get(d, ZERO) for d in range(len(nest.sizes))))


def _transformed(
    program: Program, nest: Nest, conv: Convolution, *, keep: bool
) -> tuple[list[Step], Access]:
    """GgGᵀ in the loops of its products, which are those of places, tiles, outputs and channels.

    It is a constant of floats, or made of integers, once or every time.
    """
    w = nest.reads[conv.weights]
    channels, outs = (nest.sizes[d] for d in (conv.channels, conv.outs))
    content, start = w.view.buffer.content, w.offset.at(1)
    assert content is not None
    loops = (conv.down, conv.right, conv.channels, conv.outs)
    if content.dtype == np.float32:
        strides = [w.strides[d].at(1) * content.itemsize for d in loops]
        shape = [3, 3, channels.at(1), outs.at(1)]
        taken = np.lib.stride_tricks.as_strided(content[start:], shape, strides)
        half = np.array(conv.form.windows) * np.array(conv.form.factors)[:, None]
        made = np.einsum("ia,jb,abco->ijco", half, half, taken.astype(np.float64))
        view = program.constant(made.reshape(16, *made.shape[2:]), f32)
        return [], Access(view, ZERO, (view.strides[0], ZERO, ONE, view.strides[1]))
    form, group = conv.form, 1 if conv.form.element == f32 else WORDS
    width = _panel(program, nest, conv)
    panels = -(-outs.at(1) // width)
    each = Size.of(width) * channels
    count = Size.of(form.places * panels) * each
    buffer = Buffer(form.element, count, "kept" if keep else "workspace")
    view = whole_view(buffer, [count])
    # Places outside panels for products of floats, of which loops merge, else panels outside.
    apart, place = (form.places, ONE) if group == 1 else (1, Size.of(panels))
    steps: list[Step] = []
    whole = outs.at(1) // width
    for first, many, size in ((0, whole, width), (whole, 1, outs.at(1) - whole * width)):
        if many and size:
            sizes = many, channels.at(1) // group, group, size
            reads, body = _windows(program, w, conv, first * width, sizes)
            offset = Size.of(apart * first) * each
            to = Size.of(apart) * each, Size.of(width * group), ONE, Size.of(group)
            writes = tuple(
                Access(view, offset + place * each * Size.of(n), to) for n in range(form.places)
            )
            step = planned(program, mapping(tuple(map(Size.of, sizes)), reads, writes, body))
            if group != 1:
                # It is done once; in vectors it would be a lot of code, as pairs lie together.
                step.plan = in_order(step.nest)
            steps.append(_in_turns(step, form, form.windows))
    between = Size.of(apart) * channels
    last = Size.of(width) if group == 1 else ZERO
    return steps, Access(view, ZERO, (place * each, ZERO, between, last), panels=True)


def _panel(program: Program, nest: Nest, conv: Convolution) -> int:
    """How many outputs a tile of the products has."""
    if conv.form.element != f32:
        outs = nest.sizes[conv.outs].at(1)
        return program.recipe.lanes * best_tile(program.recipe, None, outs)[1]
    plan = _of_floats(program, nest, conv).plan
    return plan.lanes * plan.columns


def _of_floats(program: Program, nest: Nest, conv: Convolution) -> NestStep:
    """The products of floats, of all tiles and of weights that are made."""
    outs, channels = nest.sizes[conv.outs], nest.sizes[conv.channels]
    view = program.new(f32, (Size.of(16), channels, outs))
    weights = Access(view, ZERO, (view.strides[0], ZERO, ONE, view.strides[1]), panels=True)
    tiles = Size.of(tiles_of(nest, conv))
    return _Group(program, nest, conv, weights).products(
        _matrices(conv.form, f32, tiles, channels), _matrices(conv.form, f32, tiles, outs)
    )


def has_panels(program: Program, nest: Nest, conv: Convolution) -> bool:
    """Whether products of floats run along outputs, in panels of which weights that are made lie;
    those of few tiles or outputs may run along others."""
    step = _of_floats(program, nest, conv)
    vector = step.plan.vector
    return vector is not None and [
        a.panels for a in step.nest.reads.values() if a.depends_on(vector)
    ] == [True]


def _windows(
    program: Program, w: Access, conv: Convolution, first: int, sizes: Sequence[int]
) -> tuple[dict[SSAValue, Access], Block]:
    """Windows of integers from an output on, place by place, and what becomes of each.

    Their loops are those over some outputs each, over groups of channels, channels and outputs.
    """
    form = conv.form
    floats = form.kind == f32
    body = Block(arg_types=[w.view.element if floats else i32] * 9 + [form.kind] * form.places)
    builder = Builder(InsertPoint.at_end(body))
    taps: list[SSAValue] = [*body.args[:9]]
    if floats:
        taps = [builder.insert(arith.SIToFPOp(a, f32)).result for a in taps]
    made = both(builder, form.windows, taps)
    factors = [a * b for a in form.factors for b in form.factors]
    results = [scaled(builder, v, factor) for v, factor in zip(made, factors, strict=True)]
    builder.insert(linalg.YieldOp(*results))
    down, right, deep, along = (
        w.strides[d] for d in (conv.down, conv.right, conv.channels, conv.outs)
    )
    strides = down, right, along * Size.of(sizes[3]), deep * Size.of(sizes[2]), deep, along
    start = w.offset + along * Size.of(first)
    taken = known_values(Access(w.view, start, strides), (3, 3, *sizes), range(6))
    assert taken is not None
    view = program.constant(taken.reshape(9, *sizes), w.view.element)
    return {
        argument: Access(view, view.strides[0] * Size.of(n), view.strides[1:])
        for n, argument in enumerate(body.args[:9])
    }, body


def _in_turns(step: NestStep, form: Form, matrix: Matrix, *, divided: bool = False) -> NestStep:
    """A step that multiplies tiles from both sides, which is code for each place of small ones."""
    if form.step <= _MOST_APART or not has_grids(step.nest, matrix):
        return step
    return TransformStep(step.nest, step.plan, step.given, matrix, form if divided else None)


def _turned(
    program: Program, nest: Nest, a: Access, loops: Sequence[int], more: int = 0
) -> tuple[Access, Access, Nest]:
    """An operand in loops over it, the same with its last axis in a row, and a copy of it.

    Args:
        program: that is planned.
        nest: of the convolution.
        a: the operand.
        loops: rows, columns and channels, of images if there are several.
        more: rows and columns beside those of the loops.
    """
    sizes = [nest.sizes[d] for d in loops]
    sizes[-3:-1] = [size + Size.of(more) for size in sizes[-3:-1]]
    target = program.new(a.view.element, sizes)
    target.buffer.low = a.view.buffer.low
    body = Block(arg_types=[f32 if a.view.element == f32 else i32] * 2)
    Builder(InsertPoint.at_end(body)).insert(linalg.YieldOp(body.args[0]))
    given = Access(a.view, a.offset, tuple(a.strides[d] for d in loops))
    turned = Access(target, ZERO, target.strides)
    copy = mapping(tuple(sizes), {body.args[0]: given}, (turned,), body)
    return given, turned, copy


def _matrices(form: Form, element: Attribute, rows: Size, columns: Size) -> View:
    """Memory for one a place, none of which begins in the same set of a cache as another."""
    each = rows * columns + Size.of(_APART)
    count = Size.of(form.places)
    return View(Buffer(element, count * each), (count, rows, columns), (each, columns, ONE))


class _Group:
    """Some rows of tiles, for which three steps are taken over and over."""

    def __init__(self, program: Program, nest: Nest, conv: Convolution, weights: Access) -> None:
        self._program, self._nest, self._conv = program, nest, conv
        self._weights = weights

    def steps(self, down: Sequence[_Span], across: Sequence[_Span], times: int) -> list[Step]:
        """The steps, `times` rows of tiles after rows of tiles, for all images."""
        nest, conv = self._nest, self._conv
        rows = sum(span.tiles for span in down)
        step = Size.of(conv.form.step * rows)
        images = [] if conv.batch is None else [(conv.batch, ONE, nest.sizes[conv.batch])]
        self._turns = Turns([*images, (conv.rows, step, Size.of(times))])
        count = Size.of(rows * sum(span.tiles for span in across))
        channels, outs = nest.sizes[conv.channels], nest.sizes[conv.outs]
        before = _matrices(conv.form, conv.form.element, count, channels)
        behind = _matrices(conv.form, conv.form.kind, count, outs)
        width = sum(span.tiles for span in across)
        regions = [(y, x) for y in down for x in across]
        steps: list[Step] = [self._there(before, y, x, width) for y, x in regions]
        steps.append(self.products(before, behind))
        for y, x in regions:
            steps += self._back(behind, y, x, width)
        return self._turns.around(steps)

    def _moved(self, a: Access, channel: int, y: _Span, x: _Span, place: int) -> Access:
        """The operand of a convolution at a place of the tiles that the loops are at."""
        conv = self._conv
        view, offset = self._turns.at(a)
        down, right = a.strides[conv.rows], a.strides[conv.columns]
        further = divmod(place, conv.form.side)
        offset = offset + down * Size.of(y.start + further[0])
        offset = offset + right * Size.of(x.start + further[1])
        step = Size.of(conv.form.step)
        return Access(view, offset, (down * step, right * step, a.strides[channel]))

    def _there(self, before: View, y: _Span, x: _Span, width: int) -> Step:
        """BᵀdB of every tile."""
        nest, conv = self._nest, self._conv
        form = conv.form
        body = Block(arg_types=[form.element] * 2 * form.places)
        builder = Builder(InsertPoint.at_end(body))
        builder.insert(linalg.YieldOp(*both(builder, form.there, body.args[: form.places])))
        image = nest.reads[conv.image]
        reads: dict[SSAValue, Access] = {
            body.args[n]: self._moved(image, conv.channels, y, x, n) for n in range(form.places)
        }
        channels = nest.sizes[conv.channels]
        writes = self._vectors(before, y, x, width)
        sizes = Size.of(y.tiles), Size.of(x.tiles), channels
        step = planned(self._program, mapping(sizes, reads, writes, body))
        return _in_turns(in_lanes_of(step, form.element), form, form.there)

    def _vectors(self, view: View, y: _Span, x: _Span, width: int) -> tuple[Access, ...]:
        """The vectors of a tile in all matrices, in loops over tiles."""
        step = view.strides[1]
        first = step * Size.of(y.number * width + x.number)
        strides = step * Size.of(width), step, ONE
        return tuple(
            Access(view, first + view.strides[0] * Size.of(k), strides)
            for k in range(self._conv.form.places)
        )

    def products(self, before: View, behind: View) -> NestStep:
        """The products of matrices."""
        if self._conv.form.element != f32:
            return self._dots(before, behind)
        sizes = (*behind.sizes, before.sizes[2])
        body = Block(arg_types=[f32] * 3)
        builder = Builder(InsertPoint.at_end(body))
        term = builder.insert(arith.MulfOp(body.args[0], body.args[1]))
        builder.insert(linalg.YieldOp(builder.insert(arith.AddfOp(body.args[2], term)).result))
        reads: dict[SSAValue, Access] = {
            body.args[0]: Access(before, ZERO, (*before.strides[:2], ZERO, ONE)),
            body.args[1]: self._weights,
        }
        writes = (Access(behind, ZERO, (*behind.strides, ZERO)),)
        parallel = (True, True, True, False)
        nest = Nest(sizes, parallel, reads, writes, self._nest.starts, body, {}, tuple(range(4)))
        fuse_products(nest)
        step = planned(self._program, nest)
        step.plan = replace(step.plan, parts=("outer", "columns", "rows"))
        return step

    def _dots(self, before: View, behind: View) -> NestStep:
        """Products of integers of 16 bits, two at a time."""
        recipe, (_, tiles, outs) = self._program.recipe, behind.sizes
        # Its columns are those of `_panel`.
        rows, columns = best_tile(recipe, None, outs.at(1))
        body = Block(arg_types=[i32] * 4)
        Builder(InsertPoint.at_end(body)).insert(linalg.YieldOp(body.args[3]))
        place, _, panel, _ = self._weights.strides
        reads: dict[SSAValue, Access] = {
            body.args[0]: Access(before, ZERO, (*before.strides[:2], ZERO)),
            body.args[1]: replace(self._weights, strides=(place, ZERO, panel)),
        }
        writes = (Access(behind, ZERO, behind.strides),)
        loops = tuple(range(3))
        nest = Nest(behind.sizes, (True,) * 3, reads, writes, self._nest.starts, body, {}, loops)
        count = tiles.at(1)
        rows = -(-count // -(-count // rows))
        parts: tuple[Part, ...] = ("outer", "columns", "rows")
        plan = Schedule((0,), 2, 1, rows, columns, recipe.lanes, False, (), parts)
        taps = ((before.sizes[2].at(1) // WORDS, WORDS),)
        return DotStep(nest, plan, None, Dots(body.args[0], body.args[1], taps, WORDS, None))

    def _back(self, behind: View, y: _Span, x: _Span, width: int) -> list[Step]:
        """AᵀmA of every tile, and what follows the convolution.

        Of small tiles each place has what follows in its own code. Of larger ones, sums stand in
        the place of products until loops over all places follow: code for each would be a good
        part of a file.
        """
        form, follow = self._conv.form, self._nest.behind
        apart = follow is not None and form.step > _MOST_APART
        body = Block(arg_types=[form.kind] * form.places)
        builder = Builder(InsertPoint.at_end(body))
        results = both(builder, form.back, body.args[: form.places])
        matrices = self._vectors(behind, y, x, width)
        reads: dict[SSAValue, Access] = dict(zip(body.args, matrices, strict=True))
        places = [form.side * n + k for n in range(form.step) for k in range(form.step)]
        if not apart:
            results = [
                self._followed(body, reads, value, partial(self._at, y=y, x=x, place=place))
                for place, value in zip(places, results, strict=True)
            ]
        builder.insert(linalg.YieldOp(*results))
        for value in results:
            body.insert_arg(value.type, len(body.args))
        write = self._nest.writes[0]
        writes = [
            matrices[place] if apart else self._at(write, y=y, x=x, place=place) for place in places
        ]
        sizes = Size.of(y.tiles), Size.of(x.tiles), self._nest.sizes[self._conv.outs]
        step = planned(self._program, mapping(sizes, reads, tuple(writes), body))
        if not apart:
            return [step if follow else _in_turns(step, form, form.back, divided=True)]
        return [_in_turns(step, form, form.back), self._after(matrices[0], behind, y, x)]

    def _after(self, first: Access, behind: View, y: _Span, x: _Span) -> Step:
        """What follows the convolution, for sums that stand in matrices."""
        form, conv = self._conv.form, self._conv
        body = Block(arg_types=[form.kind])
        each = behind.strides[0]
        down, across, along = first.strides
        sums = replace(first, strides=(down, across, each * Size.of(form.side), each, along))

        def moved(a: Access) -> Access:
            moved = self._at(a, y=y, x=x, place=0)
            down, across, along = moved.strides
            places = a.strides[conv.rows], a.strides[conv.columns]
            return replace(moved, strides=(down, across, *places, along))

        reads: dict[SSAValue, Access] = {body.args[0]: sums}
        result = self._followed(body, reads, body.args[0], moved)
        Builder(InsertPoint.at_end(body)).insert(linalg.YieldOp(result))
        body.insert_arg(result.type, len(body.args))
        step = Size.of(form.step)
        sizes = Size.of(y.tiles), Size.of(x.tiles), step, step, self._nest.sizes[conv.outs]
        writes = (moved(self._nest.writes[0]),)
        return planned(self._program, mapping(sizes, reads, writes, body))

    def _at(self, a: Access, *, y: _Span, x: _Span, place: int) -> Access:
        """What goes with an output, at a place of the tiles that the loops are at."""
        return self._moved(a, self._conv.outs, y, x, place)

    def _followed(
        self,
        body: Block,
        reads: dict[SSAValue, Access],
        made: SSAValue,
        moved: Callable[[Access], Access],
    ) -> SSAValue:
        """A sum of what comes out, and what follows it."""
        total = divided(Builder(InsertPoint.at_end(body)), self._conv.form, made)
        follow = self._nest.behind
        return total if follow is None else followed(follow, total, body, reads, moved)
