"""Blocks of GGUF files that hold trits: TQ1_0, TQ2_0, and I2_S of bitnet.cpp.

Layouts are those of `quantize_row_tq1_0_ref` and `quantize_row_tq2_0_ref` of ggml, which have a
float16 scale for 256 values, and of `quantize_i2_s` of bitnet.cpp for x86, which has one scale
behind all values. Not here: blocks of other types (the package `gguf`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from ...ir.arrays import Array
from ...ir.errors import SourceError

_BLOCK, _I2_BLOCK = 256, 128
_TAIL = 32
"""Bytes behind the trits of I2_S, the first of which are the scale."""


class Blocks(NamedTuple):
    """A type of blocks.

    Attributes:
        name: of the type.
        values, bytes: of a block.
        tail: bytes behind all blocks of a tensor.
        read: of the bytes of a tensor and the number of its rows, codes that are trit + 1, and
            scales that broadcast to them, both [rows, blocks, values].
    """

    name: str
    values: int
    bytes: int
    tail: int
    read: Callable[[Array, int], tuple[Array, Array]]

    def size(self, shape: Sequence[int]) -> int:
        """Bytes of a tensor."""
        return prod(shape) // self.values * self.bytes + self.tail


def trits_of(blocks: Blocks, content: Array, rows: int, what: str) -> tuple[Array, Array] | None:
    """Trits int8 [rows, values] and the scale of each row, float32; `None` if a row has several.

    Raises:
        SourceError: codes that no trit has.
    """
    codes, scales = blocks.read(content, rows)
    if codes.max() > 2:
        raise SourceError(f"{what} is damaged: a trit has the code 3")
    trits = codes.view(np.int8) - np.int8(1)
    each: Array = scales.max(axis=(1, 2))
    same = (scales == each[:, None, None]) | ~trits.any(axis=2, keepdims=True)
    if not same.all() or not np.isfinite(each).all():
        return None
    return trits.reshape(rows, -1), np.broadcast_to(each, rows).astype(np.float32)


def floats_of(blocks: Blocks, content: Array, rows: int) -> Array:
    """What blocks stand for, float32 [rows, values]."""
    codes, scales = blocks.read(content, rows)
    with np.errstate(invalid="ignore"):
        return ((codes.astype(np.float32) - 1) * scales).reshape(rows, -1)


def _scales(blocks: Array) -> Array:
    return np.ascontiguousarray(blocks[:, :, -2:]).view(np.float16).astype(np.float32)


def _tq2(content: Array, rows: int) -> tuple[Array, Array]:
    blocks = content.reshape(rows, -1, 66)
    codes = np.empty((rows, blocks.shape[1], 2, 4, 32), np.uint8)
    halves = blocks[:, :, :64].reshape(rows, -1, 2, 32)
    for place in range(4):
        codes[:, :, :, place] = halves >> 2 * place & 3
    return codes.reshape(rows, -1, _BLOCK), _scales(blocks)


def _tq1(content: Array, rows: int) -> tuple[Array, Array]:
    blocks = content.reshape(rows, -1, 54)
    codes = np.empty((rows, blocks.shape[1], _BLOCK), np.uint8)
    for first, end, start, count in ((0, 32, 0, 5), (32, 48, 160, 5), (48, 52, 240, 4)):
        width = end - first
        for digit in range(count):
            place = start + digit * width
            codes[:, :, place : place + width] = _DIGITS[digit][blocks[:, :, first:end]]
    return codes, _scales(blocks)


_DIGITS = [
    ((np.arange(256, dtype=np.uint16) * 3**digit % 256) * 3 >> 8).astype(np.uint8)
    for digit in range(5)
]
"""Of a byte that stands for the fraction of five digits in base 3."""


def _i2(content: Array, rows: int) -> tuple[Array, Array]:
    bytes_ = content[:-_TAIL].reshape(-1, 1, 32)
    codes = np.empty((len(bytes_), 4, 32), np.uint8)
    for place in range(4):
        codes[:, place] = bytes_[:, 0] >> 6 - 2 * place & 3
    scale = content[-_TAIL : 4 - _TAIL].copy().view(np.float32).reshape(1, 1, 1)
    return codes.reshape(rows, -1, _I2_BLOCK), scale


TERNARY: Mapping[int, Blocks] = {
    34: Blocks("TQ1_0", _BLOCK, 54, 0, _tq1),
    35: Blocks("TQ2_0", _BLOCK, 66, 0, _tq2),
    36: Blocks("I2_S", _I2_BLOCK, 32, _TAIL, _i2),
}
"""By the numbers of types."""
