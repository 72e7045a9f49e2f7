"""Integer division that rounds in every direction and never traps.

Division by zero, and the least integer by -1, have no defined result, but end the process on some
processors. Here the divisor is taken as 1 then: the least integer by -1 wraps, as in NumPy.
"""

from __future__ import annotations

from xdsl.dialects import llvm
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerAttr
from xdsl.ir import SSAValue

from .llvm_builder import LlvmBuilder
from .types import width


def divide(e: LlvmBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """Signed, toward zero."""
    return e.insert(llvm.SDivOp(x, _safe(e, x, y)))


def divide_unsigned(e: LlvmBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """Unsigned, downwards."""
    return e.insert(llvm.UDivOp(x, _safe_unsigned(e, y)))


def remainder(e: LlvmBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """Signed, with the sign of x."""
    return e.insert(llvm.SRemOp(x, _safe(e, x, y)))


def remainder_unsigned(e: LlvmBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """Unsigned."""
    return e.insert(llvm.URemOp(x, _safe_unsigned(e, y)))


def divide_down(e: LlvmBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """Signed, toward -∞: one less than toward zero where the rest has the other sign."""
    return _adjusted(e, x, y, "slt", -1)


def divide_up(e: LlvmBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """Signed, toward +∞: one more where the rest has the same sign."""
    return _adjusted(e, x, y, "sge", 1)


def divide_up_unsigned(e: LlvmBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """Unsigned, upwards: one more where there is a rest."""
    y = _safe_unsigned(e, y)
    quotient = e.insert(llvm.UDivOp(x, y))
    exact = e.icmp("eq", e.mul(quotient, y), x)
    return e.select(exact, quotient, e.add(quotient, 1))


def _adjusted(e: LlvmBuilder, x: SSAValue, y: SSAValue, signs: str, step: int) -> SSAValue:
    y = _safe(e, x, y)
    quotient = e.insert(llvm.SDivOp(x, y))
    rest = e.sub(x, e.mul(quotient, y))
    moves = e.and_(e.icmp("ne", rest, 0), e.icmp(signs, e.xor(rest, y), 0))
    return e.select(moves, e.add(quotient, step), quotient)


def _safe(e: LlvmBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    if not _may_be(y, (0, -1)):
        return y
    least = -1 << (width(x.type) - 1)
    wraps = e.and_(e.icmp("eq", y, -1), e.icmp("eq", x, least))
    return e.select(e.or_(e.icmp("eq", y, 0), wraps), 1, y)


def _safe_unsigned(e: LlvmBuilder, y: SSAValue) -> SSAValue:
    return e.select(e.icmp("eq", y, 0), 1, y) if _may_be(y, (0,)) else y


def _may_be(y: SSAValue, numbers: tuple[int, ...]) -> bool:
    """Whether an integer, or a lane, may be one of `numbers`."""
    if not isinstance(y.owner, llvm.ConstantOp):
        return True
    value = y.owner.value
    if isinstance(value, IntegerAttr):
        return value.value.data in numbers
    if isinstance(value, DenseIntOrFPElementsAttr):
        return any(number in numbers for number in value.get_values())
    return True
