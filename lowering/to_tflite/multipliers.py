"""LiteRT's whole numbers for real factors: 31 bits of a multiplier and an exponent.

After `QuantizeMultiplier` of LiteRT, and its kernels for means. Not here: how sums are multiplied
by them (`lowering.from_tflite.fixed_point`).
"""

from __future__ import annotations

import numpy as np

from ...ir.arrays import Array


def multiplier_of(real: Array) -> tuple[Array, Array]:
    """Of each factor the multiplier, 2^30 ≤ m < 2^31, and the exponent: m·2^(exponent - 31)."""
    mantissas, exponents = np.frexp(real)
    multipliers = np.floor(mantissas * (1 << 31) + 0.5).astype(np.int64)
    full = multipliers == 1 << 31
    multipliers = np.where(full, multipliers // 2, multipliers)
    exponents = exponents.astype(np.int64) + full
    lost = exponents < -31
    return np.where(lost, 0, multipliers), np.where(lost, 0, exponents)


def shared_multiplier(factor: float, count: int) -> tuple[Array, Array]:
    """A factor over a count, as LiteRT's means take it: the quotient is cut off."""
    multiplier, exponent = multiplier_of(np.asarray(factor, np.float64))
    shift = min(count.bit_length() - 1, 32, 31 + int(exponent))
    shared = (int(multiplier) << shift) // count
    return np.asarray(shared, np.int64), np.asarray(exponent - shift)
