"""Reference semantics of quantisation, on NumPy; integer steps are exact."""

from __future__ import annotations

import numpy as np
from xdsl.ir import Operation

from ...ir.arrays import Array
from ..meaning import Rule
from . import quantization
from .interpret_linear import along_channels


def quantize(op: quantization.QuantizeOp, x: Array, scale: Array, zero_point: Array) -> Array:
    """See `tensor.quantize`."""
    axis = op.axis.value.data
    steps = np.rint(x / along_channels(scale, x.ndim, axis))
    shifted = steps + along_channels(zero_point, x.ndim, axis).astype(np.float32)
    # float64 holds every bound up to 32 bits, f32 does not.
    low, high = op.low.value.data, op.high.value.data
    clamped = np.clip(np.nan_to_num(shifted.astype(np.float64), nan=0.0), low, high)
    return clamped.astype(zero_point.dtype)


def dequantize(op: quantization.DequantizeOp, q: Array, scale: Array, zero_point: Array) -> Array:
    """See `tensor.dequantize`."""
    axis = op.axis.value.data
    steps = q.astype(np.int64) - along_channels(zero_point, q.ndim, axis).astype(np.int64)
    return steps.astype(np.float32) * along_channels(scale, q.ndim, axis)


def rescale(
    x: Array, multiplier: Array, shift: Array, zero_point: Array, low: int, high: int, axis: int
) -> Array:
    """The arithmetic of `tensor.requantize`.

    |x·multiplier| ≤ 2^62 and the rounding term is at most 2^61, so that int64 holds the sum.
    """
    if ((shift < 1) | (shift > 62)).any():
        raise ValueError(f"expects shifts of 1 to 62, got {shift.min()} to {shift.max()}")
    factor = along_channels(multiplier, x.ndim, axis).astype(np.int64)
    bits = along_channels(shift, x.ndim, axis).astype(np.int64)
    scaled = (x.astype(np.int64) * factor + (np.int64(1) << (bits - 1))) >> bits
    shifted = scaled + zero_point.astype(np.int64)
    return np.clip(shifted, low, high).astype(zero_point.dtype)


def requantize(
    op: quantization.RequantizeOp, x: Array, multiplier: Array, shift: Array, zero_point: Array
) -> Array:
    """See `tensor.requantize`."""
    low, high = op.low.value.data, op.high.value.data
    return rescale(x, multiplier, shift, zero_point, low, high, op.axis.value.data)


def count_thresholds(x: Array, thresholds: Array, axis: int) -> Array:
    """The number of thresholds ≤ x, as `tensor.multi_threshold`."""
    count = thresholds.shape[1]
    result = np.zeros(x.shape, np.int8 if count <= 127 else np.int32)
    for k in range(count):
        result += along_channels(thresholds[:, k], x.ndim, axis) <= x
    return result


def multi_threshold(op: quantization.MultiThresholdOp, x: Array, thresholds: Array) -> Array:
    """See `tensor.multi_threshold`."""
    return count_thresholds(x, thresholds, op.axis.value.data)


RULES: dict[type[Operation], Rule] = {
    quantization.QuantizeOp: quantize,
    quantization.DequantizeOp: dequantize,
    quantization.RequantizeOp: requantize,
    quantization.MultiThresholdOp: multi_threshold,
}
