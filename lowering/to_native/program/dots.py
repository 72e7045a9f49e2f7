"""Sums of products of small integers by the instructions that add several products at once.

Loops whose factors stand in memory as bytes or 16 bits become tiles of places and outputs: a few
neighbouring factors of a place are spread over a vector, and meet as many weights of each output.
Weights that are known are put in order beforehand, others by a step in front (`packed_factors`). In
depthwise convolutions every output has factors of its own, four of which are put together lane by
lane. Not here: which integers are small (`narrowing`), how tiles and their weights lie
(`dot_layout`), the code (`dot_code`).
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects import arith
from xdsl.dialects.builtin import i8, i16, i32
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import InsertPoint

from ....ir.arrays import Array
from ....runtime.native.abi.sizes import ONE, ZERO, Size
from ..kernels.recipes import Recipe
from .additions import Summed, steps_of
from .conv_costs import WORDS, Plane, plane_of
from .dot_layout import best_tile, lane_weights, packed_weights
from .intervals import Interval
from .known_factors import factors_of, known_values
from .narrowing import narrowest
from .nests import Access, Behind, Nest, simplified
from .packed_factors import Computed, computed_factors, packed, put_in_rows
from .program import Program, Step
from .schedule import Part, Schedule
from .structured import NestStep
from .views import UI8, Buffer

_LEAST_OUTPUTS, _LEAST_OF_APART, _LEAST_OF_NEAR = 4, 2, 5
"""Outputs from which on dots pay; of places some way apart; and of places near each other, along
which plain loops are quick."""
_LEAST_TERMS, _MOST_LANES = 4, 64
_APART = 4
"""Elements from a place to the next, from which on these are some way apart."""
_LANE_ROWS = 4
"""Places of a tile of outputs with factors of their own: neighbours share those put together."""
_MOST_BYTE, _MOST_SHORT = 255, (1 << 15) - 1
_FEW, _SHORT = 1 << 14, 64
"""Weights of a layer beside which its code counts: that of a tile has a thousand bytes. Terms of a
sum so short that what follows it takes as long, for which tiles are as large as can be."""
_SLACK = 64
"""Elements that may be read past the end of a tensor, where weights are 0."""


@dataclass(frozen=True)
class Dots:
    """How a tile is summed.

    Attributes:
        image: the argument of the body whose access says where the first factor lies.
        weights: the argument that stands for the weights of a tile.
        taps: loops of the sum, the outermost first: their sizes, and elements from one factor to
            the next; the last goes `group` elements further each time.
        group: products that one instruction adds to a sum.
        lanes: where each output has factors of its own, the distances of those of each group.
    """

    image: SSAValue
    weights: SSAValue
    taps: tuple[tuple[int, int], ...]
    group: int
    starts: SSAValue | None
    """What sums begin with, where that is not one number."""
    most: int = 0
    """Sums of pairs that 16 bits hold, where an instruction adds those; 0 where one adds four."""
    lanes: tuple[tuple[int, ...], ...] = ()


@dataclass(eq=False)
class DotStep(NestStep):
    """Loops around tiles that are summed by `dots`; its nest has the parallel loops alone."""

    dots: Dots | None = None

    @property
    def kind(self) -> Hashable:
        """What its code depends on besides."""
        dots = self.dots
        if dots is None:
            return None
        return dots.taps, dots.group, dots.starts is None, dots.most, dots.lanes


class _Terms(NamedTuple):
    """What a nest multiplies: the image, and weights [outs, taps…] with the taps of both."""

    image: SSAValue
    weights: SSAValue
    values: Array | None
    """`None` of weights that the program computes."""
    held: Interval
    """The least and the most of the weights."""
    many: int
    """Outputs."""
    taps: list[tuple[int, int]]
    outs: int
    """The loop over outputs."""
    by_lanes: bool
    """Whether each output has factors of its own, which stand beside each other."""
    in_row: bool
    """Whether factors that an instruction may add stand next to each other."""
    computed: Computed | None = None
    """Weights without values."""


def use_dots(program: Program, known: dict[Buffer, Interval]) -> None:
    """Put steps of their own in the place of sums of small products.

    Args:
        program: whose tensors are narrow already.
        known: what those can hold that only loops touch; more are added.
    """
    if program.recipe.words is None:
        return
    put_in_rows(program, known)
    found = {
        step: terms
        for step in program.steps
        if isinstance(step, NestStep)
        and (terms := _terms(step, known)) is not None
        and _pays(program, step, terms)
    }
    in_bytes = _fit_images(program, found, known)
    steps: list[Step] = []
    for step in program.steps:
        terms = found.get(step) if isinstance(step, NestStep) else None
        if terms is None or not isinstance(step, NestStep):
            steps.append(step)
            continue
        image = _image(step, terms)
        added = None
        if image in in_bytes:
            added = _added(program, step, terms, known[image])
        if added is not None:
            steps += added
        elif terms.in_row and (image in in_bytes or not terms.by_lanes):
            steps += _steps(program, step, terms, WORDS if image.element == i16 else 4)
        else:
            steps.append(step)
    program.steps[:] = steps


def _terms(step: NestStep, known: Mapping[Buffer, Interval]) -> _Terms | None:
    """The factors of a nest that is a sum of products of small integers."""
    if step.given is None or len(step.nest.writes) != 1:
        return None
    nest = simplified(step.given)
    if not nest.reductions or nest.starts[0] is None:
        return None
    factors = factors_of(nest)
    if factors is not None:
        return _terms_of(nest, *factors, known)
    found = computed_factors(nest, known)
    if found is None:
        return None
    image, weights, held, taps, count, outs, _ = found
    return _Terms(
        image,
        weights,
        None,
        held,
        count,
        [(taps, 1)],
        outs,
        by_lanes=False,
        in_row=True,
        computed=found,
    )


def _terms_of(
    nest: Nest, image: SSAValue, weights: SSAValue, known: Container[Buffer]
) -> _Terms | None:
    """The factors of sums of products with known integers."""
    x, w = nest.reads[image], nest.reads[weights]
    if x.view.buffer not in known or x.view.buffer.element not in (i8, i16, UI8):
        return None
    outs = [d for d in range(len(nest.sizes)) if w.depends_on(d) and nest.parallel[d]]
    if len(outs) != 1 or not all(x.depends_on(d) for d in nest.reductions):
        return None
    by_lanes = x.depends_on(outs[0])
    if by_lanes and (x.strides[outs[0]] != ONE or _row(nest, x, outs) is None):
        return None
    taps = [(nest.sizes[d].number, x.strides[d].number, d) for d in nest.reductions]
    known = [(n, stride, d) for n, stride, d in taps if n is not None and stride is not None]
    known.sort(key=lambda tap: -tap[1])
    count = nest.sizes[outs[0]].number
    if len(known) < len(taps) or count is None:
        return None
    values = known_values(w, [count, *(n for n, _, _ in known)], [outs[0], *(d for *_, d in known)])
    if values is None or not -(1 << 15) <= values.min() <= values.max() < 1 << 15:
        return None
    merged = [(n, stride) for n, stride, _ in known]
    in_row = merged[-1][1] == 1 or by_lanes
    if not by_lanes:
        merged = _merged(merged)
    terms = int(np.prod([n for n, _ in merged]))
    if terms < _LEAST_TERMS or (by_lanes and terms > _MOST_LANES):
        return None
    values = values.reshape(count, *(n for n, _ in merged))
    held = int(values.min()), int(values.max())
    return _Terms(image, weights, values, held, count, merged, outs[0], by_lanes, in_row)


def _pays(program: Program, step: NestStep, terms: _Terms) -> bool:
    """Whether there are so many outputs that plain loops take longer, or additions are chosen."""
    if terms.computed is not None or _plane(program, step, terms) is not None:
        return True
    assert step.given is not None
    nest = simplified(step.given)
    x, least = nest.reads[terms.image], _LEAST_OUTPUTS
    row = None if terms.by_lanes else _row(nest, x, (terms.outs,))
    if row is not None:
        near = abs(x.strides[row].at(1)) < _APART
        least = _LEAST_OF_NEAR if near else _LEAST_OF_APART
    return terms.many >= least


def _row(nest: Nest, x: Access, others: Container[int]) -> int | None:
    """The loop over places that stand next to each other; those over outputs and matrices aside."""
    places = [d for d, parallel in enumerate(nest.parallel) if parallel and d not in others]
    return min(
        (d for d in places if x.depends_on(d) and x.strides[d].number is not None),
        key=lambda d: abs(x.strides[d].number or 0),
        default=None,
    )


def _image(step: NestStep, terms: _Terms) -> Buffer:
    assert step.given is not None
    return step.given.reads[terms.image].view.buffer


def _merged(taps: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Loops over what lies in a row as one."""
    result: list[tuple[int, int]] = []
    for count, stride in reversed(taps):
        if result and stride == result[0][0] * result[0][1]:
            result[0] = (count * result[0][0], result[0][1])
        else:
            result.insert(0, (count, stride))
    return result


def _fit_images(
    program: Program, found: Mapping[NestStep, _Terms], known: Mapping[Buffer, Interval]
) -> set[Buffer]:
    """Let images stand in bytes as products take them where all of theirs can, else in 16 bits
    where some take these.

    Returns:
        Those in bytes.
    """
    images: dict[Buffer, bool] = {}
    words, summed, dotted = set[Buffer](), set[Buffer](), set[Buffer]()
    signed = program.recipe.signed
    for step, terms in found.items():
        buffer = _image(step, terms)
        low, high = known[buffer]
        # Two products of -128 and -128 do not fit in 16 bits.
        bytes_ = signed - 128 <= terms.held[0] and terms.held[1] <= 127
        bytes_ = bytes_ and high - min(low, 0) <= _MOST_BYTE
        pairs = _pairs(program.recipe, terms.held)
        exact = program.recipe.whole_bytes or pairs >= (_fours(terms) if terms.by_lanes else 1)
        images[buffer] = images.get(buffer, True) and bytes_ and exact
        plane = _plane(program, step, terms)
        if plane is None:
            dotted.add(buffer)
        elif plane.step == 1:
            summed.add(buffer)
        if not terms.by_lanes:
            words.add(buffer)
    for buffer, in_bytes in images.items():
        low, high = known[buffer]
        if in_bytes and signed:
            buffer.element, buffer.low = i8, min(low, 0) + 128
            if -128 <= low <= high <= 127:
                buffer.low = 0
        elif in_bytes:
            buffer.element, buffer.low = UI8, min(low, 0)
            if buffer in summed - dotted:
                buffer.element, buffer.low = i16, 0
        elif buffer in words:
            buffer.element = i16
    return {buffer for buffer, in_bytes in images.items() if in_bytes}


def _pairs(recipe: Recipe, held: Interval) -> int:
    """How many sums of two products of bytes with weights 16 bits hold."""
    if recipe.pairs is None:
        return 0
    return _MOST_SHORT // (_MOST_BYTE * 2 * max(1, -held[0], held[1]))


def _fours(terms: _Terms) -> int:
    """How many groups of four each output has with factors of its own."""
    (count, _), *inner = terms.taps
    return -(-count // 4) * prod(n for n, _ in inner)


def _plane(program: Program, step: NestStep, terms: _Terms) -> Plane | None:
    """Where the places of a nest lie whose op is to be additions."""
    assert step.given is not None
    nest = simplified(step.given)
    x, w = nest.reads[terms.image], nest.reads[terms.weights]
    if terms.by_lanes or (x.view.buffer, w.view.buffer) not in program.added:
        return None
    return plane_of(nest.sizes, nest.parallel, x, terms.outs)


def _added(
    program: Program, step: NestStep, terms: _Terms, known: Interval
) -> Sequence[Step] | None:
    """Steps that add in the place of a nest, if its op is to be that."""
    assert step.given is not None
    nest = simplified(step.given)
    x = nest.reads[terms.image]
    plane = _plane(program, step, terms)
    if plane is None or terms.values is None:
        return None
    trits = terms.values.reshape(terms.many, -1)
    behind, begun = _begun(nest, terms.outs, trits, x.view.buffer.low)
    low, high = (number - x.view.buffer.low for number in known)
    found = Summed(
        nest, terms.image, trits, terms.taps, terms.outs, plane, (low, high), begun, behind
    )
    steps = steps_of(program, found)
    for one in steps or ():
        one.location = step.location
    return steps


def _steps(program: Program, step: NestStep, terms: _Terms, group: int) -> Sequence[Step]:
    """The steps in the place of a nest, by products of `group` neighbours at once."""
    assert step.given is not None
    nest, recipe = simplified(step.given), program.recipe
    x, write = nest.reads[terms.image], nest.writes[0]
    buffer, values, computed = x.view.buffer, terms.values, terms.computed
    keep = [d for d, parallel in enumerate(nest.parallel) if parallel]
    outs = keep.index(terms.outs)
    rows = _row(nest, x, (terms.outs, *(() if computed is None else computed.apart)))
    along = 1 if rows is None else nest.sizes[rows].number
    taps, lanes = [*terms.taps], list[tuple[int, ...]]()
    if terms.by_lanes:
        tile = (_LANE_ROWS if along is None else -(-along // -(-along // _LANE_ROWS)), 1)
    else:
        few = values is not None and _SHORT * terms.many < values.size <= _FEW
        tile = best_tile(recipe, along, terms.many, few=few)
        taps[-1] = (-(-taps[-1][0] // group), group)
    width, behind = recipe.lanes * tile[1], nest.behind
    before: Sequence[Step] = ()
    begun: Access | None
    if computed is not None:
        weights, begun, before = packed(program, nest, computed, width, group)
    else:
        assert values is not None
        if terms.by_lanes:
            content, lanes = lane_weights(values, taps, recipe.lanes)
            taps = [(len(lanes), 0)]
        else:
            content = packed_weights(values, width, group)
        each = content.size // (-(-terms.many // width) * width)
        panels = program.constant(content, narrowest(content))
        strides = tuple(Size.of(each) if d == terms.outs else ZERO for d in range(len(nest.sizes)))
        weights = Access(panels, ZERO, strides, panels=True)
        behind, added = _begun(nest, terms.outs, values, buffer.low)
        begun = None
        if added.any():
            starts = np.zeros(-(-terms.many // width) * width, np.int32)
            starts[: terms.many] = added.astype(np.int32)
            along_outs = tuple(ONE if d == terms.outs else ZERO for d in range(len(nest.sizes)))
            begun = Access(program.constant(starts, narrowest(starts)), ZERO, along_outs)
    body = Block(arg_types=[i32] * 4)
    Builder(InsertPoint.at_end(body)).insert(linalg.YieldOp(body.args[3]))

    def cut(a: Access) -> Access:
        return replace(a, strides=tuple(a.strides[d] for d in keep))

    reads: dict[SSAValue, Access] = {body.args[0]: cut(x), body.args[1]: cut(weights)}
    if begun is not None:
        reads[body.args[2]] = cut(begun)
    if behind is not None:
        behind = replace(behind, reads={v: cut(a) for v, a in behind.reads.items()})
    own = Nest(
        tuple(nest.sizes[d] for d in keep),
        (True,) * len(keep),
        reads,
        (cut(write),),
        nest.starts,
        body,
        {},
        tuple(range(len(keep))),
        behind,
    )
    buffer.count = buffer.count + Size.of(_SLACK)
    place = None if rows is None else keep.index(rows)
    outer = tuple(d for d in range(len(keep)) if d not in (outs, place))
    parts: tuple[Part, ...] = ("columns", "outer", "rows")
    if terms.by_lanes:
        parts = ("outer", "rows", "columns")
    elif computed is not None:
        parts = ("outer", "columns", "rows")
    plan = Schedule(outer, outs, place, tile[0], tile[1], recipe.lanes, False, (), parts)
    starts = None if begun is None else body.args[2]
    most = _pairs(recipe, terms.held) if group > WORDS else 0
    dots = Dots(body.args[0], body.args[1], tuple(taps), group, starts, most, tuple(lanes))
    result = DotStep(own, plan, step.given, dots)
    for one in (*before, result):
        one.location = step.location
    return [*before, result]


def _begun(nest: Nest, outs: int, values: Array, low: int) -> tuple[Behind | None, Array]:
    """What follows sums of an image less `low`, and numbers that these begin with for it."""
    behind, known = _begun_by(nest.behind, outs, len(values))
    sums = values.reshape(len(values), -1).astype(np.int64).sum(axis=1)
    return behind, (0 if known is None else known) + low * sums


def _begun_by(behind: Behind | None, outs: int, count: int) -> tuple[Behind | None, Array | None]:
    """What follows without the known numbers that it first adds to sums, and those, an output each.

    Sums wrap around, so that they may begin with them as well. The given body stays as it is, for
    those who find a better way than dots.
    """
    uses = [] if behind is None else [use for v in behind.sums for use in v.uses]
    add = uses[0].operation if len(uses) == 1 else None
    if behind is None or not isinstance(add, arith.AddiOp):
        return behind, None
    total = add.operands[uses[0].index]
    bias = add.operands[1 - uses[0].index]
    a = behind.reads.get(bias)
    if a is None or any(a.depends_on(d) for d in range(len(a.strides)) if d != outs):
        return behind, None
    values = known_values(a, [count], [outs])
    if values is None:
        return behind, None
    body = Block(arg_types=[v.type for v in behind.body.args])
    known: dict[SSAValue, SSAValue] = dict(zip(behind.body.args, body.args, strict=True))
    for op in behind.body.ops:
        if op is add:
            known[add.result] = known[total]
        else:
            body.add_op(op.clone(known))
    reads = {known[v]: x for v, x in behind.reads.items() if known[v].first_use is not None}
    return Behind(body, tuple(known[v] for v in behind.sums), reads), values.astype(np.int64)
