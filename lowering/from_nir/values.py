"""Numbers of NIR nodes as parameters of a network: f32, f64 or i8, kept bit for bit."""

from __future__ import annotations

import numpy as np

from ...ir.errors import SourceError
from .graph import Array


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


def weights(values: Array, what: str) -> Array:
    """`values` as i8 if they are that, else f32 or f64."""
    return values if values.dtype == np.int8 else floats(values, what)
