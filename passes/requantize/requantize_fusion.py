"""Integer rescaling and biases go into the ternary products that they follow, exactly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, TensorType, i32
from xdsl.ir import Block, Operation, SSAValue

from ...dialects import tensor, ternary
from ...dialects.inference import tensor_type
from ...dialects.shapes import axis_index
from ..analysis.channel_vectors import channel_shape
from ..analysis.compile_time import literal, literal_value
from ..analysis.magnitude import magnitude
from ..analysis.replacement import insert_before, replace


@dataclass(frozen=True)
class _Biased:
    """A bare integer product, and what is added to it: one number a channel, or nothing."""

    product: ternary.FusedOp
    bias: NDArray[np.int64] | None


def fuse_rescaling(module: ModuleOp, block: Block) -> None:
    """Fuse `tensor.requantize`, and additions of known numbers, into the product before them.

    Only products whose accumulators nobody else uses.
    """
    for op in list(block.ops):
        if op.parent is None:
            continue
        if isinstance(op, tensor.RequantizeOp):
            _fuse_requantize(module, op)
        elif isinstance(op, tensor.AddOp) and not _is_rescaled(op.result):
            _fuse_bias(module, op)


def _is_rescaled(value: SSAValue) -> bool:
    use = value.get_user_of_unique_use()
    return isinstance(use, tensor.RequantizeOp) and use.input is value


def _fuse_requantize(module: ModuleOp, op: tensor.RequantizeOp) -> None:
    match = _product_behind(op.input)
    if match is None or not op.input.has_one_use():
        return
    product = match.product
    vectors = any(tensor_type(v).get_shape() for v in (op.multiplier, op.shift))
    rank = tensor_type(op.input).get_num_dims()
    channel = axis_index(product.CHANNEL_AXIS, rank)
    if vectors and axis_index(op.axis.value.data, rank) != channel:
        return
    bias = product.bias
    if match.bias is not None:
        bias = _constant(module, op, product, match.bias)
    fused = product.rebuild(
        bias=bias,
        multiplier=op.multiplier,
        shift=op.shift,
        zero_point=op.zero_point,
        low=op.low.value.data,
        high=op.high.value.data,
    )
    _replace(op, fused, product)


def _fuse_bias(module: ModuleOp, op: tensor.AddOp) -> None:
    match = _product_behind(op.result)
    if match is None or match.bias is None:
        return
    bias = _constant(module, op, match.product, match.bias)
    _replace(op, match.product.rebuild(bias=bias), match.product)


def _replace(op: Operation, fused: ternary.FusedOp, product: ternary.FusedOp) -> None:
    """`fused` in the place of `op`; what fed `op` is left without users."""
    for old, new in zip(op.results, fused.results, strict=True):
        new.name_hint = old.name_hint
    replace(op, fused, source=product)


def _constant(
    module: ModuleOp, anchor: Operation, product: ternary.FusedOp, bias: NDArray[np.int64]
) -> SSAValue:
    owner = product.weight.owner
    key = owner.key.data if isinstance(owner, ternary.ParameterOp) else "weight"
    values = bias.astype(np.int32)
    op = literal(module, f"{key}.bias", values, TensorType(i32, values.shape), buffer=True)
    insert_before(anchor, op, product)
    return op.result


def _product_behind(value: SSAValue) -> _Biased | None:
    """The product that `value` is, or that it is the sum of with known numbers."""
    op = value.owner
    if isinstance(op, ternary.FusedOp):
        return _Biased(op, None) if _is_bare(op) else None
    if not isinstance(op, tensor.AddOp):
        return None
    for side, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        product, known = side.owner, literal_value(other)
        if isinstance(product, ternary.FusedOp) and _is_bare(product) and known is not None:
            bias = _channel_bias(product, known)
            return None if bias is None else _Biased(product, bias)
    return None


def _is_bare(product: ternary.FusedOp) -> bool:
    """Whether the op gives its accumulators, plus a bias at most, to a single user."""
    return (
        tensor_type(product.result).element_type == i32
        and product.result.has_one_use()
        and product.multiplier is None
        and product.thresholds is None
        and product.activation.data == "none"
    )


def _channel_bias(product: ternary.FusedOp, added: NDArray[np.generic]) -> NDArray[np.int64] | None:
    """The product's bias with `added`, if that is one number a channel and fits."""
    type = tensor_type(product.result)
    rank = type.get_num_dims()
    axis = axis_index(product.CHANNEL_AXIS, rank)
    channels = type.get_shape()[axis]
    if channel_shape(added.shape, rank, axis, channels) is None:
        return None
    bias = np.broadcast_to(added.astype(np.int64).reshape(-1), (channels,))
    if product.bias is not None:
        own = literal_value(product.bias)
        if own is None:
            return None
        bias = bias + own.astype(np.int64)
    if np.any(np.abs(bias) + float(magnitude(product.result).max()) > 2**31 - 1):
        return None
    return bias
