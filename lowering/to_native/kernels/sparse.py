"""Products with panels that leave out blocks of zeros (`abi.sparse`).

The blocks of a group of 256 outputs follow each other in memory, and a list says which four values
of a row each is multiplied with: four values are what one register of weights takes. As the values
that meet no block are left out of Σ u·x too, Σ x is taken over the others alone, in a sum of its
own. Not here: dense panels (`panel`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import llvm
from xdsl.dialects.builtin import i32, i64
from xdsl.ir import SSAValue

from ....runtime.native.abi.linear import GROUP, PANEL, RAW_ROWS, STEP
from ..llvm.types import vector
from .code import POINTER, Code
from .narrow_tile import SPAN, Sums
from .recipes import FIELDS, Recipe
from .scratch import Product

_ONES = 0x01010101
_BLOCK_BYTES = GROUP * STEP // 4
_AHEAD = 2048
"""How far ahead of its use a tile asks for weights, in bytes."""


def _tile_name(rows: int) -> str:
    return f"sparse_tile_{rows}"


def _most_rows(recipe: Recipe) -> int:
    """Rows of activations in the highest tile: four sums for each."""
    return max(1, min(RAW_ROWS, recipe.sums // len(FIELDS)))


def write_sparse_tiles(recipe: Recipe) -> list[llvm.FuncOp]:
    """`sparse_tile_<rows>(weights, offsets, blocks, x, stride, sums, raw, raw_stride)`.

    One group: `blocks` blocks of weights and their offsets; `x` and `stride` as in
    `panel.TILE_ARGUMENTS`; `sums` are the rows' Σ x, which the raw results are to contain.
    """
    return [_Tile(recipe, rows).write() for rows in range(1, _most_rows(recipe) + 1)]


@dataclass(frozen=True)
class _Tile:
    """Some rows of activations by a whole group, `at_once` registers of weights at a time."""

    recipe: Recipe
    rows: int

    @property
    def at_once(self) -> int:
        return max(1, self.recipe.chains // (len(FIELDS) * self.rows))

    def write(self) -> llvm.FuncOp:
        """The function."""
        kinds = [POINTER, POINTER, i64, POINTER, i64, POINTER, POINTER, i64]
        code = Code(_tile_name(self.rows), kinds)
        weights, offsets, blocks, x, stride, sums, raw, raw_stride = code.arguments
        recipe, rows = self.recipe, range(self.rows)
        lines = [code.at(x, code.mul(stride, m)) for m in rows]
        targets = [code.at(raw, code.mul(raw_stride, m), i32) for m in rows]
        across = self.at_once * recipe.width
        operands = (weights, offsets, blocks, lines)
        zeros = [code.constant(0, vector(i32, recipe.lanes))] * self.rows
        first, met = self._part(code, operands, code.constant(0), zeros)
        totals = [code.splat(code.load(code.at(sums, m, i32), i32), recipe.lanes) for m in rows]
        missed = [code.sub(total, part) for total, part in zip(totals, met, strict=True)]
        self._store(code, first, missed, targets, code.constant(0))
        with code.each(across, _BLOCK_BYTES, across) as at:
            results, _ = self._part(code, operands, at, [])
            self._store(code, results, missed, targets, at)
        return code.finish()

    def _part(
        self,
        code: Code,
        operands: tuple[SSAValue, SSAValue, SSAValue, Sequence[SSAValue]],
        at: SSAValue,
        met: Sequence[SSAValue],
    ) -> tuple[list[SSAValue], list[SSAValue]]:
        """Σ u·x of the registers of weights that stand `at` bytes into the steps of four panels.

        Where `met` is given also Σ x of each row.
        """
        weights, offsets, blocks, lines = operands
        recipe, fields, ones = self.recipe, len(FIELDS), bool(met)
        fours = vector(i32, recipe.lanes)
        count = self.rows * self.at_once * fields
        bases: list[SSAValue] = []
        for j in range(self.at_once):
            panel, within = self._place(code, at, j)
            bases.append(code.at(code.at(weights, code.mul(panel, blocks)), within))
        sums = None if recipe.pairs is None else Sums(code, recipe)

        def meet(b: SSAValue, totals: Sequence[SSAValue]) -> list[SSAValue]:
            """The sums with the products of block `b`."""

            def add(k: int, codes: SSAValue, value: SSAValue) -> None:
                if sums is None:
                    result[k] = recipe.dot(code, result[k], codes, value)
                else:
                    result[k] = sums.added(result[k], codes, value)

            result = list(totals)
            place = code.resize(code.load(code.at(offsets, b, i32), i32), i64)
            values = [
                code.splat(code.load(code.at(line, place), i32), recipe.lanes) for line in lines
            ]
            if ones:
                one = code.constant(_ONES, fours)
                for m, value in enumerate(values, start=count):
                    add(m, one, value)
            for j, base in enumerate(bases):
                here = code.at(base, code.shl(b, 6))
                code.prefetch(code.at(here, _AHEAD))
                if sums is None:
                    packed = code.load(here, fours)
                    codes = [recipe.field(code, packed, p) for p in range(fields)]
                else:
                    codes = sums.fields(code.load(here, sums.halves))
                for m, value in enumerate(values):
                    for p in range(fields):
                        add((m * self.at_once + j) * fields + p, codes[p], value)
            return result

        zeros = [code.constant(0, vector(i32, recipe.lanes))] * count
        span = 1 if sums is None else SPAN
        with code.loop(0, blocks, span, [*zeros, *met]) as block:
            if sums is None:
                block.values = meet(block.index, block.values)
            else:
                end = code.minimum(blocks, code.add(block.index, span))
                none = [sums.zero] * len(block.values)
                with code.loop(block.index, end, 1, none) as inner:
                    inner.values = meet(inner.index, inner.values)
                both = zip(block.values, inner.values, strict=True)
                block.values = [code.add(total, sums.wide(part)) for total, part in both]
        apart = fields if sums is None else 2
        results = [recipe.field_sum(code, s, k % apart) for k, s in enumerate(block.values[:count])]
        return results, list(block.values[count:])

    def _place(self, code: Code, at: SSAValue, j: int) -> tuple[SSAValue, SSAValue]:
        """The first output of the panel that a register of weights belongs to, and its place."""
        byte = code.add(at, j * self.recipe.width)
        within = code.and_(byte, PANEL - 1)
        return code.sub(byte, within), within

    def _store(
        self,
        code: Code,
        results: Sequence[SSAValue],
        missed: Sequence[SSAValue],
        targets: Sequence[SSAValue],
        at: SSAValue,
    ) -> None:
        """Keep raw results of the registers that `_part` took."""
        fields = len(FIELDS)
        for j in range(self.at_once):
            panel, within = self._place(code, at, j)
            lane = code.add(panel, code.lshr(within, 2))
            for m, target in enumerate(targets):
                for p in range(fields):
                    value = code.add(results[(m * self.at_once + j) * fields + p], missed[m])
                    place = code.at(code.at(target, lane, i32), p * PANEL // 4, i32)
                    code.store(value, place)


def write_sparse(code: Code, product: Product) -> None:
    """Results of every row of activations, a group of outputs and a tile of rows at a time.

    A group belongs to the call whose range holds its first output.
    """
    digits, scratch = product.kind.digits, product.scratch
    first, end, groups = (
        code.lshr(code.add(size, GROUP - 1), 8)
        for size in (product.first, product.end, product.outs)
    )
    starts = product.weights
    offsets = code.at(starts, _whole_lines(code, code.add(groups, 1)))
    total = code.resize(code.load(code.at(starts, groups, i32), i32), i64)
    weights = code.at(offsets, _whole_lines(code, total))
    most = _most_rows(product.recipe)
    together = RAW_ROWS // digits
    with code.each(first, end) as g:
        start = code.resize(code.load(code.at(starts, g, i32), i32), i64)
        stop = code.resize(code.load(code.at(starts, code.add(g, 1), i32), i32), i64)
        blocks = code.sub(stop, start)
        here = (code.at(weights, code.shl(start, 8)), code.at(offsets, start, i32), blocks)
        column = code.shl(g, 8)
        with code.each(0, product.rows, together) as m:
            count = code.minimum(together, code.sub(product.rows, m))
            lines = code.mul(count, digits)
            with code.each(0, lines, most) as d:
                digit = code.add(code.mul(m, digits), d)
                raw = scratch.raw(code.add(code.mul(scratch.raw_stride(product.outs), d), column))
                height = code.minimum(most, code.sub(lines, d))
                for wanted in code.cases(height, range(1, most + 1)):
                    line = (scratch.row(digit), scratch.stride, scratch.sum(digit))
                    stride = scratch.raw_stride(product.outs)
                    code.call(_tile_name(wanted), *here, *line, raw, stride)
            edge = code.minimum(code.add(column, GROUP), product.outs)
            product.finish(m, count, column, edge)


def _whole_lines(code: Code, count: SSAValue) -> SSAValue:
    """Bytes of so many int32, up to a multiple of 64."""
    return code.and_(code.add(code.shl(count, 2), 63), -64)
