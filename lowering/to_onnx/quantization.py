"""ONNX forms of quantisation. Integer results are exact.

DequantizeLinear stands in programs that came with it (`pairs`), and where results leave: before
operators it lets ONNX Runtime move products into 8-bit arithmetic, which changes results.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import i8
from xdsl.ir import Operation, SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.parameters import constant_value
from ...dialects.shapes import axes_behind
from . import pairs
from .byte_levels import centred, signed
from .byte_means import byte_mean, float_mean
from .byte_pairs import byte_sum, byte_times, float_sum
from .byte_products import byte_product, float_matmul, float_product
from .byte_steps import within
from .byte_weights import SHIFT
from .elementwise import clip
from .graph import Array, Element, element_type
from .integer import DOUBLE_EXACT, FLOAT_EXACT
from .onnx_writer import Rule, Writer


def constant_of(value: SSAValue) -> Array | None:
    """The values of an operand that is a parameter or a constant."""
    return constant_value(value.owner) if isinstance(value.owner, Operation) else None


def quantize(e: Writer, op: tensor.QuantizeOp) -> None:
    """QuantizeLinear over the whole range of 8 or 16 bits, else written out."""
    forms = (pairs.write_levels, float_product, float_matmul, float_mean, byte_times, float_sum)
    if any(write(e, op) for write in forms):
        return
    element = element_type(tensor_type(op.result).element_type)
    low, high = op.low.value.data, op.high.value.data
    x, scale, zero = e.value(op.input), e.value(op.scale), e.value(op.zero_point)
    scale_shape, zero_shape = (tensor_type(v).get_shape() for v in (op.scale, op.zero_point))
    axis, rank = op.axis.value.data, tensor_type(op.input).get_num_dims()
    native = element is Element.INT8 or (element is Element.INT16 and e.opset >= 21)
    info = np.iinfo(element.dtype)
    point, joined = constant_of(op.zero_point), e.joined.get(op.input)
    levels = ""
    if element is Element.INT8 and not (scale_shape or zero_shape) and point is not None:
        moved = e.constant((point.astype(np.int16) + SHIFT).astype(np.uint8), "zero_point")
        levels = e.node("QuantizeLinear", [joined or x, scale, moved], Element.UINT8)
        levels = within(e, levels, (low, high))
    whole = native and scale_shape == zero_shape and (low, high) == (info.min, info.max)
    if whole and not (levels and joined):
        attributes = {"axis": axis} if scale_shape else {}
        inputs = [x, scale, zero]
        made = e.call("", "QuantizeLinear", inputs, element, attributes)
        e.unsigned.update({made: levels} if levels else {})
        e.bind(op.result, made)
        return
    if levels:
        e.bind(op.result, signed(e, levels))
        return
    out = e.apply("Div", [x, e.along_axis(scale, scale_shape, axis, rank)])
    shift = e.along_axis(e.cast(zero, Element.FLOAT), zero_shape, axis, rank)
    out = e.apply("Add", [e.apply("Round", [out]), shift])
    wide = Element.FLOAT if max(-low, high) <= FLOAT_EXACT else Element.DOUBLE
    out = e.cast(out, wide)
    out = e.node("Clip", [out, e.scalar(low, wide), e.scalar(high, wide)], wide)
    e.bind(op.result, e.cast(out, element))


def dequantize(e: Writer, op: tensor.DequantizeOp) -> None:
    """The difference in a type that holds it, then one product in float32."""
    if pairs.write_floats(e, op) or _left(e, op):
        return
    x, zero = e.value(op.input), e.value(op.zero_point)
    axis, rank = op.axis.value.data, tensor_type(op.input).get_num_dims()
    wide = Element.FLOAT if e.element(x) in (Element.INT8, Element.INT16) else Element.INT64
    known = constant_of(op.zero_point)
    if known is not None and known.size == 1 and x in e.unsigned:
        x = centred(e, x, int(known.reshape(-1)[0]))
    elif known is None or known.any():
        shift = e.cast(zero, wide)
        shift = e.along_axis(shift, tensor_type(op.zero_point).get_shape(), axis, rank)
        x = e.apply("Sub", [e.cast(x, wide), shift])
    scale = e.along_axis(e.value(op.scale), tensor_type(op.scale).get_shape(), axis, rank)
    e.bind(op.result, e.apply("Mul", [e.cast(x, Element.FLOAT), scale]))


def _left(e: Writer, op: tensor.DequantizeOp) -> bool:
    """Write a DequantizeLinear of bytes that nothing but the caller reads; whether it was one."""
    types = [tensor_type(value) for value in op.operands]
    one_scale = types[0].element_type == i8 == types[2].element_type and not (
        types[1].get_shape() or types[2].get_shape()
    )
    read = any(not isinstance(use.operation, func.ReturnOp) for use in op.result.uses)
    if read or not one_scale:
        return False
    inputs, zero = [e.value(value) for value in op.operands], constant_of(op.zero_point)
    if zero is not None and inputs[0] in e.unsigned:
        inputs[0] = e.unsigned[inputs[0]]
        inputs[2] = e.constant((zero.astype(np.int16) + SHIFT).astype(np.uint8), "zero_point")
    e.bind(op.result, e.call("", "DequantizeLinear", inputs, Element.FLOAT, {}))
    return True


@dataclass(frozen=True)
class Rescaling:
    """The operands and bounds of an integer rescaling, as `tensor.requantize` has them."""

    multiplier: SSAValue
    shift: SSAValue
    zero_point: SSAValue
    low: int
    high: int
    axis: int
    rank: int


def requantize(e: Writer, op: tensor.RequantizeOp) -> None:
    """QLinearConv with the product before it, else see `rescale`."""
    if byte_product(e, op) or byte_sum(e, op) or byte_mean(e, op):
        return
    rescaling = Rescaling(
        op.multiplier,
        op.shift,
        op.zero_point,
        op.low.value.data,
        op.high.value.data,
        op.axis.value.data,
        tensor_type(op.input).get_num_dims(),
    )
    e.bind(op.result, rescale(e, e.value(op.input), e.magnitudes.greatest(op.input), rescaling))


def rescale(e: Writer, x: str, bound: int, to: Rescaling) -> str:
    """clamp(⌊(x·m + 2^(s-1))/2^s⌋ + z, low, high) for int32 x with |x| ≤ `bound`, exactly.

    In float64 where multiplier and shift are known and |x·m| + 2^(s-1) stays below 2^53: then each
    step is exact, because every value is an integer of 53 bits times 2^-s. Else in int64, where
    |x·m| + 2^(s-1) ≤ 2^62 + 2^61 does not overflow; the remainder of ONNX is floored, so that
    subtracting it leaves a multiple of 2^s.
    """
    element = element_type(tensor_type(to.zero_point).element_type)
    multiplier, shift = constant_of(to.multiplier), constant_of(to.shift)
    if multiplier is not None and shift is not None:
        m, s = np.broadcast_arrays(multiplier.astype(object), shift.astype(object))
        pairs = zip(m.flat, s.flat, strict=True)
        reach = max((abs(a) * bound + (1 << b - 1) for a, b in pairs), default=0)
        if reach < DOUBLE_EXACT:
            factor = np.ldexp(m.astype(np.float64), -s.astype(np.int64))
            return _rescale_double(e, x, factor, to, element)
    wide = Element.INT64

    def lay(value: SSAValue, name: str) -> str:
        return e.along_axis(name, tensor_type(value).get_shape(), to.axis, to.rank)

    unsigned_one = e.constant(np.array(1, np.uint64), "uint64_1")
    before = e.apply("Sub", [e.cast(e.value(to.shift), wide), e.scalar(1, wide)])
    half = e.node(
        "BitShift",
        [unsigned_one, e.cast(before, Element.UINT64)],
        Element.UINT64,
        direction="LEFT",
    )
    half = lay(to.shift, e.cast(half, wide))
    whole = e.apply("Add", [half, half])
    factor = lay(to.multiplier, e.cast(e.value(to.multiplier), wide))
    out = e.apply("Add", [e.apply("Mul", [e.cast(x, wide), factor]), half])
    out = e.apply("Div", [e.apply("Sub", [out, e.apply("Mod", [out, whole])]), whole])
    return _place(e, out, to, element)


def _rescale_double(e: Writer, x: str, factor: Array, to: Rescaling, element: Element) -> str:
    wide = Element.DOUBLE
    laid = factor.reshape(-1, *[1] * axes_behind(to.axis, to.rank)) if factor.ndim else factor
    scaled = e.apply("Mul", [e.cast(x, wide), e.constant(laid, "rescale")])
    rounded = e.apply("Floor", [e.apply("Add", [scaled, e.scalar(0.5, wide)])])
    return _place(e, rounded, to, element)


def _place(e: Writer, name: str, to: Rescaling, element: Element) -> str:
    """Add the zero point, clamp and cast."""
    wide = e.element(name)
    zero = constant_of(to.zero_point)
    if zero is None or zero.any():
        name = e.apply("Add", [name, e.cast(e.value(to.zero_point), wide)])
    return e.cast(clip(e, name, to.low, to.high), element)


def multi_threshold(e: Writer, op: tensor.MultiThresholdOp) -> None:
    """See `count_thresholds`."""
    axis, rank = op.axis.value.data, tensor_type(op.input).get_num_dims()
    out = count_thresholds(e, e.value(op.input), op.thresholds, axis, rank)
    e.bind(op.result, e.cast(out, element_type(tensor_type(op.result).element_type)))


def count_thresholds(e: Writer, x: str, thresholds: SSAValue, axis: int, rank: int) -> str:
    """How many thresholds are ≤ x, as INT32: comparisons on a new last axis, then a sum."""
    if tensor_type(thresholds).get_shape()[1] == 0:
        nothing = e.apply("Less", [x, x], result=Element.BOOL)
        return e.cast(nothing, Element.INT32)
    levels = e.unsqueeze(e.value(thresholds), list(range(1, axes_behind(axis, rank) + 1)))
    passed = e.apply("LessOrEqual", [levels, e.unsqueeze(x, [rank])], result=Element.BOOL)
    counted = e.cast(passed, Element.INT32)
    return e.apply("ReduceSum", [counted], rest=[e.indices([rank], "axes")], keepdims=0)


RULES: dict[type[Operation], Rule] = {
    tensor.QuantizeOp: quantize,
    tensor.DequantizeOp: dequantize,
    tensor.RequantizeOp: requantize,
    tensor.MultiThresholdOp: multi_threshold,
}
