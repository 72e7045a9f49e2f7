"""ONNX forms of element-wise arithmetic and of `tensor.convert`."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import Operation

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.parameters import may_trap
from ...dialects.ternary.types import is_trit
from ..operator_names import ONNX
from .byte_means import byte_pool
from .byte_weights import SHIFT
from .graph import Element, element_type
from .onnx_writer import Rule, Writer

UNARY: dict[type[Operation], str] = {
    **ONNX,
    tensor.CeluOp: "Celu",
    tensor.EluOp: "Elu",
    tensor.GeluOp: "Gelu",
    tensor.HardSigmoidOp: "HardSigmoid",
    tensor.LeakyReluOp: "LeakyRelu",
    tensor.SeluOp: "Selu",
    tensor.ThresholdedReluOp: "ThresholdedRelu",
}
"""Operators of one operand; the numbers of an op are attributes of the same names."""

OF_BITS = {"And": "BitwiseAnd", "Or": "BitwiseOr", "Xor": "BitwiseXor", "Not": "BitwiseNot"}
"""Operators of truth values, and those of the bits of integers."""

BINARY: dict[type[Operation], str] = {
    tensor.AddOp: "Add",
    tensor.AndOp: "And",
    tensor.MulOp: "Mul",
    tensor.OrOp: "Or",
    tensor.PowOp: "Pow",
    tensor.PreluOp: "PRelu",
    tensor.SubOp: "Sub",
    tensor.XorOp: "Xor",
}
_COMPARISON = {
    "eq": "Equal",
    "ne": "Equal",
    "lt": "Less",
    "le": "LessOrEqual",
    "gt": "Greater",
    "ge": "GreaterOrEqual",
}


def operator_of(kind: type[Operation], element: Element) -> str:
    """The one operator that an op is, for elements of a type."""
    name = UNARY.get(kind) or BINARY[kind]
    return name if element is Element.BOOL else OF_BITS.get(name, name)


def unary(e: Writer, op: tensor.UnaryOp | tensor.PredicateOp) -> None:
    """One operator on one operand."""
    numbers = {n: v.value.data for n, v in op.properties.items() if isinstance(v, FloatAttr)}
    truth = Element.BOOL if isinstance(op, tensor.PredicateOp) else None
    x = e.value(op.operand)
    operator = operator_of(type(op), e.element(x))
    e.bind(op.result, e.apply(operator, [x], rest=(), result=truth, **numbers))


def binary(e: Writer, op: tensor.BinaryOp) -> None:
    """One operator on two operands; ONNX broadcasts as NumPy does."""
    operands = [e.value(op.lhs), e.value(op.rhs)]
    if isinstance(op, tensor.MulOp) and (shape := tensor_type(op.result).get_shape()):
        pairs = (operands, reversed(operands))
        operands = [e.factor(name, other, shape[-1]) for name, other in zip(*pairs, strict=True)]
    e.bind(op.result, e.apply(operator_of(type(op), e.element(operands[0])), operands))


def extremum(e: Writer, op: tensor.MaximumOp | tensor.MinimumOp) -> None:
    """The greater or the smaller of two."""
    op_type = "Max" if isinstance(op, tensor.MaximumOp) else "Min"
    e.bind(op.result, extreme(e, op_type, e.value(op.lhs), e.value(op.rhs)))


def extreme(e: Writer, op_type: str, lhs: str, rhs: str) -> str:
    """Max or Min; by a comparison for INT64, where ONNX Runtime's are wrong."""
    if e.element(lhs) is not Element.INT64:
        return e.apply(op_type, [lhs, rhs])
    comparison = "Greater" if op_type == "Max" else "Less"
    return choose(e, e.node(comparison, [lhs, rhs], Element.BOOL), lhs, rhs)


def sign(e: Writer, op: tensor.SignOp) -> None:
    """Sign; by comparisons for INT64, where ONNX Runtime's is wrong."""
    x = e.value(op.operand)
    element = e.element(x)
    if element is not Element.INT64:
        e.bind(op.result, e.apply("Sign", [x]))
        return
    zero = e.scalar(0, element)
    sides = [e.node(side, [x, zero], Element.BOOL) for side in ("Greater", "Less")]
    e.bind(op.result, e.apply("Sub", [e.cast(side, element) for side in sides]))


def compare(e: Writer, op: tensor.CompareOp) -> None:
    """A comparison; `ne` is the negation of `eq`, which is right for NaN too."""
    predicate = op.predicate.data
    operands = [e.value(op.lhs), e.value(op.rhs)]
    out = e.apply(_COMPARISON[predicate], operands, result=Element.BOOL)
    e.bind(op.result, e.apply("Not", [out]) if predicate == "ne" else out)


def where(e: Writer, op: tensor.WhereOp) -> None:
    """A choice by condition."""
    condition, lhs, rhs = e.value(op.condition), e.value(op.lhs), e.value(op.rhs)
    e.bind(op.result, choose(e, condition, lhs, rhs))


def choose(e: Writer, condition: str, lhs: str, rhs: str) -> str:
    """`lhs` where `condition`, else `rhs`, in any element type."""
    element = e.element(lhs)
    if element is Element.UINT64:  # no kernel, and no wider type
        other = e.node("Not", [condition], Element.BOOL)
        chosen = [
            e.node("Mul", [value, e.cast(mask, element)], element)
            for value, mask in ((lhs, condition), (rhs, other))
        ]
        return e.node("Add", chosen, element)
    wide = {
        Element.BOOL: Element.UINT8,
        Element.UINT16: Element.INT32,
        Element.INT16: Element.INT32,
        Element.BFLOAT16: Element.FLOAT,
    }.get(element, element)
    inputs = [condition, e.cast(lhs, wide), e.cast(rhs, wide)]
    return e.cast(e.node("Where", inputs, wide), element)


def div(e: Writer, op: tensor.DivOp) -> None:
    """A quotient; integers truncate, as they do in ONNX Runtime."""
    lhs, rhs = e.value(op.lhs), e.value(op.rhs)
    element = e.element(lhs)
    if element.is_float or not may_trap(op.rhs):
        e.bind(op.result, e.apply("Div", [lhs, rhs]))
        return
    # The least integer by -1, and anything by 0, ends the process on x86. One type wider the
    # former is right; for INT64 it is the negative, which wraps around.
    wide = Element.INT64 if element in (Element.INT32, Element.INT64) else Element.INT32
    lhs, rhs = e.cast(lhs, wide), e.cast(rhs, wide)
    one, none = e.scalar(1, wide), e.scalar(0, wide)
    zero = e.node("Equal", [rhs, none], Element.BOOL)
    if wide is element:
        minus = e.node("Equal", [rhs, e.scalar(-1, wide)], Element.BOOL)
        safe = choose(e, e.apply("Or", [zero, minus]), one, rhs)
        out = choose(e, minus, e.apply("Neg", [lhs]), e.apply("Div", [lhs, safe]))
    else:
        out = e.apply("Div", [lhs, choose(e, zero, one, rhs)])
    e.bind(op.result, e.cast(choose(e, zero, none, out), element))


def mod(e: Writer, op: tensor.ModOp) -> None:
    """The remainder with the sign of the divisor; ONNX has it for integers."""
    lhs, rhs = e.value(op.lhs), e.value(op.rhs)
    element = e.element(lhs)
    if not element.is_float:
        if may_trap(op.rhs):
            # x mod -1 = 0 = x mod 1, and the processor cannot divide the least integer by -1.
            wide = Element.INT64 if element is Element.INT64 else Element.INT32
            lhs, rhs = e.cast(lhs, wide), e.cast(rhs, wide)
            one = e.scalar(1, wide)
            zero = e.node("Equal", [rhs, e.scalar(0, wide)], Element.BOOL)
            minus = e.node("Equal", [rhs, e.scalar(-1, wide)], Element.BOOL)
            rhs = choose(e, e.apply("Or", [zero, minus]), one, rhs)
        e.bind(op.result, e.cast(e.apply("Mod", [lhs, rhs]), element))
        return
    if element is Element.BFLOAT16:
        lhs, rhs = e.cast(lhs, Element.FLOAT), e.cast(rhs, Element.FLOAT)
    wide = e.element(lhs)
    zero = e.scalar(0, wide)
    rest = e.node("Mod", [lhs, rhs], wide, fmod=1)
    below = [e.node("Less", [name, zero], Element.BOOL) for name in (rest, rhs)]
    same = e.node("Equal", below, Element.BOOL)
    fits = e.apply("Or", [same, e.node("Equal", [rest, zero], Element.BOOL)])
    out = choose(e, fits, rest, e.apply("Add", [rest, rhs]))
    e.bind(op.result, e.cast(out, element))


def clamp(e: Writer, op: tensor.ClampOp) -> None:
    """A limit on one side or both."""
    low = None if op.min is None else op.min.value.data
    high = None if op.max is None else op.max.value.data
    e.bind(op.result, clip(e, e.value(op.operand), low, high))


def clip(e: Writer, name: str, low: float | None, high: float | None) -> str:
    """min(max(x, low), high). Bounds of integers are truncated and saturate to the type."""
    element = e.element(name)
    if element.is_float:
        wide = Element.FLOAT if element is Element.BFLOAT16 else element
        # Infinite where absent: ONNX takes the largest number of the type for it.
        limits = (-np.inf if low is None else low, np.inf if high is None else high)
        bounds = [e.scalar(bound, wide) for bound in limits]
        return e.cast(e.node("Clip", [e.cast(name, wide), *bounds], wide), element)
    wide = {
        Element.BOOL: Element.UINT8,
        Element.UINT16: Element.INT32,
        Element.INT16: Element.INT32,
    }.get(element, element)
    info = np.iinfo(element.dtype if element is not Element.BOOL else wide.dtype)
    cut = [
        "" if b is None else e.scalar(int(min(max(b, info.min), info.max)), wide)
        for b in (low, high)
    ]
    if element is Element.INT64:
        for bound, op_type in zip(cut, ("Max", "Min"), strict=True):
            name = extreme(e, op_type, name, bound) if bound else name
        return name
    return e.cast(e.node("Clip", [e.cast(name, wide), *cut], wide), element)


def convert(e: Writer, op: tensor.ConvertOp) -> None:
    """A change of the element type: casts, and saturation from float to integer."""
    element = element_type(tensor_type(op.result).element_type)
    if is_trit(tensor_type(op.operand)):
        e.bind(op.result, e.trits(op.operand, element))
        return
    if byte_pool(e, op):
        return
    name = e.value(op.operand)
    if is_trit(tensor_type(op.result)):
        e.bind(op.result, e.cast(name, element))
        return
    if name in e.unsigned and element is Element.INT32:
        wide = e.cast(e.unsigned[name], element)
        e.bind(op.result, e.apply("Sub", [wide, e.scalar(SHIFT, element)]))
        return
    e.bind(op.result, saturating_cast(e, name, element))


def saturating_cast(e: Writer, name: str, element: Element) -> str:
    """`name` as `element`; from float to integer truncating, saturating, NaN as 0.

    What ONNX's own Cast does outside the integer range is not defined.
    """
    source = e.element(name)
    if not source.is_float or element.is_float or element is Element.BOOL:
        return e.cast(name, element)
    info = np.iinfo(element.dtype)
    exact = Element.FLOAT if info.bits <= 16 and source is not Element.DOUBLE else Element.DOUBLE
    wide = e.cast(name, exact)
    finite = choose(e, e.node("IsNaN", [wide], Element.BOOL), e.scalar(0, exact), wide)
    if info.bits < 64:
        bounds = [e.scalar(info.min, exact), e.scalar(info.max, exact)]
        return e.cast(e.node("Clip", [finite, *bounds], exact), element)
    # 2^63 - 1 is no float64: above the largest one below 2^63, choose the bound itself.
    top = float(np.nextafter(2.0**63, 0.0))
    bounds = [e.scalar(-(2.0**63), exact), e.scalar(top, exact)]
    inside = e.cast(e.node("Clip", [finite, *bounds], exact), element)
    over = e.node("Greater", [finite, e.scalar(top, exact)], Element.BOOL)
    most = e.constant(np.array(info.max, element.dtype), "int64_max")
    return choose(e, over, most, inside)


RULES: dict[type[Operation], Rule] = {
    **dict.fromkeys(UNARY, unary),
    **dict.fromkeys(BINARY, binary),
    tensor.MaximumOp: extremum,
    tensor.MinimumOp: extremum,
    tensor.SignOp: sign,
    tensor.CompareOp: compare,
    tensor.WhereOp: where,
    tensor.DivOp: div,
    tensor.ModOp: mod,
    tensor.ClampOp: clamp,
    tensor.ConvertOp: convert,
}
