"""Rules of pooling: windows, rounding up, counted pads, and pooling to a given size."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from .rules_elementwise import Rule
from .rules_linear import pair
from .rules_shape import cut
from .sizes import ProblemError, static
from .torch_builder import Builder, Call


def _batched(function: Callable[[Builder, _Pool], Any]) -> Rule:
    """Give an image without a batch a batch of one."""

    def rule(e: Builder, call: Call) -> Any:
        x, axes = e.value(call["self"]), _axes(call)
        image = static(e.sizes(call["self"])[-axes:], "image")
        if call.rank == axes + 2:
            return function(e, _Pool(call, x, axes, image))
        x = e.add(tensor.UnsqueezeOp(x, [0]))
        result = function(e, _Pool(call, x, axes, image))
        if isinstance(result, list):
            first = cast("list[SSAValue]", result)[0]
            return [e.add(tensor.SqueezeOp(first, [0])), None]
        return e.add(tensor.SqueezeOp(result, [0]))

    return rule


class _Pool:
    """A call with its image [N, C, …] and the number of spatial axes."""

    def __init__(self, call: Call, x: SSAValue, axes: int, image: list[int]) -> None:
        self.call, self.x, self.axes, self.image = call, x, axes, image

    def window(self, name: str, default: int | None = None) -> list[int]:
        """A window property as one number an axis."""
        given = self.call.get(name)
        if given is None or given == []:
            return self.window("kernel_size") if default is None else [default] * self.axes
        return pair(given, self.axes)


def _axes(call: Call) -> int:
    return 1 if "1d" in call.name else 2


def _padding(pool: _Pool) -> tuple[list[int], list[int], list[int]]:
    """Low pads, high pads, and what rounding up adds behind the latter."""
    kernel, strides = pool.window("kernel_size"), pool.window("stride")
    low, extra = pool.window("padding", 0), [0] * pool.axes
    if pool.call.get("ceil_mode", False):
        for axis in range(pool.axes):
            span = pool.image[axis] + 2 * low[axis] - kernel[axis]
            count = math.ceil(span / strides[axis]) + 1
            # The last window must start inside the image or the low pads.
            if (count - 1) * strides[axis] >= pool.image[axis] + low[axis]:
                count -= 1
            extra[axis] = max((count - 1) * strides[axis] - span, 0)
    return low, list(low), extra


def _max_pool(e: Builder, pool: _Pool) -> SSAValue:
    if any(n != 1 for n in pool.window("dilation", 1)):
        raise ProblemError("windows of pooling have no dilation in the IR")
    kernel, strides = pool.window("kernel_size"), pool.window("stride")
    low, high, extra = _padding(pool)
    high = [a + b for a, b in zip(high, extra, strict=True)]
    x = pool.x
    if any(2 * n > k for n, k in zip(high, kernel, strict=True)):
        if not isinstance(tensor_type(x).element_type, AnyFloat):
            raise ProblemError("its windows of integers reach too far beyond the image")
        x = e.add(tensor.PadToOp(x, [0, 0, *low], [0, 0, *high], -math.inf))
        low = high = [0] * pool.axes
    return e.add(tensor.MaxPoolOp(x, kernel, strides, [*low, *high]))


def _max_pool_pair(e: Builder, pool: _Pool) -> list[Any]:
    """With indices, which nothing may use."""
    return [_max_pool(e, pool), None]


def _avg_pool(e: Builder, pool: _Pool) -> SSAValue:
    kernel, strides = pool.window("kernel_size"), pool.window("stride")
    low, high, extra = _padding(pool)
    divisor = pool.call.get("divisor_override")
    counted = bool(pool.call.get("count_include_pad", True))
    if not any(extra) and divisor is None:
        return e.add(
            tensor.AvgPoolOp(pool.x, kernel, strides, [*low, *high], count_include_pad=counted)
        )
    behind = [a + b for a, b in zip(high, extra, strict=True)]
    x = e.add(tensor.PadToOp(pool.x, [0, 0, *low], [0, 0, *behind]))
    means = e.add(tensor.AvgPoolOp(x, kernel, strides))
    size = math.prod(kernel)
    if divisor is not None:
        factors = np.array(size / divisor)
    else:
        counts = [
            _counts(pool.image[a], kernel[a], strides[a], low[a], extra[a], counted)
            for a in range(pool.axes)
        ]
        grid = counts[0] if pool.axes == 1 else np.outer(counts[0], counts[1])
        factors = size / grid
    return e.add(tensor.MulOp(means, e.array(factors, tensor_type(x).element_type)))


def _counts(
    image: int, kernel: int, stride: int, pad: int, extra: int, counted: bool
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """How many elements of each window count."""
    ones = np.pad(np.ones(image), pad, constant_values=1.0 if counted else 0.0)
    padded = np.pad(ones, (0, extra))
    starts = range(0, len(padded) - kernel + 1, stride)
    return np.array([padded[start : start + kernel].sum() for start in starts])


def _bounds(size: int, out: int) -> list[tuple[int, int]]:
    """The windows of adaptive pooling."""
    return [(i * size // out, -(-(i + 1) * size // out)) for i in range(out)]


def _adaptive_avg_pool(e: Builder, pool: _Pool) -> SSAValue:
    wanted = pair(pool.call["output_size"], pool.axes)
    if all(n == 1 for n in wanted):
        return e.add(tensor.GlobalAvgPoolOp(pool.x))
    if all(size % n == 0 for size, n in zip(pool.image, wanted, strict=True)):
        kernel = [size // n for size, n in zip(pool.image, wanted, strict=True)]
        return e.add(tensor.AvgPoolOp(pool.x, kernel))
    x, rank = pool.x, pool.axes + 2
    swap = [*range(rank - 2), rank - 1, rank - 2]
    for axis in reversed(range(pool.axes)):
        means = np.zeros((pool.image[axis], wanted[axis]))
        for column, (start, end) in enumerate(_bounds(pool.image[axis], wanted[axis])):
            means[start:end, column] = 1 / (end - start)
        weight = e.array(means, tensor_type(x).element_type)
        x = x if axis == pool.axes - 1 else e.permute(x, swap)
        x = e.add(tensor.MatmulOp(x, weight))
        x = x if axis == pool.axes - 1 else e.permute(x, swap)
    return x


def _adaptive_max_pool(e: Builder, pool: _Pool) -> list[Any]:
    wanted, x = pair(pool.call["output_size"], pool.axes), pool.x
    if all(size % n == 0 for size, n in zip(pool.image, wanted, strict=True)):
        kernel = [size // n for size, n in zip(pool.image, wanted, strict=True)]
        return [e.add(tensor.MaxPoolOp(x, kernel)), None]
    for index in range(pool.axes):
        axis = 2 + index
        parts = [
            e.add(tensor.ReduceMaxOp(cut(e, x, axis, start, end), [axis], keepdims=True))
            for start, end in _bounds(pool.image[index], wanted[index])
        ]
        x = e.add(tensor.ConcatenateOp(parts, axis))
    return [x, None]


RULES: dict[str, Rule] = {
    "adaptive_avg_pool1d": _batched(_adaptive_avg_pool),
    "adaptive_avg_pool2d": _batched(_adaptive_avg_pool),
    "_adaptive_avg_pool2d": _batched(_adaptive_avg_pool),
    "adaptive_max_pool1d": _batched(_adaptive_max_pool),
    "adaptive_max_pool2d": _batched(_adaptive_max_pool),
    "avg_pool1d": _batched(_avg_pool),
    "avg_pool2d": _batched(_avg_pool),
    "max_pool1d": _batched(_max_pool),
    "max_pool1d_with_indices": _batched(_max_pool_pair),
    "max_pool2d": _batched(_max_pool),
    "max_pool2d_with_indices": _batched(_max_pool_pair),
}
"""By the name of the operator in the namespace `aten`."""
