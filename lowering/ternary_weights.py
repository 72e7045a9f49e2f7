"""Float weights whose values are −s, 0 and +s: as trits and a scale, exactly.

Not here: making weights ternary that are not (the pass `ternarize`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..ir.arrays import Array


class Recognized(NamedTuple):
    """Trits as int8, and their scale: `None` for 1, a scalar, or a vector of output channels."""

    trits: Array
    scale: Array | None


def recognize(weight: Array) -> Recognized | None:
    """`weight` as scale · trits to the last bit, output channels on axis 0; `None` if it is not.

    A channel of one or no weight says nothing, and neither does a weight of zeros alone.
    """
    if weight.dtype.kind in "iub" or weight.ndim < 2 or weight[0].size < 2:
        return None
    flat: Array = np.abs(weight.reshape(len(weight), -1))
    scale: Array = flat.max(axis=1)
    if not np.isfinite(scale).all() or not scale.any():
        return None
    if not ((flat == scale[:, None]) | (flat == 0)).all():
        return None
    trits = np.sign(weight).astype(np.int8)
    used = scale[scale != 0]
    scale = np.where(scale == 0, used[0], scale).astype(weight.dtype)
    if (scale == 1).all():
        return Recognized(trits, None)
    return Recognized(trits, scale[0].reshape(()) if (scale == scale[0]).all() else scale)
