"""Numbers of NIR nodes as parameters of a network: f32, f64 or i8, kept bit for bit."""

from __future__ import annotations

import numpy as np

from ...ir.errors import SourceError
from .graph import Array

MATRIX_LIMIT = 1 << 28
"""The most numbers of a matrix that stands for several."""


def one_number(values: Array) -> float | None:
    """The one finite number that f64 `values` repeat, bit for bit."""
    if values.dtype != np.float64 or not np.isfinite(values).all():
        return None
    bits = np.ascontiguousarray(values).reshape(-1).view(np.int64)
    return float(values.reshape(-1)[0]) if (bits == bits[0]).all() else None


def floats(values: Array, what: str) -> Array:
    """`values` as f32 or f64, none of which changes."""
    native: Array = values.astype(values.dtype.newbyteorder("="))
    if native.dtype.type in (np.float32, np.float64):
        return native
    for dtype in (np.float32, np.float64):
        changed = native.astype(dtype)
        if np.array_equal(changed.astype(native.dtype), native):
            return changed
    raise SourceError(f"{what} has integers that no float64 holds")


def block_diagonal(values: Array, what: str) -> Array:
    """Matrices [more…, out, in], each of which has rows of the input to itself, as one matrix."""
    *more, out, taken = values.shape
    count = int(np.prod(more))
    if count * values.size > MATRIX_LIMIT:
        raise SourceError(f"{what}: {count} matrices of {[out, taken]} are too many for one node")
    joined = np.zeros((count, out, count, taken), values.dtype)
    places = np.arange(count)
    joined[places, :, places] = values.reshape(count, out, taken)
    return joined.reshape(count * out, count * taken)


def blocks(matrix: Array, more: tuple[int, ...]) -> Array:
    """What `block_diagonal` made a matrix of; other numbers in it are lost."""
    count = int(np.prod(more))
    parted = matrix.reshape(count, len(matrix) // count, count, -1)
    places = np.arange(count)
    return parted[places, :, places].reshape(*more, *parted.shape[1::2])


def weights(values: Array, what: str) -> Array:
    """`values` as i8 if they are that, else f32 or f64."""
    return values if values.dtype == np.int8 else floats(values, what)
