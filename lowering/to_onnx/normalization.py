"""ONNX forms of normalisation."""

from __future__ import annotations

from xdsl.ir import Operation

from ...dialects import tensor
from ...dialects.inference import tensor_type
from .graph import Element
from .onnx_writer import Rule, Writer


def batch_norm(e: Writer, op: tensor.BatchNormOp) -> None:
    """BatchNormalization with fixed statistics; written out for float64, since its ε is float32."""
    operands = [op.input, op.scale, op.bias, op.mean, op.variance]
    inputs = [e.value(v) for v in operands]
    if e.element(inputs[0]) is Element.DOUBLE:
        rank = tensor_type(op.input).get_num_dims()
        scale, bias, mean, variance = (e.along_axis(v, (1,), 1, rank) for v in inputs[1:])
        epsilon = e.scalar(op.epsilon.value.data, Element.DOUBLE)
        root = e.apply("Sqrt", [e.apply("Add", [variance, epsilon])])
        out = e.apply("Div", [e.apply("Sub", [inputs[0], mean]), root])
        e.bind(op.result, e.apply("Add", [e.apply("Mul", [out, scale]), bias]))
        return
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
