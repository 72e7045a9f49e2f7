"""Rules of pooling: windows, rounding up, counted pads, and pooling to a given size."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...ir.arrays import Array
from ..problems import ProblemError
from .calls import Call
from .rules_onnx import max_pool, with_places
from .rules_shape import cut
from .sizes import static
from .torch_builder import Builder, Rule


@dataclass(frozen=True)
class _Pool:
    """A call with its images [N, C, …], the number of spatial axes and their sizes."""

    call: Call
    x: SSAValue
    axes: int
    image: list[int]

    def window(self, name: str, default: int | None = None) -> list[int]:
        """A window property as one number an axis, by default the size of the window."""
        if self.call.integers(name):
            return self.call.window(name, self.axes)
        return self.window("kernel_size") if default is None else [default] * self.axes


def _batched(function: Callable[[Builder, _Pool], SSAValue], *, indices: bool = False) -> Rule:
    """Give an image without a batch a batch of one; with `indices` where those are used."""

    def rule(e: Builder, call: Call) -> SSAValue | list[SSAValue | None]:
        x, axes = e.value(call["self"]), 1 if "1d" in call.name else 2
        image = static(e.sizes(call["self"])[-axes:], "image")
        has_batch = call.rank == axes + 2
        x = x if has_batch else e.add(tensor.UnsqueezeOp(x, [0]))
        result = function(e, _Pool(call, x, axes, image))
        result = result if has_batch else e.add(tensor.SqueezeOp(result, [0]))
        if not indices:
            return result
        if call.name.startswith("aten::max") and has_batch:
            return with_places(e, call, result)
        return [result, None]

    return rule


def _padding(pool: _Pool) -> tuple[list[int], list[int], list[int]]:
    """Low pads, high pads, and what rounding up adds behind the latter."""
    kernel, strides = pool.window("kernel_size"), pool.window("stride")
    low, extra = pool.window("padding", 0), [0] * pool.axes
    if pool.call.flag("ceil_mode"):
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
        if pool.call.rank != pool.axes + 2:
            raise ProblemError("windows with dilation need images with a batch")
        return max_pool(e, pool.call)
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


def _avg_pool(e: Builder, pool: _Pool) -> SSAValue:
    kernel, strides = pool.window("kernel_size"), pool.window("stride")
    low, high, extra = _padding(pool)
    counted = pool.call.flag("count_include_pad", True)
    if not any(extra) and "divisor_override" not in pool.call:
        return e.add(
            tensor.AvgPoolOp(pool.x, kernel, strides, [*low, *high], count_include_pad=counted)
        )
    behind = [a + b for a, b in zip(high, extra, strict=True)]
    x = e.add(tensor.PadToOp(pool.x, [0, 0, *low], [0, 0, *behind]))
    means = e.add(tensor.AvgPoolOp(x, kernel, strides))
    size = math.prod(kernel)
    if "divisor_override" in pool.call:
        factors = np.array(size / pool.call.integer("divisor_override"))
    else:
        counts = [
            _counts(pool.image[a], kernel[a], strides[a], low[a], extra[a], counted)
            for a in range(pool.axes)
        ]
        grid = counts[0] if pool.axes == 1 else np.outer(counts[0], counts[1])
        factors = size / grid
    return e.add(tensor.MulOp(means, e.numbers(factors, tensor_type(x).element_type)))


def _counts(image: int, kernel: int, stride: int, pad: int, extra: int, counted: bool) -> Array:
    """How many elements of each window count."""
    ones = np.pad(np.ones(image), pad, constant_values=1.0 if counted else 0.0)
    padded = np.pad(ones, (0, extra))
    starts = range(0, len(padded) - kernel + 1, stride)
    return np.array([padded[start : start + kernel].sum() for start in starts])


def _bounds(size: int, out: int) -> list[tuple[int, int]]:
    """The windows of adaptive pooling."""
    return [(i * size // out, -(-(i + 1) * size // out)) for i in range(out)]


def _adaptive_avg_pool(e: Builder, pool: _Pool) -> SSAValue:
    wanted = pool.window("output_size")
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
        weight = e.numbers(means, tensor_type(x).element_type)
        x = x if axis == pool.axes - 1 else e.permute(x, swap)
        x = e.add(tensor.MatmulOp(x, weight))
        x = x if axis == pool.axes - 1 else e.permute(x, swap)
    return x


def _adaptive_max_pool(e: Builder, pool: _Pool) -> SSAValue:
    wanted, x = pool.window("output_size"), pool.x
    if all(size % n == 0 for size, n in zip(pool.image, wanted, strict=True)):
        kernel = [size // n for size, n in zip(pool.image, wanted, strict=True)]
        return e.add(tensor.MaxPoolOp(x, kernel))
    for index in range(pool.axes):
        axis = 2 + index
        parts = [
            e.add(tensor.ReduceMaxOp(cut(e, x, axis, start, end), [axis], keepdims=True))
            for start, end in _bounds(pool.image[index], wanted[index])
        ]
        x = e.add(tensor.ConcatenateOp(parts, axis))
    return x


RULES: dict[str, Rule] = {
    "adaptive_avg_pool1d": _batched(_adaptive_avg_pool),
    "adaptive_avg_pool2d": _batched(_adaptive_avg_pool),
    "_adaptive_avg_pool2d": _batched(_adaptive_avg_pool),
    "adaptive_max_pool1d": _batched(_adaptive_max_pool, indices=True),
    "adaptive_max_pool2d": _batched(_adaptive_max_pool, indices=True),
    "avg_pool1d": _batched(_avg_pool),
    "avg_pool2d": _batched(_avg_pool),
    "max_pool1d": _batched(_max_pool),
    "max_pool1d_with_indices": _batched(_max_pool, indices=True),
    "max_pool2d": _batched(_max_pool),
    "max_pool2d_with_indices": _batched(_max_pool, indices=True),
}
"""By the name of the operator in the namespace `aten`."""
