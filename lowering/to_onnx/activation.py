"""ONNX forms of activation functions."""

from __future__ import annotations

from xdsl.ir import Operation

from ...dialects import tensor
from .elementwise import clip, extreme
from .graph import Element
from .onnx_writer import Rule, Writer


def relu(e: Writer, op: tensor.ReluOp) -> None:
    """max(x, 0)."""
    e.bind(op.result, rectify(e, e.value(op.operand)))


def rectify(e: Writer, name: str) -> str:
    """max(x, 0) in any element type; Relu is for floats alone before opset 14.

    ONNX Runtime joins Relu and Clip, and refuses models where they are of float64.
    """
    element = e.element(name)
    if element.is_float and element is not Element.DOUBLE:
        return e.apply("Relu", [name])
    return extreme(e, "Max", name, e.scalar(0, element))


def relu6(e: Writer, op: tensor.Relu6Op) -> None:
    """min(max(x, 0), 6)."""
    e.bind(op.result, clip(e, e.value(op.operand), 0, 6))


def gelu(e: Writer, op: tensor.GeluOp) -> None:
    """Gelu, whose form is a word, and which ONNX names otherwise."""
    approximate = "tanh" if op.approximate.data == "tanh" else "none"
    e.bind(op.result, e.apply("Gelu", [e.value(op.operand)], approximate=approximate))


def softmax(e: Writer, op: tensor.SoftmaxOp) -> None:
    """Softmax along one axis."""
    e.bind(op.result, e.apply("Softmax", [e.value(op.operand)], axis=op.axis.value.data))


def log_softmax(e: Writer, op: tensor.LogSoftmaxOp) -> None:
    """Logarithm of softmax along one axis."""
    e.bind(op.result, e.apply("LogSoftmax", [e.value(op.operand)], axis=op.axis.value.data))


RULES: dict[type[Operation], Rule] = {
    tensor.ReluOp: relu,
    tensor.Relu6Op: relu6,
    tensor.GeluOp: gelu,
    tensor.SoftmaxOp: softmax,
    tensor.LogSoftmaxOp: log_softmax,
}
