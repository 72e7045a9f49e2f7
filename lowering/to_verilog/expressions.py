"""Values of `hw` and `comb` as Verilog expressions.

Not here: which values get a wire of their own (`printer`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from xdsl.dialects import comb, hw
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects.fabric import BitsOp, PicksBits
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


@dataclass(frozen=True)
class Operands:
    """The operands of ops; the one of `comb.extract` needs a name.

    Attributes:
        of: the expression of a value.
    """

    of: Callable[[SSAValue], Expression]

    def text(self, value: SSAValue) -> str:
        """A value as part of another expression."""
        return self.of(value).operand

    def whole(self, value: SSAValue) -> str:
        """A value by itself."""
        return self.of(value).text

    def signed(self, value: SSAValue) -> str:
        """A number in two's complement; the least one of its width has no sign to write."""
        text, bits = self.whole(value), width(value.type)
        if not isinstance(value.owner, hw.ConstantOp):
            return f"$signed({text})"
        number, half = value.owner.value.value.data % (1 << bits), 1 << (bits - 1)
        if bits > 32 or number == half:
            return f"$signed({text})"
        return f"{bits}'sd{number}" if number < half else f"-{bits}'sd{2 * half - number}"


def _infix(op: Operation, e: Operands) -> Expression:
    return Expression(f" {_INFIX[type(op)]} ".join(e.text(value) for value in op.operands))


def _infix_signed(op: comb.DivSOp | comb.ModSOp | comb.ShrSOp, e: Operands) -> Expression:
    right = e.text if isinstance(op, comb.ShrSOp) else e.signed
    return Expression(f"{e.signed(op.lhs)} {_SIGNED[type(op)]} {right(op.rhs)}")


def _xor(op: comb.XorOp, e: Operands) -> Expression:
    if len(op.inputs) == 2 and _is_ones(op.inputs[1]):
        return Expression(f"~{e.text(op.inputs[0])}", simple=True)
    return _infix(op, e)


def _joined(op: comb.ConcatOp, e: Operands) -> Expression:
    return Expression(joined(map(e.whole, op.inputs)), simple=True)


def _repeated(op: comb.ReplicateOp, e: Operands) -> Expression:
    times = width(op.result.type) // width(op.input.type)
    return Expression(f"{{{times}{{{e.whole(op.input)}}}}}", simple=True)


def _chosen(op: comb.MuxOp, e: Operands) -> Expression:
    return Expression(f"{e.text(op.cond)} ? {e.text(op.true_value)} : {e.text(op.false_value)}")


def _compared(op: comb.ICmpOp, e: Operands) -> Expression:
    predicate = op.predicate.value.data
    show = e.signed if 2 <= predicate <= 5 else e.text
    return Expression(f"{show(op.lhs)} {_COMPARE[predicate]} {show(op.rhs)}")


def _extracted(op: comb.ExtractOp, e: Operands) -> Expression:
    low = op.low_bit.value.data
    bits = bits_of(e.text(op.input), width(op.input.type), low, low + width(op.result.type) - 1)
    return Expression(bits, simple=True)


def picked(op: PicksBits, e: Operands) -> list[str]:
    """Each of the bits that an op takes."""
    names = [e.text(value) for value in op.operands]
    alone = [width(value.type) == 1 for value in op.operands]
    return [names[n] if alone[n] else f"{names[n]}[{place}]" for n, place in op.bits]


def joined(parts: Iterable[str]) -> str:
    """Parts beside each other, the highest first."""
    return f"{{{', '.join(parts)}}}"


def bits_of(name: str, bits: int, low: int, high: int) -> str:
    """The bits from `low` to `high` of a value of so many bits with a name."""
    if bits == high - low + 1:
        return name
    return f"{name}[{low}]" if low == high else f"{name}[{high}:{low}]"


def _is_ones(value: SSAValue) -> bool:
    if not isinstance(value.owner, hw.ConstantOp):
        return False
    bits = width(value.type)
    return value.owner.value.value.data % (1 << bits) == (1 << bits) - 1


EXPRESSIONS: dict[type[Operation], Callable[[Any, Operands], Expression]] = {
    **dict.fromkeys(_INFIX, _infix),
    comb.XorOp: _xor,
    **dict.fromkeys(_SIGNED, _infix_signed),
    BitsOp: lambda op, e: Expression(joined(reversed(picked(op, e))), simple=True),
    comb.ConcatOp: _joined,
    comb.ExtractOp: _extracted,
    comb.ICmpOp: _compared,
    comb.MuxOp: _chosen,
    comb.ParityOp: lambda op, e: Expression(f"^{e.text(op.input)}"),
    comb.ReplicateOp: _repeated,
    hw.ConstantOp: lambda op, e: Expression(constant(op), simple=True),
}
"""How each op that is an expression is written."""
