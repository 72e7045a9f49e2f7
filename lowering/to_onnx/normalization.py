"""ONNX forms of normalisation."""

from __future__ import annotations

from xdsl.ir import Operation

from ...dialects import tensor
from ...dialects.inference import tensor_type
from .graph import Element
from .onnx_writer import Rule, Writer
from .reduction import reduce_axes


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
    """LayerNormalization from opset 17 on where the scale has the full shape, else written out."""
    inputs = [e.value(v) for v in (op.input, op.scale, op.bias) if v is not None]
    covered = tensor_type(op.scale).get_shape()
    rank = len(covered)
    full = all(
        tensor_type(v).get_shape() == tensor_type(op.input).get_shape()[-rank:]
        for v in (op.scale, op.bias)
        if v is not None
    )
    epsilon = op.epsilon.value.data
    if e.opset >= 17 and full and e.element(inputs[0]) is not Element.DOUBLE:
        e.bind(op.result, e.apply("LayerNormalization", inputs, axis=-rank, epsilon=epsilon))
        return
    element = e.element(inputs[0])
    x, *rest = (e.cast(name, _wide(element)) for name in inputs)
    depth = tensor_type(op.input).get_num_dims()
    axes = list(range(depth - rank, depth))
    centred = e.apply("Sub", [x, reduce_axes(e, "ReduceMean", x, axes, True)])
    out = _over_rms(e, centred, axes, epsilon)
    out = e.apply("Mul", [out, rest[0]])
    if op.bias is not None:
        out = e.apply("Add", [out, rest[1]])
    e.bind(op.result, e.cast(out, element))


def rms_norm(e: Writer, op: tensor.RmsNormOp) -> None:
    """x/√(mean(x²) + ε)·scale."""
    element = e.element(e.value(op.input))
    x, scale = (e.cast(e.value(v), _wide(element)) for v in (op.input, op.scale))
    depth = tensor_type(op.input).get_num_dims()
    axes = list(range(depth - tensor_type(op.scale).get_num_dims(), depth))
    out = _over_rms(e, x, axes, op.epsilon.value.data)
    e.bind(op.result, e.cast(e.apply("Mul", [out, scale]), element))


def _wide(element: Element) -> Element:
    """Half precision is too narrow for sums of squares."""
    return Element.DOUBLE if element is Element.DOUBLE else Element.FLOAT


def _over_rms(e: Writer, x: str, axes: list[int], epsilon: float) -> str:
    square = reduce_axes(e, "ReduceMean", e.apply("Mul", [x, x]), axes, True)
    root = e.apply("Sqrt", [e.apply("Add", [square, e.scalar(epsilon, e.element(x))])])
    return e.apply("Div", [x, root])


RULES: dict[type[Operation], Rule] = {
    tensor.BatchNormOp: batch_norm,
    tensor.LayerNormOp: layer_norm,
    tensor.RmsNormOp: rms_norm,
}
