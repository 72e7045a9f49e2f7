"""Activations with a grid of each channel's own, as a product takes them that can.

A depthwise convolution sums over one channel, whose scale is then one of the result. Channels that
are summed need a common step; weights are then as many times larger. Not here: values with one grid
for all channels (`level_grids`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.parameters import Array
from ..analysis.layers import Layer, input_of, is_conv, is_ternary
from .level_functions import (
    Bounds,
    LevelFunction,
    LevelGrid,
    NoFunctionError,
    affine,
    channel_levels,
    channels_on,
    uniform_levels,
    with_common_step,
)
from .level_grids import LevelGrids, channel_of
from .level_products import ProductGrid, WeightGrid, weight_channel


@dataclass(frozen=True)
class _ChannelGrid:
    """scale[c]·root + offset[c] in channel c, with integers of `bounds` in `root`; scales not 0."""

    root: SSAValue
    scale: Array
    offset: Array
    bounds: Bounds


def by_channel(
    levels: LevelGrids, op: Layer, weight: WeightGrid, *, padded: bool
) -> ProductGrid | None:
    """The product of an input whose channels have grids of their own; `None` for another input.

    Raises:
        NoFunctionError: it sums over channels without a common step, or pads between two levels.
    """
    axis = 1 if is_conv(op) else tensor_type(input_of(op)).get_num_dims() - 1
    grid = _channel_grid(levels, input_of(op), axis)
    if grid is None:
        return None
    grid = _centred(levels, grid, input_of(op), axis) if padded else grid
    channel = weight_channel(op)
    rows = np.moveaxis(weight.integers, channel, 0)
    matrix = rows.reshape(*rows.shape[:2], -1)
    outputs, inputs, _ = matrix.shape
    groups = len(grid.scale) // inputs
    step, factors = _common_steps(grid, groups)
    if is_ternary(op) and (factors != 1).any():
        raise NoFunctionError("its trits would become other numbers for scales of channels")
    own = np.array([output * groups // outputs for output in range(outputs)])
    offsets = grid.offset.reshape(groups, inputs)[own]
    widened = (matrix * factors[own][..., None]).reshape(rows.shape)
    made = WeightGrid(np.moveaxis(widened, 0, channel), weight.scale * step[own])
    fixed = weight.scale * (matrix * offsets[..., None]).sum(axis=(1, 2))
    return ProductGrid(grid.root, grid.bounds, made, fixed)


def _channel_grid(levels: LevelGrids, value: SSAValue, axis: int) -> _ChannelGrid | None:
    function = levels.functions.get(value)
    if function is None or function.bounds is None or channel_of(function) != axis:
        return None
    fitted = affine(function)
    grid = (
        _counted(levels, function)
        if fitted is None
        else _ChannelGrid(function.root, *fitted, function.bounds)
    )
    if grid is None or len(grid.scale) != tensor_type(value).get_shape()[axis]:
        return None
    return grid


def _counted(levels: LevelGrids, function: LevelFunction) -> _ChannelGrid | None:
    """The thresholds that each channel reaches, if its levels are few and evenly spaced."""
    found = channel_levels(function)
    uniform = None if found is None else [uniform_levels(each) for each in found]
    if uniform is None or None in uniform:
        return None
    parts = np.array(uniform, np.float64)
    step, lowest, number = parts[:, 0], parts[:, 1], int(parts[:, 2].max())
    return _ChannelGrid(levels.counted(function, step, lowest, number), step, lowest, (0, number))


def _centred(levels: LevelGrids, grid: _ChannelGrid, value: SSAValue, axis: int) -> _ChannelGrid:
    """Integers whose 0 is the real number 0 in each channel."""
    shift = grid.offset / grid.scale
    by = np.rint(shift).astype(np.int32)
    if not (np.abs(shift - by) < 1e-4).all():
        raise NoFunctionError("padding is between two levels")
    if not by.any():
        return replace(grid, offset=np.zeros_like(grid.offset))
    known = levels.constant("shift", channels_on(value, axis, by)[0], i32)
    root = levels.add(tensor.AddOp(levels.wide(grid.root), known))
    bounds = grid.bounds[0] + int(by.min()), grid.bounds[1] + int(by.max())
    return _ChannelGrid(root, grid.scale, np.zeros_like(grid.offset), bounds)


def _common_steps(grid: _ChannelGrid, groups: int) -> tuple[Array, Array]:
    """The step of each group's channels [groups]; how many of them each is [groups, inputs]."""
    steps: list[float] = []
    factors: list[list[int]] = []
    for scales in grid.scale.reshape(groups, -1):
        each = [LevelGrid(grid.root, abs(float(scale)), 0.0, grid.bounds) for scale in scales]
        try:
            step, factor, _ = with_common_step(each, offsets=False)
        except NoFunctionError:
            raise NoFunctionError(
                "it sums over channels whose scales have no common step"
            ) from None
        steps.append(step)
        factors.append(factor)
    return np.array(steps), np.array(factors) * np.sign(grid.scale).reshape(groups, -1).astype(int)
