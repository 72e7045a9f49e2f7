"""Which convolutions of floats go by Winograd's F(2×2, 3×3): those that are quicker so.

Windows are 3×3, a step apart, weights are known. Not here: what is done instead (`tiles`).
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, f32
from xdsl.ir import SSAValue

from .nests import Nest
from .program import Program, Step
from .sizes import ONE
from .structured import NestStep
from .tiles import Convolution, steps_of, tiles_of
from .trit_constants import worth_keeping

_CHANGES, _MORE_CHANGES, _MADE, _LEFT = 90, 140, 200, 0.9
"""What it costs to change a vector of a tile, there or back, in products of a vector; with few
registers; to make a vector of weights in each call; and what must be left of the time."""


def use_winograd(program: Program) -> None:
    """Put three steps in the place of each convolution for which they are quicker."""
    steps: list[Step] = []
    for step in program.steps:
        nest = step.given if isinstance(step, NestStep) and step.kind is None else None
        found = None if nest is None else _conv(nest)
        if nest is None or found is None or not _pays(program, nest, found):
            steps.append(step)
            continue
        new = steps_of(program, nest, found, keep=_keeps(program, nest, found))
        for one in new:
            one.location = step.location
        steps += new
    program.steps[:] = steps


def _conv(nest: Nest) -> Convolution | None:
    """What a nest convolves, if windows are 3×3 and channels lie in a row."""
    factors = _factors(nest)
    if factors is None or len(nest.reductions) != 3:
        return None
    image, weights = factors
    x, w = nest.reads[image], nest.reads[weights]
    loops = [d for d, kind in enumerate(nest.parallel) if kind and nest.sizes[d] != ONE]
    outs = [d for d in loops if w.depends_on(d)]
    if len(outs) != 1 or x.depends_on(outs[0]):
        return None
    loops.remove(outs[0])
    place = {
        d: p
        for d in nest.reductions
        for p in loops
        if x.strides[p] == x.strides[d] and nest.sizes[d].number == 3
    }
    window = sorted(place, key=lambda d: -x.strides[d].at(1))
    channels = [d for d in nest.reductions if d not in place]
    rest = [d for d in loops if d not in place.values()]
    if len(window) != 2 or len(set(place.values())) != 2 or len(rest) > 1:
        return None
    down, right = window
    known = [nest.sizes[d].number for d in (*place.values(), outs[0], channels[0])]
    strides = [x.strides[d].number for d in nest.reductions]
    if None in strides or min(n or 0 for n in known) < 2:
        return None
    batch = rest[0] if rest else None
    return Convolution(
        image, weights, batch, outs[0], place[down], place[right], channels[0], down, right
    )


def _factors(nest: Nest) -> tuple[SSAValue, SSAValue] | None:
    """The arguments that a body multiplies and adds up from 0 on: floats, and what is known."""
    start = nest.starts[0]
    if start is None or len(nest.writes) != 1 or len(nest.reads) != 2:
        return None
    total, so_far = nest.results()[0].owner, nest.output_arguments()[0]
    if not isinstance(total, arith.AddfOp) or total.result.type != f32:
        return None
    if not isinstance(start.value, FloatAttr) or start.value.value.data:
        return None
    products = [v.owner for v in total.operands if v is not so_far]
    if len(products) != 1 or not isinstance(products[0], arith.MulfOp):
        return None
    arguments = [_number(v) for v in products[0].operands]
    image = [v for v in arguments if v in nest.reads and v.type == f32 and not _known(nest, v)]
    weights = [v for v in arguments if v in nest.reads and _known(nest, v)]
    return (image[0], weights[0]) if len(image) == len(weights) == 1 else None


def _number(value: SSAValue) -> SSAValue:
    """The integer that a value is, if it is one."""
    return value.owner.input if isinstance(value.owner, arith.SIToFPOp) else value


def _known(nest: Nest, value: SSAValue) -> bool:
    return nest.reads[value].view.buffer.content is not None


def _keeps(program: Program, nest: Nest, conv: Convolution) -> bool:
    """Whether weights that are made of integers stay from one call to the next."""
    return worth_keeping(program, _MADE, 16 * tiles_of(nest, conv))


def _pays(program: Program, nest: Nest, conv: Convolution) -> bool:
    """Whether the products that are spared are more than what changes images and results."""
    rows, columns, outs, channels = (
        nest.sizes[d].at(1) for d in (conv.rows, conv.columns, conv.outs, conv.channels)
    )
    lanes, tiles = program.recipe.lanes, tiles_of(nest, conv)
    direct = 9 * rows * columns * channels * -(-outs // lanes)
    each = _CHANGES if program.recipe.width == 64 else _MORE_CHANGES
    changes = (-(-channels // lanes) + -(-outs // lanes)) * each
    cost = tiles * (16 * channels * -(-outs // lanes) + changes)
    if nest.reads[conv.weights].view.element != f32 and not _keeps(program, nest, conv):
        cost += _MADE * channels * -(-outs // lanes)
    return cost < _LEFT * direct
