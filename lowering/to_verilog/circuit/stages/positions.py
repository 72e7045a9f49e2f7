"""Which ops work on one position at a time, and where positions are in their results.

Axes that positions run over are counted from the last one, -1, so that they are the same for
operands that broadcast.
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import Operation

from .....dialects import tensor, ternary
from .....dialects.inference import tensor_type
from .....ir.arrays import Array
from ..circuit_rules import RULES

Spatial = tuple[int, ...]


def broadcasts(op: Operation) -> bool:
    """Whether known operands of an op meet its elements by broadcasting."""
    return not isinstance(op, tensor.RequantizeOp | tensor.MultiThresholdOp)


def is_uniform(values: Array | None, spatial: Spatial) -> bool:
    """Whether known values are the same at all positions."""
    if values is None:
        return False
    return bool(np.all(values == at_one_position(values, spatial)))


def at_one_position(values: Array, spatial: Spatial) -> Array:
    """Values with the first position alone."""
    places = {axis + values.ndim for axis in spatial if axis + values.ndim >= 0}
    return values[tuple(slice(0, 1) if a in places else slice(None) for a in range(values.ndim))]


def carried(op: Operation, spatial: Spatial) -> Spatial | None:
    """The axes of positions in the results of an op; `None` where it mixes or moves positions."""
    if not spatial:
        return ()
    rank = tensor_type(op.operands[0]).get_num_dims()
    own = {axis + rank for axis in spatial}
    match op:
        case ternary.ConvOp() | tensor.ConvOp() | tensor.MaxPoolOp() | tensor.PadToOp():
            return spatial
        case tensor.RequantizeOp() | tensor.MultiThresholdOp() | tensor.ConcatenateOp():
            scalar = not isinstance(op, tensor.ConcatenateOp) and all(
                tensor_type(value).get_num_dims() == 0 for value in op.operands[1:]
            )
            return spatial if scalar or op.axis.value.data % rank not in own else None
        case tensor.SplitOp():
            return spatial if op.axis.value.data % rank not in own else None
        case tensor.SliceOp():
            shape = tensor_type(op.operands[0]).get_shape()
            bounds = zip(
                op.starts.get_values(), op.ends.get_values(), op.steps.get_values(), strict=True
            )
            whole = all(
                bound == (0, shape[axis], 1) for axis, bound in enumerate(bounds) if axis in own
            )
            return spatial if whole else None
        case tensor.GatherRowsOp():
            return None
        case tensor.ArgmaxOp():
            return _without(rank, own, {op.axis.value.data % rank}, op.keepdims.value.data)
        case tensor.ReduceSumOp() | tensor.ReduceMaxOp() | tensor.ReduceMinOp():
            axes = {axis % rank for axis in op.axes.get_values()}
            return _without(rank, own, axes, op.keepdims.value.data)
        case ternary.AdderGraphOp() | ternary.MatmulOp() | tensor.MatmulOp():
            return spatial if -1 not in spatial else None
        case _:
            return spatial if type(op) in RULES else None


def _without(rank: int, own: set[int], axes: set[int], keepdims: int) -> Spatial | None:
    if axes & own:
        return None
    if keepdims:
        return tuple(axis - rank for axis in sorted(own))
    left = [axis for axis in range(rank) if axis not in axes]
    return tuple(left.index(axis) - len(left) for axis in sorted(own))
