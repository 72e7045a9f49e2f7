"""Products of rows of spikes with all weights: tables hold the sums of every four inputs.

Four inputs can fire in sixteen ways. For 32 inputs and a column of outputs, the sums of all ways of
eight such groups fit the first-level cache, so that a row of spikes takes one addition for four
products; the table serves some hundred rows, one for half of the inputs some tens. Sums of int8
weights are held as int16 in a table and for its inputs, then as int32. Floats are added in groups:
first the four of a group, in order, then the groups. A few rows alone do not pay for a table: they
multiply by all weights, and add in the same order, so that no bit depends on the number of rows.

Not here: sums of the inputs that fire alone (`events`), what calls it (`program.spike_products`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.dialects import llvm
from xdsl.dialects.builtin import AnyFloat, IntegerType, f64, i8, i16, i32, i64
from xdsl.ir import Attribute, SSAValue

from ....ir.arrays import Array
from ....runtime.native.abi.linear import round_up
from ..llvm.types import vector
from .code import POINTER, Code
from .recipes import Recipe

_TOGETHER, _GROUP = 32, 4
"""Inputs whose sums a table holds, and those of one group."""
_WAYS = 1 << _GROUP
_ROWS = 512
"""Rows that one table serves: their sums shall stay in the second-level cache."""
_FEW, _SOME = 8, 64
"""Rows that are too few for a table, and for a table of more than half of the inputs."""
_REGISTERS = 4
"""Most registers of a table's row."""


@dataclass(frozen=True)
class TableProduct:
    """Weights [ins, outs], and the type of a sum.

    Attributes:
        recipe: the instruction set.
        element: of the sums: f32, f64, or i32 for weights of int8.
        ins, outs: the shape.
    """

    recipe: Recipe
    element: Attribute
    ins: int
    outs: int

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
        return self.element if self.floats else i16

    @property
    def weight(self) -> Attribute:
        """The type of a weight."""
        return self.element if self.floats else i8

    @property
    def lanes(self) -> int:
        """Outputs in a register of a table."""
        return self.recipe.width // (self.bytes if self.floats else 2)

    @property
    def registers(self) -> int:
        """Registers of a table's row: a power of two."""
        needed = -(-self.outs // self.lanes)
        return min(_REGISTERS, 1 << (needed - 1).bit_length())

    @property
    def column(self) -> int:
        """Outputs of a table."""
        return self.lanes * self.registers

    @property
    def padded(self) -> int:
        """Inputs in whole tables."""
        return round_up(self.ins, _TOGETHER)

    @property
    def row_bytes(self) -> int:
        """Bytes of a table's row."""
        return self.recipe.width * self.registers

    @property
    def bit_bytes(self) -> int:
        """Bytes of a row of spikes, one bit for each."""
        return round_up(self.ins, 64) // 8

    @property
    def sums(self) -> int:
        """Where sums stand in scratch memory: after the table."""
        return _TOGETHER // _GROUP * _WAYS * self.row_bytes

    @property
    def packed(self) -> int:
        """Where bits stand in scratch memory: after the sums."""
        return self.sums + _ROWS * self.column * self.bytes

    @property
    def scratch(self) -> int:
        """Bytes of scratch memory."""
        return self.packed + _ROWS * self.bit_bytes

    def arranged(self, weights: Array) -> Array:
        """Weights [ins, outs] column by column, zeros around them, in whole tables."""
        columns = round_up(self.outs, self.column)
        padded = np.zeros((self.padded, columns), weights.dtype if self.floats else np.int8)
        padded[: self.ins, : self.outs] = weights
        return padded.reshape(self.padded, -1, self.column).transpose(1, 0, 2).reshape(-1)


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
        self._sums = code.at(self._table, shape.sums)
        self._bits = code.at(self._table, shape.packed)
        self._register = vector(shape.entry, shape.lanes)
        width = shape.recipe.width
        self._last = code.stack(width) if shape.ins % width else None

    def pack(self, x: SSAValue, count: SSAValue) -> None:
        """Spikes as bits; those past the inputs may be anything, as their weights are 0."""
        code, shape, width = self._code, self._shape, self._shape.recipe.width
        whole = shape.ins - shape.ins % width
        with code.each(0, count) as r:
            row = code.at(x, code.mul(r, shape.ins))
            line = code.at(self._bits, code.mul(r, shape.bit_bytes))
            with code.each(0, whole, width) as i:
                self._pack_register(code.at(row, i), code.at(line, code.lshr(i, 3)))
            if self._last is not None:
                code.copy(self._last, code.at(row, whole), shape.ins - whole)
                self._pack_register(self._last, code.at(line, whole // 8))

    def _pack_register(self, source: SSAValue, target: SSAValue) -> None:
        code, width = self._code, self._shape.recipe.width
        fires = code.icmp("ne", code.load(source, vector(i8, width)), 0)
        code.store(code.bits(fires, IntegerType(width)), target)

    def column(self, c: SSAValue, outs: int, first: SSAValue, count: SSAValue) -> None:
        """The sums of column `c`, `outs` of them, of `count` rows from `first`."""
        code, shape = self._code, self._shape
        line = shape.column * shape.bytes
        start = code.mul(c, shape.padded * shape.column)
        weights = code.at(self._weights, start, shape.weight)
        code.clear(self._sums, code.mul(count, line))
        few, some = (code.icmp("slt", count, most) for most in (_FEW, _SOME))
        with code.when(few), code.each(0, count) as r:
            self._multiply(weights, r)
        sizes = ((_TOGETHER // 2, code.xor(few, some)), (_TOGETHER, code.not_(some)))
        for together, fitting in sizes:
            with code.when(fitting), code.each(0, shape.padded, together) as i:
                self._fill_table(
                    code.at(weights, code.mul(i, shape.column), shape.weight), together
                )
                self._add_table(i, count, together)
        with code.each(0, count) as r:
            place = code.add(code.mul(code.add(first, r), shape.outs), code.mul(c, shape.column))
            source = code.at(self._sums, code.mul(r, line))
            code.copy(code.at(self._y, place, shape.element), source, outs * shape.bytes)

    def _weight(self, row: SSAValue, register: int) -> SSAValue:
        """A register of weights as numbers of a table."""
        code, shape = self._code, self._shape
        place = code.at(row, register * shape.lanes, shape.weight)
        values = code.load(place, vector(shape.weight, shape.lanes))
        return values if shape.floats else code.resize(values, self._register)

    def _plus(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self._code.fadd(a, b) if self._shape.floats else self._code.add(a, b)

    def _fill_table(self, weights: SSAValue, together: int) -> None:
        """The sums of all ways in which each group of inputs can fire."""
        code, shape = self._code, self._shape
        ahead = together * shape.column
        with code.each(0, together // _GROUP) as g:
            target = code.at(self._table, code.mul(g, _WAYS * shape.row_bytes))
            for c in range(shape.registers):
                sums = [code.constant(0.0 if shape.floats else 0, self._register)]
                for k in range(_GROUP):
                    row = code.add(code.mul(g, _GROUP * shape.column), k * shape.column)
                    place = code.at(weights, row, shape.weight)
                    code.prefetch(code.at(place, ahead + c * shape.lanes, shape.weight))
                    value = self._weight(place, c)
                    sums += [value, *(self._plus(total, value) for total in sums[1:])]
                for way, total in enumerate(sums):
                    place = way * shape.row_bytes + c * shape.recipe.width
                    code.store(total, code.at(target, place))

    def _add_table(self, i: SSAValue, count: SSAValue, together: int) -> None:
        """Add to the sums of every row what the table has for its inputs from `i`."""
        code, shape = self._code, self._shape
        shift = shape.row_bytes.bit_length() - 1
        with code.each(0, count) as r:
            place = code.add(code.mul(r, shape.bit_bytes), code.lshr(i, 3))
            stored = code.load(code.at(self._bits, place), IntegerType(together))
            bits = code.resize(stored, i64, unsigned=True)
            totals = self._totals(r)
            for g in range(together // _GROUP):
                far = shift - g * _GROUP
                moved = code.shl(bits, far) if far > 0 else code.lshr(bits, -far) if far else bits
                way = code.and_(moved, (_WAYS - 1) << shift)
                row = code.at(code.at(self._table, way), g * _WAYS * shape.row_bytes)
                for c, total in enumerate(totals):
                    value = code.load(code.at(row, c * shape.recipe.width), self._register)
                    totals[c] = self._plus(total, value)
            self._keep(r, totals)

    def _place(self, r: SSAValue, register: int) -> SSAValue:
        shape = self._shape
        place = self._code.add(self._code.mul(r, shape.column), register * shape.lanes)
        return self._code.at(self._sums, place, shape.element)

    def _totals(self, r: SSAValue) -> list[SSAValue]:
        """The sums of a row so far; of integers those of this table alone."""
        code, shape = self._code, self._shape
        if not shape.floats:
            return [code.constant(0, self._register)] * shape.registers
        return [code.load(self._place(r, c), self._register) for c in range(shape.registers)]

    def _keep(self, r: SSAValue, totals: list[SSAValue]) -> None:
        code, shape = self._code, self._shape
        for c, total in enumerate(totals):
            place = self._place(r, c)
            if not shape.floats:
                wide = vector(i32, shape.lanes)
                total = code.add(code.load(place, wide), code.resize(total, wide))
            code.store(total, place)

    def _multiply(self, weights: SSAValue, r: SSAValue) -> None:
        """The sums of one row without a table, in the order of those with one."""
        code, shape = self._code, self._shape
        mask = IntegerType(8 * shape.bytes if shape.floats else 16)
        line = code.at(self._bits, code.mul(r, shape.bit_bytes))
        with code.each(0, shape.padded, _TOGETHER) as i:
            bits = code.load(code.at(line, code.lshr(i, 3)), i32)
            with code.loop(0, _TOGETHER, _GROUP, self._totals(r)) as group:
                sums = [code.constant(0.0 if shape.floats else 0, self._register)] * shape.registers
                for k in range(_GROUP):
                    j = code.add(group.index, k)
                    bit = code.and_(code.lshr(bits, code.resize(j, i32)), 1)
                    fires = code.splat(code.resize(code.sub(0, bit), mask), shape.lanes)
                    row = code.mul(code.add(i, j), shape.column)
                    for c, total in enumerate(sums):
                        weight = self._weight(code.at(weights, row, shape.weight), c)
                        value = code.and_(code.bits(weight, fires.type), fires)
                        sums[c] = self._plus(total, code.bits(value, self._register))
                group.values = [self._plus(*pair) for pair in zip(group.values, sums, strict=True)]
            self._keep(r, list(group.values))
