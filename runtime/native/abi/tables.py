"""Tables that the end of a native kernel reads, made from the parameters of a model.

Not here: weights (`abi.linear` states their layouts), what a kernel does with the tables.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ....ir.arrays import Array

_POSITIVE = np.int32(0x7FFFFFFF)


def threshold_table(thresholds: Array) -> NDArray[np.int32]:
    """Thresholds [C, K] or [1, K] as a kernel compares them: int32 [K, C] or [K, 1].

    Integers stay as they are. Floats become integers in the same order, with -0 equal to 0; a NaN
    becomes one that no value reaches.
    """
    turned = np.ascontiguousarray(thresholds.T)
    if turned.dtype.kind != "f":
        return turned.astype(np.int32)
    # Adding 0 turns -0 into 0.
    bits = (turned.astype(np.float32) + np.float32(0)).view(np.int32)
    keys = np.where(bits < 0, bits ^ _POSITIVE, bits)
    return np.where(np.isnan(turned), _POSITIVE, keys).astype(np.int32)


def trit_sums(trits: NDArray[np.int8]) -> NDArray[np.int32]:
    """Σ of the trits of each output, [outs], of a matrix [outs, ins]."""
    return trits.sum(axis=1, dtype=np.int32)
