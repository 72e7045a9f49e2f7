"""Means of bytes in few operators: of windows, and of any axes, each with its rescaling.

Windows are a QLinearConv by ones where its own rounding is the program's. Else a sum of bytes is a
whole number that float32 holds; `rescaling` says which division has the steps of the program's.
Not here: windows that reach over the edge, whose sums are written out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import NamedTuple

import numpy as np
from xdsl.dialects.builtin import i8
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.shapes import DYNAMIC
from ..to_tflite.integer_patterns import centred, pooled, rescaled, scaled_in_floats
from .byte_levels import signed, unsigned
from .byte_steps import BYTES, floats_of, parts_of, rescaled_sums, stepped, within
from .byte_weights import SHIFT, convolve, of_trits
from .graph import Array, Attributes, Element
from .integer import FLOAT_EXACT
from .onnx_writer import Writer
from .rescaling import Line, Steps, scales_of, steps_of


def byte_pool(e: Writer, op: tensor.ConvertOp) -> bool:
    """Write the mean of each image, halves away from zero, that ends in `op`; whether it is one."""
    if tensor_type(op.result).element_type != i8 or (pool := pooled(op.result)) is None:
        return False
    if any((*pool.low, *pool.high)):
        return False
    count = prod(pool.kernel)

    def rescale(sums: Array) -> Array:
        return np.clip(np.sign(sums) * ((np.abs(sums) + count // 2) // count), *pool.bounds)

    mean = _mean_of(
        pool.x, (count, 0, (np.ones(1), np.full(1, float(count)))), rescale, pool.bounds, 0
    )
    if mean is None:
        return False
    made = _in_windows(e, mean, pool.kernel, pool.strides)
    if made is None and tensor_type(pool.x).get_shape()[2:] == pool.kernel:
        made = _in_floats(e, mean, [2, 3], keepdims=True)
    if made is None:
        return False
    e.bind(op.result, signed(e, made))
    return True


def byte_mean(e: Writer, op: tensor.RequantizeOp) -> bool:
    """Write the rescaled sum over some axes of bytes that ends in `op`; whether it is one."""
    scaled = rescaled(op.result)
    summed = None if scaled is None else _sum(op, scaled.source)
    if scaled is None or summed is None or scaled.multipliers.size != 1:
        return False
    if not (scaled.multipliers > 0).all():
        return False
    return _written(e, op, summed, _mean_of(
        summed.x, (summed.size, -summed.size * summed.zero, parts_of(scaled)),
        lambda sums: rescaled_sums(scaled, sums), scaled.bounds, scaled.zero,
    ))  # fmt: skip


def float_mean(e: Writer, op: tensor.QuantizeOp) -> bool:
    """Write the sum over some axes of bytes that `op` rescales in floats; whether it is one.

    What the program adds before it rounds is a whole number of levels, and one of bytes' sums.
    """
    scaled = scaled_in_floats(op.result)
    summed = None if scaled is None else _sum(op, scaled.source)
    if scaled is None or summed is None or scaled.scales.size != 1 or not scaled.scales[0] > 0:
        return False
    factor, count, start = scaled.scales[0], summed.size, -summed.size * summed.zero
    levels = np.arange(BYTES[0], BYTES[1] + 1)
    moves = (np.float64(scaled.added) - levels) / np.float64(factor)
    nearest = int(np.argmin(np.abs(moves - np.rint(moves)) + np.abs(levels) * 1e-9))
    more = int(np.rint(moves[nearest]))

    def rescale(sums: Array) -> Array:
        scales = (sums - more).astype(np.float32) * factor + scaled.added
        return np.clip(np.rint(scales).astype(np.int64) + scaled.zero, *scaled.bounds)

    zero = int(levels[nearest]) + scaled.zero
    parts = (np.array([factor], np.float64), np.ones(1))
    mean = _mean_of(summed.x, (count, start + more, parts), rescale, scaled.bounds, zero)
    return BYTES[0] <= zero <= BYTES[1] and _written(e, op, summed, mean)


class _Sum(NamedTuple):
    """Bytes less their zero point, added along some axes."""

    x: SSAValue
    zero: int
    axes: list[int]
    size: int
    keepdims: bool


def _sum(op: tensor.RequantizeOp | tensor.QuantizeOp, value: SSAValue) -> _Sum | None:
    sums = value.owner
    if not isinstance(sums, tensor.ReduceSumOp) or tensor_type(op.result).element_type != i8:
        return None
    if (inner := centred(sums.operand)) is None or tensor_type(inner[0]).element_type != i8:
        return None
    shape = tensor_type(inner[0]).get_shape()
    axes = sorted(axis % len(shape) for axis in sums.axes.get_values())
    if not axes or DYNAMIC in [shape[axis] for axis in axes]:
        return None
    count = prod(shape[axis] for axis in axes)
    return _Sum(*inner, axes, count, bool(sums.keepdims.value.data))


def _written(
    e: Writer, op: tensor.RequantizeOp | tensor.QuantizeOp, summed: _Sum, mean: _Mean | None
) -> bool:
    """Write a mean as the result of `op`, where there is a form of it."""
    if mean is None:
        return False
    made, shape = None, tensor_type(summed.x).get_shape()
    if len(shape) == 4 and summed.axes == [2, 3]:
        made = _in_windows(e, mean, shape[2:], (1, 1))
        if made is not None and not summed.keepdims:
            rows = e.squeeze(made, summed.axes)
            e.pixels[rows], made = made, rows
    made = made or _in_floats(e, mean, summed.axes, keepdims=summed.keepdims)
    if made is None:
        return False
    e.bind(op.result, signed(e, made))
    return True


_Numbers = tuple[int, int, tuple[Array, Array]]


class _Mean(NamedTuple):
    """Bytes whose sums are rescaled.

    `numbers` are how many bytes a sum has, what is added to it, and the `parts_of` what follows.
    """

    x: SSAValue
    numbers: _Numbers
    steps: Steps
    bounds: tuple[int, int]


def _mean_of(
    x: SSAValue, numbers: _Numbers, rescale: Callable[[Array], Array],
    bounds: tuple[int, int], zero: int,
) -> _Mean | None:  # fmt: skip
    """None where a sum is too large for what follows."""
    count, moved, _ = numbers
    if count < 1 or 2 * count * (SHIFT + 127) > FLOAT_EXACT:
        return None
    low, high = (np.array([count * bound + moved]) for bound in BYTES)
    return _Mean(x, numbers, steps_of(rescale, low, high, bounds, zero), bounds)


def _in_windows(
    e: Writer, mean: _Mean, kernel: Sequence[int], strides: Sequence[int]
) -> str | None:
    """UINT8: a convolution by ones, which the runtime makes when it loads the file."""
    channels, both = tensor_type(mean.x).get_shape()[1], scales_of(mean.steps)
    if channels == DYNAMIC or both is None:
        return None
    (count, moved, _), (scales, shifts) = mean.numbers, both
    zero, bias = -moved // count, int(shifts[0])
    if zero * count != -moved or not BYTES[0] <= zero <= BYTES[1]:
        zero, bias = 0, bias + moved
    one, zeros = e.scalar(1, Element.FLOAT), (zero, mean.steps.zero)
    points = [e.constant(np.array(zero + SHIFT, np.uint8), "zero_point") for zero in zeros]
    ones = e.constant(np.ones((1, 1, 1, 1), np.int8), "ones")
    weight = of_trits(e.apply("Expand", [ones], rest=[e.indices([channels, 1, *kernel])]))
    rest = [one, points[1]]
    if bias:
        rest.append(e.constant(np.full(channels, bias, np.int32), "bias"))
    window: Attributes = {
        "strides": strides, "pads": (0, 0, 0, 0), "dilations": (1, 1), "group": channels,
    }  # fmt: skip
    factor = e.constant(scales.reshape(()), "scale")
    image = (unsigned(e, e.value(mean.x)), one, points[0])
    return within(e, convolve(e, image, (weight, factor), rest, window), mean.bounds)


def _in_floats(e: Writer, mean: _Mean, axes: list[int], *, keepdims: bool) -> str | None:
    """UINT8: sums of floats, and one division or two."""
    count, moved, parts = mean.numbers
    away = count * SHIFT - moved
    found = floats_of(mean.steps, parts, np.array([2 * count * SHIFT]), np.array([away]))
    if found is None:
        return None
    away += found.centre[0] if isinstance(found, Line) else 0
    floats = e.cast(unsigned(e, e.value(mean.x)), Element.FLOAT)
    sums = e.node("ReduceSum", [floats, e.indices(axes, "axes")], Element.FLOAT,
                  keepdims=int(keepdims))  # fmt: skip
    sums = e.apply("Sub", [sums, e.scalar(away, Element.FLOAT)]) if away else sums
    return within(e, stepped(e, sums, found, 0), mean.bounds)
