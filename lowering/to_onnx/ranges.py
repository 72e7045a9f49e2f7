"""Bounds of integer values, from element types and from the ops that make them.

A bound proves that a product can be summed in float32 or float64 without rounding. Ops are noted in
program order, so that no recursion is needed.
"""

from __future__ import annotations

from math import ceil, isfinite

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from ...dialects import tensor, ternary
from ...dialects.elements import numpy_dtype
from ...dialects.inference import tensor_type
from ...dialects.parameters import constant_value
from ...dialects.shapes import is_float
from ...dialects.ternary.types import is_trit

_KEEP = (
    tensor.ReluOp,
    tensor.ReshapeToOp,
    tensor.FlattenOp,
    tensor.PermuteOp,
    tensor.SplitOp,
    tensor.SliceOp,
    tensor.SqueezeOp,
    tensor.UnsqueezeOp,
    tensor.ExpandOp,
    tensor.MaxPoolOp,
    tensor.ReduceMaxOp,
    tensor.ReduceMinOp,
    tensor.ConvertOp,
)
"""Ops whose result holds no greater number than their first operand."""


class Magnitudes:
    """The greatest absolute value that each integer tensor can hold."""

    def __init__(self) -> None:
        self._known: dict[SSAValue, int] = {}

    def of(self, value: SSAValue) -> int:
        """The bound of one value: what was noted, else that of its element type."""
        return self._known.get(value, type_magnitude(value))

    def note(self, op: Operation) -> None:
        """Record the bound of an op's results where it is below that of the element type."""
        first = op.results[0].type if op.results else None
        if not isinstance(first, TensorType) or is_float(tensor_type(op.results[0])):
            return
        bound = self._bound(op)
        if bound is not None:
            for result in op.results:
                if bound < type_magnitude(result):
                    self._known[result] = bound

    def _bound(self, op: Operation) -> int | None:
        if isinstance(op, tensor.ParameterOp | tensor.ConstantOp):
            values = constant_value(op)
            return None if values is None or not values.size else _greatest(values)
        if isinstance(op, _KEEP):
            source = op.operands[0]
            return None if is_float(tensor_type(source)) else self.of(source)
        if isinstance(op, tensor.QuantizeOp | tensor.RequantizeOp):
            return max(abs(op.low.value.data), abs(op.high.value.data))
        if isinstance(op, tensor.MultiThresholdOp):
            return tensor_type(op.thresholds).get_shape()[1]
        if isinstance(op, ternary.FusedOp):
            return self._fused(op)
        if isinstance(op, ternary.MatmulOp):
            return tensor_type(op.input).get_shape()[-1] * self.of(op.input)
        if isinstance(op, tensor.ClampOp) and op.min is not None and op.max is not None:
            bound = max(abs(op.min.value.data), abs(op.max.value.data))
            return ceil(bound) if isfinite(bound) else None
        if isinstance(op, tensor.ConcatenateOp):
            return max(map(self.of, op.inputs))
        if isinstance(op, tensor.AddOp | tensor.SubOp):
            return self.of(op.lhs) + self.of(op.rhs)
        if isinstance(op, tensor.MulOp):
            return self.of(op.lhs) * self.of(op.rhs)
        return None

    def _fused(self, op: ternary.FusedOp) -> int:
        if op.low is not None and op.high is not None:
            return max(abs(op.low.value.data), abs(op.high.value.data))
        if op.thresholds is not None:
            return tensor_type(op.thresholds).get_shape()[1]
        bias = 0 if op.bias is None else self.of(op.bias)
        return self.accumulator(op) + bias

    def accumulator(self, op: ternary.FusedOp) -> int:
        """The bound of the sum itself, before bias; wrapping around is not excluded."""
        return reduction_size(op) * self.of(op.input)


def reduction_size(op: ternary.FusedOp) -> int:
    """How many products each sum of a fused op has."""
    shape = tensor_type(op.weight).get_shape()
    if isinstance(op, ternary.ConvOp):
        return int(np.prod(shape[1:], dtype=np.int64))
    return shape[0]


def type_magnitude(value: SSAValue) -> int:
    """The greatest absolute value of the element type; 1 for trits and `i1`."""
    type = tensor_type(value)
    if is_trit(type):
        return 1
    dtype = numpy_dtype(type.element_type)
    if dtype == np.bool_:
        return 1
    info = np.iinfo(dtype)
    return max(int(info.max), -int(info.min))


def _greatest(values: np.ndarray) -> int:
    return max(abs(int(values.min())), abs(int(values.max())))
