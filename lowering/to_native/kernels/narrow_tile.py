"""Tiles of products of pairs, where there is no dot product of four bytes: sums of 16 bits.

What `panel` does with int32 sums costs a second multiplication for every product on AVX2. Here a
product of pairs (`Recipe.pairs`) is added in 16 bits, and goes to the int32 results of the tile
once a chunk: 64 steps of codes up to 2, whose sums are at least 64 · 2 · 2 · -128 = -2^15. A chunk
of a panel stays in the first-level cache while all fields of its bytes are met. A few rows meet
several fields at once, cut out by masks: an odd field then counts 4-fold, and its sums are divided
exactly and passed on every 16 steps. Not here: who calls this (`panel`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import llvm
from xdsl.dialects.builtin import i16, i32, i64
from xdsl.ir import SSAValue

from ....runtime.native.abi.linear import PANEL, STEP
from ..llvm.types import vector
from .code import POINTER, Code
from .recipes import Recipe

STEP_BYTES = PANEL * STEP // 4
CHUNK, SPAN = 64, 16
"""Steps until sums of codes up to 2 · 1 and 2 · 4 may leave 16 bits."""
CHUNK_BYTES = CHUNK * STEP_BYTES
LOW, _HIGH = 0x0303, 0x0C0C
"""Masks of fields 0 and 1 of two bytes."""
_AHEAD = 4608
"""How far ahead of its use a tile asks for weights, in bytes."""


class Sums:
    """Writes products of pairs, and their sums."""

    def __init__(self, code: Code, recipe: Recipe) -> None:
        assert recipe.pairs is not None
        self._code = code
        self._pairs = recipe.pairs
        self.fours = vector(i32, recipe.lanes)
        self.halves = vector(i16, 2 * recipe.lanes)
        self.zero = code.constant(0, self.halves)

    def added(self, total: SSAValue, codes: SSAValue, values: SSAValue) -> SSAValue:
        """`total` and the products of a register of codes."""
        return self._code.add(total, self._pairs(self._code, codes, values))

    def fields(self, packed: SSAValue) -> list[SSAValue]:
        """The codes of the four fields; odd ones count 4-fold."""
        high = self._code.lshr(packed, 4)
        return [self._code.and_(part, mask) for part in (packed, high) for mask in (LOW, _HIGH)]

    def wide(self, total: SSAValue) -> SSAValue:
        """Sums of 16 bits added in twos, an int32 for each output."""
        ones = self._code.constant(1, self.halves)
        return self._code.intrinsic("llvm.x86.avx2.pmadd.wd", [total, ones], self.fours)


@dataclass(frozen=True)
class _Part:
    """Some fields of some registers of a step, at once: as many sums a row as both multiplied."""

    fields: int
    registers: int


_PARTS = {1: _Part(4, 2), 2: _Part(4, 1), 3: _Part(1, 2), 4: _Part(1, 2)}
"""How rows of activations meet a step so that all sums stay in 16 registers."""


def write_narrow_tile(recipe: Recipe, rows: int, name: str) -> llvm.FuncOp:
    """The function `name`, a tile of so many rows: see `panel.TILE_ARGUMENTS`."""
    code = Code(name, [POINTER, POINTER, i64, POINTER, i64, i64, i64])
    weights, x, stride, raw, raw_stride, steps, panels = code.arguments
    lines = [code.at(x, code.mul(stride, m)) for m in range(rows)]
    targets = [code.at(raw, code.mul(raw_stride, m), i32) for m in range(rows)]
    size = code.mul(steps, STEP_BYTES)
    zero = code.constant(0, vector(i32, recipe.lanes))
    part = _PARTS[rows]
    with code.each(0, panels) as n:
        here = [code.at(target, code.shl(n, 6), i32) for target in targets]
        for target in here:
            for lane in range(0, PANEL, recipe.lanes):
                code.store(zero, code.at(target, lane, i32))
        codes = code.at(weights, code.mul(n, size))
        with code.each(0, size, CHUNK_BYTES) as first:
            end = code.minimum(size, code.add(first, CHUNK_BYTES))
            for field in range(0, 4, part.fields):
                for place in range(0, STEP_BYTES, part.registers * recipe.width):
                    meeting = _Meeting(code, recipe, part, field, place)
                    meeting.write(codes, lines, here, first, end)
    return code.finish()


class _Meeting:
    """Writes how all rows meet the fields and the registers of one part, of each step."""

    def __init__(self, code: Code, recipe: Recipe, part: _Part, field: int, place: int) -> None:
        self._code = code
        self._recipe = recipe
        self._sums = Sums(code, recipe)
        self._place = place
        self._asks = field == place == 0
        fields = range(field, field + part.fields)
        self._odd = [p for p in fields if part.fields > 1 and p % 2]
        self._even = [p for p in fields if p not in self._odd]
        self._registers = range(part.registers)

    def write(
        self,
        codes: SSAValue,
        values: Sequence[SSAValue],
        targets: Sequence[SSAValue],
        first: SSAValue,
        end: SSAValue,
    ) -> None:
        """Add the products of the bytes of weights from `first` to `end` to the results."""
        code = self._code
        each = len(values) * len(self._registers)
        sums: Sequence[SSAValue] = [self._sums.zero] * (each * len(self._even))
        none = [self._sums.zero] * (each * len(self._odd))
        span = SPAN * STEP_BYTES if self._odd else CHUNK_BYTES
        with code.loop(first, end, span, sums) as part:
            stop = code.minimum(end, code.add(part.index, span))
            with code.loop(part.index, stop, STEP_BYTES, [*part.values, *none]) as step:
                step.values = self._step(codes, values, step.index, step.values)
            part.values = step.values[: len(sums)]
            self._pass_on(self._odd, step.values[len(sums) :], targets, 2)
        self._pass_on(self._even, part.values, targets, 0)

    def _step(
        self,
        codes: SSAValue,
        values: Sequence[SSAValue],
        at: SSAValue,
        totals: Sequence[SSAValue],
    ) -> list[SSAValue]:
        """The sums, by field, register and row, with the products of one step."""
        code, sums = self._code, self._sums
        base = code.at(code.at(codes, at), self._place)
        if self._asks:
            code.prefetch(code.at(base, _AHEAD))
        # 64 bytes of weights a step stand against 4 values.
        fours = code.lshr(at, 4)
        spread = [
            code.splat(code.load(code.at(line, fours), i32), self._recipe.lanes) for line in values
        ]
        cuts = [
            self._fields(code.load(code.at(base, i * self._recipe.width), sums.halves))
            for i in self._registers
        ]
        operands = [
            (cut[p], value) for p in (*self._even, *self._odd) for cut in cuts for value in spread
        ]
        return [sums.added(total, *both) for total, both in zip(totals, operands, strict=True)]

    def _fields(self, packed: SSAValue) -> dict[int, SSAValue]:
        """The codes of fields by their number; odd ones of several count 4-fold."""
        if self._odd:
            return dict(enumerate(self._sums.fields(packed)))
        (p,) = self._even
        moved = self._code.lshr(packed, 2 * p) if p else packed
        return {p: self._code.and_(moved, LOW)}

    def _pass_on(
        self,
        fields: Sequence[int],
        totals: Sequence[SSAValue],
        targets: Sequence[SSAValue],
        bits: int,
    ) -> None:
        """Add sums of 16 bits to the int32 results, divided by 2^bits."""
        code, recipe = self._code, self._recipe
        places = [
            code.at(target, p * (PANEL // 4) + self._place // 4 + i * recipe.lanes, i32)
            for p in fields
            for i in self._registers
            for target in targets
        ]
        for place, total in zip(places, totals, strict=True):
            wide = self._sums.wide(total)
            result = code.ashr(wide, bits) if bits else wide
            code.store(code.add(code.load(place, self._sums.fours), result), place)
