"""Products of two matrices that a program computes: one of them is put in order as weights are.

The other is turned where what is added up does not lie in a row. Not here: the code that packs
weights (`kernels.pack_panels`), the products (`dots`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from xdsl.builder import Builder
from xdsl.dialects import llvm
from xdsl.dialects.builtin import i8, i16, i32
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import InsertPoint

from ....runtime.native.abi.sizes import ONE, ZERO, Size, product
from ..kernels.pack_panels import BYTES, Packing, write_packing
from .intervals import Interval
from .known_factors import both_factors
from .nests import Access, Nest, mapping, simplified
from .program import KernelStep, Program, Step
from .repetition import Turns
from .structured import NestStep, planned
from .views import UI8, Buffer, View, has_no_sign, holder, stored

_LEAST_ROWS = 4
"""Rows that meet a matrix for which it is put in order."""
_LEAST_TAPS, _LEAST_OUTPUTS = 4, 4


class Computed(NamedTuple):
    """The factors of a nest: matrices [places, taps] by [outputs, taps].

    Attributes:
        image, weights: the arguments that stand for them.
        held: the least and the most of the weights.
        taps, many: the sizes of the loop that adds up, and of that over outputs.
        outs: the loop over outputs.
        apart: loops over several matrices of weights.
    """

    image: SSAValue
    weights: SSAValue
    held: Interval
    taps: int
    many: int
    outs: int
    apart: tuple[int, ...]


class Panels(NamedTuple):
    """Weights in panels.

    Attributes:
        weights: those of a tile.
        begun: what sums begin with, if not with 0.
        steps: that put them there.
    """

    weights: Access
    begun: Access | None
    steps: list[Step]


def put_in_rows(program: Program, known: dict[Buffer, Interval]) -> None:
    """Turn images whose factors do not lie in a row; `known` gets what copies hold."""
    steps: list[Step] = []
    for step in program.steps:
        if isinstance(step, NestStep) and step.given is not None:
            nest = simplified(step.given)
            found = computed_factors(nest, known) if nest.reductions else None
            if found is not None and nest.reads[found.image].strides[nest.reductions[0]] != ONE:
                steps += _turned(program, nest, found, known)
                for one in steps[-2:]:
                    one.location = step.location
                continue
        steps.append(step)
    program.steps[:] = steps


def _turned(
    program: Program, nest: Nest, found: Computed, known: dict[Buffer, Interval]
) -> list[Step]:
    """A copy of an image with its factors in a row, and the products with that."""
    x = nest.reads[found.image]
    loops = [d for d, kind in enumerate(nest.parallel) if kind and x.depends_on(d)]
    loops += nest.reductions
    sizes = tuple(nest.sizes[d] for d in loops)
    copy = program.new(x.view.element, sizes)
    known[copy.buffer] = known[x.view.buffer]
    body = Block(arg_types=[i16] * 2)  # that holds all small integers
    Builder(InsertPoint.at_end(body)).insert(linalg.YieldOp(body.args[0]))
    read = replace(x, strides=tuple(x.strides[d] for d in loops))
    moving = mapping(sizes, {body.args[0]: read}, (Access(copy, ZERO, copy.strides),), body)
    along = dict(zip(loops, copy.strides, strict=True))
    strides = tuple(along.get(d, ZERO) for d in range(len(nest.sizes)))
    reads = {**nest.reads, found.image: Access(copy, ZERO, strides)}
    return [planned(program, moving), planned(program, replace(nest, reads=reads))]


def computed_factors(nest: Nest, known: Mapping[Buffer, Interval]) -> Computed | None:
    """The factors of a product of matrices of small integers, of which none is known."""
    both = both_factors(nest)
    if not both or len(nest.reductions) != 1:
        return None
    if not all(_is_small(nest.reads[v], known) for v in both):
        return None
    a, b = both
    return _factors(nest, a, b, known) or _factors(nest, b, a, known)


def _is_small(a: Access, known: Mapping[Buffer, Interval]) -> bool:
    return a.view.buffer in known and a.view.element in (i8, i16, UI8)


def _factors(
    nest: Nest, image: SSAValue, weights: SSAValue, known: Mapping[Buffer, Interval]
) -> Computed | None:
    x, w = nest.reads[image], nest.reads[weights]
    (tap,) = nest.reductions
    loops = [d for d, parallel in enumerate(nest.parallel) if parallel]
    outs = [d for d in loops if w.depends_on(d) and not x.depends_on(d)]
    if len(outs) != 1 or nest.writes[0].strides[outs[0]] != ONE:
        return None
    taps, count = nest.sizes[tap].number, nest.sizes[outs[0]].number
    steps = [w.strides[d].number for d in (outs[0], tap)]
    if taps is None or count is None or None in steps or 1 not in steps:
        return None
    places = product(nest.sizes[d] for d in loops if not w.depends_on(d)).at(1)
    if places < _LEAST_ROWS or taps < _LEAST_TAPS or count < _LEAST_OUTPUTS:
        return None
    apart = tuple(d for d in loops if w.depends_on(d) and d != outs[0])
    return Computed(image, weights, known[w.view.buffer], taps, count, outs[0], apart)


def packed(program: Program, nest: Nest, found: Computed, width: int, group: int) -> Panels:
    """Put weights in panels of `width` outputs, the taps in groups.

    What stands in memory for the image, and for the weights, is decided by now.
    """
    w, low = nest.reads[found.weights], nest.reads[found.image].view.buffer.low
    element = w.view.element
    narrow = group == BYTES or (element != i16 and -128 <= found.held[0] <= found.held[1] <= 127)
    (tap,) = nest.reductions
    variant = Packing(
        stored(element),
        has_no_sign(element),
        i8 if narrow else i16,
        w.view.buffer.low,
        found.many,
        found.taps,
        w.strides[found.outs].at(1),
        w.strides[tap].at(1),
        width,
        group,
        low,
    )
    holder(w.view).count = holder(w.view).count + Size.of(width + group)
    turns = Turns([(d, ONE, nest.sizes[d]) for d in found.apart])
    matrices = [nest.sizes[d] for d in found.apart]
    outs = Size.of(variant.panels * width)
    panels = program.new(variant.packed, [*matrices, outs, Size.of(variant.groups * group)])
    sums = program.new(i32, [*matrices, outs])

    def access(view: View) -> Access:
        strides = dict(zip((*found.apart, found.outs), view.strides, strict=False))
        return Access(view, ZERO, tuple(strides.get(d, ZERO) for d in range(len(nest.sizes))))

    weights, begun = access(panels), access(sums)
    places: list[View] = []
    for a in (w, weights, begun):
        view, offset = turns.at(a)
        places.append(View(view.buffer, (), (), offset))
    name = program.kernel(variant, "pack_panels")
    steps = turns.around([KernelStep(name, places[:1], places[1:], ())])
    weights = Access(weights.view, ZERO, weights.strides, panels=True)
    return Panels(weights, begun if low else None, steps)


def functions(program: Program) -> list[llvm.FuncOp]:
    """What steps of `packed` call."""
    variants = program.kernels_of(Packing)
    return [write_packing(program.recipe, variant, name) for variant, name in variants]
