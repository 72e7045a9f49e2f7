"""ONNX import of operators that ONNX Runtime's optimiser makes of several of the standard's.

Not here: those on quantised tensors (`rules_qoperator`), and attention (`rules_attention`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

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
from .rules_qoperator import channels_last
from .rules_quantization import RULES as QUANTIZATION
from .rules_recurrent import Cell, lstm, recurrent
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


def _group_norm(e: Builder, call: Call) -> SSAValue:
    """A normalisation of groups of channels, which stand last unless told otherwise."""
    numbers = {
        "num_groups": call.integer("groups", 1), "epsilon": call.number("epsilon", 1e-5),
    }  # fmt: skip

    def rule(e: Builder, call: Call) -> SSAValue:
        normal = _of(e, "GroupNormalization", [*call.inputs[:3]], numbers)
        return _of(e, "Swish", [normal]) if call.flag("activation", False) else normal

    return tensor_of((channels_last(rule) if call.flag("channels_last", True) else rule)(e, call))


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


def integers_to_float(e: Builder, call: Call) -> SSAValue:
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
    return integers_to_float(e, replace(call, inputs=inputs))


def _dynamic_lstm(e: Builder, call: Call) -> Results:
    """An LSTM whose weights are integers, and whose inputs and states become some as they come.

    All steps of the input have one scale, the state of all samples has one at each step.
    """
    weights = list[Value]()
    for index, place in ((1, 8), (2, 10)):
        levels, scale, zero = (
            Formula(e, e.convert(call[i], f32)) for i in (index, place, place + 1)
        )
        scale, zero = (
            part if part.rank == 2 else part.of(tensor.UnsqueezeOp, axes=[1])
            for part in (scale, zero)
        )
        centred = levels - zero.of(tensor.UnsqueezeOp, axes=[1])
        weight = centred * scale.of(tensor.UnsqueezeOp, axes=[1])
        weights.append(e.permute(weight.value, [0, 2, 1]))

    def step(cell: Cell, x: SSAValue, state: list[SSAValue]) -> list[SSAValue]:
        return lstm(cell, x, [_dynamic(e, state[0]), state[1]])

    plain = replace(call, op="LSTM", inputs=[_dynamic(e, call[0]), *weights, *call.inputs[3:8]])
    return recurrent(step, 4, ["Sigmoid", "Tanh", "Tanh"], 2)(e, plain)


def _dynamic(e: Builder, x: SSAValue) -> SSAValue:
    """Floats rounded to the 256 levels between the least and the greatest of them and 0."""
    found = _all_of(e, "DynamicQuantizeLinear", [x], {})
    assert isinstance(found, tuple)
    levels, scale, zero = (Formula(e, e.convert(tensor_of(part), f32)) for part in found)
    return ((levels - zero) * scale).value


FUSED: dict[str, Rule] = {
    "BiasGelu": lambda e, call: e.add(tensor.GeluOp(e.add(tensor.AddOp(call[0], call[1])))),
    "DynamicQuantizeLSTM": _dynamic_lstm,
    "DynamicQuantizeMatMul": _dynamic_matmul,
    "EmbedLayerNormalization": _embedded,
    "FusedConv": _activated("Conv"),
    "FusedGemm": _activated("Gemm"),
    "FusedMatMul": _fused_matmul,
    "GroupNorm": _group_norm,
    "MatMulIntegerToFloat": integers_to_float,
    "QuickGelu": formula(
        lambda x, call: x * (x * call.number("alpha", 1.702)).of(tensor.SigmoidOp)
    ),
    "SkipLayerNormalization": _skipped("LayerNormalization", 4),
    "SkipSimplifiedLayerNormalization": _skipped("RMSNormalization", 3),
}
"""By the type of the operator."""
