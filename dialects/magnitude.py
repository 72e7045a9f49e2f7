"""How large integers can get: bounds on |x| from the ops that made x and their weights.

Used to choose scales that cannot overflow, and of use wherever a bit width is chosen.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Operation, SSAValue

from ..ir.errors import ParameterError
from . import tensor, ternary
from .inference import tensor_type
from .parameters import constant_value
from .shapes import DYNAMIC, axis_index

Bound = NDArray[np.float64]
"""A bound for all elements (a scalar), or one that broadcasts to the value's shape."""

_SAME_ELEMENTS = (
    tensor.ConcatenateOp,
    tensor.ConvertOp,
    tensor.ExpandOp,
    tensor.FlattenOp,
    tensor.MaxPoolOp,
    tensor.PermuteOp,
    tensor.ReduceMaxOp,
    tensor.ReduceMinOp,
    tensor.ReluOp,
    tensor.ReshapeToOp,
    tensor.SliceOp,
    tensor.SplitOp,
    tensor.SqueezeOp,
    tensor.UnsqueezeOp,
)
"""Ops whose results hold elements of their operands, or zeros."""


def magnitude(value: SSAValue) -> Bound:
    """An upper bound of |x| for the elements x of an integer tensor.

    The accumulators of a product have one bound a channel: the nonzero weights of the channel times
    the bound of the input. What is not understood is bounded by its element type.
    """
    limit = _type_bound(value)
    owner = value.owner
    if not isinstance(owner, Operation):
        return limit
    return np.minimum(_bound(owner, limit), limit)


def _type_bound(value: SSAValue) -> Bound:
    element = tensor_type(value).element_type
    if isinstance(element, ternary.TritType):
        return np.array(1.0)
    assert isinstance(element, IntegerType)
    return np.array(2.0 ** (element.bitwidth - 1))


def _bound(op: Operation, limit: Bound) -> Bound:
    if isinstance(op, tensor.QuantizeOp | tensor.RequantizeOp):
        return np.array(float(max(abs(op.low.value.data), abs(op.high.value.data))))
    if isinstance(op, ternary.FusedOp):
        return _fused_bound(op, limit)
    if isinstance(op, tensor.AddOp | tensor.SubOp):
        return magnitude(op.lhs) + magnitude(op.rhs)
    if isinstance(op, tensor.ConstantOp):
        values = constant_value(op)
        assert values is not None
        return np.abs(values.astype(np.float64))
    if isinstance(op, tensor.PadToOp):
        return np.array(max(float(magnitude(op.operand).max()), abs(op.value.value.data)))
    if isinstance(op, tensor.ReduceSumOp):
        type = tensor_type(op.operand)
        axes = {axis_index(a, type.get_num_dims()) for a in op.axes.get_values()}
        sizes = [type.get_shape()[axis] for axis in axes]
        most = float(magnitude(op.operand).max())
        return limit if DYNAMIC in sizes else np.array(most * prod(sizes))
    if isinstance(op, _SAME_ELEMENTS):
        return np.array(float(max(float(magnitude(v).max()) for v in op.operands)))
    return limit


def _fused_bound(op: ternary.FusedOp, limit: Bound) -> Bound:
    if op.thresholds is not None:
        return np.array(float(tensor_type(op.thresholds).get_shape()[1]))
    if op.low is not None and op.high is not None:
        return np.array(float(max(abs(op.low.value.data), abs(op.high.value.data))))
    channel = 0 if isinstance(op, ternary.ConvOp) else 1
    shape = tensor_type(op.weight).get_shape()
    weight = _values(op.weight)
    if weight is None:
        counts: NDArray[Any] = np.full(shape[channel], prod(shape) // max(shape[channel], 1))
    else:
        axes = tuple(axis for axis in range(weight.ndim) if axis != channel)
        counts = np.count_nonzero(weight, axis=axes)
    bound = counts.astype(np.float64) * float(magnitude(op.input).max())
    if op.bias is not None:
        bias = _values(op.bias)
        if bias is None:
            return limit
        bound = bound + np.abs(bias.astype(np.float64))
    trailing = tensor_type(op.result).get_num_dims() - 2 if op.CHANNEL_AXIS == 1 else 0
    return bound.reshape(-1, *[1] * trailing)


def _values(value: SSAValue) -> NDArray[Any] | None:
    try:
        return constant_value(value.owner) if isinstance(value.owner, Operation) else None
    except ParameterError:
        return None
