"""Float weights as integers: symmetric, with a scale for each output channel."""

from __future__ import annotations

import numpy as np

from ..ir.arrays import Array


def symmetric(
    values: Array, axis: int, bits: int = 8, least: Array | float = 0.0
) -> tuple[Array, Array]:
    """Levels of `bits` bits as int8, and the float32 scale of each position on `axis`.

    The levels are -(2^(bits - 1) - 1) … 2^(bits - 1) - 1. A channel of zeros gets the scale 1, and
    none gets one below `least`, a number or one for each channel.
    """
    most = (1 << bits - 1) - 1
    others = tuple(a for a in range(values.ndim) if a != axis)
    largest = np.abs(values).max(axis=others, initial=0.0)
    scale = np.where(largest > 0, largest / most, 1.0).astype(np.float32)
    scale = np.maximum(np.where(scale > 0, scale, np.float32(1.0)), np.float32(least))
    shape = [-1 if a == axis else 1 for a in range(values.ndim)]
    levels = np.rint(values / scale.reshape(shape))
    return np.clip(levels, -most, most).astype(np.int8), scale
