"""Rules of element-wise arithmetic, comparisons and conversions of ATen.

Operands take the type that PyTorch promotes them to. Activations stand in `rules_activation`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from xdsl.dialects.builtin import i1
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects import tensor
from ...dialects.inference import tensor_type
from ...dialects.shapes import is_float, is_integer
from .sizes import ProblemError
from .torch_builder import Builder, Call

Rule = Callable[[Builder, Call], Any]


def unary(kind: type[Operation]) -> Rule:
    """A rule for an op of one operand; integers become floats where PyTorch makes them that."""

    def rule(e: Builder, call: Call) -> SSAValue:
        argument = next(iter(call.arguments.values()))
        return e.add(kind(e.operand(argument, call.value.dtype)))  # pyright: ignore[reportCallIssue]

    return rule


def composed(function: Callable[[Builder, SSAValue], SSAValue]) -> Rule:
    """A rule for a function of one tensor, made of several ops."""

    def rule(e: Builder, call: Call) -> SSAValue:
        argument = next(iter(call.arguments.values()))
        return function(e, e.operand(argument, call.value.dtype))

    return rule


def arithmetic(kind: type[Operation], logical: type[Operation] | None = None) -> Rule:
    """A rule for an op of two operands; `logical` is that of truth values."""

    def rule(e: Builder, call: Call) -> SSAValue:
        lhs, rhs = e.operands([call["self"], call["other"]], call.value.dtype, call.sizes)
        if call.get("alpha", 1) != 1:
            factor = e.number(call["alpha"], tensor_type(rhs).element_type)
            rhs = e.add(tensor.MulOp(rhs, factor))
        if tensor_type(lhs).element_type == i1:
            if logical is None:
                raise ProblemError("it computes with truth values; convert them to numbers")
            return e.add(logical(lhs, rhs))  # pyright: ignore[reportCallIssue]
        return e.add(kind(lhs, rhs))  # pyright: ignore[reportCallIssue]

    return rule


def _rsub(e: Builder, call: Call) -> SSAValue:
    rhs, lhs = e.operands([call["self"], call["other"]], call.value.dtype, call.sizes)
    if call.get("alpha", 1) != 1:
        rhs = e.add(tensor.MulOp(rhs, e.number(call["alpha"], tensor_type(rhs).element_type)))
    return e.add(tensor.SubOp(lhs, rhs))


def _div(e: Builder, call: Call) -> SSAValue:
    lhs, rhs = e.operands([call["self"], call["other"]], call.value.dtype, call.sizes)
    mode = call.get("rounding_mode")
    if mode == "floor" and is_integer(tensor_type(lhs)):
        return whole_floor(e, lhs, rhs)
    quotient = e.add(tensor.DivOp(lhs, rhs))
    if mode is None or is_integer(tensor_type(lhs)):
        return quotient
    return e.add(tensor.FloorOp(quotient)) if mode == "floor" else e.add(tensor.TruncOp(quotient))


class Writer(Protocol):
    """What importers write ops with."""

    def add(self, op: Operation, /) -> SSAValue:
        """Insert an op; its result."""
        ...

    def convert(self, value: SSAValue, element: Attribute, /) -> SSAValue:
        """`value` with another element type."""
        ...


def whole_floor(e: Writer, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
    """⌊lhs / rhs⌋ of integers: the quotient toward zero, or one less; nothing in it overflows."""
    quotient = e.add(tensor.DivOp(lhs, rhs))
    rest = e.add(tensor.SubOp(lhs, e.add(tensor.MulOp(quotient, rhs))))
    beyond = e.add(tensor.CompareOp(rest, e.add(tensor.ModOp(lhs, rhs)), "ne"))
    return e.add(tensor.SubOp(quotient, e.convert(beyond, tensor_type(quotient).element_type)))


def _floor_divide(e: Builder, call: Call) -> SSAValue:
    return _div(e, Call(call.node, call.name, {**call.arguments, "rounding_mode": "floor"}))


def _rounded(kind: type[tensor.UnaryOp]) -> Rule:
    """A rule for rounding, which leaves integers."""

    def rule(e: Builder, call: Call) -> SSAValue:
        x = e.value(call["self"])
        if call.get("decimals", 0) != 0:
            raise ProblemError("it rounds to decimals; multiply, round and divide")
        return e.add(kind(x)) if is_float(tensor_type(x)) else x

    return rule


def _square(e: Builder, x: SSAValue) -> SSAValue:
    return e.add(tensor.MulOp(x, x))


def _abs(e: Builder, call: Call) -> SSAValue:
    return e.add(tensor.AbsOp(e.value(call["self"])))


def _pow(e: Builder, call: Call) -> SSAValue:
    exponent, dtype = call["exponent"], call.value.dtype
    if isinstance(exponent, int | float) and hasattr(call["self"], "meta"):
        x = e.operand(call["self"], dtype)
        if exponent in (1, 2, 3):
            power = x
            for _ in range(int(exponent) - 1):
                power = e.add(tensor.MulOp(power, x))
            return power
        special = {0.5: tensor.SqrtOp, -0.5: tensor.RsqrtOp}.get(exponent)
        if special is not None:
            return e.add(special(x))
        if exponent == -1:
            return e.add(tensor.ReciprocalOp(x))
    base, power = e.operands([call["self"], exponent], dtype, call.sizes)
    return e.add(tensor.PowOp(base, power))


def compare(predicate: str) -> Rule:
    """A rule for a comparison."""

    def rule(e: Builder, call: Call) -> SSAValue:
        pair = [call["self"], call["other"]]
        lhs, rhs = e.operands(pair, _promoted(pair), call.sizes)
        if tensor_type(lhs).element_type == i1:
            import torch

            lhs, rhs = e.operands(pair, torch.int32, call.sizes)
        return e.add(tensor.CompareOp(lhs, rhs, predicate))

    return rule


def _promoted(arguments: list[Any]) -> Any:
    """The type that PyTorch compares in."""
    import torch

    return torch.result_type(
        *(a.meta["val"] if hasattr(a, "meta") else a for a in arguments)  # pyright: ignore[reportArgumentType]
    )


def logical(kind: type[Operation]) -> Rule:
    """A rule for an op on truth values."""

    def rule(e: Builder, call: Call) -> SSAValue:
        import torch

        names = [name for name in ("self", "other") if name in call.arguments]
        values = e.operands([call[name] for name in names], torch.bool, call.sizes)
        return e.add(kind(*values))  # pyright: ignore[reportCallIssue]

    return rule


def _where(e: Builder, call: Call) -> SSAValue:
    import torch

    condition, lhs, rhs = call["condition"], call["self"], call["other"]
    chosen = e.operands([lhs, rhs], call.value.dtype, call.sizes)
    return e.add(tensor.WhereOp(e.operand(condition, torch.bool), *chosen))


def _masked_fill(e: Builder, call: Call) -> SSAValue:
    import torch

    dtype = call.value.dtype
    mask = e.operand(call["mask"], torch.bool)
    return e.add(
        tensor.WhereOp(mask, e.operand(call["value"], dtype), e.operand(call["self"], dtype))
    )


def _clamp(e: Builder, call: Call) -> SSAValue:
    x = e.operand(call["self"], call.value.dtype)
    low, high = call.get("min"), call.get("max")
    if all(bound is None or isinstance(bound, int | float) for bound in (low, high)):
        return e.add(tensor.ClampOp(x, min=low, max=high))
    for kind, bound in ((tensor.MaximumOp, low), (tensor.MinimumOp, high)):
        if bound is not None:
            x = e.add(kind(x, e.operand(bound, call.value.dtype)))
    return x


def _convert(e: Builder, call: Call) -> SSAValue:
    return e.convert(e.value(call["self"]), e.element(call.value.dtype))


def same(e: Builder, call: Call) -> SSAValue:
    """The operand itself."""
    return e.value(next(iter(call.arguments.values())))


def _dropout(e: Builder, call: Call) -> SSAValue:
    if call["train"] and call["p"]:
        raise ProblemError("it drops values at random also in evaluation mode")
    return e.value(call["input"])


def _log10(e: Builder, x: SSAValue) -> SSAValue:
    factor = e.number(0.43429448190325176, tensor_type(x).element_type)
    return e.add(tensor.MulOp(e.add(tensor.LogOp(x)), factor))


def _test(kind: type[tensor.PredicateOp]) -> Rule:
    """A rule for a test of floats, which no integer passes."""

    def rule(e: Builder, call: Call) -> SSAValue:
        x = e.value(call["self"])
        if is_float(tensor_type(x)):
            return e.add(kind(x))
        return e.add(tensor.CompareOp(x, x, "ne"))

    return rule


_FUNCTIONS: dict[str, type[tensor.UnaryOp]] = {
    "acos": tensor.AcosOp,
    "acosh": tensor.AcoshOp,
    "asin": tensor.AsinOp,
    "asinh": tensor.AsinhOp,
    "atan": tensor.AtanOp,
    "atanh": tensor.AtanhOp,
    "cos": tensor.CosOp,
    "cosh": tensor.CoshOp,
    "exp2": tensor.Exp2Op,
    "sin": tensor.SinOp,
    "sinh": tensor.SinhOp,
    "tan": tensor.TanOp,
}

RULES: dict[str, Rule] = {
    "__lshift__": arithmetic(tensor.ShiftLeftOp),
    "__rshift__": arithmetic(tensor.ShiftRightOp),
    "abs": _abs,
    "atan2": arithmetic(tensor.Atan2Op),
    "fmod": arithmetic(tensor.FmodOp),
    "hypot": arithmetic(tensor.HypotOp),
    "add": arithmetic(tensor.AddOp, tensor.OrOp),
    "bitwise_and": arithmetic(tensor.AndOp, tensor.AndOp),
    "bitwise_left_shift": arithmetic(tensor.ShiftLeftOp),
    "bitwise_not": unary(tensor.NotOp),
    "bitwise_or": arithmetic(tensor.OrOp, tensor.OrOp),
    "bitwise_right_shift": arithmetic(tensor.ShiftRightOp),
    "bitwise_xor": arithmetic(tensor.XorOp, tensor.XorOp),
    "ceil": _rounded(tensor.CeilOp),
    "clamp": _clamp,
    "clamp_max": _clamp,
    "clamp_min": _clamp,
    "alias": same,
    "clone": same,
    "contiguous": same,
    "detach": same,
    "lift_fresh_copy": same,
    "to": _convert,
    "_to_copy": _convert,
    "div": _div,
    "dropout": _dropout,
    "eq": compare("eq"),
    **{name: unary(kind) for name, kind in _FUNCTIONS.items()},
    "erf": unary(tensor.ErfOp),
    "exp": unary(tensor.ExpOp),
    "expm1": unary(tensor.Expm1Op),
    "floor": _rounded(tensor.FloorOp),
    "floor_divide": _floor_divide,
    "ge": compare("ge"),
    "gt": compare("gt"),
    "isinf": _test(tensor.IsInfOp),
    "isnan": _test(tensor.IsNanOp),
    "le": compare("le"),
    "log": unary(tensor.LogOp),
    "log10": composed(_log10),
    "log1p": unary(tensor.Log1pOp),
    "log2": unary(tensor.Log2Op),
    "logical_and": logical(tensor.AndOp),
    "logical_not": logical(tensor.NotOp),
    "logical_or": logical(tensor.OrOp),
    "logical_xor": logical(tensor.XorOp),
    "lt": compare("lt"),
    "masked_fill": _masked_fill,
    "maximum": arithmetic(tensor.MaximumOp, tensor.OrOp),
    "minimum": arithmetic(tensor.MinimumOp, tensor.AndOp),
    "mul": arithmetic(tensor.MulOp, tensor.AndOp),
    "ne": compare("ne"),
    "neg": unary(tensor.NegOp),
    "pow": _pow,
    "reciprocal": unary(tensor.ReciprocalOp),
    "remainder": arithmetic(tensor.ModOp),
    "round": _rounded(tensor.RoundOp),
    "rsqrt": unary(tensor.RsqrtOp),
    "rsub": _rsub,
    "sign": unary(tensor.SignOp),
    "sqrt": unary(tensor.SqrtOp),
    "square": composed(_square),
    "sub": arithmetic(tensor.SubOp),
    "trunc": _rounded(tensor.TruncOp),
    "where": _where,
}
"""By the name of the operator in the namespace `aten`."""
