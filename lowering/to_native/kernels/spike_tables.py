"""Products of rows of spikes with all weights: tables hold the sums of inputs that fire together.

Six inputs can fire in 64 ways. For 24 inputs and two registers of outputs, the sums of all ways of
four such groups fit the first-level cache, so that a row of spikes takes one addition for six
products. A table pays for some hundred rows; fewer take tables of three inputs, for several
registers. Sums of int8 weights are held as int16 in tables and for some of the inputs, those of
trits as int8, then as int32. Floats are added in groups of six: first three and three, in order,
then both, then the groups. One or two rows do not pay for a table: they multiply by all weights,
and add in the same order, so that no bit depends on the number of rows.

Not here: sums of the inputs that fire alone (`events`), what calls it (`program.spike_products`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects import llvm
from xdsl.dialects.builtin import AnyFloat, IntegerType, f64, i8, i16, i32, i64
from xdsl.ir import Attribute, SSAValue

from ....ir.arrays import Array
from ....runtime.native.abi.linear import round_up
from ..llvm.types import like, vector
from .code import POINTER, Code, Index
from .recipes import Recipe

_TOGETHER, _GROUP = 24, 6
"""Inputs whose sums a table holds, and those of one group."""
_HALF = _GROUP // 2
_WORD, _SHIFT = 4, 2
"""Bytes of a word, one for each group: the way in which it fires, moved by so many bits."""
_UNIT = 12
"""Inputs that are read at once: whole groups, and whole bytes of trits."""
_ROWS = 1024
"""Rows that one table serves: their sums shall stay in the second-level cache."""
_FEW, _MANY = 3, 96
"""Rows that are too few for a table, and that are enough for one of whole groups."""
_REGISTERS, _PAIR = 4, 2
"""Most registers of a column, and those that look up whole groups together."""


@dataclass(frozen=True)
class TableProduct:
    """Weights [ins, outs], and the type of a sum.

    Attributes:
        recipe: the instruction set.
        element: of the sums: f32, f64, or i32 for weights of int8.
        ins, outs: the shape.
        trits: whether the weights are -1, 0 and 1.
    """

    recipe: Recipe
    element: Attribute
    ins: int
    outs: int
    trits: bool = False

    @property
    def floats(self) -> bool:
        """Whether weights are floats."""
        return isinstance(self.element, AnyFloat)

    @property
    def bytes(self) -> int:
        """Bytes of a sum."""
        return 8 if self.element == f64 else 4

    @property
    def entry(self) -> Attribute:
        """The type of a number in a table."""
        return self.element if self.floats else i8 if self.trits else i16

    @property
    def weight(self) -> Attribute:
        """The type of a weight; four trits stand in one of them, as 2-bit codes trit + 1."""
        return self.element if self.floats else i8

    @property
    def span(self) -> int:
        """Inputs whose sums fit the type of a table's numbers."""
        return self.padded if self.floats else 120 if self.trits else 240

    @property
    def lanes(self) -> int:
        """Outputs in a register of a table."""
        return self.recipe.width // (self.bytes if self.floats else 1 if self.trits else 2)

    @property
    def registers(self) -> int:
        """Registers of a column."""
        return min(_REGISTERS, -(-self.outs // self.lanes))

    @property
    def column(self) -> int:
        """Outputs that are computed one after the other."""
        return self.lanes * self.registers

    @property
    def padded(self) -> int:
        """Inputs in whole tables."""
        return round_up(self.ins, _TOGETHER)

    @property
    def bit_bytes(self) -> int:
        """Bytes of a row of spikes, one bit for each, and what is read with the last."""
        return round_up(self.padded, 64) // 8 + 8

    @property
    def table(self) -> int:
        """Bytes of a table: of whole groups for one register, or of half ones for several."""
        groups = _TOGETHER // _GROUP
        half = 2 * groups * self.registers << _HALF
        return self.recipe.width * max(groups * _PAIR << _GROUP, half)

    @property
    def part(self) -> int:
        """Where sums of a part of the inputs stand in scratch memory: after the table."""
        return self.table

    @property
    def sums(self) -> int:
        """Where sums stand in scratch memory; of floats there are no others."""
        size = 0 if self.floats else _ROWS * self.registers * self.recipe.width
        return self.part + size

    @property
    def ways(self) -> int:
        """Where the ways of rows stand in scratch memory, a word of each for a table."""
        return self.sums + _ROWS * self.column * self.bytes

    @property
    def bits(self) -> int:
        """Where the bits of a row stand in scratch memory."""
        return self.ways + _ROWS * self.padded // _TOGETHER * _WORD

    @property
    def scratch(self) -> int:
        """Bytes of scratch memory."""
        return self.bits + self.bit_bytes

    def arranged(self, weights: Array) -> Array:
        """Weights [ins, outs] column by column, zeros around them, in whole tables."""
        columns = round_up(self.outs, self.column)
        padded = np.zeros((self.padded, columns), weights.dtype if self.floats else np.int8)
        padded[: self.ins, : self.outs] = weights
        if self.trits:
            fields = (padded + 1).reshape(-1, 4, columns) << np.arange(0, 8, 2)[:, None]
            padded = np.bitwise_or.reduce(fields, axis=1).astype(np.uint8).view(np.int8)
        return padded.reshape(len(padded), -1, self.column).transpose(1, 0, 2).reshape(-1)


def write_table_product(name: str, shape: TableProduct) -> llvm.FuncOp:
    """`name(x, weights, y, scratch, rows)`: `rows` rows of spikes, bytes 0 and 1.

    `weights` as `TableProduct.arranged` gives them, `y` [rows, outs], `scratch` of
    `TableProduct.scratch` bytes.
    """
    code = Code(name, [POINTER] * 4 + [i64])
    writer = _Writer(code, shape)
    whole = shape.outs // shape.column
    rest = shape.outs % shape.column
    with code.each(0, code.arguments[4], _ROWS) as first:
        count = code.minimum(code.sub(code.arguments[4], first), _ROWS)
        writer.pack(code.at(code.arguments[0], code.mul(first, shape.ins)), count)
        with code.each(0, whole) as c:
            writer.column(c, shape.column, first, count)
        if rest:
            writer.column(code.constant(whole), rest, first, count)
    return code.finish()


class _Writer:
    """Writes the parts of a product."""

    def __init__(self, code: Code, shape: TableProduct) -> None:
        self._code = code
        self._shape = shape
        _, self._weights, self._y, self._table, _ = code.arguments
        self._sums, self._part = code.at(self._table, shape.sums), code.at(self._table, shape.part)
        self._bits = code.at(self._table, shape.bits)
        self._register = vector(shape.entry, shape.lanes)
        self._zero = code.constant(0.0 if shape.floats else 0, self._register)
        self._wide = vector(shape.element, shape.lanes)
        width = shape.recipe.width
        self._last = code.stack(width) if shape.ins % width else None

    def pack(self, x: SSAValue, count: SSAValue) -> None:
        """Spikes as ways; those past the inputs may be anything, as their weights are 0."""
        code, shape, width = self._code, self._shape, self._shape.recipe.width
        whole = shape.ins - shape.ins % width
        with code.each(0, count) as r:
            row = code.at(x, code.mul(r, shape.ins))
            with code.each(0, whole, width) as i:
                self._pack_register(code.at(row, i), code.at(self._bits, code.lshr(i, 3)))
            if self._last is not None:
                code.copy(self._last, code.at(row, whole), shape.ins - whole)
                self._pack_register(self._last, code.at(self._bits, whole // 8))
            with code.each(0, shape.padded, _TOGETHER) as i:
                bits, word = code.load(code.at(self._bits, code.lshr(i, 3)), i64), None
                for g in range(_TOGETHER // _GROUP):
                    far = _SHIFT + g * (8 - _GROUP)
                    way = code.and_(code.shl(bits, far), ((1 << _GROUP) - 1) << (8 * g + _SHIFT))
                    word = way if word is None else code.or_(word, way)
                assert word is not None
                code.store(code.resize(word, i32), self._place_of_ways(i, r))

    def _place_of_ways(self, i: SSAValue, r: SSAValue) -> SSAValue:
        """Where the ways of a row stand for the table of inputs `i` and on."""
        code = self._code
        place = code.add(code.mul(code.udiv(i, _TOGETHER), _ROWS), r)
        return code.at(code.at(self._table, self._shape.ways), place, i32)

    def _pack_register(self, source: SSAValue, target: SSAValue) -> None:
        code, width = self._code, self._shape.recipe.width
        fires = code.icmp("ne", code.load(source, vector(i8, width)), 0)
        code.store(code.bits(fires, IntegerType(width)), target)

    def column(self, c: SSAValue, outs: int, first: SSAValue, count: SSAValue) -> None:
        """The sums of column `c`, `outs` of them, of `count` rows from `first`."""
        code, shape = self._code, self._shape
        rows = shape.padded // 4 if shape.trits else shape.padded
        weights = code.at(self._weights, code.mul(c, rows * shape.column), shape.weight)
        registers = range(-(-outs // shape.lanes))
        for r in registers:
            code.clear(self._sum(r, 0), code.mul(count, shape.lanes * shape.bytes))
        few, many = code.icmp("slt", count, _FEW), code.icmp("sge", count, _MANY)
        with code.when(few), code.each(0, count) as r, code.each(0, len(registers)) as register:
            self._multiply(weights, r, register)
        with code.when(code.not_(code.or_(few, many))):
            self._look_up(weights, count, registers, _HALF)
        with code.when(many):
            pairs = len(registers) // _PAIR * _PAIR
            with code.each(0, pairs, _PAIR) as register:
                self._look_up(weights, count, [register, code.add(register, 1)], _GROUP)
            if pairs < len(registers):
                self._look_up(weights, count, [pairs], _GROUP)
        with code.each(0, count) as r:
            place = code.add(code.mul(code.add(first, r), shape.outs), code.mul(c, shape.column))
            target = code.at(self._y, place, shape.element)
            for register in registers:
                here = code.at(target, register * shape.lanes, shape.element)
                size = min(shape.lanes, outs - register * shape.lanes) * shape.bytes
                code.copy(here, self._sum(register, r), size)

    def _sum(self, register: Index, r: Index) -> SSAValue:
        """Where the sums of a row stand."""
        code = self._code
        place = code.mul(code.add(code.mul(register, _ROWS), r), self._shape.lanes)
        return code.at(self._sums, place, self._shape.element)

    def _partial(self, register: Index, r: Index) -> SSAValue:
        """Where the sums of a row for some of the inputs stand."""
        code = self._code
        if self._shape.floats:
            return self._sum(register, r)
        place = code.mul(code.add(code.mul(register, _ROWS), r), self._shape.recipe.width)
        return code.at(self._part, place)

    def _weight(self, weights: SSAValue, first: SSAValue, k: int, register: Index) -> SSAValue:
        """Weights of input `first` + k, where `first` starts a unit, as numbers of a table."""
        code, shape = self._code, self._shape
        row = code.add(code.lshr(first, 2), k // 4) if shape.trits else code.add(first, k)
        place = code.add(code.mul(row, shape.column), code.mul(register, shape.lanes))
        address = code.at(weights, place, shape.weight)
        code.prefetch(code.at(address, _TOGETHER * shape.column, shape.weight), 2)
        values = code.load(address, vector(shape.weight, shape.lanes))
        if shape.trits:
            return code.sub(code.and_(code.lshr(values, 2 * (k % 4)), 3), 1)
        return values if shape.floats else code.resize(values, self._register)

    def _plus(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._code.fadd(a, b) if self._shape.floats else self._code.add(a, b)

    def _ways(self, values: Sequence[SSAValue]) -> list[SSAValue]:
        """The sums of all ways in which inputs can fire."""
        sums = [self._zero]
        for value in values:
            sums += [value, *(self._plus(total, value) for total in sums[1:])]
        return sums

    def _look_up(
        self, weights: SSAValue, count: SSAValue, registers: Sequence[Index], group: int
    ) -> None:
        """The sums of all rows for some registers, by tables of so many inputs."""
        code, shape = self._code, self._shape
        with code.each(0, shape.padded, shape.span) as start:
            end = code.minimum(code.add(start, shape.span), shape.padded)
            if not shape.floats:
                for register in registers:
                    place = self._partial(register, 0)
                    code.clear(place, code.mul(count, shape.recipe.width))
            with code.each(start, end, _TOGETHER) as i:
                self._fill_table(weights, i, registers, group)
                with code.each(0, count) as r:
                    self._add_table(i, r, registers, group)
            if not shape.floats:
                with code.each(0, count) as r:
                    for register in registers:
                        part = code.load(self._partial(register, r), self._register)
                        self._add_wide(register, r, part)

    def _add_wide(self, register: Index, r: SSAValue, part: SSAValue) -> None:
        """Add integers to the sums of a row."""
        code, place = self._code, self._sum(register, r)
        code.store(code.add(code.load(place, self._wide), code.resize(part, self._wide)), place)

    def _fill_table(
        self, weights: SSAValue, i: SSAValue, registers: Sequence[Index], group: int
    ) -> None:
        """The sums of all ways in which each group of the inputs from `i` can fire."""
        code, width = self._code, self._shape.recipe.width
        line = width * len(registers)
        units, places = _TOGETHER // _UNIT, (line << group) * (_UNIT // group)
        with code.each(0, units) as unit, code.each(0, len(registers)) as c:
            table = code.at(self._table, code.add(code.mul(unit, places), code.mul(c, width)))
            first, register = code.add(i, code.mul(unit, _UNIT)), code.add(registers[0], c)
            for k in range(0, _UNIT, group):
                values = [self._weight(weights, first, k + n, register) for n in range(group)]
                halves = [self._ways(values[n : n + _HALF]) for n in range(0, group, _HALF)]
                sums = halves[0]
                if group == _GROUP:
                    sums = [self._plus(low, high) for high in halves[1] for low in halves[0]]
                for way, total in enumerate(sums):
                    code.store(total, code.at(table, (((k // group) << group) + way) * line))

    def _add_table(self, i: SSAValue, r: SSAValue, registers: Sequence[Index], group: int) -> None:
        """Add to the sums of a row what the table has for its inputs from `i`."""
        code, width = self._code, self._shape.recipe.width
        line = width * len(registers)
        word = code.resize(code.load(self._place_of_ways(i, r), i32), i64, unsigned=True)
        totals = [code.load(self._partial(c, r), self._register) for c in registers]
        for first in range(0, _TOGETHER, _GROUP):
            found: list[list[SSAValue]] = []
            for half in range(_GROUP // group):
                here = code.lshr(word, 8 * (first // _GROUP) + half * _HALF)
                way = code.and_(here, ((1 << group) - 1) << _SHIFT)
                g = first // group + half
                row = code.at(self._table, code.mul(way, line >> _SHIFT))
                row = code.at(row, (g << group) * line)
                found.append(
                    [
                        code.load(code.at(row, c * width), self._register)
                        for c in range(len(registers))
                    ]
                )
            added = found[0] if len(found) == 1 else list(map(self._plus, *found))
            totals = list(map(self._plus, totals, added))
        for register, total in zip(registers, totals, strict=True):
            code.store(total, self._partial(register, r))

    def _multiply(self, weights: SSAValue, r: SSAValue, register: Index) -> None:
        """Sums of one row without a table, in the order of those with one."""
        code, shape = self._code, self._shape
        mask = IntegerType(8 * shape.recipe.width // shape.lanes)
        before = code.load(self._sum(register, r), self._wide) if shape.floats else None
        with code.each(0, shape.padded, shape.span) as start:
            end = code.minimum(code.add(start, shape.span), shape.padded)
            begin = self._zero if before is None else before
            with code.loop(start, end, _TOGETHER, [begin]) as table:
                word = code.load(self._place_of_ways(table.index, r), i32)
                with code.loop(0, _TOGETHER, _UNIT, [word, *table.values]) as unit:
                    word, total = unit.values
                    first = code.add(table.index, unit.index)
                    for k in range(0, _UNIT, _GROUP):
                        halves = [self._zero, self._zero]
                        for n in range(_GROUP):
                            bit = code.and_(code.lshr(word, _SHIFT + n), 1)
                            fires = code.resize(code.sub(0, bit), mask)
                            weight = self._weight(weights, first, k + n, register)
                            value = code.and_(
                                code.bits(weight, like(self._register, mask)),
                                code.splat(fires, shape.lanes),
                            )
                            value = code.bits(value, self._register)
                            halves[n // _HALF] = self._plus(halves[n // _HALF], value)
                        total = self._plus(total, self._plus(*halves))
                        word = code.lshr(word, 8)
                    unit.values = [word, total]
                table.values = unit.values[1:]
            if shape.floats:
                code.store(table.values[0], self._sum(register, r))
            else:
                self._add_wide(register, r, table.values[0])
