"""Products of values on a grid with weights on a grid: what their integer sums stand for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.ir import SSAValue

from ...dialects import ternary
from ...dialects.parameters import Array
from ..adder_graph.graph import around, product_bounds
from ..analysis.compile_time import literal_value
from ..analysis.layers import Layer, channel_axis, is_conv, is_ternary, weight_of
from .level_functions import Bounds, LevelGrid, NoFunctionError, channels_on

MOST_WEIGHT = 255
"""Weights of 8 bits, whatever their zero point."""

_EXACT = 2.5e-7
"""How far, relatively, an f32 may lie from scale·integer that was rounded twice."""


@dataclass(frozen=True)
class WeightGrid:
    """A weight as scale·integers.

    Attributes:
        integers: in the shape of the weight, int64.
        scale: one number, or one an output channel.
    """

    integers: Array
    scale: Array

    def matrix(self, channel: int) -> Array:
        """The integers as [channels, inputs], for the axis of the channels."""
        return np.moveaxis(self.integers, channel, 0).reshape(self.integers.shape[channel], -1)

    @property
    def is_ternary(self) -> bool:
        """Whether the integers are trits."""
        return int(np.abs(self.integers).max(initial=0)) <= 1


@dataclass(frozen=True)
class ProductGrid:
    """A product on integers.

    Attributes:
        root: the integers that go in, whose 0 is a real 0 where the product pads.
        bounds: of them.
        weight: the weight, with the scale of the sums.
        fixed: what each sum stands for besides, one an output channel.
        of: the grid of the integers; `None` where channels have a grid each.
    """

    root: SSAValue
    bounds: Bounds
    weight: WeightGrid
    fixed: Array
    of: LevelGrid | None = None


def weight_channel(op: Layer) -> int:
    """The axis of a layer's weight that holds the output channels."""
    return 0 if is_conv(op) else 1


def weight_grid(op: Layer) -> WeightGrid:
    """The weight of a layer as integers of at most 8 bits and their scale.

    Raises:
        NoFunctionError: it is not known, or its numbers are no multiples of such a scale.
    """
    values = literal_value(weight_of(op))
    if values is None:
        raise NoFunctionError("its weight is not known")
    if is_ternary(op):
        return WeightGrid(values.astype(np.int64), np.ones(1))
    channel = weight_channel(op)
    wide = values.astype(np.float64)
    rows = np.moveaxis(wide, channel, 0).reshape(wide.shape[channel], -1)
    step = _step(rows)
    steps = [step] if step is not None else [_step(row) for row in rows]
    scale = np.array([0.0 if each is None else each for each in steps])
    if (scale == 0).any():
        raise NoFunctionError("its weights are not on few, evenly spaced levels")
    shape = [1] * wide.ndim
    shape[channel] = scale.size
    return WeightGrid(np.rint(wide / scale.reshape(shape)).astype(np.int64), scale)


def _step(values: Array) -> float | None:
    """The number that values are whole multiples of, `MOST_WEIGHT` at most; 1 for zeros alone."""
    levels = np.unique(np.abs(values))
    if not np.isfinite(levels).all() or len(levels) > MOST_WEIGHT + 1:
        return None
    if not levels.any():
        return 1.0
    least = float(np.diff(levels, prepend=0.0)[levels > 0].min())
    for divisor in range(1, MOST_WEIGHT + 1):
        most = round(float(levels[-1]) / least * divisor)
        if most > MOST_WEIGHT:
            return None
        step = float(levels[-1]) / most
        if (np.abs(np.rint(levels / step) * step - levels) <= _EXACT * levels).all():
            return step
    return None


def sum_bounds(matrix: Array, bounds: Bounds) -> Bounds:
    """The least and the greatest sum of a row of integers [channels, inputs] with such inputs.

    Raises:
        NoFunctionError: it has no 32 bits.
    """
    # Padding puts zeros in the place of inputs.
    low, high = (np.full(matrix.shape[1], end) for end in around((bounds, (0, 0))))
    lows, highs = product_bounds(low, high, matrix.T)
    ends = int(lows.min()), int(highs.max())
    if max(-ends[0], ends[1]) >= 2**31:
        raise NoFunctionError("its sums have no 32 bits")
    return ends


def real_sums(points: Array, grid: ProductGrid) -> Array:
    """What sums of integers [points] stand for, [points, channels]."""
    return grid.weight.scale * points.astype(np.float64)[:, None] + grid.fixed


def finished(op: Layer, real: Array) -> Array:
    """The optional steps of a product after its sums.

    Raises:
        NoFunctionError: their numbers are not known, or they are integers.
    """
    for name in ("scale", "bias"):
        if getattr(op, name, None) is not None:
            vector = _vector(op, name)
            real = real * vector if name == "scale" else real + vector
    if not isinstance(op, ternary.FusedOp):
        return real
    if op.thresholds is not None or op.multiplier is not None:
        raise NoFunctionError("it counts thresholds already")
    if op.activation.data != "none":
        real = np.maximum(real, np.float32(0))
    if op.activation.data == "relu6":
        real = np.minimum(real, np.float32(6))
    return real


def _vector(op: Layer, name: str) -> Array:
    values = literal_value(getattr(op, name))
    if values is None:
        raise NoFunctionError(f"its {name} is not known")
    return (
        channels_on(op.result, channel_axis(op), values) if values.size > 1 else values.reshape(())
    )


def with_signs(weight: Array, channel: int, signs: Array) -> Array:
    """A weight with the integers of some channels negated."""
    shape = [1] * weight.ndim
    shape[channel] = signs.size
    return (weight * signs.reshape(shape)).astype(weight.dtype)
