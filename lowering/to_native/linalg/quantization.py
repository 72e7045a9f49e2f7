"""Quantisation: scales in f32, integer rescaling in i64, thresholds by counting."""

from __future__ import annotations

import numpy as np
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, f32, f64, i32, i64
from xdsl.ir import Operation, SSAValue

from ....dialects import tensor, ternary
from ....dialects.inference import tensor_type
from ....dialects.parameters import Array, constant_value
from ....dialects.shapes import bit_width
from ....dialects.tensor.quantization import threshold_element
from ....passes.analysis.compile_time import defining_literal, literal_value
from ....passes.analysis.magnitude import magnitude
from .linalg_builder import PARALLEL, REDUCTION, LinalgBuilder, Rule, dims, element, rank, zero
from .linear import along
from .scalars import Scalars

_SHORT = 16
"""Bits of integers whose differences an i32 holds."""
_MULTIPLIER_BITS = 31
"""Bits of the magnitude of a multiplier."""
_ROUNDING = 1.5 * 2.0**23
"""A float32 whose last bit counts 1, and stays where it is when less than 2²² is added."""
_ROUNDING_BITS = int(np.float32(_ROUNDING).view(np.int32))
_FEW = 2.0**21
"""What floats are less than that are rounded before they are cut."""


def is_of_numbers(op: Operation) -> bool:
    """Whether an op quantises what is never NaN, such as rescaled sums of integers."""
    return isinstance(op, tensor.QuantizeOp) and _is_number(op.input) and _is_finite(op.scale)


def _is_number(value: SSAValue) -> bool:
    """Whether floats are never NaN: integers, times and plus finite numbers."""
    op = value.owner
    if isinstance(op, tensor.ConvertOp):
        return not isinstance(tensor_type(op.operand).element_type, AnyFloat)
    affine = isinstance(op, tensor.MulOp | tensor.AddOp)
    return affine and _is_number(op.lhs) and _is_finite(op.rhs)


def _is_finite(value: SSAValue) -> bool:
    """Whether known floats are finite, and none of them 0."""
    known = literal_value(value)
    return known is not None and bool(np.isfinite(known).all() and known.all())


def is_of_small(op: Operation) -> bool:
    """Whether an op quantises numbers of few enough steps to be rounded before they are cut."""
    assert isinstance(op, tensor.QuantizeOp)
    scale = literal_value(op.scale)
    return scale is not None and _reach(op.input) / np.abs(scale).min(initial=np.inf) < _FEW


def _reach(value: SSAValue) -> float:
    """A bound of what `_is_number`."""
    op = value.owner
    if isinstance(op, tensor.ConvertOp):
        return float(magnitude(op.operand).max(initial=0.0))
    assert isinstance(op, tensor.MulOp | tensor.AddOp)
    known = literal_value(op.rhs)
    most = float("inf") if known is None else float(np.abs(known).max(initial=0))
    reach = _reach(op.lhs)
    return reach * most if isinstance(op, tensor.MulOp) else reach + most


def quantize(
    builder: LinalgBuilder,
    op: tensor.QuantizeOp,
    x: SSAValue,
    scale: SSAValue,
    zero_point: SSAValue,
) -> SSAValue:
    """`tensor.quantize`. NaN gives 0, cut to the bounds.

    To few bits, numbers are cut before they are rounded, which adding 1.5·2²³ does: the result is
    what its lowest bits say. Small ones are cut behind, as some registers become narrow in that
    way. Else bounds are compared in f64, which holds all of 32 bits.
    """
    axis = op.axis.value.data
    low, high = op.low.value.data, op.high.value.data
    type = element(zero_point)
    bits = bit_width(type) or 0

    def nearest(s: Scalars, steps: SSAValue) -> SSAValue:
        rounded = s.insert(arith.BitcastOp(s.add(steps, _ROUNDING), i32))
        return s.sub(rounded, _ROUNDING_BITS)

    def of_small(s: Scalars, a: SSAValue, factor: SSAValue, offset: SSAValue) -> SSAValue:
        number = nearest(s, a if _is_all(op.scale, 1) else s.div(a, factor))
        if not _is_all(op.zero_point, 0):
            number = s.add(number, s.convert(offset, i32))
        return s.convert(s.minimum(s.maximum(number, low), high), type)

    def few_bits(s: Scalars, a: SSAValue, factor: SSAValue, offset: SSAValue) -> SSAValue:
        start = s.convert(offset, f32)
        steps = s.div(a, factor)
        if op not in builder.of_numbers:
            steps = s.select(s.is_nan(steps), s.negate(start), steps)
        for kind, bound in (arith.MinnumfOp, high), (arith.MaxnumfOp, low):
            end = s.sub(s.constant(float(bound), f32), start)
            steps = s.insert(kind(steps, end))
        return s.convert(s.add(nearest(s, steps), s.convert(offset, i32)), type)

    def body(s: Scalars, a: SSAValue, factor: SSAValue, offset: SSAValue) -> SSAValue:
        steps = s.insert(math.RoundEvenOp(s.div(a, factor)))
        shifted = s.convert(s.add(steps, s.convert(offset, f32)), f64)
        number = s.select(s.is_nan(shifted), 0.0, shifted)
        return s.saturate(s.minimum(s.maximum(number, float(low)), float(high)), type)

    vectors = [along(builder, v, rank(x), axis) for v in (scale, zero_point)]
    few = bits <= _SHORT and max(-low, high) < 1 << _SHORT and zero_point not in builder.unsigned
    if few and op in builder.of_small:
        return builder.map([x, *vectors], of_small, type)
    return builder.map([x, *vectors], few_bits if few else body, type)


def _is_all(value: SSAValue, number: int) -> bool:
    """Whether known numbers are all this one."""
    known = defining_literal(value)
    return known is not None and bool((constant_value(known) == number).all())


def dequantize(
    builder: LinalgBuilder,
    op: tensor.DequantizeOp,
    q: SSAValue,
    scale: SSAValue,
    zero_point: SSAValue,
) -> SSAValue:
    """`tensor.dequantize`."""
    unsigned = q in builder.unsigned
    wider = i32 if _fits(op) else i64

    def body(s: Scalars, a: SSAValue, factor: SSAValue, offset: SSAValue) -> SSAValue:
        wide, start = (s.convert(v, wider, unsigned=unsigned) for v in (a, offset))
        return s.mul(s.convert(s.sub(wide, start), f32), factor)

    axis = op.axis.value.data
    vectors = [along(builder, v, rank(q), axis) for v in (scale, zero_point)]
    return builder.map([q, *vectors], body, f32)


def _fits(op: tensor.DequantizeOp) -> bool:
    """Whether an i32 holds every value less its zero point: an i64 is far slower."""
    bits = bit_width(tensor_type(op.input).element_type)
    if bits is None or bits <= _SHORT:
        return bits is not None
    zeros = literal_value(op.zero_point)
    signed = not LinalgBuilder.is_unsigned_type(tensor_type(op.input).element_type)
    return bits == 2 * _SHORT and signed and zeros is not None and not zeros.any()


def rescale(
    builder: LinalgBuilder,
    op: tensor.RequantizeOp | ternary.FusedOp,
    x: SSAValue,
    multiplier: SSAValue,
    shift: SSAValue,
    zero_point: SSAValue,
    low: int,
    high: int,
    axis: int,
) -> SSAValue:
    """The arithmetic of `tensor.requantize`, in i64."""
    type = element(zero_point)
    factors = [multiplier, shift]
    if (known := _alike(op)) is not None:
        types = [element(v) for v in factors]
        factors = [builder.dense(v, type) for v, type in zip(known, types, strict=True)]

    def body(s: Scalars, *elements: SSAValue) -> SSAValue:
        a, factor, bits, offset = (s.convert(v, i64) for v in elements)
        half = s.shift_left(s.constant(1, i64), s.sub(bits, 1))
        scaled = s.shift_right(s.add(s.mul(a, factor), half), bits)
        return s.convert(s.minimum(s.maximum(s.add(scaled, offset), low), high), type)

    vectors = [along(builder, v, rank(x), axis) for v in factors]
    return builder.map([x, *vectors, zero_point], body, type)


def _alike(op: tensor.RequantizeOp | ternary.FusedOp) -> tuple[Array, Array] | None:
    """Known multipliers and shifts of the same values, the shifts as alike as 32 bits allow."""
    if op.multiplier is None or op.shift is None:
        return None
    literals = [defining_literal(value) for value in (op.multiplier, op.shift)]
    values = [None if known is None else constant_value(known) for known in literals]
    m, n = values
    if m is None or n is None or m.shape != n.shape or (n == n.max(initial=0)).all():
        return None
    most = np.frexp(np.abs(m).astype(np.float64))[1]
    room = np.maximum(_MULTIPLIER_BITS - most, 0)
    further = np.where(m == 0, 0, np.minimum(n.max() - n, room))
    return (m << further).astype(m.dtype), (n + further).astype(n.dtype)


def requantize(
    builder: LinalgBuilder,
    op: tensor.RequantizeOp,
    x: SSAValue,
    multiplier: SSAValue,
    shift: SSAValue,
    zero_point: SSAValue,
) -> SSAValue:
    """`tensor.requantize`."""
    low, high, axis = op.low.value.data, op.high.value.data, op.axis.value.data
    return rescale(builder, op, x, multiplier, shift, zero_point, low, high, axis)


def count_thresholds(
    builder: LinalgBuilder, x: SSAValue, thresholds: SSAValue, axis: int
) -> SSAValue:
    """The number of thresholds ≤ x; rows of `thresholds` are positions on `axis`, or one row."""
    count = rank(x)
    type = threshold_element(tensor_type(thresholds))
    loops = dims(count + 1)
    one_row = tensor_type(thresholds).get_shape()[0] == 1
    row = zero() if one_row else loops[axis % count]
    unsigned = x in builder.unsigned

    def body(s: Scalars, a: SSAValue, t: SSAValue, total: SSAValue) -> list[SSAValue]:
        reached = s.compare("le", t, a, unsigned=unsigned)
        return [s.add(total, s.insert(arith.ExtUIOp(reached, type)))]

    (result,) = builder.generic(
        [(x, loops[:count]), (thresholds, [row, loops[count]])],
        [(builder.fill(builder.sizes(x), 0, type), loops[:count])],
        [PARALLEL] * count + [REDUCTION],
        body,
    )
    return result


def multi_threshold(
    builder: LinalgBuilder, op: tensor.MultiThresholdOp, x: SSAValue, thresholds: SSAValue
) -> SSAValue:
    """`tensor.multi_threshold`."""
    return count_thresholds(builder, x, thresholds, op.axis.value.data)


RULES: dict[type[Operation], Rule] = {
    tensor.QuantizeOp: quantize,
    tensor.DequantizeOp: dequantize,
    tensor.RequantizeOp: requantize,
    tensor.MultiThresholdOp: multi_threshold,
}
