"""Tables of token embeddings as files hold them: rows of floats, or of blocks of small integers.

What reads a model as a program has them as floats; native code multiplies the blocks where they
are. Not here: products (`to_native.kernels.row_products`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from ...ir.arrays import Array
from ...runtime.native.abi.row_products import RowKind


@dataclass(frozen=True, eq=False)
class Embeddings:
    """A table.

    Attributes:
        kind: of the rows.
        features: values of a row.
        rows: uint8 [vocabulary, bytes of a row].
        decoded: float32 of some rows; `None` where they are floats already.
    """

    kind: RowKind
    features: int
    rows: Array
    decoded: Callable[[Array], Array] | None = None

    @staticmethod
    def of(table: Array) -> Embeddings:
        """A table of floats [vocabulary, features], of which no copy is made."""
        return Embeddings(cast("RowKind", table.dtype.name), table.shape[1], table.view(np.uint8))

    @property
    def element(self) -> np.dtype[Any]:
        """Of what `floats` gives."""
        return np.dtype(np.float32 if self.decoded else self.kind)

    def floats(self, chosen: Any = slice(None)) -> Array:
        """Rows as floats, all of them if not told which."""
        rows = self.rows[chosen]
        return rows.view(self.element) if self.decoded is None else self.decoded(rows)
