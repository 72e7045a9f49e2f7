"""Which neurons can never fire: they are driven as hard as their inputs allow.

A step of a neuron is monotone in its potential and its current, and so is every rounding in it. So
a neuron that does not fire when it gets the largest current at every step does not fire at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from xdsl.dialects.builtin import f32, f64
from xdsl.ir import SSAValue

from ...dialects import spike
from ...dialects.elements import numpy_dtype
from ...dialects.inference import tensor_type
from ...dialects.parameters import Array
from ...dialects.shapes import DYNAMIC, is_integer
from ...dialects.spike.interpret_neurons import NumpyArithmetic, States
from ...dialects.spike.types import is_train
from ..analysis.layers import Synapse, is_conv
from .prunable import Mask

MOST_STEPS = 20_000
"""A potential that still rises after so many steps counts as one that may reach the threshold."""

_UNIT_RANGE = spike.ToTensorOp | spike.AvgPoolOp


def carries_spikes(value: SSAValue) -> bool:
    """Whether all elements lie between 0 and 1: spikes, as a train or not, and means of them."""
    if is_train(value):
        return True
    owner = value.owner
    return isinstance(owner, _UNIT_RANGE) and carries_spikes(owner.operands[0])


def current_bounds(op: Synapse, arrays: dict[str, Array]) -> tuple[Array, Array] | None:
    """The least and the largest current of each channel, rounded outwards; `None` if not known.

    Args:
        op: the synapse.
        arrays: its weight, and its scale and bias if it has them.
    """
    weight = arrays["weight"]
    axes = tuple(range(1, weight.ndim)) if is_conv(op) else (0,)
    if not carries_spikes(op.input):
        if weight.any():
            return None
        weight = np.zeros_like(weight)
    wide = weight.astype(np.float64)
    low, high = np.minimum(wide, 0).sum(axis=axes), np.maximum(wide, 0).sum(axis=axes)
    element = tensor_type(op.result).element_type
    exact = weight.dtype == np.int8
    if exact and max(abs(low).max(initial=0), abs(high).max(initial=0)) >= 2**31:
        return None
    if is_integer(tensor_type(op.result)):
        bias = arrays.get("bias", np.zeros(1)).astype(np.float64)
        return low + bias, high + bias
    if element not in (f32, f64):
        return None
    dtype = numpy_dtype(element)
    if not exact and not _sums_exactly(wide, dtype):
        # Sums are in any order: no term is rounded more often than there are terms.
        slack = 1 + (weight.size // max(1, len(low)) + 1) * float(np.finfo(dtype).eps)
        low, high = _outwards(low * slack, dtype, -1), _outwards(high * slack, dtype, 1)
    low, high = low.astype(dtype), high.astype(dtype)
    if "scale" in arrays:
        scale = arrays["scale"].astype(dtype)
        products = low * scale, high * scale
        low, high = np.minimum(*products), np.maximum(*products)
    bias = arrays.get("bias", np.zeros((), dtype)).astype(dtype)
    return low + bias, high + bias


def _sums_exactly(weight: Array, dtype: np.dtype[Any]) -> bool:
    """Whether all sums of elements are numbers of `dtype`: multiples of one power of two."""
    total, info = float(np.abs(weight).sum()), np.finfo(dtype)
    if not 0 < total < float(info.max):
        return total == 0
    unit = 2.0 ** (np.frexp(total)[1] - int(info.nmant))
    return bool((np.fmod(weight, unit) == 0).all())


def _outwards(values: Array, dtype: np.dtype[Any], sign: int) -> Array:
    """The next number of `dtype` that is not nearer to zero; zero stays."""
    rounded: Array = values.astype(dtype)
    return np.where(rounded == 0, rounded, np.nextafter(rounded, dtype.type(sign * np.inf)))


def silent_neurons(
    op: spike.FiringOp, values: Mapping[SSAValue, Array], low: Array, high: Array, axis: int
) -> Mask:
    """The channels none of whose neurons can fire.

    Args:
        op: the neurons.
        values: their parameters and initial states, by operand.
        low: the least current of each channel.
        high: the largest.
        axis: the axis of the current that holds the channels.
    """
    none = np.zeros(len(high), np.bool_)
    current = tensor_type(op.input)
    shape, dtype = current.get_shape(), numpy_dtype(current.element_type)
    if dtype.itemsize < 4 or (dtype.kind == "i" and not _fits(op, low, high)):
        return none
    parameters = {
        name: values[parameter] if isinstance(parameter, SSAValue) else np.asarray(parameter, dtype)
        for name in op.PARAMETERS
        for parameter in [op.parameter(name)]
    }
    states: States = tuple(values[value] for value in op.initial)
    states = states or tuple(np.zeros((), dtype) for _ in op.STATES)
    column = (len(high), *[1] * (len(shape) - axis - 1))
    drive = _drive(parameters, low.reshape(column), high.reshape(column)).astype(dtype)
    fired = np.zeros(column, np.bool_)
    arithmetic = NumpyArithmetic(op.options(), parameters)
    limit = MOST_STEPS if shape[0] == DYNAMIC else min(shape[0], MOST_STEPS)
    done = fired
    with np.errstate(all="ignore"):
        for _ in range(limit):
            spikes, after = op.MODEL.step(arithmetic, drive, states)
            fired = fired | spikes & ~done
            done = done | fired | _no_longer_rising(op, parameters, states, after)
            states = after
            if done.all():
                break
    if limit != shape[0]:
        fired = fired | ~done
    channel = fired.ndim - len(column)
    return ~np.atleast_1d(fired.any(axis=tuple(a for a in range(fired.ndim) if a != channel)))


def _no_longer_rising(
    op: spike.FiringOp, parameters: Mapping[str, Array], before: States, after: States
) -> Mask:
    """Where a constant current will never lift the potential again: once it fell, it falls."""
    falls = np.asarray(True)
    for name, a, b in zip(op.STATES, before, after, strict=True):
        follows = name == "v" or (name == "c" and bool((parameters["gain"] >= 0).all()))
        falls = falls & (b <= a if follows else b == a)
    return falls


def _drive(parameters: dict[str, Array], low: Array, high: Array) -> Array:
    """The current that raises the potential most: negative gains turn the bounds around."""
    sign = np.sign(parameters["gain"])
    if "w_in" in parameters:
        sign = sign * np.sign(parameters["w_in"])
    return np.where(sign >= 0, high, low)


def _fits(op: spike.FiringOp, low: Array, high: Array) -> bool:
    """Whether integer potentials cannot wrap around: no current but zero, or few steps."""
    type = tensor_type(op.input)
    most = float(max(abs(low).max(initial=0), abs(high).max(initial=0)))
    if most == 0:
        return True
    gain = op.parameter("gain")
    steps = type.get_shape()[0]
    info = np.iinfo(numpy_dtype(type.element_type))
    if not isinstance(gain, float) or steps == DYNAMIC or op.initial:
        return False
    return steps * most * max(1.0, abs(gain)) <= info.max
