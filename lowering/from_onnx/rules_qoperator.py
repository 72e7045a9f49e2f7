"""ONNX import of ONNX Runtime's operators on quantised tensors, by those of the standard.

Each tensor comes with a scale and a zero point. The numbers it stands for go through the operator
of the standard, and the result is quantised. Not here: products (`rules_linear`, `rules_window`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from ...dialects import tensor
from .calls import Value, tensor_of
from .onnx_builder import Builder, Call, Rule
from .rules_activation import RULES as ACTIVATIONS
from .rules_elementwise import RULES as ELEMENTWISE
from .rules_linear import centred, integer_matmul
from .rules_pooling import RULES as POOLING
from .rules_quantization import RULES as QUANTIZATION
from .rules_quantization import quantized, requantized
from .rules_reduction import RULES as REDUCTION


def _real(e: Builder, call: Call, first: int) -> SSAValue:
    """The numbers that a tensor, its scale and its zero point stand for."""
    inputs = [*call.inputs[first : first + 3]]
    return tensor_of(
        QUANTIZATION["DequantizeLinear"](e, Call("DequantizeLinear", "", 21, inputs, {}))
    )


def _levels(e: Builder, call: Call, first: int, x: SSAValue, like: SSAValue) -> SSAValue:
    """x at the scale and zero point of two inputs; without a zero point 0 of the type of `like`."""
    zero = call.optional(first + 1)
    return quantized(e, x, call[first], e.number(0, like) if zero is None else zero)


def _between(op: str, rules: dict[str, Rule], tensors: Sequence[int], end: int) -> Rule:
    """The operator `op` on tensors at these inputs, which three inputs state each.

    The scale of the result is the input `end`; inputs before the first tensor stay.
    """

    def rule(e: Builder, call: Call) -> SSAValue:
        inputs: list[Value] = [*call.inputs[: tensors[0]]]
        inputs += [_real(e, call, first) for first in tensors]
        version = call.integer("opset", 21)
        here = replace(call, op=op, domain="", opset=version, inputs=inputs)
        real = tensor_of(rules[op](e, here))
        return _levels(e, call, end, real, call[tensors[0]])

    return rule


def _concatenated(e: Builder, call: Call) -> SSAValue:
    parts = [_real(e, call, first) for first in range(2, len(call.inputs), 3)]
    joined = e.add(tensor.ConcatenateOp(parts, call.integer("axis", 1) % e.rank(parts[0])))
    return _levels(e, call, 0, joined, call[2])


def channels_last(rule: Rule, moved: int = 1) -> Rule:
    """A rule whose first inputs and result have their channels behind all other axes."""

    def turned(e: Builder, call: Call) -> SSAValue:
        inputs = [*call.inputs]
        for index in range(moved):
            inputs[index] = e.move_axis(call[index], -1, 1)
        return e.move_axis(tensor_of(rule(e, replace(call, inputs=inputs))), 1, -1)

    return turned


def _pool(op: str, rules: dict[str, Rule]) -> Rule:
    first = _between(op, rules, (0,), 3)
    last = channels_last(first)
    return lambda e, call: (last if call.flag("channels_last", False) else first)(e, call)


def _qgemm(e: Builder, call: Call) -> SSAValue:
    """alpha·A·B + C of integers; without a scale of the result, floats."""
    turned = [
        e.permute(call[index], [1, 0]) if call.flag(name, False) else call[index]
        for index, name in ((0, "transA"), (3, "transB"))
    ]
    sums = integer_matmul(
        e, centred(e, turned[0], call.optional(2), -2), centred(e, turned[1], call.optional(5), -1)
    )
    if call.has(6):
        sums = e.add(tensor.AddOp(sums, call[6]))
    scales = [e.number(call.number("alpha", 1.0), f32), call[1], call[4]]
    if call.has(7):
        zero = call.optional(8)
        zero = e.number(0, call[0]) if zero is None else zero
        return requantized(e, sums, scales, call[7], zero)
    result = e.convert(sums, f32)
    for scale in scales:
        result = e.add(tensor.MulOp(result, scale))
    return result


QOPERATORS: dict[str, Rule] = {
    "DequantizeLinear": QUANTIZATION["DequantizeLinear"],
    "QGemm": _qgemm,
    "QLinearAdd": _between("Add", ELEMENTWISE, (0, 3), 6),
    "QLinearAveragePool": _pool("AveragePool", POOLING),
    "QLinearConcat": _concatenated,
    "QLinearGlobalAveragePool": _pool("GlobalAveragePool", REDUCTION),
    "QLinearLeakyRelu": _between("LeakyRelu", ACTIVATIONS, (0,), 3),
    "QLinearMul": _between("Mul", ELEMENTWISE, (0, 3), 6),
    "QLinearReduceMean": _between("ReduceMean", REDUCTION, (0,), 3),
    "QLinearSigmoid": _between("Sigmoid", ACTIVATIONS, (0,), 3),
    "QLinearSoftmax": _between("Softmax", ACTIVATIONS, (0,), 3),
    "QLinearWhere": _between("Where", ELEMENTWISE, (1, 4), 7),
    "QuantizeLinear": QUANTIZATION["QuantizeLinear"],
}
"""By the type of the operator; quantising itself is as in the standard."""
