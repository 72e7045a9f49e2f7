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
from .formula import Formula
from .interpret_linear import softmax_along
from .linear import MatmulOp, same_elements
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

    def decompose(
        self, query: Formula, key: Formula, value: Formula, *mask: Formula
    ) -> Formula | None:
        """The formula of the op; none where s or a causal mask needs a size that is not known."""
        width, rows, columns = query.size(-1), query.size(-2), key.size(-2)
        scale = width and 1 / math.sqrt(width) if self.scale is None else self.scale.value.data
        causal = self.is_causal.value.data
        if scale is None or (causal and (rows is None or columns is None)):
            return None
        turned = [*range(key.rank - 2), key.rank - 1, key.rank - 2]
        scores = query.of(MatmulOp, key.of(PermuteOp, perm=turned)) * scale
        if causal and rows is not None and columns is not None:
            seen = query.writer.numbers(np.tri(rows, columns, dtype=np.bool_), i1)
            scores = Formula(query.writer, seen).choose(scores, -math.inf)
        for m in mask:
            scores = m.choose(scores, -math.inf) if m.element == i1 else scores + m
        return scores.of(SoftmaxOp, axis=-1).of(MatmulOp, value)
