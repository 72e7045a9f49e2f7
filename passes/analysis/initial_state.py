"""What neurons start with, where a program says it for a batch of any size."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.parameters import Array
from .compile_time import literal_value


def state_of(value: SSAValue, rank: int) -> Array | None:
    """The numbers of a state before the first step, f64: a scalar, or one for each neuron.

    `convert-ann-to-snn` writes them as a clamp to one number, which has the size of the batch, and
    a sum with a constant.

    Args:
        value: the state, [samples, …].
        rank: how many axes a sample has.

    Returns:
        `None` where they are computed, or differ between samples.
    """
    start = np.zeros(())
    if isinstance(value.owner, tensor.AddOp):
        added = literal_value(value.owner.rhs)
        if added is None:
            return None
        value, start = value.owner.lhs, added.astype(np.float64)
    owner = value.owner
    if isinstance(owner, tensor.ClampOp) and owner.min == owner.max and owner.min is not None:
        start = start + owner.min.value.data
    else:
        known = literal_value(value)
        if known is None:
            return None
        start = start + known
    if start.ndim > rank:
        return np.asarray(start[0]) if (start == start[:1]).all() else None
    return start
