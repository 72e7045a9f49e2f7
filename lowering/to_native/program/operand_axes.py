"""Along which axes of an operand of an op elements shall be in a row, for instructions to take.

Not here: copies in which they do (`structured`), what decides that places are in a row
(`conv_costs`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import i8, i16, i32
from xdsl.dialects.linalg import abstract_ops
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr

from ....dialects.spike.types import dense_type
from ....runtime.native.abi.sizes import ONE
from ..linalg.linalg_builder import PARALLEL
from .conv_costs import places_of
from .nests import loop_sizes
from .program import Program
from .views import UI8, View

_LEAST_MET = 8
"""Rows that meet an operand from which on it is worth a copy."""
_LEAST_SUMMED = 4
"""Channels that instructions for sums of products take at once."""

Maps = Sequence[Sequence[AffineExpr]]


def wanted_axes(
    program: Program,
    op: abstract_ops.LinalgStructuredOperation,
    views: Sequence[View],
    maps: Maps,
    position: int,
) -> Sequence[int]:
    """The axes of an operand whose elements shall lie in a row, if any shall, from outside.

    Args:
        program: that is planned.
        op: with known loops.
        views: where its operands stand.
        maps: where in them each iteration is.
        position: of the operand.
    """
    axes = axes_in_row(program, op, op.inputs[position])
    parallel = [kind == PARALLEL for kind in op.get_iterator_types()]
    axes = axes or _met_axis(program, views, maps, parallel, position)
    return axes or _common_axis(program, views, maps, parallel, position)


def axes_in_row(program: Program, op: Operation, value: SSAValue) -> Sequence[int]:
    """The axes of small integers whose elements an op wants in a row, if it does."""
    places = places_of(program, op, value)
    return places.axes if places else _summed_axis(program, op, value)


def _summed_axis(program: Program, op: Operation, value: SSAValue) -> Sequence[int]:
    """The axis of small integers that shall lie in a row: channels that weights are summed over.

    Instructions that add several products at once read neighbours (`dots`).
    """
    if not isinstance(op, abstract_ops.LinalgStructuredOperation) or value not in op.inputs:
        return ()
    element = dense_type(value).element_type
    if not program.blocked or program.recipe.words is None or element not in (i8, i16, i32, UI8):
        return ()
    kinds, maps = [*op.get_iterator_types()], [m.data.results for m in op.get_indexing_maps()]
    others = [n for n, other in enumerate(op.inputs) if other is not value]
    if len(others) != 1 or not program.holds(op.inputs[others[0]]):
        return ()
    if program.view(op.inputs[others[0]]).buffer.content is None:
        return ()
    shared = {e.position for e in maps[others[0]] if isinstance(e, AffineDimExpr)}
    for axis, expr in enumerate(maps[1 - others[0]]):
        if isinstance(expr, AffineDimExpr) and kinds[expr.position] != PARALLEL:
            size = dense_type(value).get_shape()[axis]
            return [axis] if expr.position in shared and size >= _LEAST_SUMMED else ()
    return ()


def _met_axis(
    program: Program, views: Sequence[View], maps: Maps, parallel: Sequence[bool], position: int
) -> Sequence[int]:
    """The axis of a factor that shall lie in a row: the last one of a result, whose elements many
    rows of another factor meet, as keys are met by queries. It spares sums across vectors.
    """
    known = any(view.buffer.content is not None for view in views)
    # Integers are packed where several products are added at once (`packed_factors`).
    small = views[position].element in (i8, i16, i32)
    packs = small and program.recipe.words is not None
    if known or packs or len(views) != 3 or all(parallel) or not maps[-1]:
        return ()
    own, others = (
        {e.position for e in maps[n] if isinstance(e, AffineDimExpr)}
        for n in (position, 1 - position)
    )
    last = maps[-1][-1]
    if not isinstance(last, AffineDimExpr) or last.position not in own - others:
        return ()
    sizes = loop_sizes(views, maps, len(parallel))
    met = prod(sizes[d].number or 0 for d in others - own if parallel[d])
    if met < _LEAST_MET or (sizes[last.position].number or 0) < program.recipe.lanes:
        return ()
    return [[*maps[position]].index(last)]


def _common_axis(
    program: Program, views: Sequence[View], maps: Maps, parallel: Sequence[bool], position: int
) -> Sequence[int]:
    """The axis of one of several operands of a sum, of each of which every iteration takes an
    element of its own: that along which another one has its elements in a row already. Known
    numbers are put in order when the program is compiled.
    """
    if all(parallel) or not program.blocked or views[position].buffer.content is not None:
        return ()
    sizes = loop_sizes(views, maps, len(parallel))
    loops = {d for d, size in enumerate(sizes) if size != ONE}
    in_row: dict[int, int] = {}
    for n, (view, exprs) in enumerate(zip(views[:-1], maps, strict=False)):
        dims = [e.position for e in exprs if isinstance(e, AffineDimExpr)]
        if view.buffer.content is None and len(dims) == len(exprs) and loops <= {*dims}:
            rows = (d for d, s in zip(dims, view.strides, strict=True) if s == ONE and d in loops)
            in_row[n] = next(rows, -1)
    wanted = next((d for d in in_row.values() if d >= 0 and parallel[d]), None)
    if wanted is None or in_row.get(position, wanted) == wanted:
        return ()
    if (sizes[wanted].number or 0) < program.recipe.lanes:
        return ()
    return [[e.position for e in maps[position] if isinstance(e, AffineDimExpr)].index(wanted)]
