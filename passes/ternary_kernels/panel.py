"""Matrix times matrix on panels of 64 weight rows: each lane sums its own row, no sum across lanes.

A tile is a few rows of activations by a few registers of weights, its sums in registers from the
first value to the last. Rows are shared out evenly among the tiles, and the tiles of one block of
panels follow each other, so that the weights stay in the second-level cache. Not here: a single
row on row-major weights (`gemv`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import llvm
from xdsl.dialects.builtin import i8, i16, i32, i64
from xdsl.ir import SSAValue

from ...ir.native_abi import PANEL, STEP
from .code import POINTER, Code, function, lanes, vector
from .gemv import FIELDS, combine_fields
from .recipes import Recipe
from .scratch import Scratch

_STEP_BYTES = PANEL * STEP // 4
_PANELS_TOGETHER = 8
_AHEAD = 4096
"""How far ahead of its use a single row asks for weights, in bytes."""

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
"""`weights`: panels, each of `segments · steps · 256` bytes. `x`: prepared activations in their
natural order; row m starts `m · stride` bytes further, segment s `s · pitch` bytes further. `raw`:
int32 results [rows, 64 · panels], rows `raw_stride` elements apart. The other arguments are int64.
`segments · steps · 16` is at most `MAX_INS`."""


def write_tiles(recipe: Recipe) -> list[llvm.FuncOp]:
    """`tile_<rows>` for each count of rows, see `TILE_ARGUMENTS`."""
    return [_write_tile(recipe, rows) for rows in range(1, recipe.tile_rows + 1)]


def _write_tile(recipe: Recipe, rows: int) -> llvm.FuncOp:
    def body(code: Code, arguments: Sequence[SSAValue]) -> None:
        weights, x, stride, raw, raw_stride, steps, panels, segments, pitch = arguments
        size = code.mul(steps, code.constant(_STEP_BYTES))
        shape = _Reduction(size, segments, pitch)
        panel_bytes = code.mul(segments, size)
        lines = [code.at(x, code.mul(stride, code.constant(m))) for m in range(rows)]
        targets = [code.at(raw, code.mul(raw_stride, code.constant(m)), i32) for m in range(rows)]
        across = recipe.tile_vectors * recipe.width

        def panel(n: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
            start = code.at(weights, code.mul(n, panel_bytes))

            def part(offset: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
                sums = _sums(code, recipe, code.at(start, offset), lines, shape)
                lane = code.add(code.shl(n, 6), code.lshr(offset, 2))
                for m, target in enumerate(targets):
                    place = code.at(target, lane, i32)
                    for j in range(recipe.tile_vectors):
                        value = sums[m * recipe.tile_vectors + j]
                        code.store(value, code.at(place, j * recipe.lanes, i32))
                return []

            code.loop(code.constant(0), code.constant(_STEP_BYTES), across, part)
            return []

        code.loop(code.constant(0), panels, 1, panel)

    kinds = [POINTER, POINTER, i64, POINTER, i64, i64, i64, i64, i64]
    return function(f"tile_{rows}", kinds, body)


@dataclass(frozen=True)
class _Reduction:
    """Bytes of weights of a segment, the count of segments, bytes between their activations."""

    size: SSAValue
    segments: SSAValue
    pitch: SSAValue


def _sums(
    code: Code,
    recipe: Recipe,
    weights: SSAValue,
    lines: Sequence[SSAValue],
    shape: _Reduction,
) -> list[SSAValue]:
    """Σ u·x of each row of activations and each register of weights, over all segments."""
    fields = 4 if len(lines) == 1 else 1
    zeros = [code.constant(0, vector(i32, recipe.lanes))] * (
        len(lines) * recipe.tile_vectors * fields
    )

    def segment(s: SSAValue, sums: Sequence[SSAValue]) -> list[SSAValue]:
        start = code.at(weights, code.mul(s, shape.size))
        moved = code.mul(s, shape.pitch)
        return _steps(
            code, recipe, start, [code.at(line, moved) for line in lines], shape.size, sums
        )

    sums = code.loop(code.constant(0), shape.segments, 1, segment, zeros)
    if fields == 4:
        return [combine_fields(code, sums[4 * j : 4 * j + 4]) for j in range(recipe.tile_vectors)]
    return sums


def _steps(
    code: Code,
    recipe: Recipe,
    weights: SSAValue,
    lines: Sequence[SSAValue],
    size: SSAValue,
    sums: Sequence[SSAValue],
) -> list[SSAValue]:
    """`sums` with those of one segment added."""
    single = len(lines) == 1
    vectors, bytes_ = recipe.tile_vectors, vector(i8, recipe.width)
    masks = [code.constant(mask, bytes_) for mask in FIELDS]

    def broadcast(line: SSAValue, at: SSAValue, p: int) -> SSAValue:
        four = code.load(code.at(code.at(line, at), 4 * p), i32)
        return code.bits(code.splat(four, recipe.lanes), bytes_)

    def step(offset: SSAValue, sums: Sequence[SSAValue]) -> list[SSAValue]:
        result = list(sums)
        # 256 bytes of weights a step stand against 16 values.
        at = code.lshr(offset, 4)
        base = code.at(weights, offset)
        packed = [code.load(code.at(base, j * recipe.width), bytes_) for j in range(vectors)]
        if single:
            for line in range(0, vectors * recipe.width, 64):
                code.prefetch(code.at(base, _AHEAD + line))
            values = [broadcast(lines[0], at, p) for p in range(4)]
            for j in range(vectors):
                for p in range(4):
                    field = code.and_(packed[j], masks[p])
                    k = j * 4 + p
                    result[k] = recipe.dot(code, result[k], field, values[p])
            return result
        for p in range(4):
            codes = [code.and_(_shifted(code, v, 2 * p), masks[0]) for v in packed]
            for m, line in enumerate(lines):
                value = broadcast(line, at, p)
                for j in range(vectors):
                    k = m * vectors + j
                    result[k] = recipe.dot(code, result[k], codes[j], value)
        return result

    return code.loop(code.constant(0), size, _STEP_BYTES, step, sums)


def _shifted(code: Code, value: SSAValue, bits: int) -> SSAValue:
    """A shift whose stray bits the mask of field 0 removes: x86 has none for bytes."""
    if bits == 0:
        return value
    pairs = code.bits(value, vector(i16, lanes(value.type) // 2))
    return code.bits(code.lshr(pairs, bits), value.type)


def write_panels(
    code: Code,
    recipe: Recipe,
    scratch: Scratch,
    weights: SSAValue,
    ins: SSAValue,
    outs: SSAValue,
    bounds: tuple[SSAValue, SSAValue],
) -> None:
    """Raw results of every digit row for the panels that hold the outputs within `bounds`."""
    first = code.lshr(bounds[0], 6)
    end = code.lshr(code.add(bounds[1], code.constant(PANEL - 1)), 6)
    steps = code.lshr(code.add(ins, code.constant(STEP - 1)), 4)
    most = code.constant(recipe.tile_rows)
    tiles = code.udiv(code.add(scratch.count, code.constant(recipe.tile_rows - 1)), most)
    each = code.udiv(scratch.count, tiles)
    larger = code.sub(scratch.count, code.mul(each, tiles))
    panel_bytes = code.mul(steps, code.constant(_STEP_BYTES))
    raw_stride = scratch.raw_stride(outs)

    def block(start: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
        stop = code.minimum(code.add(start, code.constant(_PANELS_TOGETHER)), end)
        panels = code.sub(stop, start)
        here = code.at(weights, code.mul(start, panel_bytes))

        def tile(t: SSAValue, carried: Sequence[SSAValue]) -> list[SSAValue]:
            m = carried[0]
            extra = code.compare("slt", t, larger)
            rows = code.add(each, code.select(extra, code.constant(1), code.constant(0)))
            raw = code.at(scratch.raw(m, outs), code.shl(start, 6), i32)
            x = scratch.row(m)
            for count in range(1, recipe.tile_rows + 1):
                this = code.compare("eq", rows, code.constant(count))

                def call(count: int = count) -> None:
                    name = f"tile_{count}"
                    line = (x, scratch.stride, raw, raw_stride)
                    one = code.constant(1)
                    code.call(name, here, *line, steps, panels, one, code.constant(0))

                code.when(this, call)
            return [code.add(m, rows)]

        code.loop(code.constant(0), tiles, 1, tile, [code.constant(0)])
        return []

    code.loop(first, end, _PANELS_TOGETHER, block)
