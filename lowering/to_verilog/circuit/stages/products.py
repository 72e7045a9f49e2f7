"""What is computed on one window: convolutions as products with a matrix, maxima, padding.

A window's elements come in the order of the window stage: rows of taps, taps of a row, channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import TensorType, i32
from xdsl.ir import Block

from .....dialects import spike, tensor, ternary
from .....dialects.inference import tensor_type
from .....dialects.shapes import DYNAMIC
from .....dialects.spike.types import dense_type
from .....passes.adder_graph import InputRange, optimize_integers
from .....passes.analysis.compile_time import literal_value
from ..arithmetic import larger, scaled
from ..arrays import array_of, in_pairs
from ..circuit import Circuit
from ..circuit_rules import RULES, Signals
from ..signals import Signal
from .window_shape import WindowShape

ConvOp = ternary.ConvOp | tensor.ConvOp

ImageOp = spike.ConvOp | spike.MaxPoolOp
"""Ops on images of spikes."""

WindowOp = ConvOp | tensor.MaxPoolOp | tensor.PadToOp
"""Ops that look at several positions around each."""


@dataclass(frozen=True)
class Search:
    """How adders are searched for, see `optimize_matrix`."""

    cost: str = "bits"
    time_budget: float = 1.0
    max_depth: int | None = None


def absorbed_padding(op: WindowOp) -> tensor.PadToOp | None:
    """The op that pads the operand of a window op and nothing else: windows do that themselves."""
    pad = op.operands[0].owner
    if not isinstance(pad, tensor.PadToOp) or isinstance(op, tensor.PadToOp):
        return None
    alone = pad.result.has_one_use() and not any(op.padding.get_values())
    outside = (*pad.low.get_values()[:2], *pad.high.get_values()[:2])
    return pad if alone and not any(outside) else None


def window_shape(op: WindowOp | ImageOp) -> WindowShape:
    """The geometry of an op's windows, of trains at each step; images of one axis have one row."""
    pad = None if isinstance(op, ImageOp) else absorbed_padding(op)
    axes = slice(3 if isinstance(op, ImageOp) else 2, None)
    size = dense_type((pad or op).operands[0]).get_shape()[axes]
    rank = len(size)
    kernel = strides = dilation = (1,) * rank
    low = high = (0,) * rank
    if isinstance(op, tensor.PadToOp):
        pad = op
    else:
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


def paddings(op: WindowOp, bounds: Sequence[tuple[int, int]]) -> list[int]:
    """What stands beyond the border, for each channel with those bounds."""
    pad = op if isinstance(op, tensor.PadToOp) else absorbed_padding(op)
    if pad is not None:
        return [int(pad.value.value.data)] * len(bounds)
    if isinstance(op, tensor.MaxPoolOp):
        return [low for low, _ in bounds]
    return [0] * len(bounds)


def on_window(
    circuit: Circuit,
    op: WindowOp,
    window: Sequence[Signal],
    search: Search,
) -> Signals:
    """An op's result at one position, from the elements of its window."""
    match op:
        case tensor.PadToOp():
            flat = list(window)
        case tensor.MaxPoolOp():
            flat = largest(circuit, window, tensor_type(op.result).get_shape()[1])
        case _:
            flat = convolved(circuit, op, window, search)
    shape = tensor_type(op.results[0]).get_shape()
    return array_of(flat, (1, len(flat), *[1] * (len(shape) - 2)))


def largest(circuit: Circuit, window: Sequence[Signal], channels: int) -> list[Signal]:
    """For each channel the largest element of a window."""
    maxima: list[Signal] = []
    for channel in range(channels):
        with circuit.element(channel):
            maxima.append(
                in_pairs(
                    lambda a, b: larger(circuit, a, b, circuit.name("max")),
                    window[channel::channels],
                )
            )
    return maxima


def convolved(
    circuit: Circuit, op: ConvOp | spike.ConvOp, window: Sequence[Signal], search: Search
) -> list[Signal]:
    """The sums of a convolution at one position."""
    weight = literal_value(op.weight)
    assert weight is not None
    groups = op.groups.value.data
    outputs, depth = weight.shape[0] // groups, weight.shape[1]
    channels = depth * groups
    sums: list[Signal] = []
    for group in range(groups):
        own = weight[group * outputs : (group + 1) * outputs].astype(np.int64)
        matrix = np.moveaxis(own, (0, 1), (-1, -2)).reshape(-1, outputs)
        row = [
            signal
            for start in range(group * depth, len(window), channels)
            for signal in window[start : start + depth]
        ]
        sums += times_matrix(circuit, row, matrix, search)
    return sums


def times_matrix(
    circuit: Circuit, row: Sequence[Signal], matrix: NDArray[np.int64], search: Search
) -> list[Signal]:
    """A row of numbers times a known matrix of integers [K, N]."""
    low = min(signal.bounds[0] for signal in row)
    high = max(signal.bounds[1] for signal in row)
    graph, shifts = optimize_integers(
        matrix,
        cost=search.cost,
        time_budget=search.time_budget,
        max_depth=search.max_depth,
        inputs=InputRange(low, max(high, low + 1)),
    )
    operand = Block(arg_types=[TensorType(i32, (1, len(row)))]).args[0]
    op = ternary.AdderGraphOp(operand, graph.inputs, graph.nodes, graph.outputs)
    sums = RULES[ternary.AdderGraphOp](circuit, op, [array_of(row, (1, len(row)))])[0]
    return [scaled(circuit, total, 1 << shift) for total, shift in zip(sums, shifts, strict=True)]


def position_shape(op_shape: Sequence[int], spatial: Sequence[int]) -> tuple[int, ...]:
    """The shape of a value at one position: 1 along the batch and along axes of positions."""
    places = {axis + len(op_shape) for axis in spatial}
    return tuple(
        1 if size == DYNAMIC or axis in places else size for axis, size in enumerate(op_shape)
    )
