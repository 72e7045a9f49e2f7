"""ONNX forms of activation functions."""

from __future__ import annotations

from math import pi, sqrt

from xdsl.ir import Operation

from ...dialects import tensor
from .elementwise import choose, clip, extreme
from .emitter import Emitter, Rule
from .graph import Element


def relu(e: Emitter, op: tensor.ReluOp) -> None:
    """max(x, 0)."""
    e.bind(op.result, rectify(e, e.value(op.operand)))


def rectify(e: Emitter, name: str) -> str:
    """max(x, 0) in any element type; Relu is for floats alone before opset 14.

    ONNX Runtime joins Relu and Clip, and refuses models where they are of float64.
    """
    element = e.element(name)
    if element.is_float and element is not Element.DOUBLE:
        return e.apply("Relu", [name])
    return extreme(e, "Max", name, e.scalar(0, element))


def relu6(e: Emitter, op: tensor.Relu6Op) -> None:
    """min(max(x, 0), 6)."""
    e.bind(op.result, clip(e, e.value(op.operand), 0, 6))


def hard_tanh(e: Emitter, op: tensor.HardTanhOp) -> None:
    """min(max(x, -1), 1)."""
    e.bind(op.result, clip(e, e.value(op.operand), -1, 1))


def leaky_relu(e: Emitter, op: tensor.LeakyReluOp) -> None:
    """x where x ≥ 0, else alpha·x; float64 has no kernel and is written out."""
    x, alpha = e.value(op.operand), op.alpha.value.data
    if e.element(x) is not Element.DOUBLE:
        e.bind(op.result, e.apply("LeakyRelu", [x], alpha=alpha))
        return
    negative = e.apply("Mul", [x, e.scalar(alpha, Element.DOUBLE)])
    below = e.apply("Less", [x, e.scalar(0, Element.DOUBLE)], result=Element.BOOL)
    e.bind(op.result, choose(e, below, negative, x))


def gelu(e: Emitter, op: tensor.GeluOp) -> None:
    """Gelu from opset 20 on, written out before that and for float64."""
    x, form = e.value(op.operand), op.approximate.data
    element = e.element(x)
    if e.opset >= 20 and element is not Element.DOUBLE:
        approximate = "tanh" if form == "tanh" else "none"
        e.bind(op.result, e.apply("Gelu", [x], approximate=approximate))
        return
    wide = Element.DOUBLE if element is Element.DOUBLE else Element.FLOAT
    y = e.cast(x, wide)
    if form == "tanh":
        cube = e.apply("Mul", [e.apply("Mul", [y, y]), y])
        inner = e.apply("Add", [y, e.apply("Mul", [cube, e.scalar(0.044715, wide)])])
        curve = e.apply("Tanh", [e.apply("Mul", [inner, e.scalar(sqrt(2 / pi), wide)])])
    else:
        curve = e.apply("Erf", [e.apply("Mul", [y, e.scalar(sqrt(0.5), wide)])])
    factor = e.apply("Add", [curve, e.scalar(1, wide)])
    half = e.apply("Mul", [y, e.scalar(0.5, wide)])
    e.bind(op.result, e.cast(e.apply("Mul", [half, factor]), element))


def silu(e: Emitter, op: tensor.SiluOp) -> None:
    """x·sigmoid(x)."""
    x = e.value(op.operand)
    e.bind(op.result, e.apply("Mul", [x, e.apply("Sigmoid", [x])]))


def hard_swish(e: Emitter, op: tensor.HardSwishOp) -> None:
    """HardSwish from opset 14 on, written out before that and for float64."""
    x = e.value(op.operand)
    element = e.element(x)
    if e.opset >= 14 and element is not Element.DOUBLE:
        e.bind(op.result, e.apply("HardSwish", [x]))
        return
    wide = Element.FLOAT if element is Element.BFLOAT16 else element
    y = e.cast(x, wide)
    gate = clip(e, e.apply("Add", [y, e.scalar(3, wide)]), 0, 6)
    product = e.apply("Div", [e.apply("Mul", [y, gate]), e.scalar(6, wide)])
    e.bind(op.result, e.cast(product, element))


def softmax(e: Emitter, op: tensor.SoftmaxOp) -> None:
    """Softmax along one axis."""
    e.bind(op.result, e.apply("Softmax", [e.value(op.operand)], axis=op.axis.value.data))


def log_softmax(e: Emitter, op: tensor.LogSoftmaxOp) -> None:
    """Logarithm of softmax along one axis."""
    e.bind(op.result, e.apply("LogSoftmax", [e.value(op.operand)], axis=op.axis.value.data))


RULES: dict[type[Operation], Rule] = {
    tensor.ReluOp: relu,
    tensor.Relu6Op: relu6,
    tensor.HardTanhOp: hard_tanh,
    tensor.LeakyReluOp: leaky_relu,
    tensor.GeluOp: gelu,
    tensor.SiluOp: silu,
    tensor.HardSwishOp: hard_swish,
    tensor.SoftmaxOp: softmax,
    tensor.LogSoftmaxOp: log_softmax,
}
