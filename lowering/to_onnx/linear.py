"""ONNX forms of the dense products: matmul, linear, conv, einsum and attention."""

from __future__ import annotations

from math import prod

import numpy as np
from xdsl.ir import Operation

from ...dialects import tensor, ternary
from ...dialects.inference import tensor_type
from ...dialects.shapes import DYNAMIC, AnyTensor, is_float
from .elementwise import choose
from .graph import Attributes, Element
from .integer import FLOAT_EXACT, exact_product
from .narrow import byte_product, dynamic_product
from .onnx_writer import Rule, Writer, result_of
from .shape import arange
from .tables import table_product


def matmul(e: Writer, op: tensor.MatmulOp) -> None:
    """MatMul; integers wrap around in their own type."""
    product = dynamic_product(e, op.lhs, op.rhs) or table_product(e, op.lhs, op.rhs)
    product = product or byte_product(e, op.lhs, op.rhs)
    if product is not None:
        e.bind(op.result, product)
        return
    lhs, rhs = e.value(op.lhs), e.value(op.rhs)
    if not e.element(lhs).is_float:
        most = 1 if e.is_truth(lhs) else e.magnitudes.greatest(op.lhs)
        terms = tensor_type(op.lhs).get_shape()[-1]
        # Exact, on a kernel that takes a tenth of the time.
        if 0 <= terms * most * e.magnitudes.greatest(op.rhs) <= FLOAT_EXACT:
            floats = [e.cast(lhs, Element.FLOAT), e.cast(rhs, Element.FLOAT)]
            e.bind(op.result, e.product(e.apply("MatMul", floats), e.element(lhs)))
            return
    if not fails_when_empty(tensor_type(op.lhs), tensor_type(op.rhs)):
        e.bind(op.result, e.apply("MatMul", [lhs, rhs]))
        return
    column = e.apply("MatMul", [lhs, e.unsqueeze(rhs, [1])])
    e.bind(op.result, e.node("Squeeze", [column, e.indices([-1], "axes")], e.element(column)))


def fails_when_empty(matrices: AnyTensor, vector: AnyTensor) -> bool:
    """Whether ONNX Runtime refuses the product for an empty batch: matrices times a vector."""
    return vector.get_num_dims() == 1 and DYNAMIC in matrices.get_shape()[:-1]


def linear(e: Writer, op: tensor.LinearOp) -> None:
    """MatMul and Add; Gemm between pairs, which ONNX Runtime joins with the bias."""
    if e.keeps_pairs and op.bias is not None and tensor_type(op.input).get_num_dims() == 2:
        inputs = [e.value(v) for v in (op.input, op.weight, op.bias)]
        e.bind(op.result, e.node("Gemm", inputs, e.element(inputs[0])))
        return
    out = dynamic_product(e, op.input, op.weight) or byte_product(e, op.input, op.weight)
    out = out or e.apply("MatMul", [e.value(op.input), e.value(op.weight)])
    if op.bias is not None:
        out = e.apply("Add", [out, e.value(op.bias)])
    e.bind(op.result, out)


def conv(e: Writer, op: tensor.ConvOp) -> None:
    """Conv; on integers exactly, by pieces that float32 holds."""
    x, w = e.value(op.input), e.value(op.weight)
    window = window_attributes(op)
    if is_float(tensor_type(op.input)):
        inputs = [x, w] if op.bias is None else [x, w, e.value(op.bias)]
        e.bind(op.result, e.apply("Conv", inputs, rest=(), result=None, **window))
        return
    element = e.element(x)
    accumulator = Element.INT64 if element.dtype.itemsize == 8 else Element.INT32
    out = exact_product(
        e,
        (x, e.magnitudes.greatest(op.input)),
        (w, e.magnitudes.greatest(op.weight)),
        prod(tensor_type(op.weight).get_shape()[1:]),
        accumulator,
        lambda a, b: e.node("Conv", [a, b], Element.FLOAT, **window),
    )
    if op.bias is not None:
        bias = e.cast(e.value(op.bias), accumulator)
        rank = tensor_type(op.input).get_num_dims()
        out = e.apply("Add", [out, e.along_axis(bias, (1,), 1, rank)])
    e.bind(op.result, e.cast(out, element))


def window_attributes(op: tensor.ConvOp | ternary.ConvOp) -> Attributes:
    """The attributes of Conv; pads stand in the same order."""
    return {
        "strides": op.strides.get_values(),
        "pads": op.padding.get_values(),
        "dilations": op.dilation.get_values(),
        "group": op.groups.value.data,
    }


def pool_attributes(
    op: tensor.MaxPoolOp | tensor.AvgPoolOp,
) -> Attributes:
    """The attributes of a pool; of means, whether pads count too."""
    attributes: Attributes = {
        "kernel_shape": op.kernel.get_values(),
        "strides": op.strides.get_values(),
        "pads": op.padding.get_values(),
    }
    if isinstance(op, tensor.AvgPoolOp):
        attributes["count_include_pad"] = int(bool(op.count_include_pad.value.data))
    return attributes


def scaled_dot_product_attention(e: Writer, op: tensor.ScaledDotProductAttentionOp) -> None:
    """Written out: the operator Attention came with opset 23 alone."""
    result = e.element(e.value(op.query))
    wide = Element.DOUBLE if result is Element.DOUBLE else Element.FLOAT
    query, key, value = (e.cast(e.value(v), wide) for v in (op.query, op.key, op.value))
    key_type = tensor_type(op.key)
    rank = key_type.get_num_dims()
    perm = [*range(rank - 2), rank - 1, rank - 2]
    scores = e.apply("MatMul", [query, e.apply("Transpose", [key], perm=perm)])
    scores = e.apply("Mul", [scores, _attention_scale(e, op, query, wide)])
    if op.mask is not None:
        mask = e.value(op.mask)
        if e.element(mask) is Element.BOOL:
            scores = choose(e, mask, scores, e.scalar(-np.inf, wide))
        else:
            scores = e.apply("Add", [scores, e.cast(mask, wide)])
    if op.is_causal.value.data:
        q_shape, k_shape = tensor_type(op.query).get_shape(), key_type.get_shape()
        rows = arange(e, e.dimension(query, len(q_shape) - 2, q_shape[-2]))
        columns = arange(e, e.dimension(key, rank - 2, k_shape[-2]))
        inputs = [columns, e.unsqueeze(rows, [1])]
        seen = e.node("LessOrEqual", inputs, Element.BOOL)
        scores = choose(e, seen, scores, e.scalar(-np.inf, wide))
    weights = e.apply("Softmax", [scores], axis=-1)
    e.bind(op.result, e.cast(e.apply("MatMul", [weights, value]), result))


def _attention_scale(
    e: Writer, op: tensor.ScaledDotProductAttentionOp, query: str, wide: Element
) -> str:
    shape = tensor_type(op.query).get_shape()
    if op.scale is not None:
        return e.scalar(op.scale.value.data, wide)
    if shape[-1] > 0:
        return e.scalar(shape[-1] ** -0.5, wide)
    size = e.cast(e.dimension(query, len(shape) - 1, shape[-1]), wide)
    return e.apply("Reciprocal", [e.apply("Sqrt", [size])])


RULES: dict[type[Operation], Rule] = {
    tensor.MatmulOp: matmul,
    tensor.LinearOp: linear,
    tensor.ConvOp: conv,
    tensor.EinsumOp: result_of(
        lambda e, op: e.apply("Einsum", [e.value(v) for v in op.inputs], equation=op.equation.data)
    ),
    tensor.ScaledDotProductAttentionOp: scaled_dot_product_attention,
}
