"""Rules of attention: the operator on queries, keys and values, and a whole layer."""

from __future__ import annotations

import math

import torch
from torch.fx import Node
from xdsl.dialects.builtin import i1
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.tensor.formula import Formula
from ..problems import refuse
from .calls import Call, fake_tensor
from .rules_linear import linear_with
from .rules_shape import interleaved, split
from .sizes import Size, static
from .standard_layers import ATTENTION
from .torch_builder import Builder, Known, Rule, transposed


def _attention(e: Builder, call: Call) -> SSAValue:
    refuse(call.number("dropout_p"), "it drops weights at random; set dropout_p to 0")
    mask, bias = call.optional("attn_mask"), None
    if mask is not None:
        is_truth = fake_tensor(mask).dtype == torch.bool
        bias = e.operand(mask, torch.bool if is_truth else call.value.dtype)
    query, key, value = (e.value(call[name]) for name in ("query", "key", "value"))
    if call.flag("enable_gqa"):
        heads = e.sizes(call["query"])[-3]
        key, value = (_shared(e, call[name], heads) for name in ("key", "value"))
    result = e.add(
        tensor.ScaledDotProductAttentionOp(
            query,
            key,
            value,
            bias,
            scale=call.number("scale") if "scale" in call else None,
            is_causal=call.flag("is_causal"),
        )
    )
    if mask is None or bias is None or _hides_no_row(e.known(mask)):
        return result
    return _unhidden(e, result, bias)


def _shared(e: Builder, node: Node, heads: Size) -> SSAValue:
    """Keys or values of fewer heads, each for several heads of queries in a row."""
    sizes = e.sizes(node)
    wanted, count = static((heads, sizes[-3]), "heads")
    several = (*sizes[:-3], wanted, *sizes[-2:])
    return interleaved(e, e.value(node), sizes, len(sizes) - 3, wanted // count, several)


def _hides_no_row(mask: Known | None) -> bool:
    """Whether a mask is known to leave each query a key."""
    if mask is None or not mask.tensor.numel():
        return False
    kept = mask.tensor > -math.inf if mask.tensor.is_floating_point() else mask.tensor
    return bool(kept.any(-1).all())


def _unhidden(e: Builder, result: SSAValue, mask: SSAValue) -> SSAValue:
    """Zeros where a mask hides all keys from a query, as in PyTorch; of padded rows, say."""
    best = Formula(e, e.add(tensor.ReduceMaxOp(mask, [-1], keepdims=True)))
    seen = best if best.element == i1 else best > -math.inf
    return seen.choose(Formula(e, result), 0).value


def _layer(e: Builder, call: Call) -> SSAValue:
    """`nn.MultiheadAttention` of a sequence to itself: heads are made by one transpose.

    Axes, where the batch comes first: [N, L, 3·H·D] to [N, 3·H, L, D] for H heads of size D.
    """
    x, heads = e.value(call["x"]), call.integer("heads")
    sizes = e.sizes(call["x"])
    (width,) = static(sizes[-1:], "width")
    biases = [e.optional(call.optional(name)) for name in ("in_bias", "out_bias")]
    joined = linear_with(e, x, e.weight(x, call["in_weight"], transposed), biases[0])
    whole, parts = (*sizes[:2], 3 * width), (*sizes[:2], 3 * heads, width // heads)
    order, back = ([0, 2, 1, 3],) * 2 if call.flag("batch_first") else ([1, 2, 0, 3], [2, 0, 1, 3])
    apart = e.permute(e.reshape(joined, whole, parts), order)
    query, key, value = split(e, apart, 1, [heads] * 3)
    mixed = e.add(tensor.ScaledDotProductAttentionOp(query, key, value))
    rows = e.permute(mixed, back)
    flat = e.reshape(rows, (*sizes[:2], heads, width // heads), sizes)
    return linear_with(e, flat, e.weight(flat, call["out_weight"], transposed), biases[1])


RULES: dict[str, Rule] = {
    "aten::scaled_dot_product_attention": _attention,
    ATTENTION: _layer,
}
"""By the name of the operator."""
