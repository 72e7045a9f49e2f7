"""Scheduling of loop nests: which loop runs in vectors, how many results stay in registers.

A rough count of instructions for each choice; the cheapest is taken. Not here: the code (`loops`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Literal

from xdsl.dialects import arith
from xdsl.dialects import tensor as upstream
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Operation, SSAValue

from ....runtime.native.abi.sizes import ONE, TWO, Size
from ..kernels.recipes import Recipe
from ..llvm.convert_math import FORMULAS
from .combiners import combiners
from .nests import Access, Nest, dependencies
from .views import View
from .writer import rules

_ASSUMED = 2
"""Iterations of a loop over the batch that a choice counts on."""
_CHAINS = 4
"""Vectors that a sum along a loop is spread over, or whose formulas take turns."""
_TILES = {64: (24, 4), 32: (12, 2), 16: (8, 2)}
"""By the bytes of a vector, the sums that a tile may hold in registers, and in how many columns."""
_LONG = 256
"""Ops that a turn over a tile may have: long bodies keep a processor busy by a few sums."""
_NEAR = 256 << 10
"""Bytes of weights that stay in a near cache while rows of results meet them one by one."""

_UNROLLED, _SHORT_TILE = 9, 4
"""Iterations of reductions that are written one after the other, and the rows of a tile then, of
one column: what neighbours read stays in registers."""

UNROLLED, _FEW = 4, 16
"""An innermost reduction of so few iterations is written one after the other; one of fewer than the
other number is not worth the loop."""
_WINDOW = 8
"""Iterations that may be written one after the other for what neighbours share along them."""
_SECOND = 3.0
"""Instructions for a vector of every second element, in a nest without weights that make several
results of an element; with them vectors along these are the better ones."""

ENOUGH_THINGS = 12
"""Things that threads can share out evenly."""

Part = Literal["outer", "rows", "columns"]


@dataclass(frozen=True)
class Schedule:
    """How a nest becomes code.

    Attributes:
        outer: parallel loops around the tile, from outside to inside.
        vector: the loop that runs in vectors, if one does.
        rows: a parallel loop of which several iterations run at once; without reductions one along
            which operands lie in a row that do not along `vector`.
        row_count: how many.
        columns: vectors of the loop `vector` that run at once.
        lanes: elements of a vector.
        across: whether `vector` is a reduction.
        reductions: the loops that add up, from outside to inside.
        parts: what stands around what: the loops `outer`, that over `rows`, that in vectors.
        window: an innermost reduction that is written one after the other, since rows of a tile
            meet the same vectors along it, which then stay in registers.
        joins: whether the few elements that are left over are computed beside the last whole
            vectors, as one long formula alone would leave the processor waiting.
    """

    outer: tuple[int, ...]
    vector: int | None
    rows: int | None
    row_count: int
    columns: int
    lanes: int
    across: bool
    reductions: tuple[int, ...] = ()
    parts: tuple[Part, ...] = ("outer", "columns", "rows")
    window: int | None = None
    joins: bool = False

    @property
    def parallel(self) -> dict[int, int]:
        """The parallel loops, and how many turns of each are done together, which is never cut."""
        each = dict.fromkeys(self.outer, 1)
        if self.rows is not None:
            each[self.rows] = self.row_count
        if self.vector is not None and not self.across:
            each[self.vector] = self.lanes * self.columns
        return each


def schedule(nest: Nest, recipe: Recipe) -> Schedule:
    """The cheapest way."""
    return min(_candidates(nest, recipe), key=lambda c: c[0])[1]


def in_order(nest: Nest) -> Schedule:
    """One element after the other: parallel loops outside, reductions inside."""
    outer = tuple(d for d, parallel in enumerate(nest.parallel) if parallel)
    return Schedule(outer, None, None, 1, 1, 1, False, tuple(nest.reductions))


def _candidates(nest: Nest, recipe: Recipe) -> list[tuple[float, Schedule]]:
    depends = dependencies(nest)
    commutes = bool(nest.reductions) and combiners(nest) is not None
    choices: list[int | None] = [None]
    for d, parallel in enumerate(nest.parallel):
        if (parallel or commutes) and _vectorizable(nest, depends, d):
            choices.append(d)
    return [_estimated(nest, depends, d, recipe, commutes=commutes) for d in choices]


def _estimated(
    nest: Nest,
    depends: Mapping[SSAValue, frozenset[int]],
    vector: int | None,
    recipe: Recipe,
    *,
    commutes: bool,
) -> tuple[float, Schedule]:
    """The way that has a loop in vectors, and what it costs."""
    across = vector is not None and not nest.parallel[vector]
    lanes = recipe.lanes if vector is not None else 1
    ops = [op for op in nest.body.ops if not _expands(nest, op)]
    work = sum(_moves(op, depends, vector) for op in ops) or 1
    rows = _rows(nest, vector, lanes, across=across)
    row_count = 1 if rows is None else recipe.tile_rows if nest.reductions else lanes
    columns, joins = 1, False
    if nest.reductions and vector is not None:
        columns = max(1, _CHAINS // row_count)
        if not across:
            row_count, columns = _tile(nest, vector, rows, recipe, work)
    elif vector is not None and row_count == 1 and any(isinstance(op, FORMULAS) for op in ops):
        columns = min(_CHAINS, -(-(nest.sizes[vector].number or lanes) // lanes))
        joins = True
    outer = tuple(
        d for d, parallel in enumerate(nest.parallel) if parallel and d not in (vector, rows)
    )
    reductions = _inner_last(nest) if commutes else tuple(nest.reductions)
    shared = None if rows is None or across else shared_parts(nest).get(rows)
    if shared is not None:
        reductions = (shared, *(d for d in reductions if d != shared))
    parts = _parts(nest, vector)
    plan = Schedule(
        outer, vector, rows, row_count, columns, lanes, across, reductions, parts, joins=joins
    )
    window = _window(nest, vector, rows) if commutes and not across else None
    return _cost(nest, plan, work), plan if window is None else _by_window(plan, window, recipe)


def _rows(nest: Nest, vector: int | None, lanes: int, *, across: bool) -> int | None:
    """The loop of which several iterations run at once, beside that in vectors."""
    rows = _best_rows(nest, vector, lanes) if nest.reductions else turned(nest, vector)
    if rows is None and vector is not None and not across:
        rows = next((d for d in shared_parts(nest) if d != vector), None)
    return rows


def _cost(nest: Nest, plan: Schedule, work: int) -> float:
    """What an element takes: loads, stores, and the ops of a vector, which are `work`."""
    vector, rows, lanes = plan.vector, plan.rows, plan.lanes
    used = 1.0
    if vector is not None:
        count = _turns(nest.sizes[vector])
        used = count / -(-count // lanes)
    repeats = float(prod(_turns(nest.sizes[d]) for d in nest.reductions))
    turn = rows if not nest.reductions else None
    weighted = any(_makes_more(nest, a) for a in nest.reads.values())
    loads = sum(
        _load_cost(a, vector, lanes, turn, weighted=weighted)
        / (1 if rows is None or a.depends_on(rows) else plan.row_count)
        / (1 if vector is None or a.depends_on(vector) else plan.columns)
        for a in nest.reads.values()
    )
    stores = sum(_store_cost(a, vector, lanes) for a in nest.writes)
    if plan.across:
        stores += 2 * lanes.bit_length()
        repeats /= used
        used = 1.0
    return ((loads + work) * repeats + stores) / used


def _turns(size: Size) -> int:
    """How often a loop runs, or so many times where that is not known."""
    return _ASSUMED if size.number is None else max(size.number, 1)


def _by_window(plan: Schedule, window: int, recipe: Recipe) -> Schedule:
    """With a window innermost: sums and as many vectors that are read stay in registers."""
    most = (recipe.registers - 1) // 2
    return replace(
        plan,
        columns=min(plan.columns, max(1, most // plan.row_count)),
        row_count=min(plan.row_count, most),
        reductions=(*(d for d in plan.reductions if d != window), window),
        window=window,
    )


def _window(nest: Nest, vector: int | None, rows: int | None) -> int | None:
    """The reduction along which neighbouring rows meet the same vectors, if it is a short one."""
    if vector is None or rows is None or unrolled(nest):
        return None
    reads = [a for a in nest.reads.values() if a.depends_on(vector) and a.depends_on(rows)]
    return next(
        (
            d
            for d in nest.reductions
            if (nest.sizes[d].number or _FEW) <= _WINDOW
            if any((a.strides[rows].number or 0) in _multiples(a, d, nest) for a in reads)
        ),
        None,
    )


def _tile(nest: Nest, vector: int, rows: int | None, recipe: Recipe, work: int) -> tuple[int, int]:
    """Rows and columns of a tile, so that little is left over; `work` are the ops of a vector."""
    sums, most = _TILES[64 if recipe.registers > 16 else recipe.width]
    sums = max(1, min(sums, _LONG // work))
    most = min(most, sums)
    if unrolled(nest):
        sums, most = _SHORT_TILE, 1
    size = nest.sizes[vector].number
    vectors = most if size is None else -(-size // recipe.lanes)
    columns = most + 1 if most > 1 and vectors % most and not vectors % (most + 1) else most
    columns = min(columns, max(1, vectors))
    if rows is None:
        return 1, columns
    count, size = min(sums // columns, 8), nest.sizes[rows].number
    if size:
        count = -(-size // -(-size // count))
    return count, columns


def unrolled(nest: Nest) -> bool:
    """Whether the reductions are so few that no loop is left of them."""
    sizes = [nest.sizes[d].number for d in nest.reductions]
    return None not in sizes and prod(size or 0 for size in sizes) <= _UNROLLED


def shared_parts(nest: Nest) -> dict[int, int]:
    """Parallel loops whose turns meet some of the same elements, and the reduction that moves along
    them: windows of pools that overlap. A result is then made of parts that neighbours share.
    """
    if not unrolled(nest) or combiners(nest) is None or len(nest.body.ops) != 2:
        return {}
    (a,) = nest.reads.values()
    return {
        d: r
        for r in nest.reductions
        for d, parallel in enumerate(nest.parallel)
        if parallel and (a.strides[d].number or 0) > 0 < (a.strides[r].number or 0)
        if (a.strides[d].number or 0) in _multiples(a, r, nest)
    }


def _multiples(a: Access, reduction: int, nest: Nest) -> range:
    """The distances of the elements that a reduction meets from the first one."""
    stride, size = a.strides[reduction].number or 0, nest.sizes[reduction].number or 0
    return range(stride, stride * size, stride) if stride else range(0)


def _inner_last(nest: Nest) -> tuple[int, ...]:
    """The reductions; last the one along which operands lie in a row, but for constants."""
    reads = [a for a in nest.reads.values() if not movable(a)]

    def distance(d: int) -> int:
        strides = [a.strides[d].number or 0 for a in reads]
        return max((abs(stride) for stride in strides), default=0)

    order = sorted(nest.reductions, key=distance, reverse=True)
    sizes = [nest.sizes[d].number for d in order]
    if len(order) > 1 and (sizes[0] or _FEW) <= UNROLLED < _FEW > (sizes[-1] or _FEW):
        order.append(order.pop(0))
    return tuple(order)


def _parts(nest: Nest, vector: int | None) -> tuple[Part, ...]:
    """Many weights are read once, a few while they are in the cache."""
    weights = [
        a.view.buffer.size.number or 0
        for a in nest.reads.values()
        if movable(a) and vector is not None and a.depends_on(vector)
    ]
    if not nest.reductions or not weights:
        return Schedule.parts
    return ("columns", "outer", "rows") if sum(weights) > _NEAR else ("outer", "rows", "columns")


def _moves(op: Operation, depends: Mapping[SSAValue, frozenset[int]], vector: int | None) -> bool:
    """Whether an op is computed anew for each vector."""
    if isinstance(op, arith.ConstantOp | linalg.YieldOp | linalg.IndexOp):
        return False
    return vector is None or any(vector in depends[result] for result in op.results)


def _expands(nest: Nest, op: Operation) -> bool:
    """Whether an op makes floats of known integers: they stand as floats where that is quicker."""
    a = nest.reads.get(op.operands[0]) if isinstance(op, arith.SIToFPOp) else None
    return a is not None and movable(a)


def _makes_more(nest: Nest, weights: Access) -> bool:
    """Whether weights make several results of what the other operands hold."""
    others = [a for a in nest.reads.values() if not movable(a)]
    return movable(weights) and any(
        parallel and weights.depends_on(d) and not any(a.depends_on(d) for a in others)
        for d, parallel in enumerate(nest.parallel)
    )


def movable(a: Access) -> bool:
    """Whether an operand can be stored in another order: a constant that is read once each."""
    return a.view.buffer.content is not None


def turned(nest: Nest, vector: int | None) -> int | None:
    """The loop along which most of what is not in a row along `vector` is, without reductions."""
    if vector is None:
        return None
    reads = [a for a in nest.reads.values() if a.depends_on(vector) and a.strides[vector] != ONE]
    found = [
        sum(a.strides[d] == ONE for a in reads) if parallel and d != vector else 0
        for d, parallel in enumerate(nest.parallel)
    ]
    return found.index(max(found)) if any(found) else None


def _load_cost(
    a: Access, vector: int | None, lanes: int, turn: int | None = None, *, weighted: bool = True
) -> float:
    if vector is None or not a.depends_on(vector):
        return 1.0
    if turn is not None and a.strides[turn] == ONE:
        return 1.0 + lanes.bit_length()
    if not weighted and a.strides[vector] == TWO:
        return _SECOND
    return 1.0 if a.strides[vector] == ONE or a.panels or movable(a) else 2.0 * lanes


def _store_cost(a: Access, vector: int | None, lanes: int) -> float:
    if vector is None or not a.depends_on(vector):
        return 1.0
    return 1.0 if a.strides[vector] == ONE else 2.0 * lanes


def _best_rows(nest: Nest, vector: int | None, lanes: int) -> int | None:
    """The parallel loop beside `vector` that spares the most loads when unrolled."""
    best, most = None, 0.0
    for d, parallel in enumerate(nest.parallel):
        if not parallel or d == vector:
            continue
        spared = sum(
            _load_cost(a, vector, lanes) for a in nest.reads.values() if not a.depends_on(d)
        )
        size = nest.sizes[d].number
        spared *= 0.5 if size is None else 1 - 1 / size
        if spared >= most > 0 or spared > most:
            best, most = d, spared
    return best


def _vectorizable(nest: Nest, depends: Mapping[SSAValue, frozenset[int]], vector: int) -> bool:
    """Whether every op of the body that changes along a loop can run on vectors."""
    for op in nest.body.ops:
        if isinstance(op, linalg.YieldOp | linalg.IndexOp | arith.ConstantOp):
            continue
        if not any(vector in depends[result] for result in op.results):
            continue
        if isinstance(op, upstream.ExtractOp):
            if element_axis(nest, op, depends, vector) is None:
                return False
        elif type(op) not in rules():
            return False
    return True


def element_axis(
    nest: Nest,
    op: upstream.ExtractOp,
    depends: Mapping[SSAValue, frozenset[int]],
    vector: int,
) -> int | None:
    """The axis along which an element is read at the counter of the vector loop itself.

    `None` if the place changes along the loop in another way.
    """
    moving = [axis for axis, i in enumerate(op.indices) if vector in depends.get(i, frozenset())]
    if len(moving) != 1:
        return None
    index = op.indices[moving[0]].owner
    if not isinstance(index, linalg.IndexOp) or nest.index[index.dim.value.data] != vector:
        return None
    return moving[0] if isinstance(nest.captured[op.tensor], View) else None
