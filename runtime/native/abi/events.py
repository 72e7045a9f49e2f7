"""Weights of spiking synapses as event-driven kernels read them: one row for each input.

The row of an input that fires is added to sums, one for each output, so values stand in the order
of registers of `width` bytes, and rows are padded to whole columns:

- trits: a column is 4 · width outputs. Output f · width + b of it is field f (bits 2f and 2f + 1)
  of byte b, as the code trit + 1. Pads are trits 0.
- int8: a column is width outputs, each the byte w + 128. Output b of the first half of a column is
  byte 2b, of the second half byte 2b + 1. Pads are weights 0.

Not here: float weights, which the compiler lays out (`to_native.kernels.float_events`), the kernels
(`to_native.kernels.events`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ....ir.arrays import Array
from .linear import round_up


def _padded(weights: Array, column: int) -> Array:
    ins, outs = weights.shape
    padded = np.zeros((ins, round_up(max(outs, 1), column)), weights.dtype)
    padded[:, :outs] = weights
    return padded


def trit_rows(trits: Array, width: int) -> NDArray[np.uint8]:
    """The bytes of a matrix [ins, outs] with values in {-1, 0, 1}."""
    codes = (_padded(trits.astype(np.int8), 4 * width) + 1).astype(np.uint8)
    fields = codes.reshape(len(codes), -1, 4, width)
    shifts = np.array([0, 2, 4, 6], np.uint8)[:, None]
    packed = np.bitwise_or.reduce(fields << shifts, axis=2)
    return np.ascontiguousarray(packed.reshape(-1))


def byte_rows(weights: Array, width: int) -> NDArray[np.uint8]:
    """The bytes of an int8 matrix [ins, outs]."""
    biased = (_padded(weights.astype(np.int16), width) + 128).astype(np.uint8)
    halves = biased.reshape(len(biased), -1, 2, width // 2).transpose(0, 1, 3, 2)
    return np.ascontiguousarray(halves).reshape(-1)
