"""Float weights as integers, one scale an output channel or one for all.

Not here: which products get them (`quantize_activations`), and what they are computed with
(`dense_products`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...dialects.parameters import Array

_TOLERANCE = 1e-4
"""In steps: how far weights that are said to lie on a grid may be from it."""

_SHRINKINGS = 50
"""How many ranges are tried for a scale, each a hundredth of the largest weight smaller."""


@dataclass(frozen=True)
class IntegerWeight:
    """weight ≈ scale·integers.

    Attributes:
        integers: int32, in the shape of the weight.
        scale: f64, one number an output channel, or one for all.
    """

    integers: NDArray[np.int32]
    scale: NDArray[np.float64]


def integer_weight(weight: Array, channel: int, bits: int, *, shared: bool) -> IntegerWeight:
    """A weight on symmetric grids of `bits` bits.

    Weights that lie on a grid already (those of a network that was trained or stored with
    integers) stay what they are, on the coarsest such grid. Others get the scale with the least
    squared error among ranges of 50 to 100 % of the largest weight.

    Args:
        weight: of finite floats.
        channel: the axis of output channels.
        bits: 2 to 8; the levels are -(2^(bits-1) - 1) … 2^(bits-1) - 1.
        shared: one scale for all channels.
    """
    rows = np.moveaxis(weight.astype(np.float64), channel, 0).reshape(weight.shape[channel], -1)
    if shared:
        rows = rows.reshape(1, -1)
    most = (1 << bits - 1) - 1
    scale = _kept_grid(rows, most)
    unknown = np.isnan(scale)
    if unknown.any():
        scale[unknown] = least_error(rows[unknown], most)
    integers = np.clip(np.rint(rows / scale[:, None]), -most, most).astype(np.int32)
    shape = np.moveaxis(weight, channel, 0).shape
    moved = np.moveaxis(integers.reshape(shape), 0, channel)
    return IntegerWeight(np.ascontiguousarray(moved), scale.reshape(()) if shared else scale)


def _kept_grid(rows: NDArray[np.float64], most: int) -> NDArray[np.float64]:
    """For each row the step of the coarsest grid that it lies on; NaN where there is none."""
    peak = np.abs(rows).max(axis=1, initial=0.0)
    scale = np.where(peak == 0, 1.0, np.nan)
    for levels in range(1, most + 1):
        steps = rows * (levels / np.where(peak == 0, 1.0, peak))[:, None]
        on_grid = np.abs(steps - np.rint(steps)).max(axis=1, initial=0.0) < _TOLERANCE
        scale = np.where(np.isnan(scale) & on_grid, peak / levels, scale)
    return scale


def least_error(rows: NDArray[np.float64], most: int) -> NDArray[np.float64]:
    """The step of each row [rows] of weights [rows, ins] that leaves the least squared error.

    Levels are -most … most; ranges of 50 to 100 % of the largest weight are tried.
    """
    peak = np.abs(rows).max(axis=1, initial=0.0)
    peak = np.where(peak > 0, peak, 1.0)
    best: NDArray[np.float64] = peak / most
    least = np.full(len(rows), np.inf)
    for shrinking in range(_SHRINKINGS):
        scale = peak / most * (1 - shrinking / 100)
        rounded = np.clip(np.rint(rows / scale[:, None]), -most, most) * scale[:, None]
        error = ((rounded - rows) ** 2).sum(axis=1)
        best = np.where(error < least, scale, best)
        least = np.minimum(error, least)
    return best
