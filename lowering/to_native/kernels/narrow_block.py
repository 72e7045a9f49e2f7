"""Many rows of activations by panels, in sums of 16 bits: what `narrow_tile` is for a few rows.

The codes of a chunk of a panel are cut out of their bytes once, field by field, and then meet all
rows, a few at a time. Fields whose outputs nobody wants are left out. Not here: who calls this
(`panel`).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import llvm
from xdsl.dialects.builtin import i16, i32, i64
from xdsl.ir import SSAValue

from ....runtime.native.abi.linear import PANEL
from ..llvm.types import vector
from .code import POINTER, Code
from .even_tiles import EvenTiles
from .narrow_tile import CHUNK_BYTES, LOW, STEP_BYTES, Sums
from .recipes import Recipe

NARROW_BLOCK = "narrow_block"
BLOCK_ARGUMENTS = ("weights", "x", "stride", "raw", "raw_stride", "steps", "rows", "outs")
"""Those of `panel.TILE_ARGUMENTS` for one panel, the rows of activations, and how many of its
outputs are wanted; results of others may or may not be written."""
LEAST_ROWS, BLOCK_ROWS = 12, 48
"""Rows from which on cutting the codes out once is quicker, and the most that are done together."""

_CHUNK_NAME = "narrow_chunk"
_FIELD_OUTS = PANEL // 4
_MOST_ROWS = 4
"""Rows of activations that meet the codes at once: two sums each."""
_AHEAD = 4608
"""How far ahead of their use weights are asked for, in bytes."""


def write_narrow_block(recipe: Recipe) -> list[llvm.FuncOp]:
    """The function `narrow_block`, see `BLOCK_ARGUMENTS`, and those that it calls."""
    rows = range(1, _MOST_ROWS + 1)
    return [*(_write_rows(recipe, count) for count in rows), _write_chunk(recipe), _write_block()]


def _rows_name(rows: int) -> str:
    return f"narrow_rows_{rows}"


def _write_block() -> llvm.FuncOp:
    code = Code(NARROW_BLOCK, [POINTER, POINTER, i64, POINTER, *[i64] * 4])
    weights, x, stride, raw, raw_stride, steps, rows, outs = code.arguments
    codes = code.stack(4 * CHUNK_BYTES)
    size = code.mul(steps, STEP_BYTES)
    fields = code.minimum(code.udiv(code.add(outs, _FIELD_OUTS - 1), _FIELD_OUTS), 4)
    # Sums of nothing are a chunk too.
    with code.each(0, code.maximum(size, 1), CHUNK_BYTES) as first:
        count = code.lshr(code.minimum(CHUNK_BYTES, code.sub(size, first)), 6)
        # Results begin with the first chunk.
        kept = code.select(code.icmp("eq", first, 0), 0, -1)
        places = code.at(weights, first), codes, code.at(x, code.lshr(first, 4)), stride
        code.call(_CHUNK_NAME, *places, raw, raw_stride, count, rows, fields, kept)
    return code.finish()


def _write_chunk(recipe: Recipe) -> llvm.FuncOp:
    """Steps that follow each other in `weights`, at most a chunk."""
    code = Code(_CHUNK_NAME, [POINTER, POINTER, POINTER, i64, POINTER, *[i64] * 5])
    weights, codes, x, stride, raw, raw_stride, steps, rows, fields, kept = code.arguments
    halves = vector(i16, 2 * recipe.lanes)
    with code.each(0, code.mul(steps, STEP_BYTES), recipe.width) as at:
        here = code.at(weights, at)
        packed = code.load(here, halves)
        code.prefetch(code.at(here, _AHEAD))
        for p in range(4):
            field = code.and_(code.lshr(packed, 2 * p) if p else packed, LOW)
            code.store(field, code.at(code.at(codes, p * CHUNK_BYTES), at))
    with EvenTiles(code, rows, _MOST_ROWS).each() as (m, count):
        line, target = code.at(x, code.mul(m, stride)), code.at(raw, code.mul(m, raw_stride), i32)
        for wanted in code.cases(count, range(1, _MOST_ROWS + 1)):
            places = codes, line, stride, target, raw_stride
            code.call(_rows_name(wanted), *places, steps, fields, kept)
    return code.finish()


def _write_rows(recipe: Recipe, rows: int) -> llvm.FuncOp:
    """Some rows by the codes of a chunk; `kept` is a mask of what the results hold before."""
    code = Code(_rows_name(rows), [POINTER, POINTER, i64, POINTER, *[i64] * 4])
    codes, x, stride, raw, raw_stride, steps, fields, kept = code.arguments
    sums = Sums(code, recipe)
    lines = [code.at(x, code.mul(stride, m)) for m in range(rows)]
    targets = [code.at(raw, code.mul(raw_stride, m), i32) for m in range(rows)]
    mask = code.splat(code.resize(kept, i32), recipe.lanes)
    registers = range(0, STEP_BYTES, recipe.width)
    size = code.mul(steps, STEP_BYTES)

    def meet(at: SSAValue, lines: Sequence[SSAValue], totals: Sequence[SSAValue]) -> list[SSAValue]:
        packed = [code.load(code.at(at, i), sums.halves) for i in registers]
        result: list[SSAValue] = []
        for m, line in enumerate(lines):
            values = code.splat(code.load(line, i32), recipe.lanes)
            for i, register in enumerate(packed):
                result.append(sums.added(totals[m * len(packed) + i], register, values))
        return result

    with code.each(0, fields) as p:
        field = code.at(codes, code.mul(p, CHUNK_BYTES))
        with code.loop(0, size, STEP_BYTES, [sums.zero] * (rows * len(registers))) as step:
            fours = code.lshr(step.index, 4)
            values = [code.at(line, fours) for line in lines]
            step.values = meet(code.at(field, step.index), values, step.values)
        lane = code.mul(p, _FIELD_OUTS)
        for k, total in enumerate(step.values):
            m, i = divmod(k, len(registers))
            place = code.at(code.at(targets[m], lane, i32), i * recipe.lanes, i32)
            before = code.and_(code.load(place, sums.fours), mask)
            code.store(code.add(before, sums.wide(total)), place)
    return code.finish()
