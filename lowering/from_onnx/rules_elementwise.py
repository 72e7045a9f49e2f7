"""ONNX import of arithmetic, comparisons and logic.

Not here: activations (`rules_activation`), bits (`rules_bits`), conversions (`rules_conversion`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np
from xdsl.dialects.builtin import f64, i1, i32, i64
from xdsl.ir import Operation, SSAValue

from ...dialects import tensor
from ...dialects.elements import numpy_dtype
from ...dialects.inference import tensor_type
from ...dialects.shapes import is_float
from ..operator_names import ONNX
from ..problems import ProblemError
from .onnx_builder import Builder, Call, Results, Rule

Binary = Callable[[SSAValue, SSAValue], Operation]


def is_unsigned(value: SSAValue) -> bool:
    """Whether the elements are integers without a sign."""
    return numpy_dtype(tensor_type(value).element_type).kind == "u"


def unary(kind: Callable[[SSAValue], Operation]) -> Rule:
    """A rule for an op of one operand."""
    return lambda e, call: e.add(kind(call[0]))


def aligned(e: Builder, call: Call) -> tuple[SSAValue, SSAValue]:
    """Both operands; up to opset 6 the second one is laid along `axis`."""
    lhs, rhs = call[0], call[1]
    axis = call.integer("axis", None)
    if axis is not None and call.opset < 7 and call.integer("broadcast", 0):
        behind = e.rank(lhs) - axis % max(e.rank(lhs), 1) - e.rank(rhs)
        rhs = e.reshape(rhs, (*e.sizes(rhs), *[1] * behind))
    return lhs, rhs


def binary(kind: Binary, logical: Binary | None = None) -> Rule:
    """A rule for an op of two operands; `logical` is that of truth values."""

    def rule(e: Builder, call: Call) -> SSAValue:
        lhs, rhs = aligned(e, call)
        if logical is not None and tensor_type(lhs).element_type == i1:
            return e.add(logical(lhs, rhs))
        return e.add(kind(lhs, rhs))

    return rule


def variadic(kind: Binary) -> Rule:
    """A rule for any number of operands."""
    return lambda e, call: _folded(e, kind, call)


def _folded(e: Builder, kind: Binary, call: Call) -> SSAValue:
    return reduce(lambda lhs, rhs: e.add(kind(lhs, rhs)), call.tensors())


def _mean(e: Builder, call: Call) -> SSAValue:
    total = _folded(e, tensor.AddOp, call)
    return e.add(tensor.DivOp(total, e.number(len(call.inputs), total)))


def _pow(e: Builder, call: Call) -> SSAValue:
    base, exponent = aligned(e, call)
    known = e.arrays.get(exponent)
    if known is not None and known.size == 1 and known.ndim <= e.rank(base):
        power = float(known.reshape(-1)[0])
        if power in (1.0, 2.0, 3.0):
            product = base
            for _ in range(int(power) - 1):
                product = e.add(tensor.MulOp(product, base))
            return product
        if power == 0.5 and is_float(tensor_type(base)):
            return e.add(tensor.SqrtOp(base))
    if is_float(tensor_type(base)):
        return e.add(tensor.PowOp(base, e.convert(exponent, base)))
    if known is not None and known.dtype.kind in "iu" and known.size > 0 and known.min() >= 0:
        bits = range(max(1, int(known.max()).bit_length()))
        chosen = [(known >> known.dtype.type(bit) & 1).astype(np.bool_) for bit in bits]
        return _whole_power(e, base, [e.known(bit) for bit in chosen])
    if not is_float(tensor_type(exponent)):
        return integer_power(e, base, exponent)
    wide = e.add(tensor.PowOp(e.convert(base, f64), e.convert(exponent, f64)))
    return e.convert(wide, base)


def integer_power(e: Builder, base: SSAValue, exponent: SSAValue) -> SSAValue:
    """Integers to integer powers, exact where the type holds them; toward zero below 0.

    Exponents outside 0 … 127 become 126 or 127, whichever is as odd: 0, 1 and -1 have the same
    powers then, and powers of all else have left the type before. Zero to less than zero is 0.
    """

    def compare(value: SSAValue, number: int, predicate: str) -> SSAValue:
        return e.add(tensor.CompareOp(value, e.number(number, value), predicate))

    signed = not is_unsigned(exponent)
    if not signed:  # the greatest become negative there, and no less odd
        exponent = e.convert(exponent, i64)
    odd = e.add(tensor.ModOp(exponent, e.number(2, exponent)))
    negative = compare(exponent, 0, "lt")
    outside = e.add(tensor.OrOp(negative, compare(exponent, 127, "gt")))
    last = e.add(tensor.AddOp(odd, e.number(126, exponent)))
    left = e.convert(e.add(tensor.WhereOp(outside, last, exponent)), i32)
    chosen: list[SSAValue] = []
    for _ in range(7):
        chosen.append(compare(e.add(tensor.ModOp(left, e.number(2, left))), 1, "eq"))
        left = e.add(tensor.DivOp(left, e.number(2, left)))
    power = _whole_power(e, base, chosen)
    if not signed:
        return power
    vanishes = e.add(tensor.AndOp(negative, compare(e.add(tensor.AbsOp(base)), 1, "ne")))
    return e.add(tensor.WhereOp(vanishes, e.number(0, base), power))


def _whole_power(e: Builder, base: SSAValue, chosen: Sequence[SSAValue]) -> SSAValue:
    """Integers to the powers with these bits, wrapping around: a product of squares of squares."""
    one, power = e.number(1, base), None
    for bit in chosen:
        if power is not None:
            base = e.add(tensor.MulOp(base, base))
        factor = e.add(tensor.WhereOp(bit, base, one))
        power = factor if power is None else e.add(tensor.MulOp(power, factor))
    assert power is not None
    return power


def compare(predicate: str, negated: bool = False) -> Rule:
    """A rule for a comparison."""

    def rule(e: Builder, call: Call) -> SSAValue:
        lhs, rhs = aligned(e, call)
        if tensor_type(lhs).element_type == i1:
            lhs, rhs = e.convert(lhs, i32), e.convert(rhs, i32)
        result = e.add(tensor.CompareOp(lhs, rhs, predicate))
        return e.add(tensor.NotOp(result)) if negated else result

    return rule


def _is_inf(e: Builder, call: Call) -> SSAValue:
    x = call[0]
    signs = [
        s for name, s in (("detect_positive", 1), ("detect_negative", -1)) if call.flag(name, True)
    ]
    if len(signs) == 2:
        return e.add(tensor.IsInfOp(x))
    matches = [e.add(tensor.CompareOp(x, e.number(sign * np.inf, x), "eq")) for sign in signs]
    return matches[0] if matches else e.add(tensor.CompareOp(x, x, "lt"))


def _clip(e: Builder, call: Call) -> SSAValue:
    x = call[0]
    if call.opset < 11:
        low, high = call.number("min", None), call.number("max", None)
        return e.add(tensor.ClampOp(x, min=low, max=high)) if (low, high) != (None, None) else x
    bounds = [call.optional(1), call.optional(2)]
    if is_float(tensor_type(x)) and all(b is None or e.is_known(b) for b in bounds):
        low, high = (None if b is None else float(e.array(b)) for b in bounds)
        if low is None or high is None or low <= high:
            return e.add(tensor.ClampOp(x, min=low, max=high)) if (low, high) != (None, None) else x
    for kind, bound in ((tensor.MaximumOp, bounds[0]), (tensor.MinimumOp, bounds[1])):
        x = x if bound is None else e.add(kind(x, bound))
    return x


def _dropout(e: Builder, call: Call) -> Results:
    training = call.optional(2)
    ratio = float(e.array(call[1], "ratio")) if call.has(1) else call.number("ratio", 0.5)
    if training is not None and e.array(training, "training_mode").any() and ratio:
        raise ProblemError("it drops elements at random; export the model for inference")
    x = call[0]
    if call.outputs < 2:
        return x
    mask = e.stretch(e.known(np.ones((1,) * e.rank(x), np.bool_)), e.sizes(x))
    return x, mask if call.opset >= 10 else e.convert(mask, x)


RULES: dict[str, Rule] = {
    **{name: unary(kind) for kind, name in ONNX.items()},
    "Add": binary(tensor.AddOp),
    "And": binary(tensor.AndOp),
    "Clip": _clip,
    "Div": binary(tensor.DivOp),
    "Dropout": _dropout,
    "Equal": compare("eq"),
    "Greater": compare("gt"),
    "GreaterOrEqual": compare("ge"),
    "Identity": lambda e, call: call.value(0),
    "IsInf": _is_inf,
    "Less": compare("lt"),
    "LessOrEqual": compare("le"),
    "Max": variadic(tensor.MaximumOp),
    "Mean": _mean,
    "Min": variadic(tensor.MinimumOp),
    "Mod": lambda e, call: e.add(
        (tensor.FmodOp if call.flag("fmod", False) else tensor.ModOp)(call[0], call[1])
    ),
    "Mul": binary(tensor.MulOp, tensor.AndOp),
    "Or": binary(tensor.OrOp),
    "Pow": _pow,
    "Sign": unary(tensor.SignOp),
    "Sub": binary(tensor.SubOp),
    "Sum": variadic(tensor.AddOp),
    "Where": lambda e, call: e.add(tensor.WhereOp(call[0], call[1], call[2])),
    "Xor": binary(tensor.XorOp),
}
"""By the type of the operator."""
