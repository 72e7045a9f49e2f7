"""What sums of products of bytes cost by each of three ways, and which are additions alone.

Costs are in cycles, roughly: of dot products (`dots`), of Winograd's tiles (`winograd`), of code
that adds for each trit (`additions`). The last needs places that stand next to each other, so that
ops are asked before their images have an order in memory. Not here: the steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects import tensor as upstream
from xdsl.dialects.builtin import UnrealizedConversionCastOp, i8, i16, i32
from xdsl.dialects.linalg import abstract_ops
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr

from ....dialects.shapes import DYNAMIC
from ....dialects.spike.types import dense_type
from ....ir.arrays import Array
from ....passes.analysis.compile_time import is_literal
from ....runtime.native.abi.sizes import BATCH, Size
from ..kernels.additions import can_add, code_of, cost_of, count_of
from ..kernels.pack_panels import BYTES
from ..kernels.recipes import Recipe
from ..linalg.linalg_builder import PARALLEL
from .nests import Access, RefusedError, access, linear_form, loop_sizes
from .program import Program, sizes_of
from .transforms import INTEGERS
from .views import UI8, Buffer, View, whole_view

WORDS = 2
"""Products that one instruction adds where factors have 16 bits."""
_CHANGES, _READ, _READ_FAR = 250, 1, 8
"""What it costs to change a vector of a tile, there and back; and to read a vector of weights, from
a near or a far cache."""
_NEAR = 1 << 19
"""Bytes of weights that a near cache holds."""
_RATES = {64: (1.0, 1.0), 32: (1.2, 1.7)}
"""By the bytes of a register, what dot products of bytes, and tiles, do in a cycle on a Zen 4."""
_LEFT = 0.95
"""Of the cycles of the best other way, what additions may take."""
_TURNED = 1.0
"""Cycles for an output whose image is in planes for others, and whose sum is joined with theirs."""
_SHAPED = upstream.ExpandShapeOp | upstream.CollapseShapeOp
"""Ops that give a tensor another shape."""
_LEAST = 256
"""Trits from which on code is worth it."""
_MOST_CODE, _MOST_IN_ALL = 4 << 20, 32 << 20
"""Bytes of code of a layer, and of all: what a far cache holds."""
_LEAST_CODE = 3
"""Bytes of code for a trit that is not 0, at least."""
_MOST_STEPS = 4
"""From place to place in an image, which is cut into as many planes."""
_MOST_PITCH = 2
"""How many times as long as a row of the result one of the image may be."""


class Plane(NamedTuple):
    """Places of a result whose factors stand next to each other in an image, for one output.

    Attributes:
        rows, columns: loops over them; a result may have one row.
        step: elements of the image from one place to the next, and rows from one row to the next.
        pitch: elements of a row of the image.
        places: from the first to the last, with those between rows, once planes are cut.
    """

    rows: int | None
    columns: int
    step: int
    pitch: int
    places: int


class Places(NamedTuple):
    """The axes of an image along which places shall lie next to each other, and the loops over
    them."""

    axes: tuple[int, ...]
    loops: tuple[int, ...]


class Sums(NamedTuple):
    """Sums over channels and the places of a window."""

    outs: int
    channels: int
    window: int


def plane_of(sizes: Sequence[Size], parallel: Sequence[bool], x: Access, outs: int) -> Plane | None:
    """The places of a result, if they stand next to each other or a few steps apart."""
    numbers = [stride.number or 0 for stride in x.strides]
    moving = [d for d, stride in enumerate(numbers) if stride and sizes[d].number]
    places = sorted((d for d in moving if parallel[d] and d != outs), key=lambda d: numbers[d])
    if not places or x.depends_on(outs):
        return None
    columns, *others = places
    step, count = numbers[columns], sizes[columns].at(1)
    if step > _MOST_STEPS:
        return None
    rows = next(iter(others), None)
    if rows is None or numbers[rows] % step or numbers[rows] > _MOST_PITCH * step**2 * count:
        return Plane(None, columns, step, count, count)
    pitch = numbers[rows] // step
    return Plane(rows, columns, step, pitch, (sizes[rows].at(1) - 1) * -(-pitch // step) + count)


def dotted(recipe: Recipe, sums: Sums, places: int, group: int = BYTES) -> float:
    """Cycles by dot products of so many factors: as many as there are of these."""
    vectors = -(-sums.outs // recipe.lanes)
    each = recipe.slow_words if group == WORDS else 1
    return sums.window * places * -(-sums.channels // group) * vectors * each


def tiled(recipe: Recipe, sums: Sums, rows: int, columns: int) -> float:
    """The same by tiles of integers, for windows of 3×3 a step apart."""
    tiles = -(-rows // INTEGERS.step) * -(-columns // INTEGERS.step)
    vectors = -(-sums.outs // recipe.lanes)
    moved = -(-sums.channels // recipe.lanes) + vectors
    once = dotted(recipe, Sums(sums.outs, sums.channels, INTEGERS.places), 1, WORDS)
    near = INTEGERS.places * WORDS * sums.channels * sums.outs <= _NEAR
    return once * (tiles + (_READ if near else _READ_FAR)) + tiles * moved * _CHANGES


def places_of(program: Program, op: Operation, image: SSAValue) -> Places | None:
    """The places next to each other in an image that shall lie in a row, if an op is a sum of small
    integers that is to be additions."""
    product = _product(program, op, image)
    if product is None or not product.pays(program, in_planes=True):
        return None
    if any(_is_depthwise(*other) for other in _near(image, *op.results)):
        return None
    others = (other for other in _near(image) if other[0] is not op)
    if product.pays(program, in_planes=False) or any(_adds_alone(program, *o) for o in others):
        return product.places
    return None


class _Product(NamedTuple):
    """Sums of products of an image with known weights that a buffer holds, in loops over them."""

    sizes: Sequence[Size]
    parallel: Sequence[bool]
    x: Access
    held: Buffer
    weights: Array
    outs: int
    axes: tuple[int, ...]

    @property
    def plane(self) -> Plane | None:
        """The places of the result."""
        return plane_of(self.sizes, self.parallel, self.x, self.outs)

    @property
    def places(self) -> Places | None:
        """The places of the image."""
        plane = self.plane
        if plane is None:
            return None
        return Places(self.axes, tuple(d for d in (plane.rows, plane.columns) if d is not None))

    def pays(self, program: Program, *, in_planes: bool) -> bool:
        """Whether additions are quicker than the best other way.

        Args:
            program: that is planned.
            in_planes: whether the image has its places in a row anyway.
        """
        sizes, recipe = self.sizes, program.recipe
        plane, known = self.plane, int(np.count_nonzero(self.weights))
        if plane is None or not can_add(recipe) or self.weights.size < _LEAST:
            return False
        if self.weights.min() < -1 or self.weights.max() > 1 or _LEAST_CODE * known > _MOST_CODE:
            return False
        # In which order weights lie makes no difference to what they cost.
        trits = self.weights.reshape(sizes[self.outs].at(1), -1)
        summed = [d for d, kind in enumerate(self.parallel) if not kind]
        channels = sizes[max(summed, key=lambda d: self.x.strides[d].number or 0)].number or 1
        sums = Sums(trits.shape[0], channels, trits.shape[1] // channels)
        columns = sizes[plane.columns].at(1)
        rows = 1 if plane.rows is None else sizes[plane.rows].at(1)
        of_dots, of_tiles = _RATES[recipe.width]
        others = dotted(recipe, sums, rows * columns) / of_dots
        tiles = sums.window == 9 and plane.step == 1 and min(rows, columns) >= INTEGERS.step
        if tiles and program.keeps and channels % WORDS == 0:
            others = min(others, tiled(recipe, sums, rows, columns) / of_tiles)
        if in_planes:
            others += _TURNED * sums.outs * rows * columns
        vectors = -(-plane.places // (recipe.width // 2))
        if self.held not in program.counted:
            program.counted[self.held] = count_of(recipe, trits.astype(np.int8))
        count = program.counted[self.held]
        code = code_of(count)
        chosen = {buffer for pair in program.added for buffer in pair} - {self.held}
        before = sum(code_of(program.counted.get(buffer, 0)) for buffer in chosen)
        if code > _MOST_CODE or before + code > _MOST_IN_ALL:
            return False
        return cost_of(recipe, count, len(trits), vectors) < _LEFT * others


def _product(program: Program, op: Operation, image: SSAValue) -> _Product | None:
    """What an op that reads an image of small integers sums up, if its weights are known."""
    if not program.adds or not isinstance(op, abstract_ops.LinalgStructuredOperation):
        return None
    if image not in op.inputs or len(op.inputs) != 2 or len(op.outputs) != 1:
        return None
    position = 0 if op.inputs[0] is image else 1
    weights = op.inputs[1 - position]
    element = dense_type(image).element_type
    if element not in (i8, i16, i32, UI8) or not program.holds(weights):
        return None
    held = program.view(weights).buffer
    content = held.content
    parallel = [kind == PARALLEL for kind in op.get_iterator_types()]
    if content is None or content.dtype.kind != "i" or all(parallel):
        return None
    maps = [m.data.results for m in op.get_indexing_maps()]
    ordered = [maps[position], maps[1 - position], maps[2]]
    axes = _axes_of_places(image, ordered[0], ordered[1], parallel)
    try:
        views = [_in_order(image, axes), _in_order(weights), _in_order(op.outputs[0])]
        sizes = loop_sizes(views, ordered, len(parallel))
        x, w = (access(v, m, len(parallel)) for v, m in zip(views, ordered[:2], strict=False))
    except RefusedError:
        return None
    outs = [d for d, kind in enumerate(parallel) if kind and w.depends_on(d)]
    known = prod(size.number or 0 for size in views[1].sizes)
    if len(outs) != 1 or known != content.size:
        return None
    return _Product(sizes, parallel, x, held, content, outs[0], axes)


def _axes_of_places(
    value: SSAValue,
    image: Sequence[AffineExpr],
    weights: Sequence[AffineExpr],
    parallel: Sequence[bool],
) -> tuple[int, ...]:
    """The axes of an image whose sizes are known, and along which no weights are."""
    known = {e.position for e in weights if isinstance(e, AffineDimExpr)}
    axes: list[int] = []
    for axis, (expr, size) in enumerate(zip(image, dense_type(value).get_shape(), strict=True)):
        moved = {e.position for e in expr.dfs() if isinstance(e, AffineDimExpr)}
        if size != DYNAMIC and any(parallel[d] and d not in known for d in moved):
            axes.append(axis)
    return tuple(axes)


def _adds_alone(program: Program, op: Operation, image: SSAValue) -> bool:
    """Whether additions pay for an op whatever others do."""
    product = _product(program, op, image)
    return product is not None and product.pays(program, in_planes=False)


def _is_depthwise(op: Operation, image: SSAValue) -> bool:
    """Whether each output is made of some channels of an image and of weights alone, and these
    channels shall lie in a row."""
    if not isinstance(op, abstract_ops.LinalgStructuredOperation) or len(op.inputs) != 2:
        return False
    kinds = [*op.get_iterator_types()]
    read, other = (
        {d for e in m.data.results for d, f in enumerate(linear_form(e, len(kinds))[1]) if f}
        for m in list(op.get_indexing_maps())[:2]
    )
    if op.inputs[0] is not image:
        read, other = other, read
    if not is_known(op.inputs[op.inputs[0] is image]):
        return False
    places = {d for d, kind in enumerate(kinds) if kind == PARALLEL}
    return len(places) < len(kinds) and bool(other & read & places)


def is_known(value: SSAValue) -> bool:
    """Whether a value is a literal, in whatever shape and type."""
    op = value.owner
    while isinstance(op, _SHAPED | UnrealizedConversionCastOp):
        op = op.operands[0].owner
    return is_literal(op) or isinstance(op, arith.ConstantOp)


def _near(*values: SSAValue) -> dict[tuple[Operation, SSAValue], None]:
    """What makes or reads sums of values, or of what is computed of them place by place; and as
    which value."""
    waiting, seen = [*values], set[SSAValue]()
    found: dict[tuple[Operation, SSAValue], None] = {}
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        for op in (value.owner, *(use.operation for use in value.uses)):
            if isinstance(op, upstream.PadOp | _SHAPED):
                waiting += [op.operands[0], op.result]
            elif isinstance(op, linalg.GenericOp) and _maps(op):
                shape = dense_type(op.results[0]).get_shape()
                waiting += [v for v in op.inputs if dense_type(v).get_shape() == shape]
                waiting += op.results
            elif isinstance(op, abstract_ops.LinalgStructuredOperation):
                found |= dict.fromkeys((op, v) for v in op.inputs)
    return found


def _maps(op: linalg.GenericOp) -> bool:
    """Whether an op computes each element of others at the same place."""
    return all(kind == PARALLEL for kind in op.get_iterator_types())


def _in_order(value: SSAValue, last: Sequence[int] = ()) -> View:
    """A tensor whose axes lie in memory as they come, but for the last."""
    sizes = sizes_of(value, [BATCH] * dense_type(value).get_num_dims())
    order = [*(axis for axis in range(len(sizes)) if axis not in last), *last]
    return whole_view(Buffer(dense_type(value).element_type, BATCH), sizes, order)
