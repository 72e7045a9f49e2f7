"""Finds in a program the arithmetic that LiteRT's kernels for integers do.

`lowering.from_tflite` writes these kernels out: operands less their zero points, a sum of i32, one
rescaling by multiplier and shift, in two roundings or one. Here the pieces are put together again.
Nothing is guessed: numbers are read off the ops, and where an op is another there is no pattern.
Not here: whether LiteRT gives these numbers for the scales of a program, and what is written
(`integer_kernels`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import i8, i32
from xdsl.ir import Operation, SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.parameters import constant_value
from ...dialects.tensor.shape import SLICE_END
from .graph import Array

WIDE = (-(1 << 31), (1 << 31) - 1)
"""The bounds of i32."""


def known(value: SSAValue) -> Array | None:
    """The values of a parameter or constant."""
    return constant_value(value.owner) if isinstance(value.owner, Operation) else None


def is_number(value: SSAValue, number: int) -> bool:
    """Whether a value is a constant whose elements are all `number`."""
    array = known(value)
    return array is not None and bool((array == number).all())


@dataclass(frozen=True)
class Rescaled:
    """clamp(round(source·m·2^(exponent - 31)) + zero).

    Attributes:
        source: i32.
        multipliers: one, or one for each place on an axis.
        exponents: the same.
        zero: added after rounding.
        bounds: of the result.
        twice: whether it rounds twice; else once, halves up.
    """

    source: SSAValue
    multipliers: Array
    exponents: Array
    zero: int
    bounds: tuple[int, int]
    twice: bool


def rescaled(value: SSAValue) -> Rescaled | None:
    """The rescaling that gives `value`."""
    op = value.owner
    if isinstance(op, tensor.ConvertOp):
        op = op.operand.owner
    if not isinstance(op, tensor.RequantizeOp):
        return None
    numbers = [known(v) for v in (op.multiplier, op.shift, op.zero_point)]
    if any(array is None for array in numbers) or numbers[2] is None or numbers[2].size != 1:
        return None
    multipliers, shifts = (np.atleast_1d(np.asarray(a, np.int64)) for a in numbers[:2])
    zero, bounds = int(numbers[2].reshape(-1)[0]), (op.low.value.data, op.high.value.data)
    inner = op.input.owner
    if isinstance(inner, tensor.SubOp) and np.isin(multipliers, (1, 2)).all():
        right = np.where(multipliers == 1, shifts, 0)
        first = _first_rounding(inner, right)
        if first is not None and ((multipliers == 1) | (shifts == 1)).all():
            source, full, left = first
            return Rescaled(source, full, left - right, zero, bounds, True)
    return Rescaled(op.input, multipliers, 31 - shifts, zero, bounds, False)


@dataclass(frozen=True)
class Scaled:
    """clamp(round(float32(source)·scale + added) + zero), halves to even.

    Attributes:
        source: i32.
        scales: float32, one, or one for each place on an axis.
        added: float32, 0 where nothing is.
        zero: added after rounding.
        bounds: of the result.
    """

    source: SSAValue
    scales: Array
    added: np.float32
    zero: int
    bounds: tuple[int, int]


def scaled_in_floats(value: SSAValue) -> Scaled | None:
    """The rescaling in float32 that gives `value`."""
    op = value.owner
    if not isinstance(op, tensor.QuantizeOp) or not is_number(op.scale, 1):
        return None
    product, zero, added = op.input.owner, known(op.zero_point), np.zeros(1, np.float32)
    if isinstance(product, tensor.AddOp):
        more = known(product.rhs)
        if more is None or more.size != 1:
            return None
        product, added = product.lhs.owner, more.astype(np.float32).reshape(-1)
    if not isinstance(product, tensor.MulOp) or zero is None or zero.size != 1:
        return None
    wide, scales = product.lhs.owner, known(product.rhs)
    if not isinstance(wide, tensor.ConvertOp) or scales is None:
        return None
    if tensor_type(wide.operand).element_type != i32:
        return None
    bounds = (op.low.value.data, op.high.value.data)
    zero = int(zero.reshape(-1)[0])
    return Scaled(wide.operand, scales.reshape(-1), added[0], zero, bounds)


def _first_rounding(moved: tensor.SubOp, right: Array) -> tuple[SSAValue, Array, Array] | None:
    """Of part - (part < 0), where anything is shifted right: what part rescales, m and shift."""
    part, negative = moved.lhs, moved.rhs.owner
    mask: Array | None = np.ones(1, np.int64)
    if isinstance(negative, tensor.MulOp):
        mask, negative = known(negative.rhs), negative.lhs.owner
    if mask is None or not np.array_equal(
        np.broadcast_to(mask.reshape(-1), right.shape), right > 0
    ):
        return None
    if not isinstance(negative, tensor.ConvertOp):
        return None
    compare, op = negative.operand.owner, part.owner
    if not isinstance(compare, tensor.CompareOp) or compare.predicate.data != "lt":
        return None
    if compare.lhs is not part or not is_number(compare.rhs, 0):
        return None
    if not isinstance(op, tensor.RequantizeOp) or not is_number(op.zero_point, 0):
        return None
    multipliers, shifts = known(op.multiplier), known(op.shift)
    if multipliers is None or shifts is None or (op.low.value.data, op.high.value.data) != WIDE:
        return None
    numbers = [np.atleast_1d(np.asarray(array, np.int64)) for array in (multipliers, shifts)]
    return op.input, numbers[0], 31 - numbers[1]


def centred(value: SSAValue) -> tuple[SSAValue, int] | None:
    """What `value`, i32, is less its zero point, and this: a tensor of bytes."""
    zero = 0
    if isinstance(value.owner, tensor.SubOp):
        array = known(value.owner.rhs)
        if array is None or array.size != 1:
            return None
        zero, value = int(array.reshape(-1)[0]), value.owner.lhs
    op = value.owner
    if not isinstance(op, tensor.ConvertOp) or tensor_type(value).element_type != i32:
        return None
    return (op.operand, zero) if is_byte(op.operand) else None


def times(value: SSAValue) -> tuple[SSAValue, int, int] | None:
    """What is less its zero point, times a number; the zero point, and the number."""
    op = value.owner
    factor = known(op.rhs) if isinstance(op, tensor.MulOp) else None
    if not isinstance(op, tensor.MulOp) or factor is None or factor.size != 1:
        return None
    inner = centred(op.lhs)
    return None if inner is None else (*inner, int(factor.reshape(-1)[0]))


def is_byte(value: SSAValue) -> bool:
    """Whether elements are integers of 8 bits."""
    return getattr(tensor_type(value).element_type, "bitwidth", 0) == 8


@dataclass(frozen=True)
class Weighted:
    """A sum of i32: what is less its zero point, by weights, and a bias.

    Attributes:
        op: the product.
        x: its operand, i8.
        zero: the zero point of x.
        weight: as the op has it, int8.
        bias: one a channel, int32; `None` for none.
    """

    op: tensor.ConvOp | tensor.MatmulOp | tensor.LinearOp
    x: SSAValue
    zero: int
    weight: Array
    bias: Array | None


def weighted(value: SSAValue) -> Weighted | None:
    """The product that gives `value`."""
    bias: Array | None = None
    if isinstance(value.owner, tensor.AddOp):
        bias, value = known(value.owner.rhs), value.owner.lhs
        if bias is None:
            return None
    op = value.owner
    if isinstance(op, tensor.MatmulOp):
        operand, stored = op.lhs, known(op.rhs)
    elif isinstance(op, tensor.ConvOp | tensor.LinearOp):
        operand, stored = op.input, known(op.weight)
        if op.bias is not None and (bias is not None or (bias := known(op.bias)) is None):
            return None
    else:
        return None
    inner = centred(operand)
    if stored is None or inner is None or tensor_type(inner[0]).element_type != i8:
        return None
    is_conv = isinstance(op, tensor.ConvOp)
    if stored.ndim != (4 if is_conv else 2) or stored.size == 0:
        return None
    if max(stored.max(initial=0), -1 - stored.min(initial=0)) > 127:
        return None
    channels = stored.shape[0 if is_conv else 1]
    if bias is not None:
        along = tensor_type(value).get_num_dims() - (2 if is_conv and bias.ndim > 1 else 0)
        place = bias.ndim - 1 if not is_conv or bias.ndim == 1 else bias.ndim - along - 1
        if bias.size != channels or bias.shape[place] != channels:
            return None
        bias = bias.reshape(-1).astype(np.int32)
    return Weighted(op, *inner, stored.astype(np.int8), bias)


@dataclass(frozen=True)
class Pooled:
    """Means of windows over an image of bytes, halves away from zero.

    Attributes:
        x: the image, N, C, H, W.
        kernel: of two sizes, as the others.
        strides: steps.
        low: pads before; they do not count.
        high: pads behind.
        bounds: of the result.
    """

    x: SSAValue
    kernel: tuple[int, int]
    strides: tuple[int, int]
    low: tuple[int, int]
    high: tuple[int, int]
    bounds: tuple[int, int]


def pooled(value: SSAValue) -> Pooled | None:
    """The pool that gives `value`."""
    clamped = _clamped(value)
    if clamped is None:
        return None
    sums, counts = _quotient(clamped[0])
    window = None if sums is None else _window(sums)
    if window is None or counts is None:
        return None
    pool = Pooled(*window, bounds=clamped[1])
    wanted = window_counts(pool)
    if isinstance(counts, tuple):
        count = int(wanted.flat[0])
        shift = 30 + (count - 1).bit_length() - 1
        same = bool((wanted == count).all()) and counts == (-(-(1 << shift) // count), shift)
    else:
        same = counts.shape[-2:] == wanted.shape and bool((counts == wanted).all())
    return pool if same else None


def window_counts(pool: Pooled) -> Array:
    """How many elements of each window stand inside the image."""
    counts: list[Array] = []
    for axis, size in enumerate(tensor_type(pool.x).get_shape()[2:]):
        kernel, step, low = pool.kernel[axis], pool.strides[axis], pool.low[axis]
        places = (size + low + pool.high[axis] - kernel) // step + 1
        starts = step * np.arange(places) - low
        counts.append(np.minimum(starts + kernel, size) - np.maximum(starts, 0))
    return np.outer(*counts)


def _clamped(value: SSAValue) -> tuple[SSAValue, tuple[int, int]] | None:
    """What is converted to bytes between bounds, and these."""
    op = value.owner
    least = op.operand.owner if isinstance(op, tensor.ConvertOp) else None
    most = least.lhs.owner if isinstance(least, tensor.MinimumOp) else None
    if not isinstance(least, tensor.MinimumOp) or not isinstance(most, tensor.MaximumOp):
        return None
    low, high = known(most.rhs), known(least.rhs)
    if low is None or high is None or low.size != 1 or high.size != 1:
        return None
    return most.lhs, (int(low.reshape(-1)[0]), int(high.reshape(-1)[0]))


def _quotient(value: SSAValue) -> tuple[SSAValue | None, tuple[int, int] | Array | None]:
    """The dividend; the divisor as a multiplier and a shift, or the counts of each window."""
    op = value.owner
    if isinstance(op, tensor.DivOp) and isinstance(op.lhs.owner, tensor.AddOp):
        # Half of the count, of the sign of the sum, then a division toward zero.
        counts, sums, half = known(op.rhs), op.lhs.owner.lhs, op.lhs.owner.rhs.owner
        halves = known(half.rhs) if isinstance(half, tensor.MulOp) else None
        sign = half.lhs.owner if isinstance(half, tensor.MulOp) else None
        fits = isinstance(sign, tensor.SignOp) and sign.operand is sums
        if not fits or counts is None or halves is None:
            return None, None
        if not np.array_equal(counts // 2, halves):
            return None, None
        return sums, counts
    sign = None
    if isinstance(op, tensor.MulOp) and isinstance(op.rhs.owner, tensor.SignOp):
        sign, op = op.rhs.owner.operand, op.lhs.owner
    if not isinstance(op, tensor.RequantizeOp) or not is_number(op.zero_point, 0):
        return None, None
    source = op.input
    if sign is not None:
        if not isinstance(source.owner, tensor.AbsOp) or source.owner.operand is not sign:
            return None, None
        source = sign
    low = 0 if sign is not None else -(1 << 30)
    multiplier, shift = _single(known(op.multiplier)), _single(known(op.shift))
    if (op.low.value.data, op.high.value.data) != (low, 1 << 30):
        return None, None
    if multiplier is None or shift is None:
        return None, None
    return source, (multiplier, shift)


def _single(array: Array | None) -> int | None:
    return None if array is None or array.size != 1 else int(array.reshape(-1)[0])


_Pair = tuple[int, int]


def _window(sums: SSAValue) -> tuple[SSAValue, _Pair, _Pair, _Pair, _Pair] | None:
    """The image of bytes whose windows are summed; kernel, strides and pads."""
    op = sums.owner
    if isinstance(op, tensor.ReduceSumOp):
        inner, shape = centred(op.operand), tensor_type(op.operand).get_shape()
        axes = sorted(axis % len(shape) for axis in op.axes.get_values())
        if inner is None or inner[1] or axes != [2, 3] or len(shape) != 4 or min(shape[2:]) < 1:
            return None
        if not op.keepdims.value.data:
            return None
        return inner[0], (shape[2], shape[3]), (1, 1), (0, 0), (0, 0)
    kernel, strides = [1, 1], [1, 1]
    for axis in (3, 2):
        terms = _sum_along(sums, axis)
        if terms is None:
            return None
        sums, kernel[axis - 2], strides[axis - 2] = terms
    low = high = (0, 0)
    if isinstance(sums.owner, tensor.PadToOp):
        pads = [tuple(p.get_values()) for p in (sums.owner.low, sums.owner.high)]
        if sums.owner.value.value.data or any((*p[:2], len(p) != 4) != (0, 0, False) for p in pads):
            return None
        low, high = ((p[2], p[3]) for p in pads)
        sums = sums.owner.operand
    inner = centred(sums)
    if inner is None or inner[1] or min(tensor_type(inner[0]).get_shape()[2:]) < 1:
        return None
    return inner[0], (kernel[0], kernel[1]), (strides[0], strides[1]), low, high


def _sum_along(value: SSAValue, axis: int) -> tuple[SSAValue, int, int] | None:
    """Of x[0::s] + x[1::s] + … along an axis x, the number of terms, and s."""
    parts: list[Operation] = []
    while isinstance(value.owner, tensor.AddOp):
        parts.append(value.owner.rhs.owner)  # pyright: ignore[reportArgumentType]
        value = value.owner.lhs
    parts.append(value.owner)  # pyright: ignore[reportArgumentType]
    slices = [part for part in reversed(parts) if isinstance(part, tensor.SliceOp)]
    if len(slices) != len(parts):
        return None
    source, steps = slices[0].operand, slices[0].steps.get_values()
    for start, part in enumerate(slices):
        starts, ends = part.starts.get_values(), part.ends.get_values()
        fits = part.operand is source and part.steps.get_values() == steps
        if not fits or starts[axis] != start or not _only(axis, starts, ends, steps):
            return None
    return source, len(slices), steps[axis]


def _only(axis: int, starts: Sequence[int], ends: Sequence[int], steps: Sequence[int]) -> bool:
    """Whether a slice cuts along one axis alone."""
    return all(
        a == axis or (start, end, step) == (0, SLICE_END, 1)
        for a, (start, end, step) in enumerate(zip(starts, ends, steps, strict=True))
    )
