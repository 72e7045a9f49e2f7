"""Event-driven sums: a list of the inputs that fire, and their rows of weights added up.

`list_events` finds which bytes of a row are not zero; `add_rows` adds the rows of weights
(`abi.events`) of a list to sums, one for each output, all of them side by side in registers.

- Trits are added as 2-bit codes u = trit + 1: seven rows in fields of 4 bits, eighteen such groups
  in bytes, then in int32; Σ u minus the count of events is the sum.
- int8 weights are added as bytes w + 128 in fields of 16 bits, at most 257 rows, then in int32.

Weights stand in blocks of columns, each of which fits a near cache: a layer takes one block after
the other for a number of rows of spikes.

Not here: what is done with the sums (`spiking_layers`), float weights (`float_events`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from xdsl.dialects.builtin import IntegerType, f32, f64, i1, i8, i16, i32, i64
from xdsl.ir import Attribute, SSAValue

from ....ir.arrays import Array
from ....passes.analysis.event_products import RowKind
from ....runtime.native.abi.linear import round_up
from ..llvm.types import vector
from .code import Code, Index
from .recipes import Recipe

_NIBBLE_ROWS = 7
"""Codes up to 2 that fit 4 bits: 14."""
_BYTE_ROWS = 18 * _NIBBLE_ROWS
"""Codes up to 2 that fit a byte: 252."""
_HALF_ROWS = 257
"""Bytes up to 255 that fit 16 bits: 65535."""
FIRST, _NEXT = 8, 4
"""Events that are listed at once, needed or not."""
_AT_ONCE = 8
"""Columns of int8 weights that are summed at once."""
_BLOCK_BYTES = 512 << 10
"""Weights that stay in the second-level cache while many rows of spikes meet them."""


@dataclass(frozen=True)
class EventRows:
    """Weights [ins, outs] in rows.

    Attributes:
        recipe: the instruction set.
        kind: of the weights.
        ins, outs: the shape.
    """

    recipe: Recipe
    kind: RowKind
    ins: int
    outs: int

    @property
    def element(self) -> Attribute:
        """The type of a sum."""
        return {"f32": f32, "f64": f64}.get(self.kind, i32)

    @property
    def sum_bytes(self) -> int:
        """Bytes of a sum."""
        return 8 if self.kind == "f64" else 4

    @property
    def column(self) -> int:
        """Outputs in a column."""
        width = self.recipe.width
        return {"trit": 4 * width, "i8": width}.get(self.kind, width // self.sum_bytes)

    @property
    def padded(self) -> int:
        """Outputs in whole columns."""
        return round_up(self.outs, self.column)

    @property
    def columns(self) -> int:
        """Whole columns."""
        return self.padded // self.column

    @property
    def block(self) -> int:
        """Columns that many rows of spikes meet before the next ones."""
        fitting = _BLOCK_BYTES // (self.ins * self.recipe.width)
        return min(self.columns, max(1, fitting // _AT_ONCE) * _AT_ONCE)

    @property
    def blocks(self) -> int:
        """Blocks of columns; the last may be of fewer."""
        return -(-self.columns // self.block)

    @property
    def last(self) -> int:
        """Columns of the last block."""
        return self.columns - (self.blocks - 1) * self.block

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of weights of a block."""
        return self.block * self.recipe.width

    def arranged(self, weights: Array) -> Array:
        """Rows of weights (`abi.events`) one block after the other, the last one padded."""
        lines = weights.reshape(self.ins, self.columns, -1)
        padded = np.pad(lines, ((0, 0), (0, self.block - self.last), (0, 0)))
        return padded.reshape(self.ins, self.blocks, -1).transpose(1, 0, 2).reshape(-1)

    @property
    def entry(self) -> Attribute:
        """The type of an event in a list: bytes from the start of a block to its row."""
        return i64

    @property
    def lists_together(self) -> int:
        """Lists that take turns in memory, entry by entry."""
        return 1

    @property
    def lists(self) -> int:
        """Steps whose events are listed before their sums are taken."""
        return 64

    def events(self, code: Code) -> Events:
        """Writes the code for rows of one matrix."""
        return Events(code, self)

    @property
    def list_bytes(self) -> int:
        """Memory for a list of events; entries past the last may be written."""
        return 8 * (self.ins + 2 * FIRST)


class Events:
    """Writes the code for rows of one matrix."""

    def __init__(self, code: Code, rows: EventRows) -> None:
        self._code = code
        self._rows = rows
        self._width = rows.recipe.width
        self._last = code.stack(self._width) if rows.ins % self._width else None

    # Which inputs fire

    def list_events(self, x: SSAValue, events: SSAValue, ins: int) -> SSAValue:
        """List the offsets of the rows of weights of the bytes of `x` that are not 0; their count.

        Args:
            x: address of `ins` bytes.
            events: address of `list_bytes` bytes.
            ins: all inputs, or whole registers of them.
        """
        code, width = self._code, self._width
        rest = ins % width
        whole = ins - rest
        start = [code.constant(0)]
        with code.loop(0, whole, width, start) as piece:
            i = piece.index
            piece.values = [self._listed(code.at(x, i), i, events, piece.values[0])]
        (count,) = piece.values
        if not rest:
            return count
        assert self._last is not None
        place = code.constant(whole)
        code.clear(self._last, width)
        code.copy(self._last, code.at(x, place), rest)
        return self._listed(self._last, place, events, count)

    def _listed(
        self, source: SSAValue, first: SSAValue, events: SSAValue, count: SSAValue
    ) -> SSAValue:
        """List the events of one register of bytes, the first of which is input `first`."""
        code, width = self._code, self._width
        values = code.load(source, vector(i8, width))
        fires = code.icmp("ne", values, 0)
        mask = code.bits(fires, IntegerType(width))
        if width < 64:
            mask = code.resize(mask, i64, unsigned=True)
        fired = code.intrinsic("llvm.ctpop.i64", [mask], i64)
        entry, stride = self._rows.entry, self._rows.lists_together
        target = code.at(events, code.mul(count, stride), entry)

        def some(at: SSAValue, mask: SSAValue, entries: int) -> SSAValue:
            for k in range(entries):
                place = code.intrinsic("llvm.cttz.i64", [mask, code.constant(0, i1)], i64)
                offset = code.mul(code.add(first, place), self._rows.row_bytes)
                code.store(code.resize(offset, entry), code.at(at, k * stride, entry))
                mask = code.and_(mask, code.sub(mask, 1))
            return mask

        mask = some(target, mask, FIRST)
        with code.loop(FIRST, fired, _NEXT, [mask]) as more:
            more.values = [
                some(code.at(target, code.mul(more.index, stride), entry), more.values[0], _NEXT)
            ]
        return code.add(count, fired)

    # Their rows

    def add_rows(
        self,
        weights: SSAValue,
        events: SSAValue,
        count: SSAValue,
        sums: SSAValue,
        block: Index,
        columns: int,
    ) -> None:
        """Put Σ of the rows in a list into `sums`, in order.

        Args:
            weights: address of the rows.
            events: address of the list.
            count: of its entries.
            sums: address of the sums of the block.
            block: which one.
            columns: of the block.
        """
        rows = self._rows
        weights = self._code.at(weights, self._code.mul(block, rows.ins * rows.row_bytes))
        if rows.kind == "trit":
            self._add_trits(weights, events, count, sums, columns)
            return
        self._columns(columns, partial(self._add_bytes, weights, events, count, sums))

    def _columns(self, columns: int, add: Callable[[SSAValue, int], None]) -> None:
        """Call `add(first, how many)` so that all columns are met."""
        code = self._code
        whole = columns - columns % _AT_ONCE

        if whole:
            with code.each(0, whole, _AT_ONCE) as c:
                add(c, _AT_ONCE)
        if columns - whole:
            with code.each(whole, columns) as c:
                add(c, 1)

    def _row(self, weights: SSAValue, events: SSAValue, event: SSAValue, more: int) -> SSAValue:
        """The address in the row of weights of an event in the list."""
        code = self._code
        offset = code.load(code.at(code.at(events, event, i64), more, i64), i64)
        return code.at(weights, offset)

    def _add_trits(
        self,
        weights: SSAValue,
        events: SSAValue,
        count: SSAValue,
        sums: SSAValue,
        columns: int,
    ) -> None:
        code, width = self._code, self._width
        rows = self._rows
        register, fields = vector(i8, width), 4
        lanes = rows.recipe.lanes
        zero = code.constant(0, register)
        minus = code.splat(code.resize(code.sub(0, count), i32), lanes)
        pairs = code.constant(0x33, register)

        def add_row(at: SSAValue, nibbles: Sequence[SSAValue]) -> list[SSAValue]:
            codes = code.load(at, register)
            even, odd = code.and_(codes, pairs), code.and_(code.lshr(codes, 2), pairs)
            return [code.add(nibbles[0], even), code.add(nibbles[1], odd)]

        def spread(nibbles: Sequence[SSAValue], totals: Sequence[SSAValue]) -> list[SSAValue]:
            low = code.constant(0x0F, register)
            (even, odd) = nibbles
            fields = (
                code.and_(even, low),
                code.and_(odd, low),
                code.and_(code.lshr(even, 4), low),
                code.and_(code.lshr(odd, 4), low),
            )
            return [code.add(t, f) for t, f in zip(totals, fields, strict=True)]

        with code.each(0, columns) as c:
            here = code.at(weights, code.mul(c, width))
            target = code.at(sums, code.mul(c, 4 * rows.column))
            for part in range(0, rows.column, lanes):
                code.store(minus, code.at(target, 4 * part))
            with code.each(0, count, _BYTE_ROWS) as first:
                end = code.minimum(code.add(first, _BYTE_ROWS), count)
                groups = code.udiv(code.sub(end, first), _NIBBLE_ROWS)
                middle = code.add(first, code.mul(groups, _NIBBLE_ROWS))
                with code.loop(first, middle, _NIBBLE_ROWS, [zero] * fields) as group:
                    nibbles = [zero, zero]
                    for k in range(_NIBBLE_ROWS):
                        nibbles = add_row(self._row(here, events, group.index, k), nibbles)
                    group.values = spread(nibbles, group.values)
                totals = group.values
                with code.loop(middle, end, 1, [zero] * 2) as single:
                    single.values = add_row(self._row(here, events, single.index, 0), single.values)
                nibbles = single.values
                for f, total in enumerate(spread(nibbles, totals)):
                    self._add_to(code.at(target, 4 * f * width), total, width)

    def _add_to(self, target: SSAValue, values: SSAValue, count: int) -> None:
        """Add unsigned integers, lane by lane, to int32 in memory."""
        code = self._code
        wide = vector(i32, count)
        total = code.add(code.load(target, wide), code.resize(values, wide, unsigned=True))
        code.store(total, target)

    def _add_bytes(
        self,
        weights: SSAValue,
        events: SSAValue,
        count: SSAValue,
        sums: SSAValue,
        first: SSAValue,
        columns: int,
    ) -> None:
        code, width = self._code, self._width
        halves, lanes = vector(i16, width // 2), self._rows.recipe.lanes
        here = code.at(weights, code.mul(first, width))
        target = code.at(sums, code.mul(first, 4 * width))
        zero = code.constant(0, halves)
        bias = code.resize(code.mul(count, -128), i32)
        minus = code.splat(bias, lanes)
        for part in range(0, columns * width, lanes):
            code.store(minus, code.at(target, 4 * part))
        with code.each(0, count, _HALF_ROWS) as start:
            end = code.minimum(code.add(start, _HALF_ROWS), count)
            with code.loop(start, end, 1, [zero] * (2 * columns)) as single:
                row = self._row(here, events, single.index, 0)
                result: list[SSAValue] = []
                for c in range(columns):
                    values = code.load(code.at(row, c * width), halves)
                    both, odd = single.values[2 * c : 2 * c + 2]
                    result += [code.add(both, values), code.add(odd, code.lshr(values, 8))]
                single.values = result
            totals = single.values
            for c in range(columns):
                both, odd = totals[2 * c : 2 * c + 2]
                # Sums of even bytes are below 2**16, so they survive the wrapping of `both`.
                even = code.sub(both, code.shl(odd, 8))
                for half, values in enumerate((even, odd)):
                    place = code.at(target, 4 * (c * width + half * (width // 2)))
                    self._add_to(place, values, width // 2)
