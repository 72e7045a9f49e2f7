"""Blocks of GGUF files that hold trits, TQ1_0, TQ2_0, and I2_S of bitnet.cpp; and small integers.

The first two have a float16 scale for 256 values. The package `gguf` gives floats alone: of blocks
whose scale is 1 these are trits, which takes three times as long as shifting the bits of TQ2_0 and
of I2_S. That is the one of `quantize_i2_s` of bitnet.cpp for x86, with one scale behind all values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

from ...ir.arrays import Array
from ...ir.errors import SourceError

_Q6_K, _TQ2_0, _I2_S = 14, 35, 36
TERNARY = (34, _TQ2_0, _I2_S)
"""Numbers of their types."""

_ONE = np.array([1], np.float16).view(np.uint8)
_TOGETHER = 1 << 18
"""So many values become floats at a time, which stay near the processor."""


def block_size(kind: int) -> tuple[int, int, int]:
    """Values and bytes of a block, and the bytes behind all blocks; zeros if it is not known."""
    if kind == _I2_S:
        return 128, 32, 32
    known = {type.value: sizes for type, sizes in GGML_QUANT_SIZES.items()}
    return (*known.get(kind, (0, 0)), 0)


def decoded(kind: int, rows: Array, element: Any = np.float32) -> Array:
    """What rows of blocks stand for by the package, a part at a time.

    Raises:
        NotImplementedError, ValueError, IndexError: of the package, for what it cannot read.
    """
    values, size, _ = block_size(kind)
    result = np.empty((len(rows), rows.shape[1] // size * values), element)
    type, count = GGMLQuantizationType(kind), max(1, _TOGETHER // result.shape[1])
    with np.errstate(all="ignore"):
        for n in range(0, len(rows), count):
            result[n : n + count] = dequantize(rows[n : n + count], type)
    return result


def integers(kind: int, rows: Array) -> dict[str, Array]:
    """Of rows of `Q8_0` or `Q6_K` what `TokenEmbedding` has of them; they are overwritten.

    The package gives the integers where scales and factors are 1.
    """
    blocks, place = rows.reshape(len(rows), -1, block_size(kind)[1]), 208 if kind == _Q6_K else 0
    factor = blocks[:, :, place : place + 2].copy().view(np.float16)
    blocks[:, :, place : place + 2] = _ONE
    scale = np.ones(factor.shape, np.int8)
    if kind == _Q6_K:
        scale = blocks[:, :, 192:208].copy().view(np.int8)
        blocks[:, :, 192:208] = 1
    weight = decoded(kind, rows, np.int8).reshape(*scale.shape, -1)
    return {"weight": weight, "scale": scale[..., None], "factor": factor[..., None]}


def ternary_blocks(kind: int, content: Array, rows: int) -> tuple[Array, Array]:
    """Trits int8 [rows, blocks, values], 2 where a code is none, and scales that broadcast."""
    values, size, more = block_size(kind)
    blocks = content[: content.size - more].reshape(rows, -1, size)
    if kind == _I2_S:
        scales = content[-more : 4 - more].copy().view(np.float32).reshape(1, 1, 1)
    else:
        scales = blocks[:, :, -2:].copy().view(np.float16).astype(np.float32)
    if kind in _SHIFTS:
        codes = blocks[:, :, : values // 4].reshape(rows, -1, 1, 32) >> _SHIFTS[kind] & 3
        trits = codes.view(np.int8) - np.int8(1)
    else:
        blocks[:, :, -2:] = _ONE
        trits = decoded(kind, blocks.reshape(rows, -1), np.int8)
    return trits.reshape(rows, -1, values), scales


_SHIFTS = {
    _TQ2_0: np.array([[0], [2], [4], [6]], np.uint8),
    _I2_S: np.array([[6], [4], [2], [0]], np.uint8),
}
"""Where the bits of the trit are that is so many times 32 behind that of the first."""


def trits_of(kind: int, content: Array, rows: int, what: str) -> tuple[Array, Array] | None:
    """Trits int8 [rows, values] and the scale of each row, float32; `None` if a row has several.

    Raises:
        SourceError: codes that no trit has.
    """
    trits, scales = ternary_blocks(kind, content, rows)
    if trits.max() > 1:
        raise SourceError(f"{what} is damaged: a trit has the code 3")
    each: Array = scales.max(axis=(1, 2))
    same = (scales == each[:, None, None]) | ~trits.any(axis=2, keepdims=True)
    if not same.all() or not np.isfinite(each).all():
        return None
    return trits.reshape(rows, -1), np.broadcast_to(each, rows).astype(np.float32)
