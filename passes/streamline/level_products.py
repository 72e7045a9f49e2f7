"""Products with trits of values on a grid: what their integer sums stand for."""

from __future__ import annotations

import numpy as np
from xdsl.ir import Operation

from ...dialects import ternary
from ...dialects.parameters import Array
from ..analysis.compile_time import literal_value
from ..analysis.layers import TernaryLayer, channel_axis
from .level_functions import Bounds, NoFunctionError, channels_on


def sum_bounds(matrix: Array, bounds: Bounds) -> Bounds:
    """The least and the greatest sum of a row of trits [channels, inputs] with such inputs."""
    low, high = bounds
    ups, downs = (matrix > 0).sum(axis=1), (matrix < 0).sum(axis=1)
    # Padding puts zeros in the place of inputs.
    least, most = min(low, 0), max(high, 0)
    return int((ups * least - downs * most).min()), int((ups * most - downs * least).max())


def real_sums(points: Array, matrix: Array, scale: float, offset: float) -> Array:
    """What sums stand for, [points, channels], for inputs scale·integer + offset."""
    fixed = offset * matrix.sum(axis=1, dtype=np.float64)
    real = scale * points.astype(np.float64)[:, None] + fixed
    return real.astype(np.float32)


def finished(op: Operation, real: Array) -> Array:
    """The optional steps of a product after its sums.

    Raises:
        NoFunctionError: their numbers are not known, or they are integers.
    """
    assert isinstance(op, TernaryLayer)
    axis = channel_axis(op)
    if op.scale is not None:
        real = real * _vector(op, "scale", axis)
    if isinstance(op, ternary.MatmulOp):
        return real
    if op.thresholds is not None or op.multiplier is not None:
        raise NoFunctionError("it counts thresholds already")
    if op.bias is not None:
        real = real + _vector(op, "bias", axis)
    if op.activation.data != "none":
        real = np.maximum(real, np.float32(0))
    if op.activation.data == "relu6":
        real = np.minimum(real, np.float32(6))
    return real


def _vector(op: TernaryLayer, name: str, axis: int) -> Array:
    values = literal_value(getattr(op, name))
    if values is None:
        raise NoFunctionError(f"its {name} is not known")
    return channels_on(op.result, axis, values) if values.size > 1 else values.reshape(())


def with_signs(weight: Array, channel: int, signs: Array) -> Array:
    """A weight with the trits of some channels negated."""
    shape = [1] * weight.ndim
    shape[channel] = signs.size
    return (weight * signs.reshape(shape)).astype(weight.dtype)
