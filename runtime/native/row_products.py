"""A table of rows times one vector, by native code in several threads. Not here: the code."""

from __future__ import annotations

from ctypes import c_char_p, c_int64
from struct import Struct

import numpy as np

from ...ir.arrays import Array
from .abi.linear import DIGIT_BASE
from .abi.row_products import BLOCKS, DIGITS, PAIR_BLOCK, ROWS, RowKind
from .addresses import address_of
from .jit import Library
from .memory import aligned
from .threads import together

_pack = Struct("5q").pack


class RowProduct:
    """Products with the rows of a table.

    Args:
        library: with the function `ROWS` for rows of the kind.
        kind: of the rows.
        rows: uint8 [rows, bytes of a row], contiguous; they are read where they are.
        values: of a row.
        threads: most that take part.
    """

    def __init__(
        self, library: Library, kind: RowKind, rows: Array, values: int, threads: int = 1
    ) -> None:
        self._part = library.function(ROWS, [c_char_p, *[c_int64] * 4])
        self._kind: RowKind = kind
        self._rows, self._values, self._threads = rows, values, threads

    def __call__(self, x: Array) -> Array:
        """Of each row, from float32 [values] contiguous: float32 [rows]."""
        given = prepared(self._kind, x)
        rows = self._rows
        y = np.empty(len(rows), np.float32)
        places = (address_of(array) for array in (rows, given, y))
        argument = _pack(*places, rows.shape[1], self._values)
        together(self._part, argument, self._threads, (len(rows), 0))
        return y


def prepared(kind: RowKind, x: Array) -> Array:
    """A vector as the function reads it.

    The part of a block has the values of both digits; sums of these; and the scale, float32. In
    `Q8_0` the sums are -128 times those of each four values, int32. In `Q6_K` they are negative
    ones of each 16 values, int16; and values 32k … 32k + 31 of both halves stand together there,
    for each k.

    Args:
        kind: of the rows.
        x: float32 [values].
    """
    if kind == "bfloat16":
        whole = len(x) - len(x) % PAIR_BLOCK
        pairs = x[:whole].reshape(-1, PAIR_BLOCK // 2, 2).swapaxes(1, 2)
        return np.concatenate([pairs.reshape(-1), x[whole:]])
    block = BLOCKS.get(kind)
    if block is None:
        return np.ascontiguousarray(x)
    parts = x.reshape(-1, block.values)
    scale = np.abs(parts).max(axis=1, keepdims=True) / np.float32(127)
    scaled = parts / np.where(scale > 0, scale, np.float32(1))
    high = np.rint(scaled)
    low = np.rint((scaled - high) * np.float32(DIGIT_BASE))
    digits = np.stack([high, low], axis=1).astype(np.int8)
    shape = (len(parts), DIGITS, -1)
    if kind == "Q8_0":
        sums = -128 * digits.reshape(*shape, 4).sum(axis=3, dtype=np.int32)
    else:
        sums = -digits.reshape(*shape, 16).sum(axis=3, dtype=np.int16)
        digits = digits.reshape(-1, 2, 4, 32).swapaxes(1, 2)
    result = aligned(len(parts) * block.prepared).view(np.int8).reshape(len(parts), -1)
    for place, values in ((block.digits, digits), (block.sums, sums), (block.scale, scale)):
        content = np.ascontiguousarray(values).reshape(len(parts), -1).view(np.int8)
        result[:, place : place + content.shape[1]] = content
    return result
