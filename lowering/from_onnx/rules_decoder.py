"""ONNX import of ONNX Runtime's operators of decoders: attention with a cache, and rotations.

Keys and values are joined behind those of the cache, so that results have the sizes that the
runtime's have where a cache is full: all sequences of a batch are as long as the cache and what is
new. Not here: attention whose heads have keys of their own (`rules_attention`).
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.tensor.formula import Formula
from ..problems import ProblemError, refuse
from .onnx_builder import Builder, Call, Results, Rule, Value
from .rules_attention import apart, both_masks, numbered, seen_keys, together, with_past
from .sizes import static

_FULL = "its sequences fill their cache: seqlens_k is how many keys there are, less one"
"""What holds of a program that takes a cache."""

_PLAIN = {
    11: "a sink for heads", 12: "a scale of keys", 13: "a scale of values",
    14: "weights that normalise queries", 15: "weights that normalise keys",
}  # fmt: skip
"""Inputs of GroupQueryAttention that are not read."""


def rotated(
    e: Builder, x: SSAValue, cos: SSAValue, sin: SSAValue, places: SSAValue, interleaved: bool
) -> SSAValue:
    """Rotary positions of x [batch, heads, steps, width]; what is behind the angles stays.

    Su et al. 2021, "RoFormer", equation 34.

    Args:
        e: writes the ops.
        x: what is turned.
        cos: by place, half as many as numbers that are turned.
        sin: the same.
        places: [batch or 1, steps].
        interleaved: pairs lie beside each other, and not half a head apart.
    """
    (half, width) = static([e.sizes(cos)[1], e.sizes(x)[3]], "width of a head")
    angles = [
        Formula(e, e.add(tensor.UnsqueezeOp(e.add(tensor.GatherRowsOp(table, places)), [1])))
        for table in (cos, sin)
    ]
    whole = Formula(e, x)
    step = 2 if interleaved else 1
    first = whole.cut(3, 0, 2 * half if interleaved else half, step)
    second = whole.cut(3, 1 if interleaved else half, 2 * half, step)
    parts = [first * angles[0] - second * angles[1], first * angles[1] + second * angles[0]]
    if interleaved:
        ends = [e.add(tensor.UnsqueezeOp(part.value, [4])) for part in parts]
        joined = e.reshape(e.add(tensor.ConcatenateOp(ends, 4)), [*e.sizes(x)[:3], 2 * half])
    else:
        joined = e.add(tensor.ConcatenateOp([part.value for part in parts], 3))
    if 2 * half == width:
        return joined
    return e.add(tensor.ConcatenateOp([joined, whole.cut(3, 2 * half, width).value], 3))


def _rotary(e: Builder, call: Call) -> SSAValue:
    x, places = call[0], call[1]
    if call.integer("is_packed_batching", 0) or call.number("scale", 1.0) != 1.0:
        raise ProblemError("it packs sequences or scales positions; export the model without")
    flat = e.rank(x) == 3
    (half,) = static(e.sizes(call[2])[1:], "width of the tables")
    (width,) = static(e.sizes(x)[-1:], "width")
    heads = call.integer("num_heads", 0) or width // (2 * half)
    x = apart(e, x, heads) if flat else x
    if e.rank(places) == 1:  # the place of the first step
        counted = e.reshape(e.arange(e.sizes(x)[2]), [1, e.sizes(x)[2]])
        places = (Formula(e, counted) + Formula(e, e.reshape(e.convert(places, i64), [1, 1]))).value
    turned = rotated(e, x, call[2], call[3], places, call.flag("interleaved", False))
    return together(e, turned) if flat else turned


def _repeated(e: Builder, x: SSAValue, times: int) -> SSAValue:
    """Each head of keys or values for as many heads of queries in a row."""
    if times == 1:
        return x
    batch, heads, steps, width = e.sizes(x)
    (count,) = static([heads], "heads")
    lone = e.reshape(x, [batch, count, 1, steps, width])
    wide = e.stretch(lone, [batch, count, times, steps, width])
    return e.reshape(wide, [batch, count * times, steps, width])


def _grouped(e: Builder, call: Call) -> Results:
    """Attention of heads that share keys and values, behind those of a cache."""
    for index, what in _PLAIN.items():
        refuse(call.has(index), f"it takes {what}; export the model without")
    for name in ("smooth_softmax", "kv_cache_bit_width", "qk_output"):
        if call.integer(name, 0) > 0:
            raise ProblemError(f"its attribute '{name}' is not read; export the model without")
    heads, shared = call.integer("num_heads", 1), call.integer("kv_num_heads", 1)
    if call.has(1):
        parts = [call[0], call[1], call[2]]
    else:
        (width,) = static(e.sizes(call[0])[2:], "width")
        size = width // (heads + 2 * shared)
        widths = [heads * size, shared * size, shared * size]
        parts = e.add_all(tensor.SplitOp(call[0], 2, widths))
    query, key, value = (
        apart(e, x, count) for x, count in zip(parts, (heads, shared, shared), strict=True)
    )
    cache = [call.optional(3), call.optional(4)]
    steps = e.sizes(query)[2]
    past = 0 if cache[0] is None else e.sizes(cache[0])[2]
    if call.flag("do_rotary", False):
        places = call.optional(9)
        if places is None:
            places = e.reshape(numbered(e, steps, past), [1, steps])
        turn = call.flag("rotary_interleaved", False)
        query, key = (rotated(e, x, call[7], call[8], places, turn) for x in (query, key))
    key, value = with_past(e, cache, (key, value))
    mask = seen_keys(
        e, steps, past, call.integer("local_window_size", -1), call.flag("causal", True)
    )
    seen = both_masks(e, mask, call.optional(10))
    wide = [_repeated(e, x, heads // shared) for x in (key, value)]
    scale = call.number("scale", 0.0) or None
    mixed = _capped(e, query, wide, seen, scale, call.number("softcap", 0.0))
    if past != 0:
        e.notes.append(_FULL)
    results: tuple[Value, ...] = (together(e, mixed), key, value)
    return results[: max(call.outputs, 1)]


def _capped(
    e: Builder, query: SSAValue, pair: list[SSAValue], mask: SSAValue | None, scale: float | None,
    cap: float,
) -> SSAValue:  # fmt: skip
    """Attention, where sums may stay within a cap: cap·tanh(sum / cap)."""
    key, value = pair
    if not cap:
        return e.add(tensor.ScaledDotProductAttentionOp(query, key, value, mask, scale=scale))
    (width,) = static(e.sizes(query)[3:], "width of a head")
    sums = e.add(tensor.MatmulOp(query, e.permute(key, [0, 1, 3, 2])))
    capped = ((Formula(e, sums) * ((scale or width**-0.5) / cap)).of(tensor.TanhOp)) * cap
    if mask is not None:
        is_float = tensor_type(mask).element_type == tensor_type(sums).element_type
        hidden = Formula(e, mask)
        capped = capped + hidden if is_float else hidden.choose(capped, -np.inf)
    return e.add(tensor.MatmulOp(e.add(tensor.SoftmaxOp(capped.value, 3)), value))


def _gathered_blocks(e: Builder, call: Call) -> SSAValue:
    """Rows of a table of 4 or 8 bits in blocks, each with a scale and a zero point."""
    bits, block = call.integer("bits", 4), call.integer("block_size", 128)
    stored, scales = e.array(call[0], "table"), e.array(call[2], "scales")
    axis = call.integer("quantize_axis", 1) % stored.ndim
    if bits not in (4, 8) or axis != stored.ndim - 1 or call.integer("gather_axis", 0):
        raise ProblemError("its form is not read; take blocks along the last axis, rows as places")
    packed = stored.dtype == np.uint8 and bits == 4 and call[0] not in e.formats

    def numbers(values: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> np.ndarray[
        tuple[int, ...], np.dtype[np.float32]
    ]:  # fmt: skip
        if not packed:
            return values.astype(np.float32)
        halves = np.stack([values.astype(np.uint8) & 15, values.astype(np.uint8) >> 4], -1)
        return halves.reshape(*values.shape[:-1], -1).astype(np.float32)

    codes = numbers(stored)
    zero = (1 << bits - 1) if stored.dtype == np.uint8 else 0
    zeros = np.full(scales.shape, zero, np.float32)
    if call.has(3):
        zeros = numbers(e.array(call[3], "zero points"))[..., : scales.shape[-1]]
    place = np.arange(codes.shape[-1]) // block
    real = (codes - zeros[..., place]) * scales[..., place].astype(np.float32)
    table = e.known(np.ascontiguousarray(real.astype(scales.dtype)))
    e.names[table] = e.names.get(call[0], "table")
    return e.add(tensor.GatherRowsOp(table, call[1]))


DECODER: dict[str, Rule] = {
    "GatherBlockQuantized": _gathered_blocks,
    "GroupQueryAttention": _grouped,
    "RotaryEmbedding": _rotary,
}
"""By the type of the operator."""
