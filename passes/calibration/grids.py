"""Grids of integers that activations are put on: scale, zero point and bounds for a range.

Where ranges come from is the business of `observers` and `calibration`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .ranges import Range


@dataclass(frozen=True)
class Quantization:
    """x ≈ scale·(q - zero_point) with low ≤ q ≤ high; the scale is an f32."""

    scale: float
    zero_point: int
    low: int
    high: int

    def restored(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """`values` quantised and dequantised, in f64."""
        levels = np.rint(values / self.scale) + self.zero_point
        return (np.clip(levels, self.low, self.high) - self.zero_point) * self.scale


@dataclass(frozen=True)
class Grid:
    """The family of integer grids that activations are put on.

    - `symmetric`: the zero point is 0 and the levels are -(2^(bits-1) - 1) … 2^(bits-1) - 1.
    - `symmetric` but not `signed`: a range without negative numbers gets all 2^bits levels from 0
      up. At 8 bits these are stored in an i8 as -128 … 127, with the zero point -128.
    - neither: all levels -2^(bits-1) … 2^(bits-1) - 1, the zero point where 0 falls.
    """

    bits: int = 8
    symmetric: bool = True
    signed: bool = True

    def quantization(self, range: Range) -> Quantization:
        """The grid that just covers `range` and 0; an empty range gets the scale 1."""
        half, levels = 1 << self.bits - 1, 1 << self.bits
        low, high = min(range.low, 0.0), max(range.high, 0.0)
        if self.symmetric and (self.signed or low < 0):
            return Quantization(_scale(max(-low, high), half - 1), 0, 1 - half, half - 1)
        if self.symmetric:
            zero = -half if self.bits == 8 else 0
            return Quantization(_scale(high, levels - 1), zero, zero, zero + levels - 1)
        scale = _scale(high - low, levels - 1)
        zero = int(np.clip(np.rint(-half - low / scale), -half, half - 1))
        return Quantization(scale, zero, -half, half - 1)


def _scale(size: float, steps: int) -> float:
    scale = float(np.float32(size / steps))
    return scale if scale > 0 and np.isfinite(scale) else 1.0
