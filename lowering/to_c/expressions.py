"""Ops of `arith` and `math` on single numbers as expressions of C99: a table, and what is special.

Integers are signed variables of C; what wraps is computed unsigned, so that nothing is undefined.
Truth values are 0 and 1 in a `uint8_t`; f16 and bf16 are their bits in a `uint16_t`. Not here:
loops (`nests`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isinf, isnan
from typing import Any, cast

import numpy as np
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float16Type,
    Float32Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    Signedness,
    i1,
)
from xdsl.dialects.func import CallOp
from xdsl.ir import Attribute, Operation

from ...dialects.elements import numpy_dtype
from ...dialects.shapes import bit_width
from ..to_native.llvm.c_library import C_NAMES
from ..to_native.program.nests import RefusedError

Words = Sequence[str]
Rule = Callable[[Any, Words], str]
"""`rule(op, operands)`: the expression of the result."""


def c_type(element: Attribute) -> str:
    """The type of a variable for an element."""
    if isinstance(element, AnyFloat):
        if isinstance(element, Float16Type | BFloat16Type):
            return "uint16_t"
        return "float" if isinstance(element, Float32Type) else "double"
    if isinstance(element, IndexType):
        return "int64_t"
    width = bit_width(element)
    if width is None or width not in (1, 8, 16, 32, 64):
        raise RefusedError(f"computes with {element}, for which C has no type")
    unsigned = element == i1 or element == IntegerType(width, Signedness.UNSIGNED)
    return f"{'u' if unsigned else ''}int{max(width, 8)}_t"


def literal(number: float, type: str) -> str:
    """A number as a constant of a type of C, exactly."""
    if type in ("float", "double"):
        return _float(float(number), "f" if type == "float" else "")
    value = int(number)
    if type == "int64_t":
        return "INT64_MIN" if value == -(1 << 63) else f"INT64_C({value})"
    if type == "int32_t" and value == -(1 << 31):
        return "INT32_MIN"
    return f"{value}u" if type.startswith("u") else str(value)


def _float(value: float, suffix: str) -> str:
    if isnan(value):
        return "NAN" if suffix else "(double)NAN"
    if isinf(value):
        text = "INFINITY" if suffix else "(double)INFINITY"
        return text if value > 0 else f"-{text}"
    if abs(value) < 1e6 and value == int(value):
        return f"{value}{suffix}"
    return f"{value.hex()}{suffix}"


def constant(op: arith.ConstantOp) -> str:
    """A scalar constant; f16 and bf16 as their bits."""
    element = op.result.type
    number = cast("IntegerAttr | FloatAttr", op.value).value.data
    if isinstance(element, Float16Type | BFloat16Type):
        return f"{int(np.asarray(number, numpy_dtype(element)).view(np.uint16))}u"
    text = literal(int(number) & 1 if element == i1 else number, c_type(element))
    return f"({text})" if text.startswith("-") else text


def expression(op: Operation, operands: Words) -> str:
    """The result of an op.

    Raises:
        RefusedError: the op has no form in C.
    """
    rule = RULES.get(type(op))
    if rule is None or len(op.results) != 1:
        raise RefusedError(f"its body has the op '{op.name}', which has no form in C")
    return rule(op, operands)


def _width(type: Attribute) -> int:
    return 64 if isinstance(type, IndexType) else bit_width(type) or 0


def _modular(type: Attribute) -> str:
    """The unsigned type in which arithmetic wraps."""
    return "uint64_t" if _width(type) == 64 else "uint32_t"


def _unsigned(value: str, type: Attribute) -> str:
    """An integer as an unsigned one of its width."""
    return value if type == i1 else f"(uint{_width(type)}_t){value}"


def _signed(value: str, type: Attribute) -> str:
    """An integer as a signed one: the truth value 1 is -1."""
    return f"-(int32_t){value}" if type == i1 else value


def _fitted(value: str, type: Attribute) -> str:
    """An expression cut to the width of a type."""
    return f"(uint8_t)(({value}) & 1u)" if type == i1 else f"({c_type(type)})({value})"


def _wrapping(sign: str) -> Rule:
    def rule(op: Operation, x: Words) -> str:
        type = op.results[0].type
        word = _modular(type)
        return _fitted(f"({word}){x[0]} {sign} ({word}){x[1]}", type)

    return rule


def _shift(op: Operation, x: Words, value: str) -> str:
    """A shift; amounts that are not known are kept within the width."""
    type = op.operands[1].type
    amount = x[1]
    if not isinstance(op.operands[1].owner, arith.ConstantOp):
        amount = f"((uint32_t){amount} & {max(_width(type), 32) - 1}u)"
    return _fitted(f"{value} {amount}", op.results[0].type)


def _left(op: Operation, x: Words) -> str:
    return _shift(op, x, f"({_modular(op.results[0].type)}){x[0]} <<")


def _right(op: Operation, x: Words) -> str:
    return _shift(op, x, f"{_signed(x[0], op.operands[0].type)} >>")


def _right_unsigned(op: Operation, x: Words) -> str:
    return _shift(op, x, f"{_unsigned(x[0], op.operands[0].type)} >>")


def _division(sign: str) -> Rule:
    def rule(op: Operation, x: Words) -> str:
        divisor = op.operands[1].owner
        safe = f"divisor({x[0]}, {x[1]})"
        if isinstance(divisor, arith.ConstantOp):
            number = cast("IntegerAttr", divisor.value).value.data
            safe = x[1] if number not in (0, -1) else safe
        return _fitted(f"{x[0]} {sign} {safe}", op.results[0].type)

    return rule


def _unsigned_division(sign: str) -> Rule:
    def rule(op: Operation, x: Words) -> str:
        type = op.results[0].type
        a, b = (f"(uint64_t){_unsigned(value, type)}" for value in x)
        return _fitted(f"{a} {sign} unsigned_divisor({b})", type)

    return rule


def _call(name: str) -> Rule:
    """A function of the library on 64 bits."""
    return lambda op, x: _fitted(f"{name}({', '.join(x)})", op.results[0].type)


def _choice(sign: str, view: Callable[[str, Attribute], str]) -> Rule:
    """The one of two integers that compares."""

    def rule(op: Operation, x: Words) -> str:
        a, b = (view(value, op.results[0].type) for value in x)
        return f"{a} {sign} {b} ? {x[0]} : {x[1]}"

    return rule


_INTEGER_SIGNS = ("==", "!=", "<", "<=", ">", ">=", "<", "<=", ">", ">=")
_UNSIGNED_FROM = 6
_FLOAT_TESTS = (
    *("0", "{0} == {1}", "{0} > {1}", "{0} >= {1}", "{0} < {1}", "{0} <= {1}"),
    *("({0} < {1} || {0} > {1})", "({0} == {0} && {1} == {1})", "!({0} < {1} || {0} > {1})"),
    *("!({0} <= {1})", "!({0} < {1})", "!({0} >= {1})", "!({0} > {1})", "{0} != {1}"),
    *("({0} != {0} || {1} != {1})", "1"),
)
"""By the number of the predicate of `arith.cmpf`."""


def _compare(op: arith.CmpiOp, x: Words) -> str:
    predicate = op.predicate.value.data
    view = _unsigned if predicate >= _UNSIGNED_FROM else _signed
    a, b = (view(value, op.lhs.type) for value in x)
    return f"(uint8_t)({a} {_INTEGER_SIGNS[predicate]} {b})"


def _compare_floats(op: arith.CmpfOp, x: Words) -> str:
    return f"(uint8_t)({_FLOAT_TESTS[op.predicate.value.data].format(*x)})"


def _resized(view: Callable[[str, Attribute], str]) -> Rule:
    return lambda op, x: _fitted(view(x[0], op.operands[0].type), op.results[0].type)


def _narrowed(op: arith.TruncIOp, x: Words) -> str:
    return _fitted(f"({_modular(op.operands[0].type)}){x[0]}", op.results[0].type)


def _to_float(view: Callable[[str, Attribute], str]) -> Rule:
    def rule(op: Operation, x: Words) -> str:
        return _as_float(view(x[0], op.operands[0].type), op.results[0].type)

    return rule


def _as_float(value: str, type: Attribute) -> str:
    if isinstance(type, Float16Type):
        return f"to_half((double)({value}))"
    if isinstance(type, BFloat16Type):
        return f"to_bfloat((float)({value}))"
    return f"({c_type(type)})({value})"


def _float_resized(op: Operation, x: Words) -> str:
    source = op.operands[0].type
    value = x[0]
    if isinstance(source, Float16Type):
        value = f"from_half({value})"
    elif isinstance(source, BFloat16Type):
        value = f"from_bfloat({value})"
    return _as_float(value, op.results[0].type)


def _bits(op: arith.BitcastOp, x: Words) -> str:
    source, result = op.operands[0].type, op.results[0].type
    if isinstance(source, AnyFloat) and source.bitwidth > 16:
        return _fitted(f"bits_of_{c_type(source)}({x[0]})", result)
    if isinstance(result, AnyFloat) and result.bitwidth > 16:
        return f"{c_type(result)}_of_bits({_unsigned(x[0], source)})"
    return f"({c_type(result)}){x[0]}"


def _function(name: str) -> Rule:
    """A function of `math.h`, that of its type."""
    return lambda op, x: f"{_named(name, op.results[0].type)}({', '.join(x)})"


def _named(name: str, type: Attribute) -> str:
    kind = c_type(type)
    if kind not in ("float", "double"):
        raise RefusedError(f"computes '{name}' in {type}")
    return f"{name}f" if kind == "float" else name


def _extreme(name: str) -> Rule:
    return lambda op, x: f"{name}_{c_type(op.results[0].type)}({', '.join(x)})"


def _plain(template: str) -> Rule:
    return lambda _, x: template.format(*x)


def _reciprocal_root(op: Operation, x: Words) -> str:
    type = op.results[0].type
    return f"{literal(1.0, c_type(type))} / {_named('sqrt', type)}({x[0]})"


def _magnitude(op: Operation, x: Words) -> str:
    type = op.results[0].type
    negative = _fitted(f"0u - ({_modular(type)}){x[0]}", type)
    return f"{x[0]} < 0 ? {negative} : {x[0]}"


def _counted(name: str) -> Rule:
    def rule(op: Operation, x: Words) -> str:
        type = op.results[0].type
        return _fitted(f"{name}({_unsigned(x[0], type)}, {_width(type)})", type)

    return rule


def _called(op: CallOp, x: Words) -> str:
    return f"{op.callee.string_value()}({', '.join(x)})"


RULES: Mapping[type[Operation], Rule] = {
    **{kind: _function(name) for kind, name in C_NAMES.items()},
    arith.AddiOp: _wrapping("+"),
    arith.SubiOp: _wrapping("-"),
    arith.MuliOp: _wrapping("*"),
    arith.AndIOp: _wrapping("&"),
    arith.OrIOp: _wrapping("|"),
    arith.XOrIOp: _wrapping("^"),
    arith.ShLIOp: _left,
    arith.ShRSIOp: _right,
    arith.ShRUIOp: _right_unsigned,
    arith.DivSIOp: _division("/"),
    arith.RemSIOp: _division("%"),
    arith.DivUIOp: _unsigned_division("/"),
    arith.RemUIOp: _unsigned_division("%"),
    arith.FloorDivSIOp: _call("floor_division"),
    arith.CeilDivSIOp: _call("ceiling_division"),
    arith.MinSIOp: _choice("<", _signed),
    arith.MaxSIOp: _choice(">", _signed),
    arith.MinUIOp: _choice("<", _unsigned),
    arith.MaxUIOp: _choice(">", _unsigned),
    arith.CmpiOp: _compare,
    arith.CmpfOp: _compare_floats,
    arith.SelectOp: _plain("{0} ? {1} : {2}"),
    arith.ExtSIOp: _resized(_signed),
    arith.ExtUIOp: _resized(_unsigned),
    arith.TruncIOp: _narrowed,
    arith.IndexCastOp: lambda op, x: _fitted(x[0], op.results[0].type),
    arith.SIToFPOp: _to_float(_signed),
    arith.UIToFPOp: _to_float(_unsigned),
    arith.FPToSIOp: lambda op, x: _fitted(x[0], op.results[0].type),
    arith.FPToUIOp: lambda op, x: _fitted(_unsigned(x[0], op.results[0].type), op.results[0].type),
    arith.ExtFOp: _float_resized,
    arith.TruncFOp: _float_resized,
    arith.BitcastOp: _bits,
    arith.AddfOp: _plain("{0} + {1}"),
    arith.SubfOp: _plain("{0} - {1}"),
    arith.MulfOp: _plain("{0} * {1}"),
    arith.DivfOp: _plain("{0} / {1}"),
    arith.NegfOp: _plain("-{0}"),
    arith.MaximumfOp: _extreme("max"),
    arith.MinimumfOp: _extreme("min"),
    arith.MaxnumfOp: _function("fmax"),
    arith.MinnumfOp: _function("fmin"),
    math.AbsFOp: _function("fabs"),
    math.CopySignOp: _function("copysign"),
    math.SqrtOp: _function("sqrt"),
    math.RsqrtOp: _reciprocal_root,
    math.FloorOp: _function("floor"),
    math.CeilOp: _function("ceil"),
    math.TruncOp: _function("trunc"),
    math.RoundOp: _function("round"),
    math.RoundEvenOp: _function("rint"),
    math.FmaOp: _function("fma"),
    math.AbsIOp: _magnitude,
    math.CountLeadingZerosOp: _counted("leading_zeros"),
    math.CountTrailingZerosOp: _counted("trailing_zeros"),
    math.CtPopOp: _counted("ones"),
    CallOp: _called,
}
"""For each op the function that writes it."""
