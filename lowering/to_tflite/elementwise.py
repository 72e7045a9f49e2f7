"""TFLite forms of element-wise arithmetic and of `tensor.convert`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from ...dialects import tensor
from ...dialects.elements import nearest
from ...dialects.inference import tensor_type
from ...dialects.parameters import may_trap
from ..operator_names import TFLITE
from .graph import Element, Tensor, element_type
from .layout import Layout, plain
from .tflite_writer import Rule, Writer

BINARY: dict[type[Operation], str] = {
    tensor.AddOp: "ADD",
    tensor.AndOp: "LOGICAL_AND",
    tensor.MaximumOp: "MAXIMUM",
    tensor.MinimumOp: "MINIMUM",
    tensor.MulOp: "MUL",
    tensor.OrOp: "LOGICAL_OR",
    tensor.PowOp: "POW",
    tensor.PreluOp: "PRELU",
    tensor.SubOp: "SUB",
    tensor.XorOp: "BITWISE_XOR",
}
_COMPARISON = {
    "eq": "EQUAL",
    "ne": "NOT_EQUAL",
    "lt": "LESS",
    "le": "LESS_EQUAL",
    "gt": "GREATER",
    "ge": "GREATER_EQUAL",
}


def elementwise(function: Callable[[Writer, Tensor, Any], Tensor]) -> Rule:
    """A rule for a function of each element, in whatever order the operand is stored."""

    def rule(e: Writer, op: tensor.UnaryOp) -> None:
        x, layout = e.stored(op.operand)
        e.bind(op.result, function(e, x, op), layout)

    return rule


def together(
    e: Writer, values: Sequence[SSAValue], result: SSAValue
) -> tuple[list[Tensor], Layout]:
    """Operands that broadcast, in one order, and the order of the result.

    It is the first other than the plain one in which an operand of full rank stands; that of a
    flattened image only where all operands of more than one element have it.
    """
    rank = tensor_type(result).get_num_dims()
    large = [v for v in values if any(size != 1 for size in tensor_type(v).get_shape())]
    layouts = [e.stored(v)[1] for v in large]
    if layouts and layouts[0].image is not None and all(layout == layouts[0] for layout in layouts):
        return [e.stored(v)[0] if v in large else e.value(v) for v in values], layouts[0]
    layout = plain(rank)
    for value, own in zip(large, layouts, strict=True):
        full = len(own.order) == rank and own.image is None and e.array(value) is None
        if full and not own.is_plain:
            layout = own
            break
    return [_broadcastable(e, value, layout) for value in values], layout


def _broadcastable(e: Writer, value: SSAValue, layout: Layout) -> Tensor:
    """An operand in an order for a rank that may exceed its own."""
    rank, own = len(layout.order), tensor_type(value).get_num_dims()
    if own == rank:
        return e.laid(value, layout)
    plain_value = e.value(value)
    if not own or layout.is_plain:
        return plain_value
    laid = e.transpose(e.expand_axes(plain_value, range(rank - own)), layout.order)
    if laid.data is None:
        return laid
    lead = next((a for a, size in enumerate(laid.shape) if size != 1), rank - 1)
    return e.reshape(laid, laid.shape[lead:])


def binary(e: Writer, op: tensor.AddOp) -> None:
    """One operator on two operands."""
    (lhs, rhs), layout = together(e, [op.lhs, op.rhs], op.result)
    e.bind(op.result, e.binary(BINARY[type(op)], lhs, rhs), layout)


def compare(e: Writer, op: tensor.CompareOp) -> None:
    """A comparison."""
    (lhs, rhs), layout = together(e, [op.lhs, op.rhs], op.result)
    e.bind(op.result, e.compare(_COMPARISON[op.predicate.data], lhs, rhs), layout)


def where(e: Writer, op: tensor.WhereOp) -> None:
    """A choice by condition."""
    (condition, lhs, rhs), layout = together(e, [op.condition, op.lhs, op.rhs], op.result)
    e.bind(op.result, e.choose(condition, lhs, rhs), layout)


def magnitude(e: Writer, x: Tensor) -> Tensor:
    """|x|; the greater of x and -x for integers, which few sets of kernels have ABS for."""
    if x.element.dtype.kind in "bu":
        return x
    if not x.element.is_float:
        return e.binary("MAXIMUM", x, e.apply("NEG", [x]))
    return e.apply("ABS", [x])


def _sign(e: Writer, x: Tensor) -> Tensor:
    """Sign; x clamped to [-1, 1] for INT64."""
    return clip(e, x, -1, 1) if x.element is Element.INT64 else e.apply("SIGN", [x])


def _erf(e: Writer, x: Tensor) -> Tensor:
    """2·gelu(z·√2)/(z·√2) - 1, and 0 at 0: the error function is in GELU alone.

    Within 2·10⁻⁷ of erf(z), absolutely.
    """
    z = e.float32(x)
    one = e.scalar(1, Element.FLOAT32)
    zero = e.compare("EQUAL", z, e.scalar(0, Element.FLOAT32))
    scaled = e.binary("MUL", z, e.scalar(np.sqrt(2.0), Element.FLOAT32))
    curve = e.apply("GELU", [scaled], approximate=False)
    twice = e.binary("ADD", curve, curve)
    ratio = e.binary("SUB", e.binary("DIV", twice, e.choose(zero, one, scaled)), one)
    out = e.choose(zero, e.scalar(0, Element.FLOAT32), ratio)
    return e.cast(out, x.element)


def div(e: Writer, op: tensor.DivOp) -> None:
    """A quotient; integers truncate. LiteRT refuses 0; the least int32 by -1 ends the process."""
    (lhs, rhs), layout = together(e, [op.lhs, op.rhs], op.result)

    def quotient(rhs: Tensor) -> Tensor:
        if lhs.element is Element.INT64:
            return _long_division(e, lhs, rhs, e.magnitudes.greatest(op.lhs))
        return e.binary("DIV", lhs, rhs)

    if lhs.element.is_float or not may_trap(op.rhs):
        e.bind(op.result, quotient(rhs), layout)
        return
    zero, one = e.scalar(0, rhs.element), e.scalar(1, rhs.element)
    none, minus = e.compare("EQUAL", rhs, zero), e.compare("EQUAL", rhs, e.scalar(-1, rhs.element))
    divided = quotient(e.choose(none, one, e.choose(minus, one, rhs)))
    signed = e.choose(minus, e.binary("SUB", zero, lhs), divided)
    e.bind(op.result, e.choose(none, zero, signed), layout)


DIGITS = 20
"""Bits of a quotient that a division of float32 gives to the nearest integer."""


def _long_division(e: Writer, x: Tensor, y: Tensor, greatest: int) -> Tensor:
    """x / y of INT64, which LiteRT does not divide: a few digits of float32 at a time.

    Without its rest x is a multiple of y, so that the last division, of a quotient of `DIGITS` bits
    at most, is exact, and each before it leaves a quotient shorter by as many.
    """
    with e.exactly():
        zero, divisor = e.scalar(0, Element.INT64), e.cast(y, Element.FLOAT32)
        rest = e.binary("FLOOR_MOD", x, y)
        # It has the sign of y, and what truncates leaves one of x.
        signs = [e.compare("LESS", value, zero) for value in (x, y)]
        is_other = e.compare("NOT_EQUAL", *signs)
        is_left = e.compare("NOT_EQUAL", rest, zero)
        both = e.node("LOGICAL_AND", [is_other, is_left], Element.BOOL, is_left.shape)
        left = e.binary("SUB", x, e.choose(both, e.binary("SUB", rest, y), rest))
        total = part = _nearest(e, left, divisor)
        for _ in range(DIGITS, greatest.bit_length(), DIGITS):
            left = e.binary("SUB", left, e.binary("MUL", part, y))
            part = _nearest(e, left, divisor)
            total = e.binary("ADD", total, part)
        return total


def _nearest(e: Writer, x: Tensor, divisor: Tensor) -> Tensor:
    """The integer nearest to x / divisor, as far as float32 tells."""
    top = float(np.nextafter(np.float32(2.0**63), np.float32(0)))
    ratio = e.binary("DIV", e.cast(x, Element.FLOAT32), divisor)
    return e.cast(clip(e, e.apply("ROUND", [ratio]), -top, top), Element.INT64)


def mod(e: Writer, op: tensor.ModOp) -> None:
    """The remainder with the sign of the divisor; by 0 and by -1 it is 0, as by 1."""
    (lhs, rhs), layout = together(e, [op.lhs, op.rhs], op.result)
    if not lhs.element.is_float and may_trap(op.rhs):
        one = e.scalar(1, rhs.element)
        for divisor in (0, -1):
            trap = e.compare("EQUAL", rhs, e.scalar(divisor, rhs.element))
            rhs = e.choose(trap, one, rhs)
    e.bind(op.result, e.binary("FLOOR_MOD", lhs, rhs), layout)


def _clamp(e: Writer, x: Tensor, op: tensor.ClampOp) -> Tensor:
    """A limit on one side or both."""
    return clip(e, x, *(None if bound is None else bound.value.data for bound in (op.min, op.max)))


def clip(e: Writer, x: Tensor, low: float | None, high: float | None) -> Tensor:
    """min(max(x, low), high). Bounds of integers are truncated and saturate to the type."""
    for kind, bound in (("MAXIMUM", low), ("MINIMUM", high)):
        if bound is None:
            continue
        if not x.element.is_float:
            info = np.iinfo(x.element.dtype)
            bound = int(min(max(bound, info.min), info.max))
        x = e.binary(kind, x, e.constant(nearest(bound, x.element.dtype), "bound"))
    return x


def _convert(e: Writer, x: Tensor, op: tensor.ConvertOp) -> Tensor:
    """A change of the element type: casts, and saturation from float to integer."""
    return saturating_cast(e, x, element_type(tensor_type(op.result).element_type))


def saturating_cast(e: Writer, x: Tensor, element: Element) -> Tensor:
    """`x` as `element`; from float to integer truncating, saturating, NaN as 0."""
    if not x.element.is_float or element.is_float or element is Element.BOOL:
        return e.cast(x, element)
    info = np.iinfo(element.dtype)
    wide = e.float32(x)
    zero = e.scalar(0, Element.FLOAT32)
    finite = e.choose(e.compare("EQUAL", wide, wide), wide, zero)
    if info.bits <= 16:
        return e.cast(clip(e, finite, info.min, info.max), element)
    # The greatest integer is no float32: at the next power of two choose the bound itself.
    top = float(np.nextafter(np.float32(2.0 ** (info.bits - 1)), np.float32(0)))
    inside = e.cast(clip(e, finite, float(info.min), top), element)
    over = e.compare("GREATER", finite, e.scalar(top, Element.FLOAT32))
    return e.choose(over, e.constant(np.array(info.max, element.dtype), "most"), inside)


RULES: dict[type[Operation], Rule] = {
    **dict.fromkeys(TFLITE, elementwise(lambda e, x, op: e.apply(TFLITE[type(op)], [x]))),
    **dict.fromkeys(BINARY, binary),
    tensor.CompareOp: compare,
    tensor.WhereOp: where,
    tensor.AbsOp: elementwise(lambda e, x, op: magnitude(e, x)),
    tensor.SignOp: elementwise(lambda e, x, op: _sign(e, x)),
    tensor.ErfOp: elementwise(lambda e, x, op: _erf(e, x)),
    tensor.DivOp: div,
    tensor.ModOp: mod,
    tensor.ClampOp: elementwise(_clamp),
    tensor.ConvertOp: elementwise(_convert),
}
