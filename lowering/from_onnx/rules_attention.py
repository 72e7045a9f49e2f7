"""ONNX import of ONNX Runtime's attention whose heads have keys and values of their own.

Keys and values of a cache stand before the new ones. Not here: heads that share keys
(`rules_decoder`), and the attention of the standard, which is one of its functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.tensor.formula import Formula
from ..problems import refuse
from .onnx_builder import Builder, Call, Results, Rule, Value
from .rules_fused import integers_to_float
from .rules_linear import linear
from .sizes import Size, static


def apart(e: Builder, x: SSAValue, heads: int) -> SSAValue:
    """[batch, steps, width] as [batch, heads, steps, width of a head]."""
    batch, steps, width = e.sizes(x)
    (size,) = static([width], "width")
    return e.permute(e.reshape(x, [batch, steps, heads, size // heads]), [0, 2, 1, 3])


def together(e: Builder, x: SSAValue) -> SSAValue:
    """The inverse of `apart`."""
    batch, heads, steps, width = e.sizes(x)
    whole = static([heads, width], "heads")
    return e.reshape(e.permute(x, [0, 2, 1, 3]), [batch, steps, whole[0] * whole[1]])


def numbered(e: Builder, steps: Size, start: Size) -> SSAValue:
    """start, start + 1, …: places of steps, i64."""
    first = e.sizes_value(np.array(start, object))
    return (
        (Formula(e, e.arange(steps)) + Formula(e, first)).value if start != 0 else e.arange(steps)
    )


def seen_keys(e: Builder, steps: Size, past: Size, window: int, causal: bool) -> SSAValue | None:
    """Which keys each query sees, [1, 1, steps, past + steps]."""
    if not causal and window < 0:
        return None
    own = Formula(e, e.reshape(numbered(e, steps, past), [steps, 1]))
    total = past + steps
    other = Formula(e, e.reshape(e.arange(total), [1, total]))
    seen = other.compare("le", own)
    if window > 0:
        near = (own - window).compare("lt", other)
        seen = Formula(e, e.add(tensor.AndOp(seen.value, near.value)))
    return e.reshape(seen.value, [1, 1, steps, total])


def both_masks(e: Builder, mask: SSAValue | None, bias: SSAValue | None) -> SSAValue | None:
    """What is added to sums, where a mask hides keys as well."""
    if mask is None or bias is None:
        return mask if bias is None else bias
    return Formula(e, mask).choose(Formula(e, bias), -np.inf).value


def with_past(
    e: Builder, past: Sequence[SSAValue | None], new: Sequence[SSAValue]
) -> list[SSAValue]:
    """Keys and values [batch, heads, steps, width] behind those of a cache."""
    return [
        own if old is None else e.add(tensor.ConcatenateOp([old, own], 2))
        for old, own in zip(past, new, strict=True)
    ]


def _mixed(
    e: Builder, call: Call, parts: Sequence[SSAValue], mask: SSAValue | None,
    bias: SSAValue | None, past: Sequence[SSAValue | None],
) -> list[SSAValue]:  # fmt: skip
    """Attention of queries, keys and values [batch, heads, steps, width]; these behind the past.

    Args:
        e: writes the ops.
        call: says how sums are scaled.
        parts: the three.
        mask: [batch, keys] or [batch, steps, keys], 0 where a key is padding, or [batch], how many
            keys are none.
        bias: what is added to sums, [batch or 1, heads or 1, steps, keys].
        past: keys and values of a cache.
    """
    query = parts[0]
    key, value = with_past(e, past, parts[1:])
    batch, _, steps, _ = e.sizes(query)
    keys = e.sizes(key)[2]
    if mask is not None:
        if tuple(e.sizes(mask)) == (batch,):
            (count,) = static([keys], "number of keys")
            places = Formula(e, e.numbers(np.arange(count, dtype=np.int32), i32))
            lengths = e.reshape(e.convert(mask, i32), [batch, 1])
            mask = places.compare("lt", Formula(e, lengths)).value
        rank = e.rank(mask)
        refuse(rank not in (2, 3), "its mask has none of the forms [batch], [batch, keys] and "
               "[batch, steps, keys]")  # fmt: skip
        low = call.number("mask_filter_value", -10000.0)
        off = (1 - Formula(e, e.convert(mask, query))) * low
        hidden = e.reshape(off.value, [batch, 1, steps if rank == 3 else 1, keys])
        bias = hidden if bias is None else e.add(tensor.AddOp(bias, hidden))
    scale = call.number("scale", 0.0) or None
    is_causal, is_first = call.flag("unidirectional", False), past[0] is None
    if is_causal and not is_first:
        assert past[0] is not None
        bias = both_masks(e, seen_keys(e, steps, e.sizes(past[0])[2], -1, True), bias)
    result = tensor.ScaledDotProductAttentionOp(
        query, key, value, bias, scale=scale, is_causal=is_causal and is_first
    )
    return [together(e, e.add(result)), key, value]


def _attention(e: Builder, call: Call) -> Results:
    """Attention of a sequence to itself, projections included."""
    _refuse(call, {6: "the length of its past"}, ("do_rotary",))
    joined = linear(e, call[0], call[1], call.optional(2))
    return _to_itself(e, call, joined, call.optional(3), call.optional(5), call.optional(4))


def _to_itself(
    e: Builder, call: Call, joined: SSAValue, mask: SSAValue | None, bias: SSAValue | None,
    past: SSAValue | None,
) -> Results:  # fmt: skip
    """Attention of queries, keys and values beside each other; keys and values are one cache."""
    (width,) = static(e.sizes(joined)[2:], "width")
    widths = call.integers("qkv_hidden_sizes", None) or [width // 3] * 3
    heads = call.integer("num_heads", 1)
    parts = [apart(e, part, heads) for part in e.add_all(tensor.SplitOp(joined, 2, widths))]
    halves: list[SSAValue | None] = [None, None]
    if past is not None:
        halves = [e.add(tensor.SqueezeOp(e.cut(past, 0, i, i + 1), [0])) for i in (0, 1)]
    mixed, *pair = _mixed(e, call, parts, mask, bias, halves)
    if call.outputs < 2:
        return mixed
    rows = [e.add(tensor.UnsqueezeOp(half, [0])) for half in pair]
    return mixed, e.add(tensor.ConcatenateOp(rows, 0))


def _integer_attention(e: Builder, call: Call) -> Results:
    """The same for integers and their weights, each with a scale and a zero point."""
    _refuse(call, {}, ("do_rotary",))
    order = (0, 1, 3, 4, 6, 7, 2)
    inputs = [call.optional(index) for index in order]
    joined = integers_to_float(e, replace(call, inputs=inputs))
    return _to_itself(e, call, joined, call.optional(5), None, call.optional(8))


def _multi_head(e: Builder, call: Call) -> Results:
    """Attention whose projections stand before it, but for their biases."""
    _refuse(call, {8: "the length of its past", 9: "places in its cache"}, ())
    heads = call.integer("num_heads", 1)
    parts = _three(e, call)
    if call.has(3):
        widths = static([e.sizes(part)[2] for part in parts], "width")
        biases = e.add_all(tensor.SplitOp(call[3], 0, widths))
        parts = [e.add(tensor.AddOp(p, b)) for p, b in zip(parts, biases, strict=True)]
    parts = [apart(e, part, heads) if e.rank(part) == 3 else part for part in parts]
    past = [call.optional(6), call.optional(7)]
    results: tuple[Value, ...] = (
        *_mixed(e, call, parts, call.optional(4), call.optional(5), past),
    )
    return results[: max(call.outputs, 1)]


def _three(e: Builder, call: Call) -> list[SSAValue]:
    """Queries, keys and values [batch, steps, width]; keys and values may have heads already."""
    given = [call[index] for index in range(3) if call.has(index)]
    last = given.pop() if len(given) < 3 else None
    if last is not None:  # [batch, steps, heads, 2 or 3, width of a head]
        refuse(e.rank(last) != 5, "its keys and values are not there")
        batch, steps, heads, count, size = e.sizes(last)
        wide = static([heads, count, size], "heads")
        refuse(wide[1] != 3 - len(given), f"it packs {wide[1]} tensors")
        given += [
            e.reshape(e.cut(last, 3, i, i + 1), [batch, steps, wide[0] * wide[2]])
            for i in range(wide[1])
        ]
    ranks = [e.rank(part) for part in given]
    has_heads = ranks[1:] == [4, 4] and not call.has(3)
    refuse(
        ranks[0] != 3 or (ranks[1:] != [3, 3] and not has_heads),
        "its queries, keys and values are not three tensors of three axes",
    )
    return given


def _refuse(call: Call, inputs: Mapping[int, str], attributes: tuple[str, ...]) -> None:
    for index, what in inputs.items():
        refuse(call.has(index), f"it takes {what}; export the model without")
    for name in attributes:
        refuse(call.attributes.get(name), f"its attribute '{name}' is not known")


ATTENTION: dict[str, Rule] = {
    "Attention": _attention,
    "MultiHeadAttention": _multi_head,
    "QAttention": _integer_attention,
}
"""By the type of the operator."""
