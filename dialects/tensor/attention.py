"""Attention of the `tensor` dialect."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import BoolAttr, Float64Type, FloatAttr, TensorType, i1
from xdsl.ir import Attribute
from xdsl.irdl import (
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)

from ...ir.definition import irdl_op_definition
from ..inference import InferredOp, fail, tensor_type
from ..meaning import Array
from ..shapes import broadcast, broadcasts_to, is_float, merge_dim, show_shape, with_shape
from ..traits import AddsUp
from .activation import SoftmaxOp
from .elementwise import SqrtOp
from .formula import Formula
from .interpret_linear import softmax_along
from .linear import MatmulOp, same_elements
from .ordering import CumsumOp
from .reduction import ReduceMaxOp, ReduceSumOp
from .shape import PermuteOp


@irdl_op_definition
class ScaledDotProductAttentionOp(InferredOp):
    """softmax(s·Q Kᵀ + mask)·V over the last two axes (Vaswani et al. 2017, eq. 1).

    Q [.., L, E], K [.., S, E], V [.., S, D]; s defaults to 1/√E. The mask is added (float) or keeps
    where true (`i1`). `is_causal` lets position i see positions j ≤ i.

        %o = tensor.scaled_dot_product_attention %q, %k, %v
             : (tensor<2x4x8xf32>, tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
    """

    name = "tensor.scaled_dot_product_attention"

    query = operand_def(TensorType)
    key = operand_def(TensorType)
    value = operand_def(TensorType)
    mask = opt_operand_def(TensorType)
    scale = opt_prop_def(FloatAttr[Float64Type])
    is_causal = prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))
    result = result_def(TensorType)

    traits = traits_def(AddsUp())

    def infer(self) -> Sequence[Attribute]:
        query, key, value = (tensor_type(v) for v in (self.query, self.key, self.value))
        if not is_float(query):
            fail(f"expects floating-point elements, got {query}")
        same_elements(query, key)
        same_elements(query, value)
        q, k, v = query.get_shape(), key.get_shape(), value.get_shape()
        if min(len(q), len(k), len(v)) < 2:
            fail("expects operands of rank 2 or more")
        merge_dim(q[-1], k[-1], "query and key sizes")
        merge_dim(k[-2], v[-2], "key and value lengths")
        batch = broadcast(q[:-2], k[:-2], v[:-2])
        if self.mask is not None:
            mask, scores = tensor_type(self.mask), (*batch, q[-2], k[-2])
            if mask.element_type not in (i1, query.element_type):
                fail(f"expects a mask of i1 or {query.element_type}, got {mask}")
            if not broadcasts_to(mask.get_shape(), scores):
                fail(f"expects a mask that broadcasts to {show_shape(scores)}, got {mask}")
        return [with_shape(query, (*batch, q[-2], v[-1]))]

    def compute(self, query: Array, key: Array, value: Array, *mask: Array) -> Array:
        scale = 1 / math.sqrt(query.shape[-1]) if self.scale is None else self.scale.value.data
        query, key, value = map(np.ascontiguousarray, (query, key, value))
        scores = np.matmul(query, key.swapaxes(-1, -2)) * np.asarray(scale, query.dtype)
        hidden = np.asarray(-np.inf, scores.dtype)
        if self.is_causal.value.data:
            scores = np.where(np.tri(*scores.shape[-2:], dtype=np.bool_), scores, hidden)
        for m in mask:
            scores = np.where(m, scores, hidden) if m.dtype == np.bool_ else scores + m
        return np.matmul(softmax_along(scores, -1), value)

    def decompose(self, query: Formula, key: Formula, value: Formula, *mask: Formula) -> Formula:
        turned = [*range(key.rank - 2), key.rank - 1, key.rank - 2]
        scores = query.of(MatmulOp, key.of(PermuteOp, perm=turned))
        width = query.size(-1)
        if self.scale is not None:
            scores = scores * self.scale.value.data
        elif width is not None:
            scores = scores * (1 / math.sqrt(width))
        else:
            ones = query.filled(1)
            scores = scores / ones.of(ReduceSumOp, axes=[-1], keepdims=True).of(SqrtOp)
        if self.is_causal.value.data:
            columns = _positions(key).of(PermuteOp, perm=turned)
            scores = (columns > _positions(query)).choose(scores.number(-math.inf), scores)
        for m in mask:
            scores = m.choose(scores, -math.inf) if m.element == i1 else scores + m
        return scores.of(SoftmaxOp, axis=-1).of(MatmulOp, value)


def _positions(x: Formula) -> Formula:
    """1, 2, … for the rows of matrices [.., rows, 1]; no constant, which would be spread.

    What is cut from a free axis has no size that is known to be 1, and does not broadcast.
    """
    column = x if x.size(-1) is not None else x.of(ReduceMaxOp, axes=[-1], keepdims=True)
    for axis in range(x.rank):
        if axis != x.rank - 2 and x.size(axis) is not None:
            column = column.cut(axis, 0, 1)
    size = x.size(-2)
    if size is None:
        return column.filled(1).of(CumsumOp, axis=-2)
    return column.filled(x.array(np.arange(1, size + 1)[:, None]))
