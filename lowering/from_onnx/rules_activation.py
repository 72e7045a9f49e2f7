"""ONNX import of activations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from xdsl.dialects.builtin import f64
from xdsl.ir import Operation, SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.shapes import is_float
from ...dialects.tensor.activation import SELU
from ...dialects.tensor.formula import Formula
from .onnx_builder import Builder, Call, Rule
from .rules_elementwise import RULES as ELEMENTWISE
from .rules_shape import counted
from .sizes import product, static


def formula(function: Callable[[Formula, Call], Formula]) -> Rule:
    """A rule for a formula of the first operand."""
    return lambda e, call: function(Formula(e, call[0]), call).value


def _shrink(x: Formula, call: Call) -> Formula:
    bound, bias = call.number("lambd", 0.5), call.number("bias", 0.0)
    return (x > bound).choose(x - bias, (x < -bound).choose(x + bias, 0))


def _swish(x: Formula, call: Call) -> Formula:
    alpha = call.number("alpha", 1.0)
    if alpha == 1.0:
        return x.of(tensor.SiluOp)
    return x * (x * alpha).of(tensor.SigmoidOp)


def _with_alpha(kind: Callable[..., Operation], *defaults: float) -> Rule:
    """A rule for an op with the attributes `alpha` and, with two defaults, `beta`."""
    names = ("alpha", "beta")[: len(defaults)]

    def rule(e: Builder, call: Call) -> SSAValue:
        numbers = [call.number(name, value) for name, value in zip(names, defaults, strict=True)]
        return e.add(kind(call[0], *numbers))

    return rule


def _selu(e: Builder, call: Call) -> SSAValue:
    factors = call.number("alpha", SELU[0]), call.number("gamma", SELU[1])
    double = tensor_type(call[0]).element_type == f64  # which tells the defaults from SELU
    if factors == tuple(np.array(SELU, np.float32).tolist()) and not double:
        return e.add(tensor.SeluOp(call[0]))
    return (Formula(e, call[0]).of(tensor.EluOp, alpha=factors[0]) * factors[1]).value


def _prelu(e: Builder, call: Call) -> SSAValue:
    x, slope = call[0], call[1]
    if call.opset < 7 and e.rank(slope) == 1 and e.sizes(slope) != (1,):
        slope = e.along(slope, 1, e.rank(x))
    if is_float(tensor_type(x)):
        return e.add(tensor.PreluOp(x, slope))
    below = Formula(e, x) < 0
    return below.choose(Formula(e, x) * Formula(e, slope), Formula(e, x)).value


def _gelu(e: Builder, call: Call) -> SSAValue:
    approximate = call.text("approximate", "none")
    return e.add(tensor.GeluOp(call[0], "tanh" if approximate == "tanh" else "exact"))


def along_axis(function: Callable[[Builder, SSAValue, int], SSAValue]) -> Rule:
    """A rule for what works along an axis; up to opset 12 along all axes from that one on."""

    def rule(e: Builder, call: Call) -> SSAValue:
        x, rank = call[0], max(e.rank(call[0]), 1)
        axis, sizes = call.integer("axis", -1 if call.opset >= 13 else 1) % rank, e.sizes(x)
        if call.opset >= 13 or axis == rank - 1:
            return function(e, x, axis)
        flat = e.reshape(x, (*sizes[:axis], product(sizes[axis:])))
        return e.reshape(function(e, flat, axis), sizes)

    return rule


def _hardmax(e: Builder, x: SSAValue, axis: int) -> SSAValue:
    first = e.add(tensor.ArgmaxOp(x, axis, keepdims=True))
    (size,) = static([e.sizes(x)[axis]], "size")
    places = e.along(e.indices(counted(size)), axis, e.rank(x))
    return e.convert(e.add(tensor.CompareOp(first, places, "eq")), x)


RULES: dict[str, Rule] = {
    **{
        name: ELEMENTWISE[name]
        for name in ("HardSwish", "Mish", "Sigmoid", "Softplus", "Softsign", "Tanh")
    },
    "Celu": _with_alpha(tensor.CeluOp, 1.0),
    "Elu": _with_alpha(tensor.EluOp, 1.0),
    "Gelu": _gelu,
    "HardSigmoid": _with_alpha(tensor.HardSigmoidOp, 0.2, 0.5),
    "Hardmax": along_axis(_hardmax),
    "LeakyRelu": _with_alpha(tensor.LeakyReluOp, 0.01),
    "LogSoftmax": along_axis(lambda e, x, axis: e.add(tensor.LogSoftmaxOp(x, axis))),
    "PRelu": _prelu,
    "Relu": lambda e, call: e.add(tensor.ReluOp(call[0])),
    "Selu": _selu,
    "Shrink": formula(_shrink),
    "Softmax": along_axis(lambda e, x, axis: e.add(tensor.SoftmaxOp(x, axis))),
    "Swish": formula(_swish),
    "ThresholdedRelu": _with_alpha(tensor.ThresholdedReluOp, 1.0),
}
"""By the type of the operator."""
