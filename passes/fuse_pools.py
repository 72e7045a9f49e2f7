"""The pass `fuse-pools`: average pools of spikes go into the weights that read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, f32, i1
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from ..dialects import spike, tensor
from ..dialects.inference import tensor_type
from ..dialects.parameters import module_of
from ..dialects.shapes import DYNAMIC
from ..dialects.spike.types import dense_type, is_train
from ..ir.arrays import Array
from .analysis.compile_time import literal, literal_value
from .analysis.replacement import erase_unused, insert_before, replace


@dataclass(frozen=True)
class FusePoolsPass(ModulePass):
    """Make one product of an average pool of spikes and the product with weights behind it.

    Neurons of chips hear weighted spikes and no means of them. A mean of k spikes times w is their
    sum times w/k, so that a convolution behind a pool is one with a larger kernel and larger
    strides, and a dense layer reads each place of a window with the weight of the window:

        %m = spike.avg_pool %s {kernel = array<i64: 2, 2>, …}
             : (!spike.train<4x?x16x8x8>) -> tensor<4x?x16x4x4xf32>
        %i = spike.conv %m, %w {padding = array<i64: 1, 1, 1, 1>, …}
             : tensor<4x?x16x4x4xf32>, tensor<32x16x3x3xf32> -> tensor<4x?x32x4x4xf32>
        // becomes
        %i = spike.conv %s, %v {strides = array<i64: 2, 2>, padding = array<i64: 2, 2, 2, 2>, …}
             : !spike.train<4x?x16x8x8>, tensor<32x16x6x6xf32> -> tensor<4x?x32x4x4xf32>

    The results stay what they were, up to the order of sums. Pools that something else reads, whose
    means leave pads out, or whose windows reach over the edge where the convolution has zeros, stay
    as they are.
    """

    name = "fuse-pools"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in list(op.walk()):
            if isinstance(inner, spike.LinearOp):
                _fuse_linear(inner)
            elif isinstance(inner, spike.ConvOp):
                _fuse_conv(inner)


def _pool_of(value: SSAValue) -> spike.AvgPoolOp | None:
    """The pool of spikes that a value is, if its windows have one size."""
    op = value.owner
    if not isinstance(op, spike.AvgPoolOp) or not is_train(op.operand):
        return None
    padded = any(op.padding.get_values()) and not op.count_include_pad.value.data
    known = DYNAMIC not in dense_type(op.operand).get_shape()[2:]
    return None if padded or not known else op


def _weights(op: spike.SynapseOp) -> Array | None:
    type = tensor_type(op.weight)
    return literal_value(op.weight) if type.element_type == f32 else None


def _fuse_conv(op: spike.ConvOp) -> None:
    pool, weights = _pool_of(op.input), _weights(op)
    if pool is None or weights is None:
        return
    rank = weights.ndim - 2
    kernel, moves, pads = (p.get_values() for p in (pool.kernel, pool.strides, pool.padding))
    strides, padding, dilation = (p.get_values() for p in (op.strides, op.padding, op.dilation))
    sizes = dense_type(pool.operand).get_shape()[3:]
    pooled, results = (tensor_type(v).get_shape()[3:] for v in (op.input, op.result))
    wide = [(weights.shape[2 + a] - 1) * dilation[a] * moves[a] + kernel[a] for a in range(rank)]
    begins, ends = list[int](), list[int]()
    for a in range(rank):
        over = padding[a] and kernel[a] > moves[a] + pads[a]
        if over or (padding[rank + a] and pooled[a] * moves[a] - pads[a] < sizes[a]):
            return
        begins.append(padding[a] * moves[a] + pads[a])
        last = (results[a] - 1) * strides[a] * moves[a] + wide[a]
        ends.append(max(0, last - sizes[a] - begins[a]))
    fused = np.zeros((*weights.shape[:2], *wide), np.float64)
    for tap in np.ndindex(*weights.shape[2:]):
        for place in np.ndindex(*kernel):
            at = (t * d * m + p for t, d, m, p in zip(tap, dilation, moves, place, strict=True))
            fused[(..., *at)] += weights[(..., *tap)]
    new = spike.ConvOp(
        pool.operand,
        stored_weights(op, fused / prod(kernel), "pooled"),
        scale=op.scale,
        bias=op.bias,
        strides=[s * m for s, m in zip(strides, moves, strict=True)],
        padding=[*begins, *ends],
        groups=op.groups.value.data,
    )
    replace(op, new)
    erase_unused([pool])


def _fuse_linear(op: spike.LinearOp) -> None:
    flat, weights = op.input.owner, _weights(op)
    if not isinstance(flat, tensor.FlattenOp | tensor.ReshapeToOp) or weights is None:
        return
    pool = _pool_of(flat.operands[0])
    if pool is None or tensor_type(flat.results[0]).get_num_dims() != 3:
        return
    shape, pooled = dense_type(pool.operand).get_shape(), tensor_type(pool.result).get_shape()
    if len(weights) != prod(pooled[2:]):
        return
    kernel, moves, pads = (p.get_values() for p in (pool.kernel, pool.strides, pool.padding))
    rank = len(kernel)
    whole = [n + pads[a] + pads[rank + a] for a, n in enumerate(shape[3:])]
    spread = np.zeros((shape[2], *whole, weights.shape[1]), np.float64)
    read = weights.reshape(*pooled[2:], -1)
    for place in np.ndindex(*kernel):
        spread[(slice(None), *_every(place, moves, pooled[3:]))] += read
    inside = [slice(pads[a], pads[a] + n) for a, n in enumerate(shape[3:])]
    fused = spread[(slice(None), *inside)].reshape(-1, weights.shape[1]) / prod(kernel)
    spikes = added(op, spike.ToTensorOp(pool.operand, i1))
    spikes = added(op, tensor.ReshapeToOp(spikes, [-2, -3, len(fused)]))
    spikes = added(op, spike.FromTensorOp(spikes))
    stored = stored_weights(op, fused, "pooled")
    replace(op, spike.LinearOp(spikes, stored, scale=op.scale, bias=op.bias))
    erase_unused([pool, flat])


def _every(place: Sequence[int], moves: Sequence[int], counts: Sequence[int]) -> list[slice]:
    """Where the element `place` of each window is."""
    return [slice(p, p + m * (n - 1) + 1, m) for p, m, n in zip(place, moves, counts, strict=True)]


def stored_weights(op: spike.SynapseOp, values: Array, part: str) -> SSAValue:
    """Weights in the place of those of `op`, before it, named after them and `part`."""
    element = tensor_type(op.weight).element_type
    stored = op.weight.owner
    key = stored.key.data if isinstance(stored, tensor.ParameterOp) else "weight"
    dtype = np.float32 if element == f32 else values.dtype
    array = np.ascontiguousarray(values, dtype)
    type = TensorType(element, array.shape)
    return added(op, literal(module_of(op), f"{key}.{part}", array, type, buffer=True))


def added(anchor: Operation, op: Operation) -> SSAValue:
    """The result of an op that is inserted before another."""
    insert_before(anchor, op)
    return op.results[0]
