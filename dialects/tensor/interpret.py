"""Reference semantics of the `tensor` dialect: the rules of every family, and those of shape ops.

Each op computes what its docstring says; clarity comes before speed.
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import Operation

from ...ir.arrays import Array
from ..meaning import Rule, rules_of
from ..parameters import constant_value
from . import (
    OPERATIONS,
    interpret_linear,
    interpret_quantization,
    interpret_reduction,
    shape,
    storage,
)


def stored(op: Operation) -> Array:
    """The values of a constant or parameter op, of either dialect."""
    values = constant_value(op)
    assert values is not None
    return values


def reshape(
    op: shape.ReshapeToOp | shape.FlattenOp | shape.SqueezeOp | shape.UnsqueezeOp, x: Array
) -> Array:
    """The same elements in the shape that the op makes of the operand's actual one."""
    return x.reshape(op.output_shape(x.shape))


def permute(op: shape.PermuteOp, x: Array) -> Array:
    """See `tensor.permute`."""
    return x.transpose(op.perm.get_values())


def expand(op: shape.ExpandOp, x: Array) -> Array:
    """See `tensor.expand`."""
    return np.broadcast_to(x, op.output_shape(x.shape))


def concatenate(op: shape.ConcatenateOp, *inputs: Array) -> Array:
    """See `tensor.concatenate`."""
    return np.concatenate(inputs, axis=op.axis.value.data)


def split(op: shape.SplitOp, x: Array) -> tuple[Array, ...]:
    """See `tensor.split`."""
    sizes, axis = op.sizes.get_values(), op.axis.value.data
    if sum(sizes) != x.shape[axis]:
        raise ValueError(f"expects {sum(sizes)} elements along the axis, got {x.shape[axis]}")
    return tuple(np.split(x, np.cumsum(sizes)[:-1], axis=axis))


def slice_(op: shape.SliceOp, x: Array) -> Array:
    """See `tensor.slice`."""
    bounds = zip(op.starts.get_values(), op.ends.get_values(), op.steps.get_values(), strict=True)
    return x[tuple(slice(*b) for b in bounds)]


def pad(op: shape.PadToOp, x: Array) -> Array:
    """See `tensor.pad_to`."""
    pads = list(zip(op.low.get_values(), op.high.get_values(), strict=True))
    return np.pad(x, pads, constant_values=np.asarray(op.value.value.data).astype(x.dtype))


def gather_rows(op: shape.GatherRowsOp, table: Array, indices: Array) -> Array:
    """See `tensor.gather_rows`; an index outside the table is refused."""
    outside = (indices < 0) | (indices >= table.shape[0])
    if outside.any():
        raise ValueError(f"index {indices[outside][0]} is outside the {table.shape[0]} rows")
    return table[indices]


RULES: dict[type[Operation], Rule] = {
    **rules_of(OPERATIONS),
    **interpret_linear.RULES,
    **interpret_reduction.RULES,
    **interpret_quantization.RULES,
    storage.ParameterOp: stored,
    storage.ConstantOp: stored,
    shape.ReshapeToOp: reshape,
    shape.FlattenOp: reshape,
    shape.SqueezeOp: reshape,
    shape.UnsqueezeOp: reshape,
    shape.PermuteOp: permute,
    shape.ExpandOp: expand,
    shape.ConcatenateOp: concatenate,
    shape.SplitOp: split,
    shape.SliceOp: slice_,
    shape.PadToOp: pad,
    shape.GatherRowsOp: gather_rows,
}
