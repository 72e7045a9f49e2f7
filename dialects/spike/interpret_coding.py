"""Reference semantics of encoders, decoders and conversions between trains and tensors."""

from __future__ import annotations

import numpy as np
from xdsl.ir import Operation

from ...ir.arrays import Array
from ..elements import numpy_dtype
from ..inference import tensor_type
from ..meaning import Rule
from . import coding
from .threefry import uniform


def encode(op: coding.EncodeOp, x: Array, *others: Array) -> Array:
    """See `spike.encode`."""
    scheme = op.scheme.data
    if scheme == "delta":
        return _delta(op, x, *others)
    assert op.timesteps is not None
    start = op.start.value.data + sum(int(elapsed) for elapsed in others)
    steps = range(start, start + op.timesteps.value.data)
    if scheme == "direct":
        return np.broadcast_to(x, (len(steps), *x.shape))
    if scheme == "rate":
        assert op.seed is not None
        draws = uniform(op.seed.value.data, steps, x.size).reshape(len(steps), *x.shape)
        return draws < x.astype(np.float64)
    clipped = np.clip(x.astype(np.float64), 0.0, 1.0)
    t = np.asarray(steps, np.int64).reshape(-1, *[1] * x.ndim)
    if scheme == "regular":
        return np.floor((t + 1) * clipped) - np.floor(t * clipped) > 0
    period = op.steps_in_period()
    assert period is not None
    if scheme == "phase":
        levels = 2**period
        digits = np.minimum(np.floor(np.nan_to_num(clipped) * levels), levels - 1).astype(np.int64)
        return (digits >> (period - 1 - t % period)) & 1 == 1
    spikes = t == np.rint((period - 1) * (1 - clipped))
    return spikes if op.threshold is None else spikes & (x >= op.threshold.value.data)


def _delta(op: coding.EncodeOp, x: Array, *previous: Array) -> Array:
    assert op.threshold is not None
    before = previous[0] if previous else np.zeros(x.shape[1:], x.dtype)
    rises = np.diff(x, axis=0, prepend=before[None])
    return rises >= x.dtype.type(op.threshold.value.data)


def decode(op: coding.DecodeOp, x: Array) -> Array:
    """See `spike.decode`."""
    steps = x.shape[0]
    if steps == 0:
        raise ValueError("expects at least one step to decode")
    if op.scheme.data == "rate":
        return x.sum(axis=0, dtype=np.float32) / np.float32(steps)
    if op.scheme.data == "first_spike":
        left = steps - np.argmax(x, axis=0)
        return np.where(x.any(axis=0), left, 0).astype(np.float32) / np.float32(steps)
    assert op.readout is not None
    if op.readout.data == "last":
        return x[-1]
    return x.max(axis=0) if op.readout.data == "max" else x.mean(axis=0)


def to_tensor(op: coding.ToTensorOp, s: Array) -> Array:
    """See `spike.to_tensor`."""
    return s.astype(numpy_dtype(tensor_type(op.result).element_type))


def from_tensor(op: coding.FromTensorOp, x: Array) -> Array:
    """See `spike.from_tensor`."""
    return x != 0


RULES: dict[type[Operation], Rule] = {
    coding.EncodeOp: encode,
    coding.DecodeOp: decode,
    coding.ToTensorOp: to_tensor,
    coding.FromTensorOp: from_tensor,
}
