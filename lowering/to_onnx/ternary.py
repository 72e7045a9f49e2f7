"""ONNX forms of the `ternary` dialect: products with packed weights, and trits at run time."""

from __future__ import annotations

from math import prod

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue

from ...dialects import ternary
from ...dialects.inference import tensor_type
from ...dialects.parameters import constant_value
from ...dialects.shapes import Shape, is_float
from ...dialects.ternary.linear import accumulator
from ...ir.trits import pack_trits
from ...passes.analysis.magnitude import sum_terms
from .activation import rectify
from .byte_weights import multiply_signed, of_trits
from .elementwise import clip
from .graph import DOMAIN, FOREIGN_DOMAIN, Element, element_type
from .integer import DOUBLE_EXACT, FLOAT_EXACT, exact_product
from .linear import fails_when_empty, window_attributes
from .narrow import dynamic_trits, scaled_trits
from .onnx_writer import FUNCTION_OPSET, Rule, Writer
from .quantization import Rescaling, constant_of, count_thresholds, rescale

BLOCK = 128
"""Weights that share a scale in MatMulNBits; the size measured fastest."""


def matmul(e: Writer, op: ternary.MatmulOp) -> None:
    """A product with trits."""
    out = _product(e, op.input, op.weight)
    if op.scale is not None:
        out = e.apply("Mul", [out, e.value(op.scale)])
    e.bind(op.result, out)


def linear(e: Writer, op: ternary.LinearOp) -> None:
    """A product with trits and the steps behind it."""
    scale = op.scale
    blocks = _blocks(e, op)
    rounded = dynamic_trits(e, op.input, op.weight, scale)
    if blocks is not None:
        out, scale = blocks, None
    elif rounded is not None:
        out, scale = rounded, None
    elif _is_narrow(e, op.input, op.weight):
        weight = scaled_trits(e, op.weight, scale, 1)
        out, scale = e.apply("MatMul", [e.value(op.input), weight]), None
    else:
        out = _product(e, op.input, op.weight)
    _finish(e, op, out, scale)


def _is_narrow(e: Writer, input: SSAValue, weight: SSAValue) -> bool:
    """Whether a product takes integers on both sides, once `calibrated` has seen it."""
    matrices = tensor_type(input).get_num_dims() >= 2 and tensor_type(weight).get_num_dims() >= 2
    known = e.packed(weight) is not None
    return e.precision == "int8" and matrices and known and tensor_type(input).element_type == f32


def _product(e: Writer, input: SSAValue, weight: SSAValue) -> str:
    shape = tensor_type(weight).get_shape()
    if not fails_when_empty(tensor_type(input), tensor_type(weight)):
        return _matrix_product(e, input, weight, shape)
    column = _matrix_product(e, input, weight, (*shape, 1))
    return e.node("Squeeze", [column, e.indices([-1], "axes")], e.element(column))


def _matrix_product(e: Writer, input: SSAValue, weight: SSAValue, shape: Shape) -> str:
    """The product with the trits of `weight` laid out as `shape`."""
    type = tensor_type(input)
    x = e.value(input)
    element = e.element(x)

    if is_float(type):
        wide = Element.FLOAT if element is Element.BFLOAT16 else element
        return e.cast(_float_product(e, e.cast(x, wide), weight, shape), element)
    terms = type.get_shape()[-1] if type.get_shape()[-1] > 0 else shape[0]
    bound = e.magnitudes.greatest(input)
    sums = element_type(accumulator(type))
    ranks = min(type.get_num_dims(), len(shape))
    if e.is_truth(x) and terms <= FLOAT_EXACT:
        return e.product(_float_product(e, e.cast(x, Element.FLOAT), weight, shape), sums)
    if element is Element.INT8 and ranks >= 2 and terms * 255 < 1 << 31:
        return multiply_signed(e, x, of_trits(_trits(e, weight, shape, Element.INT8)))
    for wide, limit in ((Element.FLOAT, FLOAT_EXACT), (Element.DOUBLE, DOUBLE_EXACT)):
        if terms * bound < limit:
            out = e.apply("MatMul", [e.cast(x, wide), _trits(e, weight, shape, wide)])
            out = out if terms * bound < 1 << 31 else e.cast(out, Element.INT64)
            return e.cast(out, sums)
    return e.apply("MatMul", [e.cast(x, sums), _trits(e, weight, shape, sums)])


def _float_product(e: Writer, x: str, weight: SSAValue, shape: Shape) -> str:
    """x · W in the type of x, by a model-local function where there are some."""
    element, packed = e.element(x), e.packed(weight)
    if packed is None or e.in_body or e.opset < FUNCTION_OPSET or prod(shape) % 4:
        return e.apply("MatMul", [x, _trits(e, weight, shape, element)])
    attributes = {"shape": list(shape), "to": int(element)}
    return e.call(DOMAIN, "ternary.matmul", [x, packed], element, attributes)


def _trits(e: Writer, weight: SSAValue, shape: Shape, element: Element) -> str:
    """Trits as numbers, laid out as `shape`."""
    known = e.trits(weight, element)
    return known if shape == tensor_type(weight).get_shape() else e.reshape(known, shape)


def _blocks(e: Writer, op: ternary.LinearOp) -> str | None:
    """MatMulNBits on 2-bit weights, for the form `fast`; `None` where it does not apply.

    Codes are trit + 2, the operator's default zero point. The scale goes into the blocks.
    """
    if (
        e.form != "fast"
        or tensor_type(op.input).element_type != tensor_type(op.result).element_type
    ):
        return None
    x = e.value(op.input)
    weight = op.weight.owner
    if e.element(x) is not Element.FLOAT or not isinstance(
        weight, ternary.ParameterOp | ternary.ConstantOp
    ):
        return None
    scale = np.ones((), np.float32) if op.scale is None else constant_of(op.scale)
    trits = constant_value(weight)
    if scale is None or trits is None:
        return None
    depth, width = trits.shape
    count = -(-depth // BLOCK)
    codes = np.full((width, count * BLOCK), 2, np.uint8)
    codes[:, :depth] = (trits.T + 2).astype(np.uint8)
    quads = codes.reshape(width, count, BLOCK // 4, 4)
    bytes_ = (quads << np.array([0, 2, 4, 6], np.uint8)).sum(axis=-1).astype(np.uint8)
    scales = np.broadcast_to(scale.reshape(-1, 1), (width, count)).astype(np.float32)
    name = weight.key.data if isinstance(weight, ternary.ParameterOp) else "trits"
    inputs = [
        x,
        e.constant(bytes_, f"{name}.blocks"),
        e.constant(scales.reshape(-1), f"{name}.scales"),
    ]
    attributes = {"K": depth, "N": width, "bits": 2, "block_size": BLOCK, "accuracy_level": 4}
    return e.call(FOREIGN_DOMAIN, "MatMulNBits", inputs, Element.FLOAT, attributes)


def conv(e: Writer, op: ternary.ConvOp) -> None:
    """Conv with unpacked trits and the steps behind it; on integers exactly."""
    x = e.value(op.input)
    element = e.element(x)
    window = window_attributes(op)
    if is_float(tensor_type(op.input)):
        wide = Element.FLOAT if element is Element.BFLOAT16 else element
        scale, bias = op.scale, op.bias
        if _is_narrow(e, op.input, op.weight):
            inputs, scale = [x, scaled_trits(e, op.weight, scale, 0)], None
        else:
            inputs = [e.cast(x, wide), e.trits(op.weight, wide)]
        if bias is not None and scale is None and wide is element:
            inputs.append(e.value(bias))
            bias = None
        out = e.cast(e.apply("Conv", inputs, rest=(), result=None, **window), element)
        _finish(e, op, out, scale, bias_done=op.bias is not bias)
        return
    out = exact_product(
        e,
        (x, e.magnitudes.greatest(op.input)),
        (e.trits(op.weight, Element.FLOAT), 1),
        int(np.max(sum_terms(op), initial=0)),
        element_type(accumulator(tensor_type(op.input))),
        lambda a, b: e.node("Conv", [a, b], Element.FLOAT, **window),
    )
    _finish(e, op, out, None)


def _finish(
    e: Writer, op: ternary.FusedOp, out: str, scale: SSAValue | None, *, bias_done: bool = False
) -> None:
    """The optional steps of a fused op, in its order."""
    rank = tensor_type(op.result).get_num_dims()
    axis = op.CHANNEL_AXIS
    if scale is not None:
        laid = e.along_axis(e.value(scale), tensor_type(scale).get_shape(), axis, rank)
        out = e.apply("Mul", [out, laid])
    if op.bias is not None and not bias_done:
        out = e.apply("Add", [out, e.along_axis(e.value(op.bias), (1,), axis, rank)])
    if op.activation.data == "relu":
        out = rectify(e, out)
    elif op.activation.data == "relu6":
        out = clip(e, out, 0, 6)
    if op.thresholds is not None:
        count = count_thresholds(e, out, op.thresholds, axis, rank)
        out = e.cast(count, element_type(tensor_type(op.result).element_type))
    elif op.multiplier is not None:
        assert op.shift is not None and op.zero_point is not None
        assert op.low is not None and op.high is not None
        bias = 0 if op.bias is None else e.magnitudes.greatest(op.bias)
        bound = min(e.magnitudes.accumulator(op) + bias, 1 << 31)
        low, high = op.low.value.data, op.high.value.data
        to = Rescaling(op.multiplier, op.shift, op.zero_point, low, high, axis, rank)
        out = rescale(e, out, bound, to)
    e.bind(op.result, out)


def adder_graph(e: Writer, op: ternary.AdderGraphOp) -> None:
    """A product with the matrix that the graph stands for."""
    x, matrix = e.value(op.operand), op.matrix()
    element = e.element(x)
    greatest = int(np.abs(matrix).max(initial=0))
    wide = sums = element_type(tensor_type(op.result).element_type)
    if element is Element.BFLOAT16:
        wide = Element.FLOAT
    elif not element.is_float:
        terms = e.magnitudes.greatest(op.operand) * int(np.abs(matrix).sum(axis=0).max(initial=0))
        wide = Element.FLOAT if terms <= FLOAT_EXACT else sums
    if greatest <= 1:
        weight = e.unpack(e.constant(pack_trits(matrix), f"{e.hint}.matrix"), matrix.shape, wide)
    else:
        exact = np.int32 if sums is Element.INT32 else np.int64
        stored = matrix.astype(np.int8 if greatest <= 127 else exact)
        weight = e.cast(e.constant(stored, f"{e.hint}.matrix"), wide)
    out = e.apply("MatMul", [e.cast(x, wide), weight])
    e.bind(op.result, e.cast(out, sums))


def dequantize(e: Writer, op: ternary.DequantizeOp) -> None:
    """scale·t."""
    element = element_type(tensor_type(op.result).element_type)
    packed = e.packed(op.operand) is not None
    if e.precision == "int8" and packed and element is Element.FLOAT:
        e.bind(op.result, scaled_trits(e, op.operand, op.scale, op.axis.value.data))
        return
    out = e.trits(op.operand, element)
    if op.scale is not None:
        type = tensor_type(op.operand)
        axis, rank = op.axis.value.data, type.get_num_dims()
        shape = tensor_type(op.scale).get_shape()
        out = e.apply("Mul", [out, e.along_axis(e.value(op.scale), shape, axis, rank)])
    e.bind(op.result, out)


def unpack(e: Writer, op: ternary.UnpackOp) -> None:
    """Bytes to trits. The reserved code, which ONNX cannot refuse, gives 0."""
    shape = tensor_type(op.result).get_shape()
    e.bind(op.result, e.unpack(e.value(op.operand), shape, Element.INT8))


RULES: dict[type[Operation], Rule] = {
    ternary.MatmulOp: matmul,
    ternary.LinearOp: linear,
    ternary.ConvOp: conv,
    ternary.AdderGraphOp: adder_graph,
    ternary.DequantizeOp: dequantize,
    ternary.UnpackOp: unpack,
}
