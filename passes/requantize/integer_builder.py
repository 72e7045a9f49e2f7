"""Emission of integer arithmetic: ops before an anchor, with the place they stand for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, TensorType, f32, i8, i32
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects import tensor, ternary
from ...dialects.inference import tensor_type
from ...dialects.parameters import Array
from ...dialects.tensor.fixed_point import fixed_points
from ..analysis.compile_time import literal
from ..analysis.layers import is_layer, weight_of
from ..analysis.replacement import insert_before
from .integer_forms import FACTOR_LIMIT, Grid, NotIntegerError, along_axis, interval


class IntegerBuilder:
    """Emits integer ops.

    Attributes:
        module: the module whose store takes large constants.
        anchor: the op before which ops are inserted.
    """

    def __init__(self, module: ModuleOp, anchor: Operation) -> None:
        self.module = module
        self.anchor = anchor

    def plus(self, value: SSAValue, bias: NDArray[np.int64]) -> SSAValue:
        """value + bias in i32."""
        if not bias.any():
            return value
        source = value.owner if isinstance(value.owner, Operation) else self.anchor
        shape = bias.reshape(-1)[:1].reshape(()) if np.all(bias == bias.flat[0]) else bias
        constant = self.literal(f"{parameter_key(value)}.bias", shape.astype(np.int32), source)
        return self.add(tensor.AddOp(self.wide(value), constant), source)

    def wide(self, value: SSAValue) -> SSAValue:
        """`value` as i32."""
        if tensor_type(value).element_type == i32:
            return value
        source = value.owner if isinstance(value.owner, Operation) else self.anchor
        return self.add(tensor.ConvertOp(value, i32), source)

    def literal(
        self, key: str, values: Array, source: Operation, element: Attribute | None = None
    ) -> SSAValue:
        """A constant or parameter that `source` needs; its result."""
        if element is None:
            element = {"float32": f32, "int32": i32, "int8": i8}[values.dtype.name]
        array = np.asarray(values)
        op = literal(self.module, key, array, TensorType(element, array.shape), buffer=True)
        return self.add(op, source)

    def add(self, op: Operation, source: Operation) -> SSAValue:
        """Insert `op`, which stands for `source`; its first result."""
        insert_before(self.anchor, op, source)
        return op.results[0]

    def bounded(self, value: SSAValue, grid: Grid, source: Operation) -> SSAValue:
        """`value` cut to the bounds of `grid`."""
        low, high = interval(value)
        if grid.low <= low and high <= grid.high:
            return value
        if grid.low == 0 and high <= grid.high:
            return self.add(tensor.ReluOp(value), source)
        clamp = tensor.ClampOp(value, min=float(grid.low), max=float(grid.high))
        return self.add(clamp, source)

    def requantize(self, value: SSAValue, factor: Array, grid: Grid, source: Operation) -> SSAValue:
        """round(value·factor) on `grid`."""
        if np.any(np.abs(factor) > FACTOR_LIMIT):
            raise NotIntegerError
        factors, axis = along_axis(factor, tensor_type(value).get_num_dims())
        multipliers, shifts = fixed_points(np.asarray(factors))
        key = parameter_key(value)
        zero = np.array(grid.zero_point, np.int8 if grid.element == i8 else np.int32)
        return self.add(
            tensor.RequantizeOp(
                self.wide(value),
                self.literal(f"{key}.multiplier", multipliers, source),
                self.literal(f"{key}.shift", shifts, source),
                self.literal(f"{key}.zero_point", zero, source),
                axis=axis,
                low=grid.low,
                high=grid.high,
            ),
            source,
        )


def parameter_key(value: SSAValue) -> str:
    """What new parameters that belong to `value` are named after."""
    op = value.owner
    if isinstance(op, tensor.AddOp):
        op = op.lhs.owner
    weight = weight_of(op).owner if is_layer(op) else None
    if isinstance(weight, ternary.ParameterOp | tensor.ParameterOp):
        return weight.key.data
    return "requantize"
