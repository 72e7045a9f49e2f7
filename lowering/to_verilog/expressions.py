"""Values of `hw` and `comb` as Verilog expressions.

Not here: which values get a wire of their own (`printer`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from xdsl.dialects import comb, hw
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects.shapes import bit_width

_INFIX: dict[type[Operation], str] = {
    comb.AddOp: "+",
    comb.SubOp: "-",
    comb.MulOp: "*",
    comb.AndOp: "&",
    comb.OrOp: "|",
    comb.XorOp: "^",
    comb.ShlOp: "<<",
    comb.ShrUOp: ">>",
    comb.DivUOp: "/",
    comb.ModUOp: "%",
}

_SIGNED: dict[type[Operation], str] = {comb.ShrSOp: ">>>", comb.DivSOp: "/", comb.ModSOp: "%"}
"""Ops whose first operand (or both) is a number in two's complement."""

_COMPARE = ("==", "!=", "<", "<=", ">", ">=", "<", "<=", ">", ">=")
"""The signs of `comb.icmp`'s predicates; 2 to 5 compare numbers in two's complement."""


def width(type: Attribute) -> int:
    """The bits of a type; a clock has one."""
    return bit_width(type) or 1


@dataclass(frozen=True)
class Expression:
    """The right side of an assignment.

    Attributes:
        text: the expression.
        simple: whether it can stand as an operand without parentheses.
    """

    text: str
    simple: bool = False

    @property
    def operand(self) -> str:
        """As part of another expression."""
        return self.text if self.simple else f"({self.text})"


def constant(op: hw.ConstantOp) -> str:
    """`4'd5`, in hexadecimal above 32 bits."""
    bits = width(op.result.type)
    value = op.value.value.data % (1 << bits)
    return f"{bits}'d{value}" if bits <= 32 else f"{bits}'h{value:x}"


class _Operands:
    """The operands of an op as expressions.

    Args:
        of: expressions of values.
    """

    def __init__(self, of: Mapping[SSAValue, Expression]) -> None:
        self.of = of

    def text(self, value: SSAValue) -> str:
        """A value as part of another expression."""
        return self.of[value].operand

    def whole(self, value: SSAValue) -> str:
        """A value by itself."""
        return self.of[value].text

    def signed(self, value: SSAValue) -> str:
        """A value as a number in two's complement."""
        return _signed(value, self.whole(value))


def expression(op: Operation, of: Mapping[SSAValue, Expression]) -> Expression:
    """An op as an expression of its operands; `comb.extract` needs an operand with a name."""
    return EXPRESSIONS[type(op)](op, _Operands(of))


def _infix(op: Operation, e: _Operands) -> Expression:
    return Expression(f" {_INFIX[type(op)]} ".join(e.text(value) for value in op.operands))


def _infix_signed(op: comb.DivSOp | comb.ModSOp, e: _Operands) -> Expression:
    return Expression(f"{e.signed(op.lhs)} {_SIGNED[type(op)]} {e.signed(op.rhs)}")


def _shifted(op: comb.ShrSOp, e: _Operands) -> Expression:
    return Expression(f"{e.signed(op.lhs)} {_SIGNED[type(op)]} {e.text(op.rhs)}")


def _xor(op: comb.XorOp, e: _Operands) -> Expression:
    if len(op.inputs) == 2 and _is_ones(op.inputs[1]):
        return Expression(f"~{e.text(op.inputs[0])}", simple=True)
    return _infix(op, e)


def _joined(op: comb.ConcatOp, e: _Operands) -> Expression:
    return Expression(f"{{{', '.join(e.whole(value) for value in op.inputs)}}}", simple=True)


def _repeated(op: comb.ReplicateOp, e: _Operands) -> Expression:
    times = width(op.result.type) // width(op.input.type)
    return Expression(f"{{{times}{{{e.whole(op.input)}}}}}", simple=True)


def _chosen(op: comb.MuxOp, e: _Operands) -> Expression:
    return Expression(f"{e.text(op.cond)} ? {e.text(op.true_value)} : {e.text(op.false_value)}")


def _compared(op: comb.ICmpOp, e: _Operands) -> Expression:
    predicate = op.predicate.value.data
    show = e.signed if 2 <= predicate <= 5 else e.text
    return Expression(f"{show(op.lhs)} {_COMPARE[predicate]} {show(op.rhs)}")


def _extracted(op: comb.ExtractOp, e: _Operands) -> Expression:
    name = e.text(op.input)
    have, bits, low = width(op.input.type), width(op.result.type), op.low_bit.value.data
    if bits == have:
        return Expression(name, simple=True)
    place = f"{low}" if bits == 1 else f"{low + bits - 1}:{low}"
    return Expression(f"{name}[{place}]", simple=True)


def _signed(value: SSAValue, text: str) -> str:
    """A number in two's complement; the least one of its width has no sign to write."""
    if not isinstance(value.owner, hw.ConstantOp):
        return f"$signed({text})"
    bits = width(value.type)
    number = value.owner.value.value.data % (1 << bits)
    if bits > 32 or number == 1 << (bits - 1):
        return f"$signed({text})"
    return f"{bits}'sd{number}" if number < 1 << (bits - 1) else f"-{bits}'sd{(1 << bits) - number}"


def _is_ones(value: SSAValue) -> bool:
    if not isinstance(value.owner, hw.ConstantOp):
        return False
    bits = width(value.type)
    return value.owner.value.value.data % (1 << bits) == (1 << bits) - 1


EXPRESSIONS: dict[type[Operation], Callable[[Any, _Operands], Expression]] = {
    **dict.fromkeys(_INFIX, _infix),
    comb.XorOp: _xor,
    comb.ShrSOp: _shifted,
    comb.DivSOp: _infix_signed,
    comb.ModSOp: _infix_signed,
    comb.ConcatOp: _joined,
    comb.ExtractOp: _extracted,
    comb.ICmpOp: _compared,
    comb.MuxOp: _chosen,
    comb.ParityOp: lambda op, e: Expression(f"^{e.text(op.input)}"),
    comb.ReplicateOp: _repeated,
    hw.ConstantOp: lambda op, e: Expression(constant(op), simple=True),
}
"""How each op that is an expression is written."""
