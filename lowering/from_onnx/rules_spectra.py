"""ONNX import of spectra: Fourier transforms as products with cosines and sines, and mel bands."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.tensor.formula import Formula
from ..ir_builder import padded
from ..problems import ProblemError
from .inputs import type_of_proto
from .onnx_builder import LARGEST_KNOWN, Builder, Call, Rule
from .rules_shape import check_size, counted, take
from .sizes import Free, static

LONGEST = 4096
"""Fourier transforms have at most this many elements: they are products with a matrix."""


def _dft(e: Builder, call: Call) -> SSAValue:
    """The discrete Fourier transform along an axis, by products with cosines and sines."""
    x, rank = call[0], e.rank(call[0])
    if call.opset >= 20:
        axis = e.int_list(call[2], "axis")[0] if call.has(2) else -2
    else:
        axis = call.integer("axis", 1)
    if not -rank <= axis < rank or rank < 2:
        raise ProblemError(f"its axis {axis} is outside a tensor of rank {rank}")
    axis %= rank
    inverse, one_sided = call.flag("inverse", False), call.flag("onesided", False)
    length = e.int_list(call[1], "dft_length")[0] if call.has(1) else None
    return transformed(e, x, axis, length, inverse=inverse, one_sided=one_sided)


def transformed(
    e: Builder,
    x: SSAValue,
    axis: int,
    length: int | None = None,
    *,
    inverse: bool = False,
    one_sided: bool = False,
) -> SSAValue:
    """The discrete Fourier transform of x, whose last axis is real and imaginary part.

    Args:
        e: writes the ops.
        x: of any sizes along other axes.
        axis: what is transformed, of a fixed size.
        length: how many elements of that axis; what is missing is 0.
        inverse: whether it is the way back, divided by the length.
        one_sided: only the frequencies from 0 to a half; back from these, real parts alone.
    """
    rank, sizes = e.rank(x), e.sizes(x)
    size, parts = static([sizes[axis], sizes[-1]], "transformed sizes")
    if length is None:
        length = 2 * (size - 1) if one_sided and inverse else size
    if not 1 <= length <= LONGEST or parts not in (1, 2):
        raise ProblemError(f"it transforms {length} of {size} elements of {parts} parts")
    real, imaginary = _parts(e, x, axis, length, mirror=one_sided and inverse)
    turns = np.outer(np.arange(length), np.arange(length)) % length
    angles = 2 * np.pi * turns / length
    # Half a turn has no sine: the sign of a rounded one would turn an angle by a whole one.
    sine = np.where(2 * turns % length == 0, 0, np.sin(angles) * (1 if inverse else -1))
    cosine = np.cos(angles)
    if inverse:
        cosine, sine = cosine / length, sine / length
    if one_sided and not inverse:
        cosine, sine = (table[:, : length // 2 + 1] for table in (cosine, sine))
    tables = [e.known(table, tensor_type(x).element_type) for table in (cosine, sine)]

    def times(value: Formula, index: int) -> Formula:
        return Formula(e, e.add(tensor.MatmulOp(value.value, tables[index])))

    results = [times(real, 0)]
    if imaginary is not None:
        results[0] = results[0] - times(imaginary, 1)
    if not (one_sided and inverse):
        second = times(real, 1)
        results.append(second if imaginary is None else second + times(imaginary, 0))
    moved = [e.add(tensor.UnsqueezeOp(e.move_axis(r.value, rank - 2, axis), [rank - 1]))
             for r in results]  # fmt: skip
    return moved[0] if len(moved) == 1 else e.add(tensor.ConcatenateOp(moved, rank - 1))


def _parts(
    e: Builder, x: SSAValue, axis: int, length: int, *, mirror: bool
) -> tuple[Formula, Formula | None]:
    """Real and imaginary parts with the transformed axis last, cut or filled to `length`."""
    rank, parts = e.rank(x), list[Formula]()
    size, count = static([e.sizes(x)[axis], e.sizes(x)[-1]])
    for part in range(count):
        value = e.add(tensor.SqueezeOp(e.cut(x, rank - 1, part, part + 1), [rank - 1]))
        value = e.move_axis(value, axis, rank - 2)
        if mirror:
            back = np.arange(length - size, 0, -1)
            other = take(e, value, rank - 2, back)
            other = e.add(tensor.NegOp(other)) if part else other
            value = e.add(tensor.ConcatenateOp([value, other], rank - 2))
        else:
            high = [0] * (rank - 2) + [length - size]
            value = padded(e, value, [0] * (rank - 1), high, 0)
        parts.append(Formula(e, value))
    return parts[0], parts[1] if len(parts) > 1 else None


def _stft(e: Builder, call: Call) -> SSAValue:
    """Frames of the signal [N, length, 1 or 2], weighed by a window and transformed each."""
    x = call[0]
    batch, *others = e.sizes(x)
    shape = static(others, "signals")
    step = e.int_list(call[1], "frame_step")[0]
    if call.has(3):
        length = e.int_list(call[3], "frame_length")[0]
    else:
        length = e.shape(call[2])[0] if call.has(2) else shape[0]
    if len(shape) != 2 or step < 1 or not 1 <= length <= shape[0]:
        raise ProblemError(f"it cuts {shape} into frames of {length} every {step}")
    starts = counted((shape[0] - length) // step + 1) * step
    check_size([1 if isinstance(batch, Free) else batch, len(starts), length])
    if len(starts) * length > LARGEST_KNOWN:
        raise ProblemError(f"it cuts {shape} into {len(starts)} frames of {length}")
    places = (starts[:, None] + np.arange(length)).reshape(-1)
    frames = e.reshape(take(e, x, 1, places), [batch, len(starts), length, shape[1]])
    if call.has(2):
        window = e.reshape(e.convert(call[2], x), [length, 1])
        frames = e.add(tensor.MulOp(frames, window))
    return transformed(e, frames, 2, one_sided=call.flag("onesided", True))


def _mel_weights(e: Builder, call: Call) -> SSAValue:
    """Triangles over frequencies f, evenly spaced in mel = 2595·log10(1 + f/700)."""
    numbers = [e.array(call[index], "numbers").reshape(-1)[0] for index in range(5)]
    bands, length, rate = (int(number) for number in numbers[:3])
    low, high = (float(number) for number in numbers[3:])
    rows = length // 2 + 1
    if min(bands, length, rate) < 1 or not 0 <= low <= high or bands * rows > LARGEST_KNOWN:
        raise ProblemError(f"it makes {bands} bands of {length} elements from {low} to {high} Hz")
    first, last = (2595 * np.log10(1 + hertz / 700) for hertz in (low, high))
    mel = first + np.arange(bands + 2) * (last - first) / (bands + 2)
    edges = (length + 1) * (700 * (10 ** (mel / 2595) - 1)) // rate
    left, middle, right = (edges[start : start + bands].astype(np.int64) for start in range(3))
    place = np.arange(rows)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        rising = np.where(left == middle, 1, (place - left) / (middle - left))
        falling = (right - place) / (right - middle)
    table = np.where((place >= left) & (place <= middle), rising, 0)
    table = np.where((place >= middle) & (place < right), falling, table)
    return e.known(table, type_of_proto(call.integer("output_datatype", 1))[0])


RULES: dict[str, Rule] = {"DFT": _dft, "MelWeightMatrix": _mel_weights, "STFT": _stft}
"""By the type of the operator."""
