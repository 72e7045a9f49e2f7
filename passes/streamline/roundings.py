"""How far float sums may be from those of integers, so that floats decide by their roundings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...dialects.parameters import Array
from .level_functions import LevelGrid

_MOST = 1 << 20
"""Values of more levels are not looked at."""


@dataclass(frozen=True)
class Rounded:
    """Float sums that are not exact.

    Attributes:
        name: of the op in the source.
        error: how far floats may be from the sum of the integers, for the largest sum.
    """

    name: str
    error: float


def rounding_error(of: LevelGrid | None, weights: Array) -> float:
    """How far f32 sums of values on a grid may be from those of integers, for the largest one.

    Errors of the terms are taken as independent: four units in the last place and as many as the
    root of their number.

    Args:
        of: the grid; `None` where channels have a grid each.
        weights: what the values are multiplied by, [sums, terms].

    Returns:
        0 where no value, no product and no sum is rounded, or a value has too many levels.
    """
    error = (4 + np.sqrt(weights.shape[1])) * 2.0**-24
    if of is None:
        return error
    if of.bounds[1] - of.bounds[0] > _MOST:
        return 0.0
    points = np.arange(of.bounds[0], of.bounds[1] + 1)
    values = of.real(points).astype(np.float32).astype(np.float64)
    factors = weights.astype(np.float64)
    unit = _unit(values) * _unit(factors)
    most = float(np.abs(values).max() * np.abs(factors).sum(axis=1).max())
    exact = not np.diff(values, 2).any() and most <= unit * 2**24
    return 0.0 if exact else error


def _unit(values: Array) -> float:
    """The largest power of two that all values, floats of 24 bits, are whole multiples of."""
    parts, exponents = np.frexp(values[values != 0])
    whole = np.ldexp(parts, 24).astype(np.int64)
    return float(np.ldexp(whole & -whole, exponents - 24).astype(np.float64).min(initial=np.inf))
