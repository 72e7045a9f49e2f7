"""Element-wise ops and activations: one `linalg.generic` each; softmax from a few."""

from __future__ import annotations

import math as numbers
from collections.abc import Callable

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, Float64Type, FloatAttr, i1
from xdsl.dialects.func import CallOp
from xdsl.ir import Operation, SSAValue

from ....dialects import tensor
from ....dialects.inference import tensor_type
from ....dialects.shapes import bit_width
from .linalg_builder import LinalgBuilder, Rule, element, rank
from .reshaping import reduce
from .scalars import Number, Scalars, integer_range, signed_bits

Unary = Callable[[Scalars, SSAValue], SSAValue]
Binary = Callable[[Scalars, SSAValue, SSAValue, bool], SSAValue]


def _quotient(s: Scalars, x: SSAValue, y: SSAValue, unsigned: bool) -> SSAValue:
    """x / y; integers by 0 give 0."""
    quotient = s.div(x, y, unsigned=unsigned)
    return quotient if _is_float(x) else s.select(s.compare("eq", y, 0), 0, quotient)


def _is_float(x: SSAValue) -> bool:
    return isinstance(x.type, AnyFloat)


def unary(function: Unary) -> Rule:
    """The rule that maps `function` over the operand."""

    def rule(builder: LinalgBuilder, op: Operation, x: SSAValue) -> SSAValue:
        return builder.map([x], function, element(x))

    return rule


def unless_unsigned(on_signed: Unary, on_unsigned: Unary) -> Rule:
    """The rule that maps one of two functions over the operand: by the sign of its integers."""

    def rule(builder: LinalgBuilder, op: Operation, x: SSAValue) -> SSAValue:
        return builder.map([x], on_unsigned if x in builder.unsigned else on_signed, element(x))

    return rule


def binary(function: Binary) -> Rule:
    """The rule that maps `function` over two operands; its last argument says "unsigned"."""

    def rule(builder: LinalgBuilder, op: Operation, x: SSAValue, y: SSAValue) -> SSAValue:
        unsigned = x in builder.unsigned or element(x) == i1
        return builder.map([x, y], lambda s, a, b: function(s, a, b, unsigned), element(x))

    return rule


def _same(s: Scalars, x: SSAValue) -> SSAValue:
    return x


def _absolute(s: Scalars, x: SSAValue) -> SSAValue:
    if _is_float(x):
        return s.insert(math.AbsFOp(x))
    return s.select(s.compare("lt", x, 0), s.negate(x), x)


def _sign(s: Scalars, x: SSAValue) -> SSAValue:
    """NaN stays NaN, as in NumPy."""
    one = s.select(s.compare("gt", x, 0), 1, s.constant(0, x.type))
    result = s.select(s.compare("lt", x, 0), -1, one)
    return s.select(s.is_nan(x), x, result) if _is_float(x) else result


def modulo(builder: LinalgBuilder, op: tensor.ModOp, x: SSAValue, y: SSAValue) -> SSAValue:
    """`tensor.mod`: the truncated remainder, plus y where the signs differ.

    For floats the C library's `fmod` is called: x - ⌊x / y⌋·y is not exact for large quotients.
    """
    type = element(x)
    unsigned = x in builder.unsigned
    if isinstance(type, AnyFloat):
        callee = builder.library_function(
            "fmod" if isinstance(type, Float64Type) else "fmodf", 2, type
        )

        def on_floats(s: Scalars, a: SSAValue, b: SSAValue) -> SSAValue:
            rest = s.insert(CallOp(callee, [a, b], [type]))
            return _with_sign_of(s, rest, b, s.insert(math.CopySignOp(rest, b)))

        return builder.map([x, y], on_floats, type)

    def on_integers(s: Scalars, a: SSAValue, b: SSAValue) -> SSAValue:
        rest = s.remainder(a, b, unsigned=unsigned)
        return rest if unsigned else _with_sign_of(s, rest, b, rest)

    return builder.map([x, y], on_integers, type)


def _with_sign_of(s: Scalars, rest: SSAValue, y: SSAValue, exact: SSAValue) -> SSAValue:
    """`rest` + y where `rest` is not zero and has the other sign; `exact` where it is zero."""
    differ = s.compare("ne", s.compare("lt", rest, 0), s.compare("lt", y, 0))
    moved = s.select(differ, s.add(rest, y), rest)
    return s.select(s.compare("eq", rest, 0), exact, moved)


def compare(builder: LinalgBuilder, op: tensor.CompareOp, x: SSAValue, y: SSAValue) -> SSAValue:
    """`tensor.compare`."""
    unsigned = x in builder.unsigned or element(x) == i1
    predicate = op.predicate.data
    return builder.map([x, y], lambda s, a, b: s.compare(predicate, a, b, unsigned=unsigned), i1)


def where(
    builder: LinalgBuilder, op: tensor.WhereOp, condition: SSAValue, x: SSAValue, y: SSAValue
) -> SSAValue:
    """`tensor.where`; what one number fills does not depend on the condition."""
    if x is y and rank(x) == 0:
        sizes = builder.broadcast_sizes([condition, x])
        return builder.map_to(sizes, [x], lambda s, a: a, element(x))
    return builder.map([condition, x, y], lambda s, c, a, b: s.select(c, a, b), element(x))


def convert(builder: LinalgBuilder, op: tensor.ConvertOp, x: SSAValue) -> SSAValue:
    """`tensor.convert`."""
    target = builder.signless(tensor_type(op.result).element_type)
    unsigned = builder.is_unsigned_type(tensor_type(op.result).element_type)
    if isinstance(element(x), AnyFloat) and bit_width(target) not in (1, None):
        return builder.map([x], lambda s, a: s.saturate(a, target, unsigned=unsigned), target)
    if element(x) == target and (x in builder.unsigned) != unsigned:
        # A value of its own: other users of x still read its bits as they did.
        return builder.map([x], lambda s, a: a, target)
    return builder.convert_elements(x, target)


def clamp(builder: LinalgBuilder, op: tensor.ClampOp, x: SSAValue) -> SSAValue:
    """`tensor.clamp`; bounds beyond an integer type do not limit."""
    unsigned = x in builder.unsigned
    low = _bound(op.min, x, unsigned)
    high = _bound(op.max, x, unsigned)

    def body(s: Scalars, a: SSAValue) -> SSAValue:
        a = a if low is None else s.maximum(a, low, unsigned=unsigned)
        return a if high is None else s.minimum(a, high, unsigned=unsigned)

    return builder.map([x], body, element(x))


def _bound(bound: FloatAttr[Float64Type] | None, x: SSAValue, unsigned: bool) -> Number | None:
    bits = bit_width(element(x))
    if bound is None or bits is None:
        return None if bound is None else bound.value.data
    least, most = integer_range(bits, unsigned=unsigned)
    inside = min(max(bound.value.data, least), most)
    return signed_bits(int(inside), bits)


def softmax_along(builder: LinalgBuilder, x: SSAValue, axis: int) -> SSAValue:
    """e^x / Σ e^x along `axis`, after subtracting the maximum."""
    shifted = minus_maximum(builder, x, axis)
    exponentials = builder.map([shifted], lambda s, a: s.exp(a), element(x))
    total = reduce(builder, exponentials, [axis], lambda s, a, b: s.add(b, a), 0, keepdims=True)
    return builder.map([exponentials, total], lambda s, a, b: s.div(a, b), element(x))


def minus_maximum(builder: LinalgBuilder, x: SSAValue, axis: int) -> SSAValue:
    """x less its maximum along `axis`."""
    most = reduce(builder, x, [axis], lambda s, a, b: s.maximum(a, b), -numbers.inf, keepdims=True)
    return builder.map([x, most], lambda s, a, b: s.sub(a, b), element(x))


def softmax(builder: LinalgBuilder, op: tensor.SoftmaxOp, x: SSAValue) -> SSAValue:
    """`tensor.softmax`."""
    return softmax_along(builder, x, op.axis.value.data % rank(x))


def log_softmax(builder: LinalgBuilder, op: tensor.LogSoftmaxOp, x: SSAValue) -> SSAValue:
    """`tensor.log_softmax`."""
    axis = op.axis.value.data % rank(x)
    shifted = minus_maximum(builder, x, axis)
    exponentials = builder.map([shifted], lambda s, a: s.exp(a), element(x))
    total = reduce(builder, exponentials, [axis], lambda s, a, b: s.add(b, a), 0, keepdims=True)
    return builder.map(
        [shifted, total], lambda s, a, b: s.sub(a, s.insert(math.LogOp(b))), element(x)
    )


def _of(kind: Callable[[SSAValue], Operation]) -> Rule:
    """The rule of a unary op that `math` has."""
    return unary(lambda s, x: s.insert(kind(x)))


def _power(s: Scalars, x: SSAValue, y: SSAValue, unsigned: bool) -> SSAValue:
    return s.insert(math.PowFOp(x, y))


def _shifted(s: Scalars, x: SSAValue, by: SSAValue, kind: Callable[..., Operation]) -> SSAValue:
    """The bits of x moved, zeros for them; 0 where each leaves, by a shift that is defined."""
    far = s.compare("ge", by, bit_width(x.type) or 0, unsigned=True)
    return s.select(far, 0, s.insert(kind(x, s.select(far, 0, by))))


def _shift_right(s: Scalars, x: SSAValue, by: SSAValue, unsigned: bool) -> SSAValue:
    if unsigned:
        return _shifted(s, x, by, arith.ShRUIOp)
    return s.shift_right(x, s.minimum(by, (bit_width(x.type) or 1) - 1, unsigned=True))


def _relu6(s: Scalars, x: SSAValue) -> SSAValue:
    return s.minimum(s.maximum(x, 0), 6)


RULES: dict[type[Operation], Rule] = {
    tensor.AddOp: binary(lambda s, x, y, _: s.add(x, y)),
    tensor.SubOp: binary(lambda s, x, y, _: s.sub(x, y)),
    tensor.MulOp: binary(lambda s, x, y, _: s.mul(x, y)),
    tensor.DivOp: binary(_quotient),
    tensor.ModOp: modulo,
    tensor.PowOp: binary(_power),
    tensor.MaximumOp: binary(lambda s, x, y, unsigned: s.maximum(x, y, unsigned=unsigned)),
    tensor.MinimumOp: binary(lambda s, x, y, unsigned: s.minimum(x, y, unsigned=unsigned)),
    tensor.AndOp: binary(lambda s, x, y, _: s.both(x, y)),
    tensor.OrOp: binary(lambda s, x, y, _: s.either(x, y)),
    tensor.CompareOp: compare,
    tensor.WhereOp: where,
    tensor.ConvertOp: convert,
    tensor.NegOp: unary(lambda s, x: s.negate(x)),
    tensor.XorOp: binary(lambda s, x, y, _: s.exclusive(x, y)),
    tensor.NotOp: unary(lambda s, x: s.exclusive(x, -1)),
    tensor.ShiftLeftOp: binary(lambda s, x, y, _: _shifted(s, x, y, arith.ShLIOp)),
    tensor.ShiftRightOp: binary(_shift_right),
    tensor.AbsOp: unless_unsigned(_absolute, _same),
    tensor.SignOp: unless_unsigned(_sign, lambda s, x: s.minimum(x, 1, unsigned=True)),
    tensor.ExpOp: _of(math.ExpOp),
    tensor.LogOp: _of(math.LogOp),
    tensor.SqrtOp: _of(math.SqrtOp),
    tensor.RsqrtOp: _of(math.RsqrtOp),
    tensor.RoundOp: _of(math.RoundEvenOp),
    tensor.FloorOp: _of(math.FloorOp),
    tensor.CeilOp: _of(math.CeilOp),
    tensor.TruncOp: _of(math.TruncOp),
    tensor.Exp2Op: _of(math.Exp2Op),
    tensor.Log2Op: _of(math.Log2Op),
    tensor.ErfOp: _of(math.ErfOp),
    tensor.ClampOp: clamp,
    tensor.ReluOp: unless_unsigned(lambda s, x: s.maximum(x, 0), _same),
    tensor.Relu6Op: unless_unsigned(_relu6, lambda s, x: s.minimum(x, 6, unsigned=True)),
    tensor.TanhOp: _of(math.TanhOp),
    tensor.SoftmaxOp: softmax,
    tensor.LogSoftmaxOp: log_softmax,
}
