"""Packed trits of an [ins, outs] matrix, as PyTorch's layers store them, in panels for kernels.

The panels are those of `abi.linear`. Not here: matrices stored as [outs, ins] (`packed`).
"""

from __future__ import annotations

import mmap
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from ...ir.arrays import Array
from .abi.linear import PANEL, STEP, round_up, weight_bytes

Bytes = NDArray[np.uint8]
_PIECE = 1 << 18
"""Trits that are unpacked at a time, so that they stay in the cache."""
_HUGE_PAGE = 2 << 20
"""Bytes: weights that come from memory come a tenth quicker than in small pages."""
_SHIFTS = np.array([0, 2, 4, 6], np.uint8)


def _biased() -> Bytes:
    codes = (np.arange(256, dtype=np.uint8)[:, None] >> _SHIFTS) & 3
    biased = np.array([1, 2, 0, 1], np.uint8)[codes] << _SHIFTS
    return np.bitwise_or.reduce(biased, axis=1)


_BIASED = _biased()
"""Four storage codes of `ir.trits` in a byte to the codes u = trit + 1; the reserved one is 0."""


def aligned(size: int, alignment: int = 64) -> Bytes:
    """Memory of `size` bytes at a multiple of `alignment`; large memory fills whole huge pages."""
    if size >= _HUGE_PAGE:
        alignment = _HUGE_PAGE
        memory = _fresh(size + alignment)
    else:
        memory = np.empty(size + alignment, np.uint8)
    start = -memory.ctypes.data % alignment
    return memory[start : start + size]


def _fresh(size: int) -> Bytes:
    """Memory of which no page was used: those of a heap stay as small as they were."""
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return np.empty(size, np.uint8)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # a system without huge pages
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8)


def panels_of_columns(packed: Array, ins: int, outs: int) -> Bytes:
    """The panels of Wᵀ, for W `[ins, outs]` packed row-major.

    Args:
        packed: uint8[ceil(ins · outs / 4)].
        ins: rows of W, the inputs of the layer.
        outs: columns of W, its outputs.
    """
    result = aligned(weight_bytes("panels", ins, outs))
    panels, steps = round_up(outs, PANEL) // PANEL, round_up(ins, STEP) // STEP
    quarter = PANEL // 4
    places = result.reshape(panels, steps, quarter, STEP)
    together = max(1, _PIECE // max(1, STEP * outs))
    for start in range(0, steps, together):
        end = min(start + together, steps)
        # The four rows of a step take `outs` bytes, whatever `outs` is.
        piece = _BIASED[packed[start * outs : end * outs]]
        codes = np.ones(((end - start) * STEP, panels * PANEL), np.uint8)
        rows = min(end * STEP, ins) - start * STEP
        flat = ((piece[:, None] >> _SHIFTS) & 3).reshape(-1)
        codes[:rows, :outs] = flat[: rows * outs].reshape(rows, outs)
        fields = codes.reshape(end - start, STEP, panels, 4, quarter)
        joined = fields[:, :, :, 0]
        for field in range(1, 4):
            joined = joined | (fields[:, :, :, field] << _SHIFTS[field])
        places[:, start:end] = joined.transpose(2, 0, 3, 1)
    return result
