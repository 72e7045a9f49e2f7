"""Tables of token embeddings as files hold them: rows of floats, or of blocks of small integers.

A program has the integers of blocks as bytes; native code multiplies the blocks where they are. Not
here: products (`to_native.kernels.row_products`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from ...ir.arrays import Array
from ...runtime.native.abi.row_products import BLOCKS, RowKind

_TOGETHER = 1 << 20
"""So many values are read at a time, where what is made of them is smaller than floats."""


@dataclass(frozen=True, eq=False)
class Embeddings:
    """A table.

    Attributes:
        kind: of the rows.
        shape: [vocabulary, features].
        read: rows as the file holds them, uint8 [rows, bytes of a row].
        decoded: float32 of some rows; `None` where they are floats already.
        integers: of some rows of blocks the parameters that a program has.
    """

    kind: RowKind
    shape: tuple[int, int]
    read: Callable[[slice], Array]
    decoded: Callable[[Array], Array] | None = None
    integers: Callable[[Array], Mapping[str, Array]] | None = None

    @staticmethod
    def of(table: Array) -> Embeddings:
        """A table of floats [vocabulary, features], of which no copy is made."""
        kind, rows = cast("RowKind", table.dtype.name), table.view(np.uint8)
        return Embeddings(kind, cast("tuple[int, int]", table.shape), rows.__getitem__)

    @cached_property
    def rows(self) -> Array:
        """All of them, which stay in memory."""
        return self.read(slice(None))

    def floats(self, chosen: Any = slice(None)) -> Array:
        """Rows as floats, all of them if not told which."""
        rows = self.rows[chosen]
        return rows.view(np.dtype(self.kind)) if self.decoded is None else self.decoded(rows)

    @property
    def arguments(self) -> str:
        """Of the layer `TokenEmbedding`."""
        vocabulary, features = self.shape
        block = BLOCKS.get(self.kind)
        blocks = f'"int8", {features // block.values}, {block.parts}' if block else f'"{self.kind}"'
        return f"{vocabulary}, {features}, {blocks}"

    def parameters(self) -> dict[str, Array]:
        """Of the layer `TokenEmbedding`; blocks are read some at a time."""
        if self.integers is None:
            return {"weight": self.floats()}
        (count, features), whole = self.shape, dict[str, Array]()
        each = -(-_TOGETHER // features)
        for some in (slice(n, n + each) for n in range(0, count, each)):
            for name, values in self.integers(self.read(some)).items():
                if name not in whole:
                    whole[name] = np.empty((count, *values.shape[1:]), values.dtype)
                whole[name][some] = values
        return whole
