"""The inner loop of kernels on bit planes: words looked up, and added into counters of bits.

A counter holds, for each column (a byte) and row of an octet (a bit of it), a number whose bit j
stands in plane j. Words are added by full adders: two words and the plane of their weight give a
plane and one word of twice the weight, so each word costs two operations in the end, whatever its
weight. Not here: which tiles are made (`bitplanes_product`).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import llvm
from xdsl.dialects.builtin import i8, i64
from xdsl.ir import SSAValue

from ....runtime.native.abi.bitplanes import CHUNK_STEPS, COUNT_BITS, STEP_GROUPS, Operand
from ....runtime.native.abi.linear import PANEL
from ..llvm.types import vector
from .bitplanes_schemes import Scheme
from .bitplanes_tables import sum_words, table_place, words_of
from .code import POINTER, Code

COUNTER_BYTES = COUNT_BITS * PANEL
_HELD = 7
"""Planes of a counter that stay in registers in the loop: 16 groups add less than 2^7."""


class Counter:
    """Planes of the weights 2^`first` … of a counter, while code adds to them."""

    def __init__(self, code: Code, scheme: Scheme, planes: Sequence[SSAValue]) -> None:
        self._code = code
        self._scheme = scheme
        self.planes = list(planes)
        self._waiting: list[SSAValue | None] = [None] * len(planes)
        self.beyond: list[SSAValue] = []

    def add(self, level: int, word: SSAValue) -> None:
        """Add a word to plane `level`, once another one is there to go with it."""
        if level == len(self.planes):
            self.beyond.append(word)
            return
        other = self._waiting[level]
        if other is None:
            self._waiting[level] = word
            return
        self._waiting[level] = None
        plane, carry = self._scheme.add(self._code, other, word, self.planes[level])
        self.planes[level] = plane
        self.add(level + 1, carry)

    def settle(self) -> None:
        """Add the words that wait."""
        for level, plane in enumerate(self.planes):
            word = self._waiting[level]
            if word is None:
                continue
            plane = self.planes[level]
            self._waiting[level] = None
            self.planes[level] = self._code.xor(plane, word)
            self.add(level + 1, self._code.and_(plane, word))


def write_tile(scheme: Scheme, operand: Operand, panels: int, name: str) -> llvm.FuncOp:
    """`tile_N(tables, stride, codes, panel_stride, counters, steps)`.

    Adds up to `CHUNK_STEPS` steps of one octet and N panels into their counters. Without lookups,
    `tables` are the planes of the octet, `stride` bytes each. Registers narrower than a panel take
    it part by part.
    """
    code = Code(name, [POINTER, i64, POINTER, i64, POINTER, i64])
    tables, stride, codes, panel_stride, counters, steps = code.arguments
    sides = [code.mul(panel_stride, n) for n in range(panels)]
    over = code.stack(panels * CHUNK_STEPS * scheme.width)
    with code.when(code.icmp("slt", steps, CHUNK_STEPS)):
        code.clear(over, panels * CHUNK_STEPS * scheme.width)
    with code.each(0, PANEL, scheme.width) as offset:
        tile = _Tile(code, scheme, operand, (tables, stride), over)
        lines = [code.at(code.at(codes, side), offset) for side in sides]
        places = [code.at(counters, n * COUNTER_BYTES) for n in range(panels)]
        tile.run(lines, [code.at(place, offset) for place in places], steps)
    return code.finish()


class _Tile:
    """Writes the code for one register of columns of each panel."""

    def __init__(
        self,
        code: Code,
        scheme: Scheme,
        operand: Operand,
        rows: tuple[SSAValue, SSAValue],
        over: SSAValue,
    ) -> None:
        self._code = code
        self._scheme = scheme
        self._operand: Operand = operand
        self._rows = rows
        self._over = over
        self._bytes = vector(i8, scheme.width)
        self._line = PANEL * (2 if scheme.group == 1 else 1)

    def run(self, codes: Sequence[SSAValue], counters: Sequence[SSAValue], steps: SSAValue) -> None:
        code, kind, count = self._code, self._bytes, len(codes)
        low = [
            code.load(code.at(counter, j * PANEL), kind)
            for counter in counters
            for j in range(_HELD)
        ]
        with code.loop(0, steps, 1, low) as step:
            index = step.index
            held = [
                Counter(code, self._scheme, step.values[n * _HELD : (n + 1) * _HELD])
                for n in range(count)
            ]
            self._add_step(index, codes, held)
            place = code.at(self._over, code.mul(index, count * self._scheme.width))
            for n, counter in enumerate(held):
                counter.settle()
                (carry,) = counter.beyond
                code.store(carry, code.at(place, n * self._scheme.width))
            step.values = [plane for counter in held for plane in counter.planes]
        low = step.values
        for n, counter in enumerate(counters):
            for j in range(_HELD):
                code.store(low[n * _HELD + j], code.at(counter, j * PANEL))
            self._carry(n, count, counter)

    def _add_step(
        self, index: SSAValue, codes: Sequence[SSAValue], counters: Sequence[Counter]
    ) -> None:
        """Add `STEP_GROUPS` groups."""
        code, scheme = self._code, self._scheme
        words = words_of(self._operand, scheme.group)
        at = code.mul(index, STEP_GROUPS * self._line)
        lines = [code.at(line, at) for line in codes]
        tables, stride = self._rows
        each = words * scheme.entries if scheme.entries else 1
        here = code.at(tables, code.mul(index, STEP_GROUPS * each))
        for g in range(STEP_GROUPS):
            sources = [code.at(line, g * self._line) for line in lines]
            if scheme.entries == 0:
                row = [code.at(here, g), code.at(code.at(here, stride), g)]
                for counter, source in zip(counters, sources, strict=True):
                    for j, word in enumerate(self._products(row, source)):
                        counter.add(j, word)
                continue
            tables_of_words = [self._table(here, g, j) for j in range(words)]
            for counter, source in zip(counters, sources, strict=True):
                places = code.load(source, self._bytes)
                for j, table in enumerate(tables_of_words):
                    counter.add(j, scheme.lookup(code, table, places))

    def _table(self, tables: SSAValue, group: int, word: int) -> SSAValue:
        code, scheme = self._code, self._scheme
        place = table_place(scheme, self._operand, group, word)
        table = code.load(code.at(tables, place), vector(i8, scheme.entries))
        return code.shuffle(table, table, [i % scheme.entries for i in range(scheme.width)])

    def _products(self, row: Sequence[SSAValue], source: SSAValue) -> list[SSAValue]:
        """The words of one step, by logic."""
        code, scheme, width = self._code, self._scheme, self._scheme.width
        planes = row if self._operand == "trits" else row[:1]
        a = [code.splat(code.load(address, i8), width) for address in planes]
        masks = code.load(source, self._bytes), code.load(code.at(source, PANEL), self._bytes)
        return sum_words(code, scheme, self._operand, [a], [masks])

    def _carry(self, n: int, count: int, counter: SSAValue) -> None:
        """Add the words that left the loop to the planes above."""
        code, width = self._code, self._scheme.width
        places = [code.at(counter, j * PANEL) for j in range(_HELD, COUNT_BITS)]
        above = Counter(code, self._scheme, [code.load(place, self._bytes) for place in places])
        for i in range(CHUNK_STEPS):
            above.add(0, code.load(code.at(self._over, (i * count + n) * width), self._bytes))
        above.settle()
        for place, plane in zip(places, above.planes, strict=True):
            code.store(plane, place)
