"""Tiles over the places of a row of results: raw sums of biased codes, an output channel a lane.

A row of a tile is one place; its neighbours stand a stride further in the plane, and the rows of
its window are the segments of the reduction. With dilated columns, neighbours are places of the
same remainder. Not here: tiles themselves (`panel`), what becomes of raw sums (`conv_results`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from xdsl.dialects import llvm
from xdsl.dialects.builtin import i32, i64
from xdsl.ir import SSAValue

from .code import POINTER, Code, function
from .conv_memory import ConvMemory
from .panel import STEP_BYTES, tile_name

_BLOCK_BYTES, _MOST_PANELS = 512 << 10, 16
"""Weights that a row of places meets before the next are read, and the most panels of them."""

STRIP_ARGUMENTS = ("weights", "scratch", "row", "column", "count", "place")
"""`strip`: two pointers, four int64. The results from `column` on in one row, `count` of them, go
to the raw sums from `place` on."""


def write_strip(memory: ConvMemory, name: str) -> llvm.FuncOp:
    """The function `name`, see `STRIP_ARGUMENTS`."""

    def body(code: Code, arguments: Sequence[SSAValue]) -> None:
        _Strip(code, memory, dict(zip(STRIP_ARGUMENTS, arguments, strict=True))).write()

    return function(name, [POINTER] * 2 + [i64] * 4, body)


class _Strip:
    """Writes the code."""

    def __init__(self, code: Code, memory: ConvMemory, given: dict[str, SSAValue]) -> None:
        self._code = code
        self._memory = memory
        self._given = given
        g = memory.geometry
        self._turns = g.dilation[1] // gcd(g.dilation[1], g.strides[1])
        self._step = self._turns * g.strides[1] // g.dilation[1] * g.stored_channels
        """Bytes between neighbours of the same remainder."""

    def write(self) -> None:
        code, memory, given = self._code, self._memory, self._given
        g, plane = memory.geometry, memory.plane
        line = code.at(given["scratch"], memory.plane_at)
        row = code.mul(given["row"], code.constant(g.strides[0] * plane.pitch))
        column = given["column"]
        if self._turns > 1:
            column = code.udiv(column, code.constant(self._turns))
        line = code.at(line, code.add(row, code.mul(column, code.constant(self._step))))
        raw = code.at(given["scratch"], memory.raw_at)
        raw = code.at(raw, code.mul(given["place"], code.constant(memory.raw_stride)), i32)

        def digit(d: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
            here = code.at(line, code.mul(d, code.constant(memory.plane_size)))
            there = code.at(raw, code.mul(d, code.constant(memory.raw_size)))
            code.loop(code.constant(0), code.constant(self._turns), 1, self._turn(here, there))
            return []

        code.loop(code.constant(0), code.constant(memory.kind.digits), 1, digit)

    def _turn(self, line: SSAValue, raw: SSAValue):
        """All places of one remainder."""
        code, memory = self._code, self._memory
        g, plane = memory.geometry, memory.plane

        def body(turn: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
            count, here, there = self._given["count"], line, raw
            if self._turns > 1:
                most = code.constant(self._turns)
                rest = code.sub(code.add(count, code.constant(self._turns - 1)), turn)
                count = code.udiv(rest, most)
                start = code.mul(turn, code.constant(g.strides[1]))
                place = code.udiv(start, code.constant(g.dilation[1]))
                part = code.sub(start, code.mul(place, code.constant(g.dilation[1])))
                place = code.add(code.mul(part, code.constant(plane.columns)), place)
                here = code.at(line, code.mul(place, code.constant(g.stored_channels)))
                there = code.at(raw, code.mul(turn, code.constant(memory.raw_stride)), i32)
            self._tiles(count, here, there)
            return []

        return body

    def _tiles(self, count: SSAValue, line: SSAValue, raw: SSAValue) -> None:
        """Tiles of about equal numbers of places, for all panels."""
        code, memory = self._code, self._memory
        g = memory.geometry
        most, one = code.constant(memory.recipe.tile_rows), code.constant(1)
        tiles = code.udiv(code.add(count, code.sub(most, one)), most)
        tiles = code.maximum(tiles, one)
        each = code.udiv(count, tiles)
        larger = code.sub(count, code.mul(each, tiles))
        panel = g.kernel[0] * g.steps * STEP_BYTES
        together = min(max(_BLOCK_BYTES // panel, 1), _MOST_PANELS)

        def block(first: SSAValue, _: Sequence[SSAValue]) -> list[SSAValue]:
            panels = code.minimum(code.constant(together), code.sub(code.constant(g.panels), first))
            weights = code.at(self._given["weights"], code.mul(first, code.constant(panel)))
            target = code.at(raw, code.shl(first, 6), i32)

            def tile(t: SSAValue, carried: Sequence[SSAValue]) -> list[SSAValue]:
                m = carried[0]
                extra = code.compare("slt", t, larger)
                rows = code.add(each, code.select(extra, one, code.constant(0)))
                x = code.at(line, code.mul(m, code.constant(self._step)))
                apart = code.constant(self._turns * memory.raw_stride)
                self._call(rows, weights, x, code.at(target, code.mul(m, apart), i32), panels)
                return [code.add(m, rows)]

            code.loop(code.constant(0), tiles, 1, tile, [code.constant(0)])
            return []

        code.loop(code.constant(0), code.constant(g.panels), together, block)

    def _call(
        self, rows: SSAValue, weights: SSAValue, x: SSAValue, raw: SSAValue, panels: SSAValue
    ) -> None:
        code, memory = self._code, self._memory
        g = memory.geometry
        arguments = (
            weights,
            x,
            code.constant(self._step),
            raw,
            code.constant(self._turns * memory.raw_stride),
            code.constant(g.steps),
            panels,
            code.constant(g.kernel[0]),
            code.constant(g.dilation[0] * memory.plane.pitch),
        )
        for count in range(1, memory.recipe.tile_rows + 1):

            def call(count: int = count) -> None:
                code.call(tile_name(count), *arguments)

            code.when(code.compare("eq", rows, code.constant(count)), call)
