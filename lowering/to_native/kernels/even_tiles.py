"""Rows of activations in tiles of about equal heights, as all products of matrices take them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from xdsl.ir import SSAValue

from .code import Code


class EvenTiles:
    """Rows in tiles of at most so many, of about equal heights; one at least."""

    def __init__(self, code: Code, rows: SSAValue, most: int) -> None:
        self._code = code
        self._count = code.maximum(code.udiv(code.add(rows, most - 1), most), 1)
        self._least = code.udiv(rows, self._count)
        self._larger = code.sub(rows, code.mul(self._least, self._count))

    @contextmanager
    def each(self) -> Generator[tuple[SSAValue, SSAValue]]:
        """Loops over the tiles: the first row of each, and how many it has."""
        code = self._code
        with code.loop(0, self._count, 1, [code.constant(0)]) as tile:
            first = tile.values[0]
            extra = code.icmp("slt", tile.index, self._larger)
            rows = code.add(self._least, code.select(extra, 1, 0))
            yield first, rows
            tile.values = [code.add(first, rows)]
