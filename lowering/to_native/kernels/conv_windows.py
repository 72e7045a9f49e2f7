"""Sums over windows of a grid: Σ of the sums of channels, or the products of a depthwise layer.

Not here: how a grid is filled (`conv_prepare`, `conv_planes`, `depthwise`).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import f32, i32
from xdsl.ir import Attribute, SSAValue

from .code import Code, element_of, lanes, suffix, vector
from .conv_memory import Grid


def write_windows(
    code: Code,
    grid: Grid,
    source: SSAValue,
    target: SSAValue,
    kind: Attribute,
    first: SSAValue,
    end: SSAValue,
    weights: Sequence[SSAValue] | None = None,
) -> None:
    """Put Σ over the window for results into `target`: int32 or float32, with void results.

    These are the results from `first` to `end`, void ones counted, and up to a vector more.

    `weights` has one scalar of the grid's element for each tap; without, all taps count once.
    Numbers and vectors of them (`kind`) are int16, whose sums must fit, int32 or float32.
    """
    g, width, element = grid.geometry, lanes(kind), element_of(kind)
    assert element is not None
    rows, columns = g.kernel
    offsets = [grid.offset(r, c) for r in range(rows) for c in range(columns)]
    factors = None if weights is None else [code.splat(weight, width) for weight in weights]

    def step(q: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
        here = code.at(source, q, element)
        total: SSAValue | None = None
        for tap, offset in enumerate(offsets):
            value = code.load(code.at(here, offset, element), kind)
            factor = None if factors is None else factors[tap]
            total = _added(code, total, value, factor)
        assert total is not None
        place = code.at(target, q, i32)
        if element in (f32, i32):
            code.store(total, place)
            return []
        for lane in (0, width // 2):
            half = code.shuffle(total, total, range(lane, lane + width // 2))
            code.store(code.widen(half, vector(i32, width // 2)), code.at(place, lane, i32))
        return []

    code.loop(first, end, width, step)


def _added(
    code: Code, total: SSAValue | None, value: SSAValue, factor: SSAValue | None
) -> SSAValue:
    if element_of(value.type) == f32:
        assert factor is not None
        if total is None:
            return code.fmul(value, factor)
        name = f"llvm.fmuladd.{suffix(value.type)}"
        return code.intrinsic(name, [value, factor, total], value.type)
    product = value if factor is None else code.mul(value, factor)
    return product if total is None else code.add(total, product)


def write_packed(
    code: Code,
    grid: Grid,
    source: SSAValue,
    target: SSAValue,
    width: int,
    first: SSAValue,
    end: SSAValue,
) -> None:
    """Rows of results without the void ones, as vectors of `width` numbers of 32 bits.

    The rows from `first` to `end`. A vector that goes beyond its row is overwritten by the next.
    """
    columns = grid.geometry.out_width

    def row(r: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
        here = code.at(source, code.mul(r, code.constant(grid.pitch)), i32)
        there = code.at(target, code.mul(r, code.constant(columns)), i32)

        def step(j: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
            values = code.load(code.at(here, j, i32), vector(i32, width))
            code.store(values, code.at(there, j, i32))
            return []

        code.loop(code.constant(0), code.constant(columns), width, step)
        return []

    code.loop(first, end, 1, row)
