"""Tiles over the places of a row of results: raw sums of biased codes, an output channel a lane.

A row of a tile is one place; its neighbours stand a stride further in the plane, and the rows of
its window are the segments of the reduction. With dilated columns, neighbours are places of the
same remainder. Not here: tiles themselves (`panel`), what becomes of raw sums (`conv_results`).
"""

from __future__ import annotations

from math import gcd

from xdsl.dialects import llvm
from xdsl.dialects.builtin import i32, i64
from xdsl.ir import SSAValue

from ....runtime.native.abi.linear import PANEL
from .code import POINTER, Code
from .conv_memory import ConvMemory
from .even_tiles import EvenTiles
from .narrow_block import LEAST_ROWS, NARROW_BLOCK
from .panel import BLOCK_BYTES, MOST_PANELS, STEP_BYTES, tile_name

STRIP_ARGUMENTS = ("weights", "scratch", "row", "column", "count", "place")
"""`strip`: two pointers, four int64. The results from `column` on in one row, `count` of them, go
to the raw sums from `place` on."""


def write_strip(memory: ConvMemory, name: str) -> llvm.FuncOp:
    """The function `name`, see `STRIP_ARGUMENTS`."""
    code = Code(name, [POINTER] * 2 + [i64] * 4)
    _Strip(code, memory, dict(zip(STRIP_ARGUMENTS, code.arguments, strict=True))).write()
    return code.finish()


class _Strip:
    """Writes the code."""

    def __init__(self, code: Code, memory: ConvMemory, arguments: dict[str, SSAValue]) -> None:
        self._code = code
        self._memory = memory
        self._arguments = arguments
        g = memory.geometry
        self._turns = g.dilation[1] // gcd(g.dilation[1], g.strides[1])
        self._step = self._turns * g.strides[1] // g.dilation[1] * g.stored_channels
        """Bytes between neighbours of the same remainder."""
        # Blocks leave out fields that nobody wants.
        self._many = memory.block[1] >= LEAST_ROWS * self._turns or g.group_outs <= PANEL // 2
        self._segments = g.kernel[0], g.dilation[0] * memory.plane.pitch

    def write(self) -> None:
        code, memory, arguments = self._code, self._memory, self._arguments
        g, plane = memory.geometry, memory.plane
        line = code.at(arguments["scratch"], memory.plane_at)
        row = code.mul(arguments["row"], g.strides[0] * plane.pitch)
        column = arguments["column"]
        if self._turns > 1:
            column = code.udiv(column, self._turns)
        line = code.at(line, code.add(row, code.mul(column, self._step)))
        raw = code.at(arguments["scratch"], memory.raw_at)
        raw = code.at(raw, code.mul(arguments["place"], memory.raw_stride), i32)
        with code.each(0, memory.kind.digits) as d:
            here = code.at(line, code.mul(d, memory.plane_size))
            there = code.at(raw, code.mul(d, memory.raw_size))
            with code.each(0, self._turns) as turn:
                self._turn(turn, here, there)

    def _turn(self, turn: SSAValue, line: SSAValue, raw: SSAValue) -> None:
        """All places of one remainder."""
        code, memory, count = self._code, self._memory, self._arguments["count"]
        g = memory.geometry
        if self._turns > 1:
            count = code.udiv(code.sub(code.add(count, self._turns - 1), turn), self._turns)
            start = code.mul(turn, g.strides[1])
            place = code.udiv(start, g.dilation[1])
            part = code.sub(start, code.mul(place, g.dilation[1]))
            place = code.add(code.mul(part, memory.plane.columns), place)
            line = code.at(line, code.mul(place, g.stored_channels))
            raw = code.at(raw, code.mul(turn, memory.raw_stride), i32)
        self._tiles(count, line, raw)

    def _tiles(self, count: SSAValue, line: SSAValue, raw: SSAValue) -> None:
        """All places of a strip, by blocks of panels."""
        code, memory = self._code, self._memory
        g = memory.geometry
        panel = g.kernel[0] * g.steps * STEP_BYTES
        together = min(max(BLOCK_BYTES // panel, 1), MOST_PANELS)
        with code.each(0, g.panels, together) as first:
            panels = code.minimum(together, code.sub(g.panels, first))
            weights = code.at(self._arguments["weights"], code.mul(first, panel))
            target = code.at(raw, code.shl(first, 6), i32)
            self._panels(count, weights, line, target, panels, first)

    def _panels(
        self,
        count: SSAValue,
        weights: SSAValue,
        line: SSAValue,
        raw: SSAValue,
        panels: SSAValue,
        first: SSAValue,
    ) -> None:
        """All places by some panels."""
        code, memory = self._code, self._memory
        g = memory.geometry
        apart = self._turns * memory.raw_stride
        if memory.recipe.pairs is not None and self._many:
            outs = code.sub(g.group_outs, code.shl(first, 6))
            sizes = g.steps, panels, *self._segments, count, outs
            code.call(NARROW_BLOCK, weights, line, self._step, raw, apart, *sizes)
            return
        with EvenTiles(code, count, memory.recipe.tile_rows).each() as (m, rows):
            x = code.at(line, code.mul(m, self._step))
            there = code.at(raw, code.mul(m, apart), i32)
            for height in code.cases(rows, range(1, memory.recipe.tile_rows + 1)):
                sizes = apart, g.steps, panels, *self._segments
                code.call(tile_name(height), weights, x, self._step, there, *sizes)
