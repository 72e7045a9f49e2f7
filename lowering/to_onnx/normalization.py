"""ONNX forms of normalisation."""

from __future__ import annotations

from xdsl.ir import Operation

from ...dialects import tensor
from ...dialects.inference import tensor_type
from .graph import Element
from .onnx_writer import Rule, Writer


def batch_norm(e: Writer, op: tensor.BatchNormOp) -> None:
    """BatchNormalization with fixed statistics."""
    operands = [op.input, op.scale, op.bias, op.mean, op.variance]
    inputs = [e.value(v) for v in operands]
    e.bind(op.result, e.apply("BatchNormalization", inputs, epsilon=op.epsilon.value.data))


def layer_norm(e: Writer, op: tensor.LayerNormOp) -> None:
    """LayerNormalization, whose scale and bias have all the sizes of the axes that it covers."""
    x, rank = e.value(op.input), tensor_type(op.scale).get_num_dims()
    shape, inputs = tensor_type(op.input).get_shape()[-rank:], [x]
    for value in (op.scale, op.bias):
        if value is None:
            continue
        inputs.append(e.value(value))
        if tensor_type(value).get_shape() != shape:
            sizes = e.node("Shape", [x], Element.INT64, start=-rank)
            inputs[-1] = e.apply("Expand", inputs[-1:], rest=[sizes])
    epsilon = op.epsilon.value.data
    e.bind(op.result, e.apply("LayerNormalization", inputs, axis=-rank, epsilon=epsilon))


RULES: dict[type[Operation], Rule] = {
    tensor.BatchNormOp: batch_norm,
    tensor.LayerNormOp: layer_norm,
}
