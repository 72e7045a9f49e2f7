"""TFLite forms of quantisation, exact: written out, since LiteRT's own rounds in other ways."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.ir import Operation, SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from .activation import last
from .elementwise import clip
from .graph import Array, Element, Tensor, element_type
from .products import FLOAT_EXACT
from .tflite_writer import Inexpressible, Rule, Writer


def quantize(e: Writer, op: tensor.QuantizeOp) -> None:
    """round(x / scale) + zero point in float32, clamped, cast."""
    element = element_type(tensor_type(op.result).element_type)
    low, high = op.low.value.data, op.high.value.data
    if max(-low, high) > FLOAT_EXACT:
        raise Inexpressible("float32 holds no integer bounds beyond 2^24")
    x, layout = e.with_axes(op.input)
    axis = layout.axis(op.axis.value.data)
    scale = e.along_axis(e.value(op.scale), axis, x.rank)
    zero = e.along_axis(e.cast(e.value(op.zero_point), Element.FLOAT32), axis, x.rank)
    out = _shifted(e, e.apply("ROUND", [e.binary("DIV", x, scale)]), zero, "ADD")
    e.bind(op.result, e.cast(clip(e, out, low, high), element), layout)


def _shifted(e: Writer, x: Tensor, zero: Tensor, kind: str) -> Tensor:
    """x ± zero point, where that is not 0."""
    known = zero.data
    return x if known is not None and not known.any() else e.binary(kind, x, zero)


def dequantize(e: Writer, op: tensor.DequantizeOp) -> None:
    """The difference in a type that holds it, then one product in float32."""
    x, layout = e.with_axes(op.input)
    axis = layout.axis(op.axis.value.data)
    wide = Element.FLOAT32 if x.element in (Element.INT8, Element.INT16) else Element.INT64
    zero = e.along_axis(e.cast(e.value(op.zero_point), wide), axis, x.rank)
    known = zero.data
    if known is None or known.any():
        x = e.binary("SUB", e.cast(x, wide), zero)
    scale = e.along_axis(e.value(op.scale), axis, x.rank)
    e.bind(op.result, e.binary("MUL", e.cast(x, Element.FLOAT32), scale), layout)


@dataclass(frozen=True)
class Rescaling:
    """The operands and bounds of an integer rescaling, as `tensor.requantize` has them."""

    multiplier: SSAValue
    shift: SSAValue
    zero_point: SSAValue
    low: int
    high: int


def requantize(e: Writer, op: tensor.RequantizeOp) -> None:
    """See `rescale`."""
    low, high = op.low.value.data, op.high.value.data
    x, layout = e.with_axes(op.input)
    to = Rescaling(op.multiplier, op.shift, op.zero_point, low, high)
    e.bind(op.result, rescale(e, x, to, layout.axis(op.axis.value.data)), layout)


def rescale(e: Writer, x: Tensor, to: Rescaling, axis: int) -> Tensor:
    """clamp(⌊(x·m + 2^(s-1))/2^s⌋ + z, low, high), exactly.

    In INT64 up to the multiple of 2^s; there |x·m| + 2^(s-1) ≤ 2^62 + 2^61 does not overflow.
    LiteRT does not divide INT64. But a multiple q·2^s with |q| < 2^24 is a float32, and so is its
    quotient q; a greater one rounds to something as great, and is clamped. Where the bounds are
    greater than that, the lowest 20 bits of q are taken apart first.
    """
    element = element_type(tensor_type(to.zero_point).element_type)
    shift, zero = e.array(to.shift), e.array(to.zero_point)
    if shift is None or zero is None:
        raise Inexpressible("requantize by a shift or zero point computed at run time")
    shift = shift.astype(np.int64)
    wide = Element.INT64

    def powers(exponents: Array, of: Element = wide) -> Tensor:
        values = np.ldexp(1.0, exponents).astype(of.dtype)
        return e.along_axis(e.constant(values, "powers"), axis, x.rank)

    factor = e.along_axis(e.cast(e.value(to.multiplier), wide), axis, x.rank)
    sums = e.binary("ADD", e.binary("MUL", e.cast(x, wide), factor), powers(shift - 1))
    multiple = e.binary("SUB", sums, e.binary("FLOOR_MOD", sums, powers(shift)))

    def quotient(value: Tensor, exponents: Array) -> Tensor:
        inverse = powers(-exponents, Element.FLOAT32)
        return e.binary("MUL", e.cast(value, Element.FLOAT32), inverse)

    if max(-to.low, to.high) + abs(int(zero)) < FLOAT_EXACT:
        out = quotient(multiple, shift)
    else:
        cut = np.minimum(shift + 20, 62)
        low = e.binary("FLOOR_MOD", multiple, powers(cut))
        high = e.cast(quotient(e.binary("SUB", multiple, low), cut), wide)
        lifted = e.binary("MUL", high, powers(cut - shift))
        out = e.binary("ADD", lifted, e.cast(quotient(low, shift), wide))
    out = _shifted(e, out, e.cast(e.value(to.zero_point), out.element), "ADD")
    return e.cast(clip(e, out, to.low, to.high), element)


def multi_threshold(e: Writer, op: tensor.MultiThresholdOp) -> None:
    """See `count_thresholds`."""
    x, layout = last(e, op.input, op.axis.value.data)
    out = count_thresholds(e, x, op.thresholds)
    e.bind(op.result, e.cast(out, element_type(tensor_type(op.result).element_type)), layout)


def count_thresholds(e: Writer, x: Tensor, thresholds: SSAValue) -> Tensor:
    """How many thresholds [C, K] are ≤ x, as INT32, for x with the channels last.

    Few of them are compared one by one; many on a new last axis, over which the sum is taken.
    """
    table = e.value(thresholds)
    count = table.shape[1]
    if count == 0 or (table.data is not None and count <= 3):
        total = e.cast(e.compare("LESS", x, x), Element.INT32) if count == 0 else None
        for index in range(count):
            assert table.data is not None
            level = e.constant(table.data[:, index], "threshold")
            passed = e.cast(e.compare("LESS_EQUAL", level, x), Element.INT32)
            total = passed if total is None else e.binary("ADD", total, passed)
        assert total is not None
        return total
    passed = e.compare("LESS_EQUAL", table, e.expand_axes(x, [x.rank]))
    return e.reduce("SUM", e.cast(passed, Element.INT32), [x.rank])


RULES: dict[type[Operation], Rule] = {
    tensor.QuantizeOp: quantize,
    tensor.DequantizeOp: dequantize,
    tensor.RequantizeOp: requantize,
    tensor.MultiThresholdOp: multi_threshold,
}
