"""ONNX forms of activation functions."""

from __future__ import annotations

from xdsl.ir import Operation

from ...dialects import tensor
from .elementwise import clip, extreme
from .graph import Element
from .onnx_writer import Rule, Writer, result_of

_GELU = {"exact": "none", "tanh": "tanh"}
"""What ONNX calls the forms of GELU."""


def rectify(e: Writer, name: str) -> str:
    """max(x, 0) in any element type; Relu is for floats alone before opset 14.

    ONNX Runtime joins Relu and Clip, and refuses models where they are of float64.
    """
    element = e.element(name)
    if element.is_float and element is not Element.DOUBLE:
        return e.apply("Relu", [name])
    return extreme(e, "Max", name, e.scalar(0, element))


RULES: dict[type[Operation], Rule] = {
    tensor.ReluOp: result_of(lambda e, op: rectify(e, e.value(op.operand))),
    tensor.Relu6Op: result_of(lambda e, op: clip(e, e.value(op.operand), 0, 6)),
    tensor.GeluOp: result_of(
        lambda e, op: e.apply("Gelu", [e.value(op.operand)], approximate=_GELU[op.approximate.data])
    ),
    tensor.SoftmaxOp: result_of(
        lambda e, op: e.apply("Softmax", [e.value(op.operand)], axis=op.axis.value.data)
    ),
    tensor.LogSoftmaxOp: result_of(
        lambda e, op: e.apply("LogSoftmax", [e.value(op.operand)], axis=op.axis.value.data)
    ),
}
