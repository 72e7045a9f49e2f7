"""What is computed on one window: convolutions as products with a matrix, maxima, padding.

A window's elements come in the order of the window stage: rows of taps, taps of a row, channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod

import numpy as np

from .....dialects import spike, tensor, ternary
from .....dialects.inference import tensor_type
from .....dialects.shapes import DYNAMIC
from .....dialects.spike.types import dense_type
from .....ir.arrays import Array
from .....passes.analysis.compile_time import literal_value
from ..arithmetic import larger
from ..arrays import array_of, in_pairs
from ..circuit import Circuit
from ..circuit_rules import Signals
from ..products import times_matrix
from ..signals import Signal
from .window_shape import WindowShape

ConvOp = ternary.ConvOp | tensor.ConvOp

ImageOp = spike.ConvOp | spike.MaxPoolOp
"""Ops on images of spikes."""

WindowOp = ConvOp | tensor.MaxPoolOp | tensor.PadToOp
"""Ops that look at several positions around each."""


def absorbed_padding(op: WindowOp) -> tensor.PadToOp | None:
    """The op that pads the operand of a window op and nothing else: windows do that themselves."""
    pad = op.operands[0].owner
    if not isinstance(pad, tensor.PadToOp) or isinstance(op, tensor.PadToOp):
        return None
    alone = pad.result.has_one_use() and not any(op.padding.get_values())
    outside = (*pad.low.get_values()[:2], *pad.high.get_values()[:2])
    return pad if alone and not any(outside) else None


def padding_of(op: WindowOp | ImageOp) -> tensor.PadToOp | None:
    """The op whose padding the windows of an op have; `None` where it is the op's own, zeros."""
    if isinstance(op, ImageOp):
        return None
    return op if isinstance(op, tensor.PadToOp) else absorbed_padding(op)


def window_shape(op: WindowOp | ImageOp) -> WindowShape:
    """The geometry of an op's windows, of trains at each step; images of one axis have one row."""
    pad = padding_of(op)
    axes = slice(3 if isinstance(op, ImageOp) else 2, None)
    size = dense_type((pad or op).operands[0]).get_shape()[axes]
    rank = len(size)
    kernel = strides = dilation = (1,) * rank
    low = high = (0,) * rank
    if not isinstance(op, tensor.PadToOp):
        strides = op.strides.get_values()
        low, high = op.padding.get_values()[:rank], op.padding.get_values()[rank:]
        if isinstance(op, tensor.MaxPoolOp | spike.MaxPoolOp):
            kernel = op.kernel.get_values()
        else:
            kernel, dilation = tensor_type(op.weight).get_shape()[2:], op.dilation.get_values()
    if pad is not None:
        low, high = pad.low.get_values()[2:], pad.high.get_values()[2:]
    return WindowShape(
        _pair(size, 1),
        _pair(kernel, 1),
        _pair(strides, 1),
        _pair(low, 0),
        _pair(high, 0),
        _pair(dilation, 1),
    )


def _pair(values: Sequence[int], missing: int) -> tuple[int, int]:
    """Rows and columns; of an image of one axis `missing` rows."""
    return (missing, values[0]) if len(values) == 1 else (values[0], values[1])


def paddings(op: WindowOp | ImageOp, bounds: Sequence[tuple[int, int]]) -> list[int]:
    """What stands beyond the border, for each channel with those bounds."""
    pad = padding_of(op)
    if pad is not None:
        return [int(pad.value.value.data)] * len(bounds)
    if isinstance(op, tensor.MaxPoolOp):
        return [low for low, _ in bounds]
    return [0] * len(bounds)


def on_window(circuit: Circuit, op: WindowOp | ImageOp, window: Sequence[Signal]) -> Signals:
    """An op's result at one position, from the elements of its window."""
    shape = dense_type(op.results[0]).get_shape()
    lead = 2 if isinstance(op, ImageOp) else 1
    match op:
        case tensor.PadToOp():
            (fill,) = paddings(op, [(0, 0)])
            before, after = ([Signal.constant(fill)] * s.get_values()[1] for s in (op.low, op.high))
            flat = [*before, *window, *after]
        case tensor.MaxPoolOp() | spike.MaxPoolOp():
            flat = largest(circuit, window, shape[lead])
        case _:
            flat = convolved(circuit, op, window)
    return array_of(flat, (*[1] * lead, len(flat), *[1] * (len(shape) - lead - 1)))


def largest(circuit: Circuit, window: Sequence[Signal], channels: int) -> list[Signal]:
    """For each channel the largest element of a window."""
    maxima: list[Signal] = []
    for channel in range(channels):
        with circuit.element(channel):
            maxima.append(in_pairs(partial(larger, circuit), window[channel::channels]))
    return maxima


def convolved(
    circuit: Circuit, op: ConvOp | spike.ConvOp, window: Sequence[Signal]
) -> list[Signal]:
    """The sums of a convolution at one position, with the bias of one of spikes."""
    places: list[list[int]] = convolution_places(op).tolist()
    sums: list[Signal] = []
    for own, at in zip(np.split(convolution_matrix(op), len(places), 1), places, strict=True):
        sums += times_matrix(circuit, [window[place] for place in at], own, exact=False)
    if not isinstance(op, spike.ConvOp) or op.bias is None:
        return sums  # other biases are an op behind
    bias = literal_value(op.bias)
    assert bias is not None
    offsets = np.broadcast_to(bias, len(sums))
    return [total.plus(int(offset)) for total, offset in zip(sums, offsets, strict=True)]


def convolution_matrix(op: ConvOp | spike.ConvOp) -> Array:
    """The matrix int64 [K, N]: rows are rows of taps, taps of a row, channels of a group.

    Each column has rows for the inputs of its own group alone.
    """
    weight = literal_value(op.weight)
    assert weight is not None
    return np.moveaxis(weight, (0, 1), (-1, -2)).reshape(-1, len(weight)).astype(np.int64)


def convolution_places(op: ConvOp | spike.ConvOp) -> Array:
    """For each group of columns the elements of a window that its rows stand for, int64 [G, K]."""
    groups, (_, depth, *kernel) = op.groups.value.data, tensor_type(op.weight).get_shape()
    places = np.arange(prod(kernel) * groups * depth).reshape(-1, groups, depth)
    return places.swapaxes(0, 1).reshape(groups, -1)


def position_shape(op_shape: Sequence[int], spatial: Sequence[int]) -> tuple[int, ...]:
    """The shape of a value at one position: 1 along the batch and along axes of positions."""
    places = {axis + len(op_shape) for axis in spatial}
    return tuple(
        1 if size == DYNAMIC or axis in places else size for axis, size in enumerate(op_shape)
    )
