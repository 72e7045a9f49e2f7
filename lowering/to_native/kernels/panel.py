"""GEMM, a matrix times a matrix, on panels of 64 rows of weights: each lane sums its own row.

A byte of weights holds one value of four rows, which are 16 rows apart. They are cut out by masks,
without a shift, into sums of their own: those of field p count 4^p-fold and are divided exactly in
the end. So four values of a row of activations, spread over a register, meet one register of
weights four times. A tile is a few rows of activations by one panel, its sums in registers from the
first value to the last; a few rows only take several steps at once, with sums of their own.

Not here: a single row on row-major weights (`gemv`), tiles of matrix units (`matrix_tile`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import llvm
from xdsl.dialects.builtin import i32, i64
from xdsl.ir import SSAValue

from ....runtime.native.abi.linear import PANEL, STEP
from ..llvm.types import vector
from .code import POINTER, Code
from .even_tiles import EvenTiles
from .matrix_tile import MATRIX_ROWS, MATRIX_TILE, write_matrix_tile, write_permission
from .narrow_block import BLOCK_ROWS, LEAST_ROWS, NARROW_BLOCK, write_narrow_block
from .narrow_tile import write_narrow_tile
from .recipes import Recipe
from .scratch import Product

STEP_BYTES = PANEL * STEP // 4
BLOCK_BYTES, MOST_PANELS = 512 << 10, 16
"""Weights that all rows meet before the next are read, and the most panels of them."""

TILE_ARGUMENTS = ("weights", "x", "stride", "raw", "raw_stride", "steps", "panels")
"""`weights`: panels, each of `steps · STEP_BYTES` bytes. `x`: prepared activations in their natural
order, padded with zeros; row m starts `m · stride` bytes further. `raw`: int32 results [rows,
64 · panels], rows `raw_stride` elements apart. The other arguments are int64. `steps · STEP` is at
most `MAX_INS`."""


def tile_name(rows: int) -> str:
    """The name of the tile function for that many rows, from 1 to `tile_rows` of the recipe."""
    return f"tile_{rows}"


def write_tiles(recipe: Recipe, *digits: int) -> list[llvm.FuncOp]:
    """`tile_<rows>`, see `TILE_ARGUMENTS`, for the counts of rows that a product can ask for.

    Args:
        recipe: the instruction set.
        digits: of the kinds of activations; every count of rows is a multiple of one of them.
    """
    counts = range(1, recipe.tile_rows + 1)
    wanted = [rows for rows in counts if any(rows % d == 0 for d in digits)]
    if recipe.pairs is not None:
        tiles = [write_narrow_tile(recipe, rows, tile_name(rows)) for rows in wanted]
        return [*tiles, *write_narrow_block(recipe)]
    return [_write_tile(recipe, rows) for rows in wanted]


@dataclass(frozen=True)
class _Tile:
    """How the sums of a tile are kept: `fields` of a byte at once, `sets` of sums side by side."""

    rows: int
    fields: int
    sets: int

    @staticmethod
    def of(recipe: Recipe, rows: int) -> _Tile:
        fields = next(count for count in (4, 2, 1) if rows * count <= recipe.sums)
        return _Tile(rows, fields, max(1, min(4, recipe.chains // (rows * fields))))


def _write_tile(recipe: Recipe, rows: int) -> llvm.FuncOp:
    tile = _Tile.of(recipe, rows)
    quarter = PANEL // 4
    code = Code(tile_name(rows), [POINTER, POINTER, i64, POINTER, i64, i64, i64])
    weights, x, stride, raw, raw_stride, steps, panels = code.arguments
    size = code.mul(steps, STEP_BYTES)
    lines = [code.at(x, code.mul(stride, m)) for m in range(rows)]
    targets = [code.at(raw, code.mul(raw_stride, m), i32) for m in range(rows)]
    with code.each(0, panels) as n:
        start = code.at(weights, code.mul(n, size))
        for first in range(0, 4, tile.fields):
            with code.each(0, STEP_BYTES, recipe.width) as offset:
                sums = _sums(code, recipe, tile, first, code.at(start, offset), lines, size)
                lane = code.add(code.shl(n, 6), code.lshr(offset, 2))
                for m, target in enumerate(targets):
                    place = code.at(target, lane, i32)
                    for p in range(tile.fields):
                        value = sums[m * tile.fields + p]
                        code.store(value, code.at(place, (first + p) * quarter, i32))
    return code.finish()


def _sums(
    code: Code,
    recipe: Recipe,
    tile: _Tile,
    first: int,
    weights: SSAValue,
    lines: Sequence[SSAValue],
    size: SSAValue,
) -> list[SSAValue]:
    """Σ u·x of each row of activations and each field from `first`; `size` bytes of weights."""
    count, fours = tile.rows * tile.fields, vector(i32, recipe.lanes)

    def added(at: SSAValue, values: Sequence[SSAValue], sums: Sequence[SSAValue]) -> list[SSAValue]:
        """`sums` with the products of four values of each row."""
        packed = code.load(at, fours)
        codes = [recipe.field(code, packed, first + p) for p in range(tile.fields)]
        result: list[SSAValue] = []
        for value in values:
            spread = code.splat(code.load(value, i32), recipe.lanes)
            those = sums[len(result) : len(result) + tile.fields]
            both = zip(those, codes, strict=True)
            result += [recipe.dot(code, total, field, spread) for total, field in both]
        return result

    together = tile.sets * STEP_BYTES
    whole = code.and_(size, -together) if tile.sets > 1 else size
    sums: Sequence[SSAValue] = [code.constant(0, fours)] * (count * tile.sets)
    spans = [(0, whole, tile.sets), (whole, size, 1)][: 2 if tile.sets > 1 else 1]
    for first_byte, end, sets in spans:
        with code.loop(first_byte, end, sets * STEP_BYTES, sums) as step:
            base = code.at(weights, step.index)
            # 64 bytes of weights a step stand against 4 values.
            values = [code.at(line, code.lshr(step.index, 4)) for line in lines]
            result = list(step.values)
            for i in range(sets):
                here = slice(i * count, (i + 1) * count)
                at = code.at(base, i * STEP_BYTES)
                places = [code.at(value, i * STEP) for value in values]
                result[here] = added(at, places, result[here])
            step.values = result
        sums = step.values
    while len(sums) > count:
        half = len(sums) // 2
        sums = [code.add(a, b) for a, b in zip(sums[:half], sums[half:], strict=True)]
    fields = [first + k % tile.fields for k in range(count)]
    return [recipe.field_sum(code, s, p) for s, p in zip(sums, fields, strict=True)]


def write_panel_tiles(recipe: Recipe, *digits: int) -> list[llvm.FuncOp]:
    """What `write_panels` calls, for activations of so many digits."""
    matrices = [write_matrix_tile(recipe)] if recipe.matrices else []
    return [*write_tiles(recipe, *digits), *matrices]


def write_panels(code: Code, product: Product) -> None:
    """Results of every row of activations, a block of panels and a tile of rows at a time.

    The tiles of one block follow each other, so that its weights stay in the second-level cache.
    """
    recipe, count = product.recipe, code.mul(product.rows, product.kind.digits)
    if recipe.matrices:
        many, most, write = write_permission(code, count), MATRIX_ROWS, _matrix_tile
    elif recipe.pairs is not None:
        many, most, write = code.icmp("sge", count, LEAST_ROWS), BLOCK_ROWS, _narrow_block
    else:
        _write_panels(code, product, _vector_tile, recipe.tile_rows)
        return
    with code.when(many):
        _write_panels(code, product, write, most)
    with code.when(code.xor(many, 1)):
        _write_panels(code, product, _vector_tile, recipe.tile_rows)


@dataclass(frozen=True)
class _Place:
    """A block of panels by a tile of rows: what is multiplied, and its first row and output."""

    weights: SSAValue
    panel_bytes: SSAValue
    steps: SSAValue
    panels: SSAValue
    m: SSAValue
    rows: SSAValue
    column: SSAValue


def _write_panels(
    code: Code, product: Product, write: Callable[[Code, Product, _Place], None], tile_rows: int
) -> None:
    first = code.lshr(product.first, 6)
    end = code.lshr(code.add(product.end, PANEL - 1), 6)
    steps = code.lshr(code.add(product.ins, STEP - 1), 2)
    panel_bytes = code.mul(steps, STEP_BYTES)
    one = code.constant(1)
    tiles = EvenTiles(code, product.rows, tile_rows // product.kind.digits)
    fitting = code.udiv(BLOCK_BYTES, code.maximum(panel_bytes, one))
    together = code.minimum(code.maximum(fitting, one), MOST_PANELS)
    blocks = code.udiv(code.add(code.sub(end, first), code.sub(together, one)), together)
    with code.each(0, blocks) as b:
        start = code.add(first, code.mul(b, together))
        stop = code.minimum(code.add(start, together), end)
        panels = code.sub(stop, start)
        weights = code.at(product.weights, code.mul(start, panel_bytes))
        with tiles.each() as (m, rows):
            here = _Place(weights, panel_bytes, steps, panels, m, rows, code.shl(start, 6))
            write(code, product, here)


def _vector_tile(code: Code, product: Product, here: _Place) -> None:
    scratch, digits = product.scratch, product.kind.digits
    x, raw = scratch.row(code.mul(here.m, digits)), scratch.raw(here.column)
    wanted = code.minimum(code.add(here.column, code.shl(here.panels, 6)), product.end)
    line = (x, scratch.stride, raw, scratch.raw_stride(product.outs))
    for count in code.cases(here.rows, range(1, product.recipe.tile_rows // digits + 1)):
        code.call(tile_name(count * digits), here.weights, *line, here.steps, here.panels)
    product.finish(here.m, here.rows, here.column, wanted)


def _matrix_tile(code: Code, product: Product, here: _Place) -> None:
    def write(weights: SSAValue, x: SSAValue, raw: SSAValue, count: SSAValue, _: SSAValue) -> None:
        code.call(MATRIX_TILE, weights, x, product.scratch.stride, raw, here.steps, count)

    _each_panel(code, product, here, MATRIX_ROWS, write)


def _narrow_block(code: Code, product: Product, here: _Place) -> None:
    def write(
        weights: SSAValue, x: SSAValue, raw: SSAValue, count: SSAValue, outs: SSAValue
    ) -> None:
        places = weights, x, product.scratch.stride, raw, PANEL
        code.call(NARROW_BLOCK, *places, here.steps, count, outs)

    _each_panel(code, product, here, BLOCK_ROWS, write)


def _each_panel(
    code: Code,
    product: Product,
    here: _Place,
    most: int,
    write: Callable[[SSAValue, SSAValue, SSAValue, SSAValue, SSAValue], None],
) -> None:
    """Panel by panel, raw results on the stack.

    `write` is given weights, activations, where the results go, digit rows, outputs wanted.
    """
    digits = product.kind.digits
    x = product.scratch.row(code.mul(here.m, digits))
    result = code.stack(most * PANEL * 4)
    with code.each(0, here.panels) as p:
        weights = code.at(here.weights, code.mul(p, here.panel_bytes))
        column = code.add(here.column, code.shl(p, 6))
        wanted = code.minimum(code.add(column, PANEL), product.end)
        write(weights, x, result, code.mul(here.rows, digits), code.sub(wanted, column))
        raw = code.at(result, code.sub(0, column), i32), PANEL
        product.finish(here.m, here.rows, column, wanted, raw)
