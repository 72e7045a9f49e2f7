"""How large integers can get: bounds on |x| from the ops that made x and their weights.

Used to choose scales that cannot overflow, to prove that a product can be summed in floating point
without rounding, and wherever a bit width is chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation, SSAValue

from ...dialects import spike, tensor, ternary
from ...dialects.elements import numpy_dtype
from ...dialects.inference import tensor_type
from ...dialects.parameters import constant_value
from ...dialects.shapes import DYNAMIC, axis_index, is_float
from ...dialects.spike.types import dense_type
from ...dialects.ternary.types import is_trit
from ...dialects.traits import SelectsElements, has
from ...ir.errors import ParameterError
from .layers import Layer, Synapse

Bound = NDArray[np.float64]
"""A bound for all elements (a scalar), or one that broadcasts to the value's shape."""

_BOUNDED_BY_PROPERTIES = (tensor.QuantizeOp, tensor.RequantizeOp, tensor.MultiThresholdOp)
"""Ops whose own bounds say it all."""


def magnitude(value: SSAValue) -> Bound:
    """An upper bound of |x| for the elements x of an integer tensor; see `Magnitudes.of`."""
    return Magnitudes().of(value)


class Magnitudes:
    """Bounds of integer values, each computed once; for a module that does not change meanwhile."""

    def __init__(self) -> None:
        self.known: dict[SSAValue, Bound] = {}
        """The bounds found so far."""

    def of(self, value: SSAValue) -> Bound:
        """An upper bound of |x| for the elements x of an integer tensor.

        The accumulators of a product have one bound a channel: the nonzero weights of the channel
        times the bound of the input. What is not understood is bounded by its element type.
        """
        stack = [value]
        while stack:
            current = stack[-1]
            waiting = [v for v in _sources(current) if v not in self.known]
            if waiting:
                stack += waiting
                continue
            stack.pop()
            if current not in self.known:
                self.known[current] = self._compute(current)
        return self.known[value]

    def greatest(self, value: SSAValue) -> int:
        """One bound for all elements."""
        return int(np.max(self.of(value), initial=0.0))

    def accumulator(self, op: ternary.FusedOp) -> int:
        """The bound of a product's sum itself, before bias; wrapping around is not excluded."""
        return int(np.max(sum_terms(op), initial=0)) * self.greatest(op.input)

    def _compute(self, value: SSAValue) -> Bound:
        limit = np.array(float(type_magnitude(value)))
        owner = value.owner
        if not isinstance(owner, Operation):
            return limit
        return np.minimum(self._bound(owner, limit), limit)

    def _bound(self, op: Operation, limit: Bound) -> Bound:
        if isinstance(op, tensor.QuantizeOp | tensor.RequantizeOp):
            return np.array(float(max(abs(op.low.value.data), abs(op.high.value.data))))
        if isinstance(op, tensor.MultiThresholdOp):
            return np.array(float(tensor_type(op.thresholds).get_shape()[1]))
        if isinstance(op, ternary.FusedOp):
            return self._fused(op, limit)
        if isinstance(op, spike.SynapseOp):
            return self._synapse(op, limit)
        if isinstance(op, spike.ToTensorOp):
            return np.array(1.0)
        if isinstance(op, tensor.LinearOp | tensor.ConvOp | tensor.MatmulOp):
            return self._dense(op, limit)
        if isinstance(op, ternary.MatmulOp):
            terms = tensor_type(op.input).get_shape()[-1]
            return limit if terms == DYNAMIC else np.array(float(terms * self.greatest(op.input)))
        if isinstance(op, tensor.SubOp) and _is_unsigned(op.result):
            return limit
        if isinstance(op, tensor.AddOp | tensor.SubOp):
            return self.known[op.lhs] + self.known[op.rhs]
        if isinstance(op, tensor.MulOp):
            return self.known[op.lhs] * self.known[op.rhs]
        if isinstance(op, tensor.DivOp):
            divisor = _values(op.rhs)
            least = 0 if divisor is None else np.abs(divisor.astype(np.float64)).min(initial=np.inf)
            return np.array(self.greatest(op.lhs) / least) if least >= 1 else limit
        if isinstance(op, tensor.GatherRowsOp):
            return np.array(float(self.greatest(op.table)))
        if isinstance(op, tensor.ParameterOp | tensor.ConstantOp):
            values = _values(op.result)
            return limit if values is None else np.abs(values.astype(np.float64))
        if isinstance(op, tensor.ClampOp) and op.min is not None and op.max is not None:
            most = max(abs(op.min.value.data), abs(op.max.value.data))
            return np.array(most) if isfinite(most) else limit
        if isinstance(op, tensor.PadToOp):
            return np.array(float(max(self.greatest(op.operand), abs(op.value.value.data))))
        if isinstance(op, tensor.ReduceSumOp):
            type = tensor_type(op.operand)
            axes = {axis_index(a, type.get_num_dims()) for a in op.axes.get_values()}
            sizes = [type.get_shape()[axis] for axis in axes]
            most = self.greatest(op.operand) * prod(sizes)
            return limit if DYNAMIC in sizes else np.array(float(most))
        if isinstance(op, tensor.ConvertOp) and _is_unsigned(op.result):
            return limit
        same = has(op, SelectsElements) or isinstance(op, tensor.ConvertOp | tensor.ReluOp)
        if same and len(_sources(op.results[0])) == len(op.operands):
            return np.array(float(max(self.greatest(v) for v in op.operands)))
        return limit

    def _fused(self, op: ternary.FusedOp, limit: Bound) -> Bound:
        if op.thresholds is not None:
            return np.array(float(tensor_type(op.thresholds).get_shape()[1]))
        if op.low is not None and op.high is not None:
            return np.array(float(max(abs(op.low.value.data), abs(op.high.value.data))))
        bound = sum_terms(op).astype(np.float64) * float(self.greatest(op.input))
        if op.bias is not None:
            bias = _values(op.bias)
            if bias is None:
                return limit
            bound = bound + np.abs(bias.astype(np.float64))
        trailing = tensor_type(op.result).get_num_dims() - 2 if op.CHANNEL_AXIS == 1 else 0
        return bound.reshape(-1, *[1] * trailing)

    def _dense(self, op: tensor.LinearOp | tensor.ConvOp | tensor.MatmulOp, limit: Bound) -> Bound:
        weight = _values(op.operands[1])
        if weight is None or (not isinstance(op, tensor.ConvOp) and weight.ndim != 2):
            return limit
        channel = 0 if isinstance(op, tensor.ConvOp) else 1
        axes = tuple(axis for axis in range(weight.ndim) if axis != channel)
        sizes = np.abs(weight.astype(np.float64)).sum(axis=axes)
        bound = np.asarray(sizes) * float(self.greatest(op.operands[0]))
        if not isinstance(op, tensor.MatmulOp) and op.bias is not None:
            bias = _values(op.bias)
            if bias is None:
                return limit
            bound = bound + np.abs(bias.astype(np.float64))
        trailing = tensor_type(op.result).get_num_dims() - 2 if channel == 0 else 0
        return bound.reshape(-1, *[1] * trailing)

    def _synapse(self, op: spike.SynapseOp, limit: Bound) -> Bound:
        bound = np.asarray(self._weights(op)) * float(self.greatest(op.input))
        if op.bias is not None:
            bias = _values(op.bias)
            if bias is None:
                return limit
            bound = bound + np.abs(bias.astype(np.float64))
        trailing = tensor_type(op.result).get_num_dims() - 3 if op.CHANNEL_AXIS == 2 else 0
        return bound.reshape(-1, *[1] * trailing)

    @staticmethod
    def _weights(op: spike.SynapseOp) -> Bound:
        """The sum of the absolute weights of each channel."""
        channel = 0 if isinstance(op, spike.ConvOp) else 1
        shape, weight = tensor_type(op.weight).get_shape(), _values(op.weight)
        if weight is None:
            terms = prod(shape) // max(shape[channel], 1)
            return np.full(max(shape[channel], 1), float(terms * type_magnitude(op.weight)))
        axes = tuple(axis for axis in range(weight.ndim) if axis != channel)
        return np.abs(weight.astype(np.float64)).sum(axis=axes)


def _sources(value: SSAValue) -> Sequence[SSAValue]:
    """The integer values whose bounds the bound of `value` is made from."""
    op = value.owner
    if not isinstance(op, Operation) or isinstance(op, _BOUNDED_BY_PROPERTIES):
        return ()
    if isinstance(op, ternary.FusedOp) and (op.thresholds is not None or op.low is not None):
        return ()
    if isinstance(op, Layer | Synapse):
        candidates: Sequence[SSAValue] = op.operands[:1]
    else:
        candidates = op.operands
    return [v for v in candidates if not is_float(dense_type(v))]


def _is_unsigned(value: SSAValue) -> bool:
    """Whether negative numbers become large ones."""
    return numpy_dtype(tensor_type(value).element_type).kind == "u"


def sum_terms(op: ternary.FusedOp) -> NDArray[np.int64]:
    """How many products each channel's sum has; weights that are zero do not count."""
    channel = 0 if isinstance(op, ternary.ConvOp) else 1
    shape = tensor_type(op.weight).get_shape()
    weight = _values(op.weight)
    if weight is None:
        return np.full(shape[channel], prod(shape) // max(shape[channel], 1))
    axes = tuple(axis for axis in range(weight.ndim) if axis != channel)
    return np.asarray(np.count_nonzero(weight, axis=axes), dtype=np.int64)


def type_magnitude(value: SSAValue) -> int:
    """The greatest absolute value of the element type; 1 for trits, `i1` and spikes."""
    type = dense_type(value)
    dtype = numpy_dtype(type.element_type)
    if is_trit(type) or dtype == np.bool_:
        return 1
    info = np.iinfo(dtype)
    return max(int(info.max), -int(info.min))


def _values(value: SSAValue) -> NDArray[Any] | None:
    try:
        return constant_value(value.owner) if isinstance(value.owner, Operation) else None
    except ParameterError:
        return None
