"""Rules of element-wise arithmetic, comparisons and conversions of ATen.

Operands take the type that PyTorch promotes them to. Activations stand in `rules_activation`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, cast

import torch
from torch import Tensor, dtype
from xdsl.dialects.builtin import i1
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.shapes import is_float, is_integer
from ...dialects.tensor.elementwise import BinaryOp
from ...dialects.tensor.formula import Formula
from ...dialects.tensor.functions import is_negative
from ..from_onnx.rules_elementwise import integer_power
from ..problems import ProblemError
from ..torch_functions import FUNCTIONS
from .calls import Call, Operand, fake_tensor
from .rules_onnx import companion, sized
from .sizes import is_node
from .torch_builder import Builder, Rule, element_type


def first(e: Builder, call: Call) -> SSAValue:
    """The first operand; integers become floats where PyTorch makes them that."""
    return e.operand(call.operand(next(iter(call.arguments))), call.value.dtype)


def unary(kind: Callable[[SSAValue], Operation]) -> Rule:
    """A rule for an op of one operand."""
    return composed(lambda e, x: e.add(kind(x)))


def composed(function: Callable[[Builder, SSAValue], SSAValue]) -> Rule:
    """A rule for a function of one tensor, made of several ops."""
    return lambda e, call: function(e, first(e, call))


def pair(e: Builder, call: Call) -> list[SSAValue]:
    """Both operands, of the type of the result."""
    operands = [call.operand("self"), call.operand("other")]
    return e.operands(operands, call.value.dtype, call.sizes)


def _scaled(e: Builder, call: Call, x: SSAValue) -> SSAValue:
    """`alpha` times x."""
    alpha = call.number("alpha", 1)
    element = tensor_type(x).element_type
    return x if alpha == 1 else e.add(tensor.MulOp(x, e.number(alpha, element)))


def arithmetic(kind: type[BinaryOp], logical: type[BinaryOp] | None = None) -> Rule:
    """A rule for an op of two operands; `logical` is that of truth values."""

    def rule(e: Builder, call: Call) -> SSAValue:
        lhs, rhs = pair(e, call)
        rhs = _scaled(e, call, rhs)
        if tensor_type(lhs).element_type != i1:
            return e.add(kind(lhs, rhs))
        if logical is None:
            raise ProblemError("it computes with truth values; convert them to numbers")
        return e.add(logical(lhs, rhs))

    return rule


def _rsub(e: Builder, call: Call) -> SSAValue:
    rhs, lhs = pair(e, call)
    return e.add(tensor.SubOp(lhs, _scaled(e, call, rhs)))


def _div(e: Builder, call: Call) -> SSAValue:
    lhs, rhs = pair(e, call)
    mode = call.word("rounding_mode")
    if mode == "floor" and is_integer(tensor_type(lhs)):
        return (Formula(e, lhs) // Formula(e, rhs)).value
    if mode == "floor":
        return _floored(Formula(e, lhs), Formula(e, rhs)).value
    quotient = e.add(tensor.DivOp(lhs, rhs))
    return e.add(tensor.TruncOp(quotient)) if mode and is_float(tensor_type(lhs)) else quotient


def _floored(x: Formula, y: Formula) -> Formula:
    """⌊x/y⌋ of floats by their remainder, as Python has it: a quotient is rounded before it is cut.

    1 // 0.1 is 9, -1 // ∞ is -1 and ∞ // 1 is NaN.
    """
    quotient, rest = x / y, x.of(tensor.FmodOp, y)
    turns = rest.compare("ne", 0).of(tensor.AndOp, (y < 0).of(tensor.XorOp, rest < 0))
    whole = (x - rest) / y
    whole = round(turns.choose(whole - 1, whole))
    whole = whole.compare("eq", 0).choose(quotient * 0, whole)
    return y.compare("eq", 0).choose(quotient, whole)


class Writer(Protocol):
    """What importers write ops with."""

    def add(self, op: Operation, /) -> SSAValue:
        """Insert an op; its result."""
        ...

    def convert(self, value: SSAValue, element: Attribute, /) -> SSAValue:
        """`value` with another element type."""
        ...


def _rounded(kind: type[tensor.UnaryOp]) -> Rule:
    """A rule for rounding, which leaves integers."""

    def rule(e: Builder, call: Call) -> SSAValue:
        x, decimals = e.value(call["self"]), call.integer("decimals", 0)
        if not is_float(tensor_type(x)):
            return x
        if decimals < 0:  # PyTorch multiplies and divides in this order
            tens = 10.0**-decimals
            return ((Formula(e, x) / tens).of(kind) * tens).value
        tens = 10.0**decimals
        return ((Formula(e, x) * tens).of(kind) / tens).value if decimals else e.add(kind(x))

    return rule


def _pow(e: Builder, call: Call) -> SSAValue:
    base, exponent, dtype = call.operand("self"), call.operand("exponent"), call.value.dtype
    if not is_node(exponent) and is_node(base):
        x = e.operand(base, dtype)
        if exponent in (1, 2, 3) or (exponent > 0 and not dtype.is_floating_point):
            power = x
            for bit in f"{int(exponent):b}"[1:]:  # squares, and x for each bit that is set
                power = e.add(tensor.MulOp(power, power))
                power = e.add(tensor.MulOp(power, x)) if bit == "1" else power
            return power
        special = {0.5: tensor.SqrtOp, -0.5: tensor.RsqrtOp, -1: tensor.ReciprocalOp}.get(exponent)
        if special is not None:
            return e.add(special(x))
    operands = e.operands([base, exponent], dtype, call.sizes)
    if dtype.is_floating_point:
        return e.add(tensor.PowOp(*operands))
    sides = [
        sized(e, value, e.sizes(given) if is_node(given) else ())
        for given, value in zip([base, exponent], operands, strict=True)
    ]
    there = companion(e)
    return there.real(integer_power(there, *sides))


def compare(predicate: str) -> Rule:
    """A rule for a comparison."""

    def rule(e: Builder, call: Call) -> SSAValue:
        operands = [call.operand("self"), call.operand("other")]
        lhs, rhs = e.operands(operands, _promoted(operands), call.sizes)
        if tensor_type(lhs).element_type == i1:
            lhs, rhs = e.operands(operands, torch.int32, call.sizes)
        return e.add(tensor.CompareOp(lhs, rhs, predicate))

    return rule


def _promoted(operands: Sequence[Operand]) -> dtype:
    """The type that PyTorch compares in."""
    values = [fake_tensor(operand) if is_node(operand) else operand for operand in operands]
    return torch.result_type(*cast("list[Tensor]", values))


def logical(kind: Callable[..., Operation]) -> Rule:
    """A rule for an op on truth values."""

    def rule(e: Builder, call: Call) -> SSAValue:
        operands = [call.operand(name) for name in ("self", "other") if name in call]
        return e.add(kind(*e.operands(operands, torch.bool, call.sizes)))

    return rule


def _where(e: Builder, call: Call) -> SSAValue:
    values = pair(e, call)
    return e.add(tensor.WhereOp(e.operand(call.operand("condition"), torch.bool), *values))


def _masked_fill(e: Builder, call: Call) -> SSAValue:
    mask = e.operand(call["mask"], torch.bool)
    values = [e.operand(call.operand(name), call.value.dtype) for name in ("value", "self")]
    return e.add(tensor.WhereOp(mask, *values))


def _clamp(e: Builder, call: Call) -> SSAValue:
    x = first(e, call)
    bounds = [call.operand(name) if name in call else None for name in ("min", "max")]
    low, high = bounds
    if (
        not is_node(low)
        and not is_node(high)
        and not (low is not None and high is not None and low > high)
    ):
        return e.add(tensor.ClampOp(x, min=low, max=high))
    for kind, bound in zip((tensor.MaximumOp, tensor.MinimumOp), bounds, strict=True):
        if bound is not None:
            x = e.add(kind(x, e.operand(bound, call.value.dtype)))
    return x


def same(e: Builder, call: Call) -> SSAValue:
    """The operand itself."""
    return e.value(call["self"])


def _dropout(e: Builder, call: Call) -> SSAValue:
    if call.flag("train") and call.number("p"):
        raise ProblemError("it drops values at random also in evaluation mode")
    return e.value(call["input"])


def _log10(e: Builder, x: SSAValue) -> SSAValue:
    factor = e.number(0.43429448190325176, tensor_type(x).element_type)
    return e.add(tensor.MulOp(e.add(tensor.LogOp(x)), factor))


def _formula(function: Callable[[Formula, Formula], Formula]) -> Rule:
    """A rule for a formula of two operands."""
    return lambda e, call: function(*(Formula(e, x) for x in pair(e, call))).value


def _number_of(kind: type[BinaryOp]) -> Rule:
    """`fmax` and `fmin`: of a number and NaN the number."""

    def either(x: Formula, y: Formula) -> Formula:
        return x.compare("ne", x).choose(y, y.compare("ne", y).choose(x, x.of(kind, y)))

    return _formula(either)


def _sign_bit(e: Builder, call: Call) -> SSAValue:
    x = Formula(e, e.value(call["self"]))
    return (is_negative(x) if is_float(tensor_type(x.value)) else x < 0).value


def _test(kind: type[tensor.PredicateOp]) -> Rule:
    """A rule for a test of floats, which no integer passes."""

    def rule(e: Builder, call: Call) -> SSAValue:
        x = e.value(call["self"])
        if is_float(tensor_type(x)):
            return e.add(kind(x))
        return e.add(tensor.CompareOp(x, x, "ne"))

    return rule


RULES: dict[str, Rule] = {
    **{
        function.rpartition(".")[2]: unary(kind)
        for kind, function in FUNCTIONS.items()
        if issubclass(kind, tensor.FloatUnaryOp) and not issubclass(kind, tensor.AlphaOp)
    },
    **dict.fromkeys(("__and__", "bitwise_and"), arithmetic(tensor.AndOp, tensor.AndOp)),
    **dict.fromkeys(("__lshift__", "bitwise_left_shift"), arithmetic(tensor.ShiftLeftOp)),
    **dict.fromkeys(("__or__", "bitwise_or"), arithmetic(tensor.OrOp, tensor.OrOp)),
    **dict.fromkeys(("__rshift__", "bitwise_right_shift"), arithmetic(tensor.ShiftRightOp)),
    **dict.fromkeys(("__xor__", "bitwise_xor"), arithmetic(tensor.XorOp, tensor.XorOp)),
    "abs": unary(tensor.AbsOp),
    "atan2": arithmetic(tensor.Atan2Op),
    "fmod": arithmetic(tensor.FmodOp),
    "hypot": arithmetic(tensor.HypotOp),
    "add": arithmetic(tensor.AddOp, tensor.OrOp),
    "bitwise_not": unary(tensor.NotOp),
    "ceil": _rounded(tensor.CeilOp),
    "copysign": _formula(lambda x, y: is_negative(y).choose(-abs(x), abs(x))),
    **dict.fromkeys(("clamp", "clip", "clamp_max", "clamp_min"), _clamp),
    **dict.fromkeys(("alias", "clone", "contiguous", "detach", "detach_", "lift_fresh_copy"), same),
    **dict.fromkeys(
        ("to", "_to_copy", "type_as"),
        lambda e, call: e.convert(e.value(call["self"]), element_type(call.value.dtype)),
    ),
    "div": _div,
    "dropout": _dropout,
    **{predicate: compare(predicate) for predicate in ("eq", "ge", "gt", "le", "lt", "ne")},
    "floor": _rounded(tensor.FloorOp),
    "floor_divide": lambda e, call: _div(e, call.using(rounding_mode="floor")),
    "fmax": _number_of(tensor.MaximumOp),
    "fmin": _number_of(tensor.MinimumOp),
    "isinf": _test(tensor.IsInfOp),
    "ldexp": _formula(lambda x, y: x * y.of(tensor.Exp2Op)),
    "isnan": _test(tensor.IsNanOp),
    "log10": composed(_log10),
    "logical_and": logical(tensor.AndOp),
    "logical_not": logical(tensor.NotOp),
    "logical_or": logical(tensor.OrOp),
    "logical_xor": logical(tensor.XorOp),
    "masked_fill": _masked_fill,
    "maximum": arithmetic(tensor.MaximumOp, tensor.OrOp),
    "minimum": arithmetic(tensor.MinimumOp, tensor.AndOp),
    "mul": arithmetic(tensor.MulOp, tensor.AndOp),
    "neg": unary(tensor.NegOp),
    "pow": _pow,
    "remainder": arithmetic(tensor.ModOp),
    "round": _rounded(tensor.RoundOp),
    "rsub": _rsub,
    "sign": unary(tensor.SignOp),
    "signbit": _sign_bit,
    "square": composed(lambda e, x: e.add(tensor.MulOp(x, x))),
    "sub": arithmetic(tensor.SubOp),
    "trunc": _rounded(tensor.TruncOp),
    "where": _where,
}
"""By the name of the operator in the namespace `aten`."""
