"""Matrix times matrix on panels of 64 weight rows: each lane sums its own row, no sum across lanes.

A byte of weights holds one value of four rows, which are 16 rows apart. They are cut out by masks,
without a shift, into sums of their own: those of field p count 4^p-fold and are divided exactly in
the end. So four values of a row of activations, spread over a register, meet one register of
weights four times. A tile is a few rows of activations by one panel, its sums in registers from the
first value to the last; a few rows only take several steps at once, with sums of their own.

The reduction of a tile runs over segments: pieces of activations of `4 · steps` bytes each that
stand `pitch` bytes apart, while the weights of a panel follow each other without a gap. A linear
layer is one segment. A convolution needs no copy of its windows: a row of a tile is one place of
the output, and each row of the window is a segment of as many values as the kernel is wide times
the channels, rounded up to whole steps. Where the weights of a step are padding they must hold the
code u = 0, so that whatever activations stand there count nothing (a linear layer may pad with any
code, as its padded activations are zero); the raw result is then Σ u·x over the true places, and
the caller subtracts Σ x over these.

Not here: a single row on row-major weights (`gemv`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import llvm
from xdsl.dialects.builtin import i32, i64
from xdsl.ir import SSAValue

from ....runtime.native.abi.linear import PANEL, STEP
from .code import POINTER, Code, Loop, function, vector
from .gemv import FIELDS_OF_FOUR
from .recipes import Recipe
from .scratch import Product

STEP_BYTES = PANEL * STEP // 4
_AHEAD = 4608
"""How far ahead of its use a tile asks for weights, in bytes."""
_BLOCK_BYTES, _MOST_PANELS = 512 << 10, 16
"""Weights that all rows meet before the next are read, and the most panels of them."""

TILE_ARGUMENTS = (
    "weights",
    "x",
    "stride",
    "raw",
    "raw_stride",
    "steps",
    "panels",
    "segments",
    "pitch",
)
"""`weights`: panels, each of `segments · steps · STEP_BYTES` bytes. `x`: prepared activations in
their natural order; row m starts `m · stride` bytes further, segment s `s · pitch` bytes further.
`raw`: int32 results [rows, 64 · panels], rows `raw_stride` elements apart. The other arguments are
int64. `segments · steps · STEP` is at most `MAX_INS`."""


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
    return [_write_tile(recipe, rows) for rows in counts if any(rows % d == 0 for d in digits)]


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


@dataclass(frozen=True)
class _Reduction:
    """Bytes of weights of a segment, the count of segments, bytes between their activations."""

    size: SSAValue
    segments: SSAValue
    pitch: SSAValue


def _write_tile(recipe: Recipe, rows: int) -> llvm.FuncOp:
    tile = _Tile.of(recipe, rows)
    quarter = PANEL // 4

    def body(code: Code, arguments: Sequence[SSAValue]) -> None:
        weights, x, stride, raw, raw_stride, steps, panels, segments, pitch = arguments
        size = code.mul(steps, code.constant(STEP_BYTES))
        shape = _Reduction(size, segments, pitch)
        panel_bytes = code.mul(segments, size)
        lines = [code.at(x, code.mul(stride, code.constant(m))) for m in range(rows)]
        targets = [code.at(raw, code.mul(raw_stride, code.constant(m)), i32) for m in range(rows)]

        def panel(n: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
            start = code.at(weights, code.mul(n, panel_bytes))
            for first in range(0, 4, tile.fields):

                def part(
                    offset: SSAValue, _: Sequence[SSAValue], first: int = first
                ) -> list[SSAValue]:
                    sums = _sums(code, recipe, tile, first, code.at(start, offset), lines, shape)
                    lane = code.add(code.shl(n, 6), code.lshr(offset, 2))
                    for m, target in enumerate(targets):
                        place = code.at(target, lane, i32)
                        for p in range(tile.fields):
                            value = sums[m * tile.fields + p]
                            code.store(value, code.at(place, (first + p) * quarter, i32))
                    return []

                parts = code.constant(STEP_BYTES)
                if recipe.width == STEP_BYTES:
                    part(code.constant(0), [])
                else:
                    code.loop(code.constant(0), parts, recipe.width, part)
            return []

        code.loop(code.constant(0), panels, 1, panel)

    kinds = [POINTER, POINTER, i64, POINTER, i64, i64, i64, i64, i64]
    return function(tile_name(rows), kinds, body)


def _sums(
    code: Code,
    recipe: Recipe,
    tile: _Tile,
    first: int,
    weights: SSAValue,
    lines: Sequence[SSAValue],
    shape: _Reduction,
) -> list[SSAValue]:
    """Σ u·x of each row of activations and each field from `first`, over all segments."""
    count = tile.rows * tile.fields
    together = tile.sets * STEP_BYTES
    whole = code.and_(shape.size, code.constant(-together)) if tile.sets > 1 else shape.size

    def segment(s: SSAValue, sums: Sequence[SSAValue]) -> list[SSAValue]:
        start = code.at(weights, code.mul(s, shape.size))
        moved = code.mul(s, shape.pitch)
        here = [code.at(line, moved) for line in lines]

        def steps(sets: int) -> Loop:
            def step(offset: SSAValue, sums: Sequence[SSAValue]) -> list[SSAValue]:
                result = list(sums)
                base = code.at(start, offset)
                # 64 bytes of weights a step stand against 4 values.
                values = [code.at(line, code.lshr(offset, 4)) for line in here]
                for i in range(sets):
                    added = _step(
                        code,
                        recipe,
                        tile,
                        first,
                        code.at(base, i * STEP_BYTES),
                        [code.at(value, i * STEP) for value in values],
                        result[i * count : (i + 1) * count],
                    )
                    result[i * count : (i + 1) * count] = added
                return result

            return step

        sums = code.loop(code.constant(0), whole, together, steps(tile.sets), sums)
        if tile.sets > 1:
            sums = code.loop(whole, shape.size, STEP_BYTES, steps(1), sums)
        return list(sums)

    zeros = [code.constant(0, vector(i32, recipe.lanes))] * (count * tile.sets)
    sums = code.loop(code.constant(0), shape.segments, 1, segment, zeros)
    while len(sums) > count:
        half = len(sums) // 2
        sums = [code.add(a, b) for a, b in zip(sums[:half], sums[half:], strict=True)]
    fields = [first + k % tile.fields for k in range(count)]
    return [code.ashr(s, 2 * p) if p else s for s, p in zip(sums, fields, strict=True)]


def _step(
    code: Code,
    recipe: Recipe,
    tile: _Tile,
    first: int,
    weights: SSAValue,
    lines: Sequence[SSAValue],
    sums: Sequence[SSAValue],
) -> list[SSAValue]:
    """`sums` with the products of four values of each row added."""
    fours = vector(i32, recipe.lanes)
    packed = code.load(weights, fours)
    code.prefetch(code.at(weights, _AHEAD))
    masks = FIELDS_OF_FOUR[first : first + tile.fields]
    codes = [code.and_(packed, code.constant(mask, fours)) for mask in masks]
    result: list[SSAValue] = []
    for m, line in enumerate(lines):
        values = code.splat(code.load(line, i32), recipe.lanes)
        for p, code_of_field in enumerate(codes):
            result.append(recipe.dot(code, sums[m * tile.fields + p], code_of_field, values))
    return result


def write_panels(code: Code, product: Product) -> None:
    """Results of every row of activations, a block of panels and a tile of rows at a time.

    The tiles of one block follow each other, so that its weights stay in the second-level cache.
    """
    recipe, digits, scratch = product.recipe, product.kind.digits, product.scratch
    first = code.lshr(product.first, 6)
    end = code.lshr(code.add(product.end, code.constant(PANEL - 1)), 6)
    steps = code.lshr(code.add(product.ins, code.constant(STEP - 1)), 2)
    panel_bytes = code.mul(steps, code.constant(STEP_BYTES))
    raw_stride = scratch.raw_stride(product.outs)
    most = recipe.tile_rows // digits
    one = code.constant(1)
    needed = code.udiv(code.add(product.rows, code.constant(most - 1)), code.constant(most))
    tiles = code.maximum(needed, one)
    each = code.udiv(product.rows, tiles)
    larger = code.sub(product.rows, code.mul(each, tiles))
    fitting = code.udiv(code.constant(_BLOCK_BYTES), code.maximum(panel_bytes, one))
    together = code.minimum(code.maximum(fitting, one), code.constant(_MOST_PANELS))
    blocks = code.udiv(code.add(code.sub(end, first), code.sub(together, one)), together)

    def block(b: SSAValue, _: Sequence[SSAValue]) -> Sequence[SSAValue]:
        start = code.add(first, code.mul(b, together))
        stop = code.minimum(code.add(start, together), end)
        panels = code.sub(stop, start)
        weights = code.at(product.weights, code.mul(start, panel_bytes))
        column = code.shl(start, 6)
        raw = scratch.raw(column)
        wanted = code.minimum(code.shl(stop, 6), product.end)

        def tile(t: SSAValue, carried: Sequence[SSAValue]) -> list[SSAValue]:
            m = carried[0]
            extra = code.compare("slt", t, larger)
            rows = code.add(each, code.select(extra, code.constant(1), code.constant(0)))
            x = scratch.row(code.mul(m, code.constant(digits)))
            for count in range(1, most + 1):

                def call(count: int = count) -> None:
                    line = (x, scratch.stride, raw, raw_stride)
                    rest = (steps, panels, one, code.constant(0))
                    code.call(tile_name(count * digits), weights, *line, *rest)

                code.when(code.compare("eq", rows, code.constant(count)), call)
            product.finish(m, rows, column, wanted)
            return [code.add(m, rows)]

        code.loop(code.constant(0), tiles, 1, tile, [code.constant(0)])
        return []

    code.loop(code.constant(0), blocks, 1, block)
