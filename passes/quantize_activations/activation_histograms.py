"""How large the values of a program become on samples: the greatest, and histograms.

By layer or by channel; histograms are of what is positive. What follows from them is the business
of passes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ...dialects.interpret import run_module
from ...dialects.parameters import Array
from ...ir.errors import PassError
from ...ir.interpreter import entry_function
from ..calibration.observation import returning

BINS = 2048
"""Resolution of the histograms."""


def _groups(array: Array, axis: int | None) -> Array:
    """[groups, values]: one group a channel, or one in all."""
    if axis is None:
        return array.reshape(1, -1)
    return np.moveaxis(array, axis, 0).reshape(array.shape[axis], -1)


def _watched(
    program: ModuleOp, values: Sequence[SSAValue], batch: Sequence[Array], function: str
) -> tuple[Array, ...]:
    watching = returning(program, entry_function(program, function), list(values))
    return run_module(watching, batch, function)


def greatest(
    program: ModuleOp,
    values: Sequence[SSAValue],
    axes: Sequence[int | None],
    samples: Sequence[Sequence[Array]],
    function: str,
) -> list[NDArray[np.float64]]:
    """The greatest value of each group, 0 at least."""
    largest: list[NDArray[np.float64]] = []
    for batch in samples:
        results = _watched(program, values, batch, function)
        tops = [
            _groups(array, axis).max(axis=1, initial=0.0).astype(np.float64)
            for array, axis in zip(results, axes, strict=True)
        ]
        largest = [np.maximum(a, b) for a, b in zip(largest or tops, tops, strict=True)]
    if not largest:
        raise PassError("calibration needs at least one sample")
    if not all(np.isfinite(tops).all() for tops in largest):
        raise PassError("an activation becomes NaN or infinite on the samples")
    return largest


def histograms(
    program: ModuleOp,
    values: Sequence[SSAValue],
    axes: Sequence[int | None],
    highest: Sequence[NDArray[np.float64]],
    samples: Sequence[Sequence[Array]],
    function: str,
) -> list[NDArray[np.int64]]:
    """How often each group's positive values fall in each of `BINS` bins up to its greatest."""
    counts = [np.zeros((len(tops), BINS), np.int64) for tops in highest]
    for batch in samples:
        results = _watched(program, values, batch, function)
        for count, array, axis, tops in zip(counts, results, axes, highest, strict=True):
            for row, group, top in zip(count, _groups(array, axis), tops.tolist(), strict=True):
                positive = group[group > 0]
                if positive.size:
                    places = (positive * np.float64(BINS / top)).astype(np.int64)
                    row += np.bincount(np.minimum(places, BINS - 1), minlength=BINS)
    return counts
