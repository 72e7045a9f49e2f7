"""ONNX import of operators that ONNX Runtime's optimiser makes of several of the standard's.

Not here: those on quantised tensors (`rules_qoperator`), and caches of language models.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from xdsl.dialects.builtin import f32, i32
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.tensor.formula import Formula
from ..problems import ProblemError, refuse
from .calls import AttributeValue, Results, Value, tensor_of
from .onnx_builder import Builder, Call, Rule
from .rules_activation import RULES as ACTIVATIONS
from .rules_activation import formula
from .rules_elementwise import RULES as ELEMENTWISE
from .rules_linear import RULES as LINEAR
from .rules_linear import linear
from .rules_quantization import RULES as QUANTIZATION
from .rules_reduction import RULES as REDUCTION
from .rules_window import RULES as WINDOWS
from .sizes import static

_STANDARD: Mapping[str, Rule] = {
    **ACTIVATIONS, **ELEMENTWISE, **LINEAR, **QUANTIZATION, **REDUCTION, **WINDOWS,
}  # fmt: skip

_VERSION = 21
"""Of the standard, whose operators are meant."""


def _all_of(
    e: Builder, op: str, inputs: list[Value], attributes: Mapping[str, AttributeValue]
) -> Results:
    """The results of an operator of the standard."""
    return _STANDARD[op](e, Call(op, "", _VERSION, inputs, attributes, outputs=3))


def _of(
    e: Builder, op: str, inputs: list[Value], attributes: Mapping[str, AttributeValue] = {}
) -> SSAValue:
    results = _all_of(e, op, inputs, attributes)
    return tensor_of(results[0] if isinstance(results, tuple) else results)


def _activated(op: str) -> Rule:
    """Conv and Gemm, with an addend where they have one more input, and an activation."""

    def rule(e: Builder, call: Call) -> SSAValue:
        result = _of(e, op, [*call.inputs[:3]], call.attributes)
        if call.has(3):
            result = e.add(tensor.AddOp(result, call[3]))
        name, given = call.text("activation", ""), call.numbers("activation_params")
        names = ("alpha", "beta", "gamma")
        numbers = {n: call.attributes.get(f"activation_{n}") for n in names}
        numbers |= dict(zip(names, given, strict=False))
        if name == "Clip":
            return Formula(e, result).maximum(given[0]).minimum(given[1]).value
        refuse(name and name not in ACTIVATIONS, f"its activation '{name}' is not known")
        told = {n: value for n, value in numbers.items() if value is not None}
        return _of(e, name, [result], told) if name else result

    return rule


def _fused_matmul(e: Builder, call: Call) -> SSAValue:
    if call.integer("transBatchA", 0) or call.integer("transBatchB", 0):
        raise ProblemError("it transposes the axes of its batch")
    sides: list[SSAValue] = []
    for index, name in enumerate(("transA", "transB")):
        x, rank = call[index], e.rank(call[index])
        is_turned = call.flag(name, False) and rank > 1
        sides.append(e.permute(x, [*range(rank - 2), rank - 1, rank - 2]) if is_turned else x)
    product, alpha = linear(e, *sides), call.number("alpha", 1.0)
    return product if alpha == 1.0 else (Formula(e, product) * alpha).value


def _skipped(op: str, bias: int) -> Rule:
    """A normalisation of the sum of two tensors, and of a bias at an input; the sum comes last."""

    def rule(e: Builder, call: Call) -> Results:
        total = e.add(tensor.AddOp(call[0], call[1]))
        added = call.optional(bias)
        if added is not None:
            total = e.add(tensor.AddOp(total, added))
        inputs: list[Value] = [total, *call.inputs[2:bias]]
        results = _all_of(e, op, inputs, {"epsilon": call.number("epsilon", 1e-5), "axis": -1})
        found = results if isinstance(results, tuple) else (results,)
        return (*found, *[None] * (3 - len(found)), total)[: max(call.outputs, 1)]

    return rule


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


def _mixed(
    e: Builder, call: Call, parts: list[SSAValue], mask: SSAValue | None, bias: SSAValue | None
) -> SSAValue:
    """Attention of queries, keys and values [batch, steps, width] in heads.

    Args:
        e: writes the ops.
        call: says how many heads there are, and how sums are scaled.
        parts: the three.
        mask: [batch, steps], 0 where a key is padding, or [batch], how many keys are none.
        bias: what is added to sums, [batch or 1, heads or 1, steps, steps].
    """
    count = call.integer("num_heads", 1)
    query, key, value = (apart(e, part, count) for part in parts)
    if mask is not None:
        batch, steps = e.sizes(parts[1])[:2]
        if tuple(e.sizes(mask)) == (batch,):
            (count_of_keys,) = static([steps], "number of keys")
            places = Formula(e, e.numbers(np.arange(count_of_keys, dtype=np.int32), i32))
            lengths = e.reshape(e.convert(mask, i32), [batch, 1])
            mask = places.compare("lt", Formula(e, lengths)).value
        refuse(e.rank(mask) != 2, "its mask has neither the form [batch, steps] nor [batch]")
        low = call.number("mask_filter_value", -10000.0)
        off = (1 - Formula(e, e.convert(mask, query))) * low
        hidden = e.reshape(off.value, [batch, 1, 1, steps])
        bias = hidden if bias is None else e.add(tensor.AddOp(bias, hidden))
    scale = call.number("scale", 0.0) or None
    result = tensor.ScaledDotProductAttentionOp(
        query, key, value, bias, scale=scale, is_causal=call.flag("unidirectional", False)
    )
    return together(e, e.add(result))


def _attention(e: Builder, call: Call) -> SSAValue:
    """Attention of a sequence to itself, projections included."""
    _refuse(call, {4: "past keys", 6: "the length of its past"}, ("do_rotary", "qkv_hidden_sizes"))
    joined = linear(e, call[0], call[1], call.optional(2))
    return _to_itself(e, call, joined, call.optional(3), call.optional(5))


def _to_itself(
    e: Builder, call: Call, joined: SSAValue, mask: SSAValue | None, bias: SSAValue | None
) -> SSAValue:
    """Attention of queries, keys and values beside each other; see `_mixed`."""
    (width,) = static(e.sizes(joined)[2:], "width")
    parts = e.add_all(tensor.SplitOp(joined, 2, [width // 3] * 3))
    return _mixed(e, call, parts, mask, bias)


def _integer_attention(e: Builder, call: Call) -> SSAValue:
    """The same for integers and their weights, each with a scale and a zero point."""
    _refuse(call, {8: "past keys"}, ("do_rotary",))
    order = (0, 1, 3, 4, 6, 7, 2)
    inputs = [call.optional(index) for index in order]
    joined = _integers_to_float(e, replace(call, inputs=inputs))
    return _to_itself(e, call, joined, call.optional(5), None)


def _embedded(e: Builder, call: Call) -> Results:
    """The normalised sum of rows for words, places and segments, and how many words there are."""
    words, mask = call[0], call.optional(7)
    if call.has(8):
        places = e.add(tensor.GatherRowsOp(call[3], call[8]))
    else:
        (steps,) = static(e.sizes(words)[1:], "number of words")
        places = Formula(e, call[3]).cut(0, 0, steps).value
    total = e.add(tensor.AddOp(e.add(tensor.GatherRowsOp(call[2], words)), places))
    if call.has(1):
        total = e.add(tensor.AddOp(total, e.add(tensor.GatherRowsOp(call[4], call[1]))))
    numbers = {"epsilon": call.number("epsilon", 1e-12), "axis": -1}
    normal = _of(e, "LayerNormalization", [total, call[5], call[6]], numbers)
    kept = (Formula(e, words) * 0).value if mask is None else mask
    counted = e.convert(e.add(tensor.ReduceSumOp(kept, [1])), i32)
    return (normal, counted, total)[: max(call.outputs, 1)]


def _multi_head(e: Builder, call: Call) -> SSAValue:
    """Attention whose projections stand before it, but for their biases."""
    _refuse(call, {6: "past keys", 7: "past values"}, ())
    parts = [call[index] for index in range(3) if call.has(2)]
    if len(parts) < 3 or any(e.rank(part) != 3 for part in parts):
        raise ProblemError("its queries, keys and values are not three tensors of three axes")
    if call.has(3):
        widths = static([e.sizes(part)[2] for part in parts], "width")
        biases = e.add_all(tensor.SplitOp(call[3], 0, widths))
        parts = [e.add(tensor.AddOp(p, b)) for p, b in zip(parts, biases, strict=True)]
    return _mixed(e, call, parts, call.optional(4), call.optional(5))


def _refuse(call: Call, inputs: Mapping[int, str], attributes: tuple[str, ...]) -> None:
    for index, what in inputs.items():
        refuse(call.has(index), f"it takes {what}; export the model without")
    for name in attributes:
        refuse(call.attributes.get(name), f"its attribute '{name}' is not known")
    refuse(call.outputs > 1, "it gives keys and values too; export the model without its cache")


def _integers_to_float(e: Builder, call: Call) -> SSAValue:
    """A product of integers, times the scales of both, and a bias."""
    sums = _of(e, "MatMulInteger", [call[0], call[1], call.optional(4), call.optional(5)])
    scales = Formula(e, call[2]) * Formula(e, call[3])
    result = Formula(e, e.convert(sums, f32)) * scales
    return result.value if not call.has(6) else e.add(tensor.AddOp(result.value, call[6]))


def _dynamic_matmul(e: Builder, call: Call) -> SSAValue:
    """A product whose first side becomes integers where it is computed."""
    found = _all_of(e, "DynamicQuantizeLinear", [call[0]], {})
    assert isinstance(found, tuple)
    levels, scale, zero = map(tensor_of, found)
    inputs = [levels, call[1], scale, call[2], zero, call.optional(3), call.optional(4)]
    return _integers_to_float(e, replace(call, inputs=inputs))


FUSED: dict[str, Rule] = {
    "Attention": _attention,
    "BiasGelu": lambda e, call: e.add(tensor.GeluOp(e.add(tensor.AddOp(call[0], call[1])))),
    "DynamicQuantizeMatMul": _dynamic_matmul,
    "EmbedLayerNormalization": _embedded,
    "FusedConv": _activated("Conv"),
    "FusedGemm": _activated("Gemm"),
    "FusedMatMul": _fused_matmul,
    "MatMulIntegerToFloat": _integers_to_float,
    "MultiHeadAttention": _multi_head,
    "QAttention": _integer_attention,
    "QuickGelu": formula(
        lambda x, call: x * (x * call.number("alpha", 1.702)).of(tensor.SigmoidOp)
    ),
    "SkipLayerNormalization": _skipped("LayerNormalization", 4),
    "SkipSimplifiedLayerNormalization": _skipped("RMSNormalization", 3),
}
"""By the type of the operator."""
