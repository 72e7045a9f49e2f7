"""Sums over windows of a grid: Σ of the sums of channels, or the products of a depthwise layer.

Not here: how a grid is filled (`conv_prepare`, `conv_planes`, `depthwise`).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import f32, i16, i32
from xdsl.ir import Attribute, SSAValue

from ..llvm.types import element as element_of
from ..llvm.types import vector
from .code import Code, Index, lanes
from .conv_memory import Grid


def write_windows(
    code: Code,
    grid: Grid,
    source: SSAValue,
    target: SSAValue,
    kind: Attribute,
    first: Index,
    end: Index,
    weights: Sequence[SSAValue] | None = None,
) -> None:
    """Put Σ over the window for results into `target`: int32 or float32, with void results.

    These are the results from `first` to `end`, void ones counted, and up to a vector more.

    `weights` has one scalar of the grid's element for each tap; without, all taps count once.
    Numbers and vectors of them (`kind`) are int16, whose sums must fit, int32 or float32.
    """
    g, width, element = grid.geometry, lanes(kind), element_of(kind)
    rows, columns = g.kernel
    offsets = [grid.offset(r, c) for r in range(rows) for c in range(columns)]
    factors = None if weights is None else [code.splat(weight, width) for weight in weights]
    with code.each(first, end, width) as q:
        here = code.at(source, q, element)
        total: SSAValue | None = None
        for tap, offset in enumerate(offsets):
            value = code.load(code.at(here, offset, element), kind)
            total = _added(code, total, value, None if factors is None else factors[tap])
        assert total is not None
        parts = [total]
        if element == i16:
            half = width // 2
            halves = (code.shuffle(total, total, range(lane, lane + half)) for lane in (0, half))
            parts = [code.resize(part, vector(i32, half)) for part in halves]
        for n, part in enumerate(parts):
            code.store(part, code.at(code.at(target, q, i32), n * width // 2, i32))


def _added(
    code: Code, total: SSAValue | None, value: SSAValue, factor: SSAValue | None
) -> SSAValue:
    if element_of(value.type) == f32:
        assert factor is not None
        if total is None:
            return code.fmul(value, factor)
        return code.overloaded("fmuladd", value, factor, total)
    product = value if factor is None else code.mul(value, factor)
    return product if total is None else code.add(total, product)


def write_packed(
    code: Code,
    grid: Grid,
    source: SSAValue,
    target: SSAValue,
    width: int,
    first: Index,
    end: Index,
) -> None:
    """Rows of results without the void ones, as vectors of `width` numbers of 32 bits.

    The rows from `first` to `end`. A vector that goes beyond its row is overwritten by the next.
    """
    columns = grid.geometry.out_width
    with code.each(first, end) as r:
        here = code.at(source, code.mul(r, grid.pitch), i32)
        there = code.at(target, code.mul(r, columns), i32)
        with code.each(0, columns, width) as j:
            values = code.load(code.at(here, j, i32), vector(i32, width))
            code.store(values, code.at(there, j, i32))
