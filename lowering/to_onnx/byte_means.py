"""Means of bytes in few operators: of whole images, and of any axes, each with its rescaling.

A sum of bytes is a whole number that float32 holds; `rescaling` says which division has the steps
of the program's. Not here: means of windows, whose sums are written out.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
from xdsl.dialects.builtin import i8
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.shapes import DYNAMIC
from ..to_tflite.integer_patterns import centred, pooled, rescaled
from .byte_levels import signed, unsigned
from .byte_steps import BYTES, factor_of, rescaled_sums, with_offsets, within
from .byte_weights import SHIFT
from .graph import Array, Element
from .integer import FLOAT_EXACT
from .onnx_writer import Writer
from .rescaling import offsets_of, steps_of


def byte_pool(e: Writer, op: tensor.ConvertOp) -> bool:
    """Write the mean of each image, halves away from zero, that ends in `op`; whether it is one."""
    if tensor_type(op.result).element_type != i8 or (pool := pooled(op.result)) is None:
        return False
    if tensor_type(pool.x).get_shape()[2:] != pool.kernel or any((*pool.low, *pool.high)):
        return False
    count = prod(pool.kernel)

    def rescale(sums: Array) -> Array:
        return np.clip(np.sign(sums) * ((np.abs(sums) + count // 2) // count), *pool.bounds)

    made = _mean(e, pool.x, [2, 3], True, (count, 0, 1 / count), rescale, pool.bounds, 0)
    if made is None:
        return False
    e.bind(op.result, signed(e, made))
    return True


def byte_mean(e: Writer, op: tensor.RequantizeOp) -> bool:
    """Write the rescaled sum over some axes of bytes that ends in `op`; whether it is one."""
    if tensor_type(op.result).element_type != i8 or (scaled := rescaled(op.result)) is None:
        return False
    sums = scaled.source.owner
    if not isinstance(sums, tensor.ReduceSumOp) or scaled.multipliers.size != 1:
        return False
    if (inner := centred(sums.operand)) is None or not (scaled.multipliers > 0).all():
        return False
    x, zero = inner
    shape = tensor_type(x).get_shape()
    axes = sorted(axis % len(shape) for axis in sums.axes.get_values())
    count = prod(shape[axis] for axis in axes)
    if not axes or DYNAMIC in [shape[axis] for axis in axes] or tensor_type(x).element_type != i8:
        return False
    factor = float(factor_of(scaled)[0])
    made = _mean(
        e, x, axes, bool(sums.keepdims.value.data), (count, zero, factor),
        lambda sums: rescaled_sums(scaled, sums), scaled.bounds, scaled.zero,
    )  # fmt: skip
    if made is None:
        return False
    e.bind(op.result, signed(e, made))
    return True


def _mean(
    e: Writer, x: SSAValue, axes: list[int], keepdims: bool, numbers: tuple[int, int, float],
    rescale: Callable[[Array], Array], bounds: tuple[int, int], zero: int,
) -> str | None:  # fmt: skip
    """UINT8; `numbers` are how many bytes a sum has, their zero point, and about its factor."""
    count, point, factor = numbers
    low, high = (np.array([count * (bound - point)]) for bound in BYTES)
    if count < 1 or 2 * count * (SHIFT + 127) > FLOAT_EXACT:
        return None
    found = offsets_of(steps_of(rescale, low, high, bounds, zero), np.array([factor]))
    if found is None or count * 255 + abs(int(found.centre[0])) > FLOAT_EXACT:
        return None
    floats = e.cast(unsigned(e, e.value(x)), Element.FLOAT)
    sums = e.node("ReduceSum", [floats, e.indices(axes, "axes")], Element.FLOAT,
                  keepdims=int(keepdims))  # fmt: skip
    away = count * (point + SHIFT) + int(found.centre[0])
    sums = e.apply("Sub", [sums, e.scalar(away, Element.FLOAT)]) if away else sums
    return within(e, with_offsets(e, sums, found, 0), bounds)
