"""Values of `hw` and `comb` as Verilog expressions.

Not here: which values get a wire of their own (`printer`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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

EXPRESSIONS: tuple[type[Operation], ...] = (
    *_INFIX,
    *_SIGNED,
    comb.ConcatOp,
    comb.ExtractOp,
    comb.ICmpOp,
    comb.MuxOp,
    comb.ParityOp,
    comb.ReplicateOp,
    hw.ConstantOp,
)
"""Every op that is an expression."""


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


def expression(op: Operation, of: Mapping[SSAValue, Expression]) -> Expression:
    """An op as an expression of its operands; `comb.extract` needs an operand with a name."""

    def text(value: SSAValue) -> str:
        return of[value].operand

    def signed(value: SSAValue) -> str:
        return _signed(value, of[value].text)

    match op:
        case hw.ConstantOp():
            return Expression(constant(op), simple=True)
        case comb.ExtractOp():
            return _extracted(op, text(op.input))
        case comb.ConcatOp():
            parts = [of[value].text for value in op.inputs]
            return Expression(f"{{{', '.join(parts)}}}", simple=True)
        case comb.ReplicateOp():
            times = width(op.result.type) // width(op.input.type)
            return Expression(f"{{{times}{{{of[op.input].text}}}}}", simple=True)
        case comb.MuxOp():
            choice = f"{text(op.cond)} ? {text(op.true_value)} : {text(op.false_value)}"
            return Expression(choice)
        case comb.ParityOp():
            return Expression(f"^{text(op.input)}")
        case comb.ICmpOp():
            predicate = op.predicate.value.data
            show = signed if 2 <= predicate <= 5 else text
            return Expression(f"{show(op.lhs)} {_COMPARE[predicate]} {show(op.rhs)}")
        case comb.ShrSOp():
            return Expression(f"{signed(op.lhs)} >>> {text(op.rhs)}")
        case comb.DivSOp() | comb.ModSOp():
            return Expression(f"{signed(op.lhs)} {_SIGNED[type(op)]} {signed(op.rhs)}")
        case comb.XorOp() if len(op.inputs) == 2 and _is_ones(op.inputs[1]):
            return Expression(f"~{text(op.inputs[0])}", simple=True)
        case _:
            sign = f" {_INFIX[type(op)]} "
            return Expression(sign.join(text(value) for value in op.operands))


def _extracted(op: comb.ExtractOp, name: str) -> Expression:
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
