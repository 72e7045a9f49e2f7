"""How far products of floats by trits may be off, as docs/native.md says: floats become digits.

A row of activations, or an image of a convolution, is split in three int8 digits with one scale, so
that the smallest number of a row has the error of the largest. Not here: the rounding of sums,
which `oracle` and `onnx_oracle` know.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

OF_THE_LARGEST = 2.0**-22
"""The error of a number as a part of the largest in its row, at most: half a unit of the third
digit in base 254, where the first is 64 or more for the largest, and the rounding of their join."""


def of_trits(weights: Array) -> bool:
    """Whether an importer may see trits in the weights [outputs, terms], with a scale an output."""
    sizes = np.abs(weights)
    return bool(((sizes == 0) | (sizes == sizes.max(axis=1, keepdims=True, initial=0))).all())


def row_errors(rows: Array) -> Array:
    """The largest error of a number of each row [rows, terms]: [rows], 0 where digits are exact."""
    rows = np.abs(rows.astype(np.float64))
    largest = rows.max(axis=1, initial=0.0)
    known = np.isfinite(largest) & (largest > 0)
    # The scale is a power of two at which the largest is an int8.
    scaled = rows / 2.0 ** np.ceil(np.log2(np.where(known, largest, 1.0) / 127))[:, None]
    whole = (scaled == np.round(scaled)).all(axis=1)
    return np.where(known & ~whole, OF_THE_LARGEST * largest, 0.0)


def of_matrices(x: Array, weights: Array) -> Array | None:
    """The errors of x [..., terms] · weights [terms, outputs]; `None` if no digits are in it."""
    if x.dtype.kind != "f" or not of_trits(weights.T):
        return None
    errors = row_errors(x.reshape(-1, x.shape[-1])).reshape(*x.shape[:-1], 1)
    return errors * np.abs(weights.astype(np.float64)).sum(axis=0)


def of_convolution(x: Array, weights: Array) -> Array | None:
    """The same of images [batch, …] and weights [outputs, …] of any rank: [batch, outputs, 1…]."""
    rows = weights.reshape(len(weights), -1)
    if x.dtype.kind != "f" or not of_trits(rows):
        return None
    errors = row_errors(x.reshape(len(x), -1))[:, None]
    errors = errors * np.abs(rows.astype(np.float64)).sum(axis=1)
    return errors.reshape(*errors.shape, *[1] * (x.ndim - 2))


def of_transposed_convolution(x: Array, weights: Array, groups: int) -> Array | None:
    """The same of weights [inputs, outputs of a group, …], whose windows are spread out."""
    apart = weights.reshape(groups, len(weights) // groups, *weights.shape[1:])
    return of_convolution(x, apart.swapaxes(1, 2).reshape(-1, *apart.shape[1:2], *apart.shape[3:]))
