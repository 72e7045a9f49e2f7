"""Scheduling of loop nests: which loop runs in vectors, how many results stay in registers.

A rough count of instructions for each choice; the cheapest is taken. Not here: the code (`loops`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects import tensor as upstream
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Operation, SSAValue

from ..kernels.recipes import Recipe
from .combiners import combiners
from .nests import Access, Nest, dependencies
from .sizes import ONE
from .views import View
from .writer import rules

_ASSUMED = 2
"""Iterations of a loop over the batch that a choice counts on."""
_CHAINS = 4
"""Vectors that a sum along a loop is spread over."""


@dataclass(frozen=True)
class Schedule:
    """How a nest becomes code.

    Attributes:
        outer: parallel loops around the tile, from outside to inside.
        vector: the loop that runs in vectors, if one does.
        rows: a parallel loop of which several iterations run at once.
        row_count: how many.
        columns: vectors of the loop `vector` that run at once.
        lanes: elements of a vector.
        across: whether `vector` is a reduction.
    """

    outer: tuple[int, ...]
    vector: int | None
    rows: int | None
    row_count: int
    columns: int
    lanes: int
    across: bool


def schedule(nest: Nest, recipe: Recipe) -> Schedule:
    """The cheapest way."""
    return min(_candidates(nest, recipe), key=lambda c: c[0])[1]


def in_order(nest: Nest) -> Schedule:
    """One element after the other: parallel loops outside, reductions inside."""
    outer = tuple(d for d, parallel in enumerate(nest.parallel) if parallel)
    return Schedule(outer, None, None, 1, 1, 1, False)


def _candidates(nest: Nest, recipe: Recipe) -> list[tuple[float, Schedule]]:
    depends = dependencies(nest)
    commutes = bool(nest.reductions) and combiners(nest) is not None
    choices: list[int | None] = [None]
    for d, parallel in enumerate(nest.parallel):
        if (parallel or commutes) and _vectorizable(nest, depends, d):
            choices.append(d)
    return [_estimated(nest, depends, d, recipe) for d in choices]


def _estimated(
    nest: Nest, depends: Mapping[SSAValue, frozenset[int]], vector: int | None, recipe: Recipe
) -> tuple[float, Schedule]:
    across = vector is not None and not nest.parallel[vector]
    lanes = recipe.lanes if vector is not None else 1
    used = 1.0
    if vector is not None:
        size = nest.sizes[vector].number
        count = _ASSUMED if size is None else max(size, 1)
        used = count / -(-count // lanes)
    work = sum(1 for op in nest.body.ops if _moves(op, depends, vector)) or 1
    repeats = 1.0
    for d in nest.reductions:
        size = nest.sizes[d].number
        repeats *= _ASSUMED if size is None else max(size, 1)
    rows = _best_rows(nest, vector, lanes) if nest.reductions else None
    row_count = recipe.tile_rows if rows is not None else 1
    columns = 1
    if nest.reductions and vector is not None:
        columns = max(1, _CHAINS // row_count) if across else recipe.sums // recipe.tile_rows
    loads = sum(
        _load_cost(a, vector, lanes) / (1 if rows is None or a.depends_on(rows) else row_count)
        for a in nest.reads.values()
    )
    stores = sum(_store_cost(a, vector, lanes) for a in nest.writes)
    if across:
        stores += 2 * lanes.bit_length()
        repeats /= used
        used = 1.0
    cost = ((loads + work) * repeats + stores) / used
    outer = tuple(
        d for d, parallel in enumerate(nest.parallel) if parallel and d not in (vector, rows)
    )
    return cost, Schedule(outer, vector, rows, row_count, columns, lanes, across)


def _moves(op: Operation, depends: Mapping[SSAValue, frozenset[int]], vector: int | None) -> bool:
    """Whether an op is computed anew for each vector."""
    if isinstance(op, arith.ConstantOp | linalg.YieldOp | linalg.IndexOp):
        return False
    return vector is None or any(vector in depends[result] for result in op.results)


def movable(a: Access) -> bool:
    """Whether an operand can be stored in another order: a constant that is read once each."""
    return a.view.buffer.content is not None


def _load_cost(a: Access, vector: int | None, lanes: int) -> float:
    if vector is None or not a.depends_on(vector):
        return 1.0
    return 1.0 if a.strides[vector] == ONE or movable(a) else 2.0 * lanes


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
        if nest.sizes[d].number is None:
            spared /= 2
        if spared > most:
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
