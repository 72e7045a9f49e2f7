"""Rules of attention: the product of queries, keys and values, and a whole layer of it."""

from __future__ import annotations

from xdsl.ir import SSAValue

from ...dialects import tensor
from .rules_elementwise import Rule
from .rules_linear import product_with, transposed
from .sizes import ProblemError, static
from .standard_layers import ATTENTION
from .torch_builder import Builder, Call


def _attention(e: Builder, call: Call) -> SSAValue:
    if call["dropout_p"]:
        raise ProblemError("it drops weights at random; set dropout_p to 0")
    if call.get("enable_gqa", False):
        raise ProblemError("it groups queries; repeat keys and values before")
    dtype = call.value.dtype
    mask = call["attn_mask"]
    given = None
    if mask is not None:
        import torch

        is_truth = mask.meta["val"].dtype == torch.bool
        given = e.operand(mask, torch.bool if is_truth else dtype)
    query, key, value = (e.value(call[name]) for name in ("query", "key", "value"))
    return e.add(
        tensor.ScaledDotProductAttentionOp(
            query,
            key,
            value,
            given,
            scale=None if call["scale"] is None else float(call["scale"]),
            is_causal=bool(call["is_causal"]),
        )
    )


def _layer(e: Builder, call: Call) -> SSAValue:
    """`nn.MultiheadAttention` of a sequence to itself: heads are made by one transpose.

    Axes, where the batch comes first: [N, L, 3·H·D] to [N, 3·H, L, D] for H heads of size D.
    """
    x, heads = e.value(call["x"]), int(call["heads"])
    sizes = e.sizes(call["x"])
    (width,) = static(sizes[-1:], "width")
    biases = [None if call[n] is None else e.value(call[n]) for n in ("in_bias", "out_bias")]
    joined = product_with(e, x, e.weight(call["in_weight"], transposed), biases[0])
    made, parts = (*sizes[:2], 3 * width), (*sizes[:2], 3 * heads, width // heads)
    order, back = ([0, 2, 1, 3],) * 2 if call["batch_first"] else ([1, 2, 0, 3], [2, 0, 1, 3])
    apart = e.permute(e.reshape(joined, made, parts), order)
    pieces = tensor.SplitOp(apart, 1, [heads] * 3)
    e.add(pieces)
    mixed = e.add(tensor.ScaledDotProductAttentionOp(*pieces.pieces))
    rows = e.permute(mixed, back)
    flat = e.reshape(rows, (*sizes[:2], heads, width // heads), sizes)
    return product_with(e, flat, e.weight(call["out_weight"], transposed), biases[1])


RULES: dict[str, Rule] = {
    "aten::scaled_dot_product_attention": _attention,
    ATTENTION: _layer,
}
"""By the name of the operator."""
