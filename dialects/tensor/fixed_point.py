"""Real factors as an integer multiplier and a right shift, the form `tensor.requantize` has.

Derivation (Jacob et al. 2018, section 2.2; gemmlowp `QuantizeMultiplierSmallerThanOneExp`). A
factor r ≠ 0 is m·2^-s with 2^30 ≤ |m| < 2^31, m rounded to the nearest integer:

    |m·2^-s - r| ≤ 2^-(s+1) ≤ 2^-31·|r|

An i32 value x then gives |x·m| ≤ 2^31·(2^31 - 1) < 2^62, and with s ≤ 62 the rounding term
2^(s-1) ≤ 2^61: their sum stays below 2^63, so i64 arithmetic never overflows. For 8-bit results
(|x·r| ≤ 2^8) the error of m moves x·r by at most 2^-23 of a step before it is rounded.

|r| < 2^-32 would need s > 62; m then loses low bits, and |x·r| ≤ 1/2 for every i32 x.
"""

from __future__ import annotations

from math import frexp, isfinite, ldexp

import numpy as np
from numpy.typing import NDArray

from ...ir.arrays import Array
from ...ir.errors import PassError

MULTIPLIER_BITS = 31
MAXIMAL_SHIFT = 62


def fixed_point(factor: float) -> tuple[int, int]:
    """The multiplier m and the shift s with m·2^-s nearest to `factor`, in lowest terms.

    |m| ≤ 2^31 - 1 and 1 ≤ s ≤ 62; a power of two gets the multiplier 1 where s allows it.

    Raises:
        PassError: `factor` is not finite, or 2^30 or more in size.
    """
    if not isfinite(factor):
        raise PassError(f"expected a finite scale factor, got {factor}")
    shift = min(MULTIPLIER_BITS - frexp(factor)[1], MAXIMAL_SHIFT)
    multiplier = round(ldexp(factor, shift))
    if abs(multiplier) == 1 << MULTIPLIER_BITS:
        multiplier, shift = multiplier // 2, shift - 1
    if multiplier == 0:
        return 0, 1
    if shift < 1:
        raise PassError(f"expected a scale factor below 2^30, got {factor}")
    while shift > 1 and multiplier % 2 == 0:
        multiplier, shift = multiplier // 2, shift - 1
    return multiplier, shift


def fixed_points(factors: Array) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """`fixed_point` of each element: multipliers and shifts, of the shape of `factors`."""
    pairs = [fixed_point(float(factor)) for factor in factors.reshape(-1)]
    multipliers = np.array([m for m, _ in pairs], dtype=np.int32).reshape(factors.shape)
    shifts = np.array([s for _, s in pairs], dtype=np.int32).reshape(factors.shape)
    return multipliers, shifts
