"""Which convolutions go by Winograd's tiles: those that are quicker so.

Windows are 3×3, a step apart, weights are known. Floats go by F(2×2, 3×3); images and weights of
bytes by F(4×4, 3×3), exactly. Not here: what is done instead (`tiles`).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, f32
from xdsl.ir import SSAValue

from ....runtime.native.abi.sizes import ONE
from .conv_costs import WORDS, Sums, dotted, tiled
from .dots import DotStep
from .intervals import Interval
from .known_factors import factors_of, known_values
from .nests import Nest
from .program import Program, Step
from .structured import NestStep
from .tiles import Convolution, has_panels, steps_of, tiles_of
from .transforms import FLOATS, INTEGERS, Form
from .trit_constants import worth_keeping
from .views import Buffer

_CHANGES, _MORE_CHANGES, _MADE, _LEFT = 90, 140, 200, 0.9
"""What it costs to change a vector of a tile, there or back, in products of a vector; with few
registers; to make a vector of weights in each call; and what must be left of the time."""
_MOST_SHORT, _MOST_WORD = (1 << 15) - 1, (1 << 31) - 1


def use_winograd(program: Program, known: Mapping[Buffer, Interval]) -> None:
    """Put other steps in the place of each convolution for which they are quicker.

    Args:
        program: whose products of small integers are steps of their own.
        known: what its tensors can hold.
    """
    steps: list[Step] = []
    for step in program.steps:
        found, group = None, 0
        if isinstance(step, DotStep):
            if step.given is not None and step.dots is not None and program.keeps:
                found, group = _whole_conv(step.given, known), step.dots.group
        elif isinstance(step, NestStep) and step.given is not None and step.kind is None:
            found = _conv(step.given, _factors(step.given), FLOATS)
        if found is None or not _pays(program, *found, group):
            steps.append(step)
            continue
        new = steps_of(program, *found, keep=_keeps(program, *found))
        for one in new:
            one.location = step.location
        steps += new
    program.steps[:] = steps


def _whole_conv(nest: Nest, known: Mapping[Buffer, Interval]) -> tuple[Nest, Convolution] | None:
    """What a nest convolves in integers, if tiles are exact: 16 bits hold images and windows that
    are transformed, 32 bits the sums as often doubled as they come out."""
    start = nest.starts[0] if len(nest.starts) == 1 else None
    if start is None or not isinstance(start.value, IntegerAttr) or start.value.value.data:
        return None
    found = _conv(nest, factors_of(nest), INTEGERS)
    if found is None:
        return None
    conv = found[1]
    image = nest.reads[conv.image].view.buffer
    rows = [nest.sizes[d].at(1) for d in (conv.rows, conv.columns)]
    loops = conv.outs, conv.channels, conv.down, conv.right
    values = known_values(nest.reads[conv.weights], [nest.sizes[d].at(1) for d in loops], loops)
    if values is None or min(rows) < INTEGERS.step or values.shape[1] % WORDS:
        return None
    if image not in known:
        return None
    sizes = np.abs(values.reshape(len(values), -1).astype(np.int64))
    window = int(sizes.max()) * max(sum(map(abs, row)) for row in INTEGERS.windows) ** 2
    low, high = min(known[image][0], 0), max(known[image][1], 0)
    spread = INTEGERS.reach * (high - low)
    total = int(sizes.sum(axis=1).max()) * max(-low, high) << INTEGERS.doubled
    return found if max(window, spread) <= _MOST_SHORT and total <= _MOST_WORD else None


def _conv(
    nest: Nest, factors: tuple[SSAValue, SSAValue] | None, form: Form
) -> tuple[Nest, Convolution] | None:
    """A nest and what it convolves, if windows are 3×3."""
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
    return nest, Convolution(
        form, image, weights, batch, outs[0], place[down], place[right], channels[0], down, right
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
    if conv.form.element != f32:
        return True
    return worth_keeping(program, _MADE, conv.form.places * tiles_of(nest, conv))


def _pays(program: Program, nest: Nest, conv: Convolution, group: int) -> bool:
    """Whether the products that are spared are more than what changes images and results.

    Args:
        program: that is planned.
        nest, conv: the convolution.
        group: products that an instruction would add else, of integers.
    """
    rows, columns, outs, channels = (
        nest.sizes[d].at(1) for d in (conv.rows, conv.columns, conv.outs, conv.channels)
    )
    if conv.form.element != f32:
        sums = Sums(outs, channels, 9)
        direct = dotted(program.recipe, sums, rows * columns, group)
        return tiled(program.recipe, sums, rows, columns) < _LEFT * direct
    lanes, tiles = program.recipe.lanes, tiles_of(nest, conv)
    vectors = -(-outs // lanes)
    moved = -(-channels // lanes) + vectors
    direct = 9 * rows * columns * channels * vectors
    each = _CHANGES if program.recipe.registers > 16 else _MORE_CHANGES
    cost = tiles * (conv.form.places * channels * vectors + moved * each)
    made = nest.reads[conv.weights].view.element != f32
    if made and not _keeps(program, nest, conv):
        cost += _MADE * channels * vectors
    return cost < _LEFT * direct and (not made or has_panels(program, nest, conv))
