"""Matrix products, convolution, pools and softmax on NumPy, which several ops are computed with.

Integer products are exact before they wrap: `integer_matmul` goes through float64 where that is
provably exact, because NumPy has a fast product for floats alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from ...ir.arrays import Array

EXACT_IN_FLOAT64 = 2**53
"""Integers up to this size, and sums of them that stay within it, are exact in float64."""

COLUMN_BYTES = 1 << 20
"""Convolutions copy their windows for at most this many bytes at a time, for near caches."""


def product(x: Array, y: Array) -> Array:
    """NumPy's matmul; floats in their own type, integers exact modulo 2^64, as int64."""
    if x.dtype.kind in "iub":
        return integer_matmul(x, y)
    if (
        x.ndim > 2 or y.ndim > 2
    ):  # NumPy multiplies other views without BLAS, a hundred times slower
        x, y = np.ascontiguousarray(x), np.ascontiguousarray(y)
    return np.matmul(x, y)


def integer_matmul(x: Array, y: Array) -> NDArray[np.int64]:
    """x · y of integers, exact modulo 2^64."""
    terms = x.shape[-1] if x.ndim else 1
    if terms * _magnitude(x) * _magnitude(y) < EXACT_IN_FLOAT64:
        return np.matmul(x.astype(np.float64), y.astype(np.float64)).astype(np.int64)
    return np.matmul(x.astype(np.int64), y.astype(np.int64))


def _magnitude(x: Array) -> int:
    return max(abs(int(x.max())), abs(int(x.min()))) if x.size else 0


def convolve(
    x: Array,
    weight: Array,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Array:
    """Cross-correlation, see `tensor.conv`: a matrix product over copied windows (im2col).

    Floats in their own type, integers exact modulo 2^64, as int64.
    """
    windows = conv_windows(x, weight.shape[2:], strides, padding, dilation)
    matrix = weight.reshape(groups, weight.shape[0] // groups, -1)

    outputs = windows.shape[2 : x.ndim]
    kind = np.dtype(np.int64) if x.dtype.kind in "iub" else x.dtype
    result = np.empty((x.shape[0], *matrix.shape[:2], math.prod(outputs)), kind)
    image_bytes = 8 * math.prod(windows.shape[1:])
    images = max(1, COLUMN_BYTES // max(1, image_bytes))
    for start in range(0, x.shape[0], images):
        part = slice(start, start + images)
        result[part] = product(matrix, window_columns(windows[part], groups))
    return result.reshape(x.shape[0], weight.shape[0], *outputs)


def conv_windows(
    x: Array,
    kernel: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Array:
    """What each position of a convolution sees: a view [N, C, positions…, kernel…] of padded x."""
    spatial = x.ndim - 2
    pads = [(0, 0), (0, 0), *zip(padding[:spatial], padding[spatial:], strict=True)]
    spans = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    windows = sliding_window_view(np.pad(x, pads), spans, axis=tuple(range(2, 2 + spatial)))
    steps = [slice(None, None, s) for s in (*strides, *dilation)]
    return windows[(slice(None), slice(None), *steps)]


def window_columns(windows: Array, groups: int) -> Array:
    """Windows of `conv_windows` as columns [N, groups, C/groups·kernel, positions], copied."""
    rank = windows.ndim // 2 + 1
    order = (0, 1, *range(rank, windows.ndim), *range(2, rank))
    columns = np.ascontiguousarray(windows.transpose(order))
    return columns.reshape(len(windows), groups, -1, math.prod(windows.shape[2:rank]))


def window_rows(windows: Array, groups: int) -> Array:
    """Windows of `conv_windows` as rows [groups, N·positions, C/groups·kernel], copied."""
    spatial = windows.ndim // 2 - 1
    count, positions = windows.shape[0], windows.shape[2 : 2 + spatial]
    grouped = windows.reshape(count, groups, -1, *windows.shape[2:])
    # groups, N, positions…, channels, kernel…
    kernel_axes = range(3 + spatial, 3 + 2 * spatial)
    order = (1, 0, *range(3, 3 + spatial), 2, *kernel_axes)
    return grouped.transpose(order).reshape(groups, count * math.prod(positions), -1)


def over_windows(combine: np.ufunc, windows: Array, rank: int) -> Array:
    """`combine` over the axes of windows from `rank` on, the kernel's.

    Place by place where there are few of them: NumPy takes its time along short axes.
    """
    kernel = windows.shape[rank:]
    if math.prod(kernel) > math.prod(windows.shape[2:rank]):
        return combine.reduce(windows, axis=tuple(range(rank, windows.ndim)))
    first, *others = (windows[(..., *place)] for place in np.ndindex(kernel))
    result = np.array(first)
    for other in others:
        combine(result, other, out=result)
    return result


def along_channels(vector: Array, rank: int, axis: int = 1) -> Array:
    """`vector` shaped to broadcast along `axis` of a tensor of `rank`; a scalar stays."""
    if vector.ndim == 0:
        return vector
    return vector.reshape([-1 if a == axis % rank else 1 for a in range(rank)])


def softmax_along(x: Array, axis: int) -> Array:
    """e^x / Σ e^x along `axis`, after subtracting the maximum."""
    exponentials = np.exp(x - np.max(x, axis=axis, keepdims=True, initial=-np.inf))
    return exponentials / np.sum(exponentials, axis=axis, keepdims=True)
