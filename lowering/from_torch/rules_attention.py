"""Rules of attention: the operator on queries, keys and values, and a whole layer."""

from __future__ import annotations

from xdsl.ir import SSAValue

from ...dialects import tensor
from ..problems import ProblemError
from .calls import Call, fake_tensor
from .rules_linear import linear_with, transposed
from .rules_shape import split
from .sizes import static
from .standard_layers import ATTENTION
from .torch_builder import Builder, Rule


def _attention(e: Builder, call: Call) -> SSAValue:
    if call.number("dropout_p"):
        raise ProblemError("it drops weights at random; set dropout_p to 0")
    if call.flag("enable_gqa"):
        raise ProblemError("it groups queries; repeat keys and values before")
    mask, bias = call.optional("attn_mask"), None
    if mask is not None:
        import torch

        is_truth = fake_tensor(mask).dtype == torch.bool
        bias = e.operand(mask, torch.bool if is_truth else call.value.dtype)
    query, key, value = (e.value(call[name]) for name in ("query", "key", "value"))
    return e.add(
        tensor.ScaledDotProductAttentionOp(
            query,
            key,
            value,
            bias,
            scale=call.number("scale") if "scale" in call else None,
            is_causal=call.flag("is_causal"),
        )
    )


def _layer(e: Builder, call: Call) -> SSAValue:
    """`nn.MultiheadAttention` of a sequence to itself: heads are made by one transpose.

    Axes, where the batch comes first: [N, L, 3·H·D] to [N, 3·H, L, D] for H heads of size D.
    """
    x, heads = e.value(call["x"]), call.integer("heads")
    sizes = e.sizes(call["x"])
    (width,) = static(sizes[-1:], "width")
    biases = [e.optional(call.optional(name)) for name in ("in_bias", "out_bias")]
    joined = linear_with(e, x, e.weight(call["in_weight"], transposed), biases[0])
    whole, parts = (*sizes[:2], 3 * width), (*sizes[:2], 3 * heads, width // heads)
    order, back = ([0, 2, 1, 3],) * 2 if call.flag("batch_first") else ([1, 2, 0, 3], [2, 0, 1, 3])
    apart = e.permute(e.reshape(joined, whole, parts), order)
    query, key, value = split(e, apart, 1, [heads] * 3)
    mixed = e.add(tensor.ScaledDotProductAttentionOp(query, key, value))
    rows = e.permute(mixed, back)
    flat = e.reshape(rows, (*sizes[:2], heads, width // heads), sizes)
    return linear_with(e, flat, e.weight(call["out_weight"], transposed), biases[1])


RULES: dict[str, Rule] = {
    "aten::scaled_dot_product_attention": _attention,
    ATTENTION: _layer,
}
"""By the name of the operator."""
