"""Softmax attention as spiking self-attention: another function, for networks that train on.

Queries, keys and values become spikes of neurons of their own, which lose what is negative, and
`spike.attention` has a neuron where the softmax was.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import i1
from xdsl.ir import Operation, SSAValue

from ...dialects import spike, tensor
from ...dialects.inference import tensor_type
from ...dialects.parameters import Array
from ...dialects.shapes import DYNAMIC
from ...ir.errors import PassError
from ..analysis.compile_time import literal_value
from .neurons import HALF, dense_numbers, initial_potential
from .signals import Conversion, NotConvertible, Signal

THRESHOLDS = "spike.attention_thresholds"
"""The attribute of an attention with the thresholds of query, key and value: a dense f64 of 3."""


@dataclass(frozen=True)
class Attention:
    """softmax(scale·Q Kᵀ)·V, written as one op or as several.

    Attributes:
        op: the op that gives the result.
        query: [N, L, D] or [N, H, L, D].
        key: as query, or with its last two axes swapped.
        value: as query.
        scale: the factor, 1/√D by default.
        swapped: whether the last two axes of `key` are swapped.
        inner: the other ops of it.
    """

    op: Operation
    query: SSAValue
    key: SSAValue
    value: SSAValue
    scale: float | None
    swapped: bool
    inner: tuple[Operation, ...]


def attentions(ops: Iterable[Operation]) -> list[Attention]:
    """The attentions among `ops`: `tensor.scaled_dot_product_attention`, and two products with a
    softmax between them."""
    matches = (_match(op) for op in ops)
    return [attention for attention in matches if attention is not None]


def _match(op: Operation) -> Attention | None:
    if isinstance(op, tensor.ScaledDotProductAttentionOp):
        scale = None if op.scale is None else op.scale.value.data
        return Attention(op, op.query, op.key, op.value, scale, False, ())
    if not isinstance(op, tensor.MatmulOp) or not isinstance(op.lhs.owner, tensor.SoftmaxOp):
        return None
    softmax = op.lhs.owner
    rank = tensor_type(softmax.operand).get_num_dims()
    if softmax.axis.value.data % rank != rank - 1 or not op.lhs.has_one_use():
        return None
    inner: list[Operation] = [softmax]
    scores, scale = softmax.operand, 1.0
    while isinstance(scores.owner, tensor.MulOp | tensor.DivOp) and scores.has_one_use():
        factor = literal_value(scores.owner.rhs)
        if factor is None or factor.size != 1:
            return None
        number = float(factor.reshape(()))
        scale = scale * number if isinstance(scores.owner, tensor.MulOp) else scale / number
        inner.append(scores.owner)
        scores = scores.owner.lhs
    if not isinstance(scores.owner, tensor.MatmulOp) or not scores.has_one_use():
        return None
    product = scores.owner
    inner.append(product)
    return Attention(op, product.lhs, product.rhs, op.rhs, scale, True, tuple(inner))


def attend(state: Conversion, attention: Attention) -> Sequence[Signal]:
    """Neurons for query, key and value, and `spike.attention` on their spikes."""
    op = attention.op
    if isinstance(op, tensor.ScaledDotProductAttentionOp) and (
        op.mask is not None or op.is_causal.value.data
    ):
        raise NotConvertible("spiking attention has no mask")
    shape = tensor_type(attention.query).get_shape()
    rank = len(shape)
    if rank not in (3, 4) or DYNAMIC in shape[1:]:
        raise NotConvertible(
            "spiking attention takes [N, tokens, channels] or [N, heads, tokens, channels] of "
            f"known size, got {tensor_type(attention.query)}"
        )
    thresholds = thresholds_of(op)
    if thresholds is None and state.default_threshold is not None:
        thresholds = np.full(3, state.default_threshold)
    correction = state.correction
    if thresholds is None and correction is None:
        raise NotConvertible(
            "it has no thresholds: give data=… or threshold=…, or run balance-thresholds first"
        )
    values = (attention.query, attention.key, attention.value)
    trains: list[SSAValue] = []
    limits: list[float] = []
    for index, value in enumerate(values):
        current = state.current(value).steps
        if correction is not None:
            current = correction.shifted(state, value, current)
        if thresholds is not None:
            threshold = float(thresholds[index])
        else:
            assert correction is not None
            half = np.array(HALF)
            told = correction.population(state, value, current, half, channels=False)
            threshold = float(told.threshold.reshape(()))
        limits.append(threshold)
        if index == 1 and attention.swapped:
            order = [*range(rank - 1), rank, rank - 1]
            current = state.add(tensor.PermuteOp(current, order))
        start = initial_potential(state, current, np.array(HALF * threshold))
        train = state.add(spike.IntegrateFireOp(current, threshold=threshold, initial=[start]))
        trains.append(_heads_last(state, train) if rank == 4 else train)
    heads = shape[1] if rank == 4 else 1
    scale = shape[-1] ** -0.5 if attention.scale is None else attention.scale
    output = state.add(spike.AttentionOp(*trains, heads=heads, scale=scale))
    if rank == 4:
        output = _heads_first(state, output, heads)
    state.remark(op, "spiking attention has no softmax: train the converted program on")
    return [Signal(output, np.array(limits[2]), tensor_type(op.results[0]))]


def thresholds_of(op: Operation) -> Array | None:
    """The thresholds of query, key and value that are noted on an attention."""
    attribute = op.attributes.get(THRESHOLDS)
    if attribute is None:
        return None
    values = dense_numbers(attribute)
    if values is not None and values.shape == (3,) and np.isfinite(values).all():
        if not (values > 0).all():
            raise PassError(f"'{op.name}' expects '{THRESHOLDS}' as positive numbers")
        return values
    raise PassError(f"'{op.name}' expects '{THRESHOLDS}' as 3 positive numbers, got {attribute}")


def _heads_last(state: Conversion, train: SSAValue) -> SSAValue:
    """[T, N, H, L, D] as [T, N, L, H·D]."""
    dense = state.add(spike.ToTensorOp(train, i1))
    moved = state.add(tensor.PermuteOp(dense, [0, 1, 3, 2, 4]))
    return state.add(spike.FromTensorOp(state.add(tensor.FlattenOp(moved, 3, 4))))


def _heads_first(state: Conversion, train: SSAValue, heads: int) -> SSAValue:
    """[T, N, L, H·D] as [T, N, H, L, D]."""
    dense = state.add(spike.ToTensorOp(train, i1))
    split = state.add(tensor.ReshapeToOp(dense, [-2, -3, -4, heads, -1]))
    return state.add(spike.FromTensorOp(state.add(tensor.PermuteOp(split, [0, 1, 3, 2, 4]))))
