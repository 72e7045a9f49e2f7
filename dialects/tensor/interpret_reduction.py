"""Reference semantics of pooling, reductions and normalisation, on NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from xdsl.ir import Operation

from ...ir.arrays import Array
from ..meaning import Rule
from . import normalization, reduction
from .interpret_linear import along_channels


def pool_windows(op: reduction.MaxPoolOp | reduction.AvgPoolOp, x: Array, fill: Any) -> Array:
    """The windows of a pooling op: [N, C, positions…, kernel…], pads filled with `fill`."""
    spatial = x.ndim - 2
    padding = op.padding.get_values()
    pads = [(0, 0), (0, 0), *zip(padding[:spatial], padding[spatial:], strict=True)]
    padded = np.pad(x, pads, constant_values=fill)
    axes = tuple(range(2, x.ndim))
    windows = sliding_window_view(padded, op.kernel.get_values(), axis=axes)
    steps = [slice(None, None, s) for s in op.strides.get_values()]
    return windows[(slice(None), slice(None), *steps)]


def max_pool(op: reduction.MaxPoolOp, x: Array) -> Array:
    """See `tensor.max_pool`."""
    lowest = -np.inf if x.dtype.kind == "f" else _lowest(x.dtype)
    windows = pool_windows(op, x, lowest)
    return windows.max(axis=tuple(range(x.ndim, windows.ndim)))


def _lowest(dtype: np.dtype[Any]) -> int | bool:
    return False if dtype == np.bool_ else int(np.iinfo(dtype).min)


def avg_pool(op: reduction.AvgPoolOp, x: Array) -> Array:
    """See `tensor.avg_pool`."""
    windows = pool_windows(op, x, 0)
    axes = tuple(range(x.ndim, windows.ndim))
    if op.count_include_pad.value.data:
        return windows.mean(axis=axes)
    counts = pool_windows(op, np.ones((1, 1, *x.shape[2:]), x.dtype), 0).sum(axis=axes)
    return windows.sum(axis=axes) / counts


def global_avg_pool(op: reduction.GlobalAvgPoolOp, x: Array) -> Array:
    """See `tensor.global_avg_pool`."""
    return x.mean(axis=tuple(range(2, x.ndim)), keepdims=True)


def reduce(function: Callable[..., Array]) -> Rule:
    """The rule of a reduction by `function`."""

    def rule(op: reduction.ReduceOp, x: Array) -> Array:
        axes = tuple(op.axes.get_values())
        return function(x, axis=axes, keepdims=bool(op.keepdims.value.data))

    return rule


def _sum(x: Array, **options: Any) -> Array:
    return np.sum(x, dtype=x.dtype, **options)


def batch_norm(
    op: normalization.BatchNormOp, x: Array, scale: Array, bias: Array, mean: Array, var: Array
) -> Array:
    """See `tensor.batch_norm`."""
    scale, bias, mean, var = (along_channels(v, x.ndim) for v in (scale, bias, mean, var))
    return (x - mean) / np.sqrt(var + x.dtype.type(op.epsilon.value.data)) * scale + bias


def layer_norm(op: normalization.LayerNormOp, x: Array, scale: Array, *bias: Array) -> Array:
    """See `tensor.layer_norm`."""
    axes = tuple(range(-scale.ndim, 0))
    centred = x - x.mean(axis=axes, keepdims=True)
    variance = np.square(centred).mean(axis=axes, keepdims=True)
    return sum(bias, centred / np.sqrt(variance + x.dtype.type(op.epsilon.value.data)) * scale)


def rms_norm(op: normalization.RmsNormOp, x: Array, scale: Array) -> Array:
    """See `tensor.rms_norm`."""
    axes = tuple(range(-scale.ndim, 0))
    mean_square = np.square(x).mean(axis=axes, keepdims=True)
    return x / np.sqrt(mean_square + x.dtype.type(op.epsilon.value.data)) * scale


RULES: dict[type[Operation], Rule] = {
    reduction.MaxPoolOp: max_pool,
    reduction.AvgPoolOp: avg_pool,
    reduction.GlobalAvgPoolOp: global_avg_pool,
    reduction.ReduceSumOp: reduce(_sum),
    reduction.ReduceMeanOp: reduce(np.mean),
    reduction.ReduceMaxOp: reduce(np.max),
    reduction.ReduceMinOp: reduce(np.min),
    normalization.BatchNormOp: batch_norm,
    normalization.LayerNormOp: layer_norm,
    normalization.RmsNormOp: rms_norm,
}
