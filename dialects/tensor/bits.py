"""Logic of the `tensor` dialect: on truth values, and on the bits of integers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import IntegerType, Signedness, i1, i32, i64
from xdsl.ir import Attribute
from xdsl.irdl import traits_def
from xdsl.traits import Commutative

from ...ir.definition import irdl_op_definition
from ..inference import fail, tensor_type
from ..meaning import mapped
from ..shapes import AnyTensor, bit_width, is_integer
from ..traits import Involution
from .elementwise import BinaryOp, UnaryOp
from .formula import Formula
from .reduction import ReduceSumOp
from .shape import GatherRowsOp, UnsqueezeOp


def _require_bits(type: AnyTensor, *, truth: bool) -> None:
    if not (is_integer(type) or (truth and type.element_type == i1)):
        fail(f"expects {'truth values or ' if truth else ''}integers, got {type}")


def _is_unsigned(element: Attribute) -> bool:
    return element == IntegerType(bit_width(element) or 0, Signedness.UNSIGNED)


class LogicalOp(BinaryOp, ABC):
    """A `BinaryOp` on truth values, and on each bit of integers."""

    def infer(self) -> Sequence[Attribute]:
        _require_bits(tensor_type(self.lhs), truth=True)
        return super().infer()

    def decompose(self, x: Formula, y: Formula) -> Formula | None:
        if _is_unsigned(x.element):
            return _as_signed(type(self), x, y)
        return _by_words(type(self), x, y) if x.element == i64 else self.parts(x, y)

    @abstractmethod
    def parts(self, x: Formula, y: Formula) -> Formula | None:
        """What it is made of on truth values, and on signed integers of 32 bits at most."""


def _as_signed(kind: type[BinaryOp | UnaryOp], *operands: Formula) -> Formula:
    """Logic of unsigned integers, on signed ones of the same bits."""
    element = operands[0].element
    signed = IntegerType(bit_width(element) or 0)
    first, *rest = (operand.convert(signed) for operand in operands)
    return first.of(kind, *rest).convert(element)


def _by_words(kind: type[LogicalOp], x: Formula, y: Formula) -> Formula:
    """Logic of 64 bits on their halves."""
    highs = (((v - v % 2**32) / 2**32).convert(i32) for v in (x, y))
    lows = (v.convert(i32) for v in (x, y))
    high, low = (a.of(kind, b) for a, b in (highs, lows))
    unsigned = low.convert(IntegerType(32, Signedness.UNSIGNED))
    return high.convert(x.element) * 2**32 + unsigned.convert(x.element)


@irdl_op_definition
class AndOp(LogicalOp):
    """z = x ∧ y, on `i1` and on the bits of integers.

    %z = tensor.and %x, %y : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>
    """

    name = "tensor.and"
    traits = traits_def(Commutative())
    compute = mapped(np.bitwise_and)

    def parts(self, x: Formula, y: Formula) -> Formula | None:
        if x.element == i1:
            return None
        # Twice what all but the lowest bits share is their sum without what they do not share.
        a, b = ((v - v % 2) / 2 for v in (x, y))
        return a + b - a.of(XorOp, b) + (x % 2) * (y % 2)


@irdl_op_definition
class OrOp(LogicalOp):
    """z = x ∨ y, on `i1` and on the bits of integers.

    %z = tensor.or %x, %y : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>
    """

    name = "tensor.or"
    traits = traits_def(Commutative())
    compute = mapped(np.bitwise_or)

    def parts(self, x: Formula, y: Formula) -> Formula | None:
        return None if x.element == i1 else x.of(XorOp, y) + x.of(AndOp, y)


@irdl_op_definition
class XorOp(LogicalOp):
    """z = x ⊕ y, on `i1` and on the bits of integers.

    %z = tensor.xor %x, %y : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
    """

    name = "tensor.xor"
    traits = traits_def(Commutative())
    compute = mapped(np.bitwise_xor)

    def parts(self, x: Formula, y: Formula) -> Formula:
        if x.element == i1:
            return x.of(OrOp, y).of(AndOp, x.of(AndOp, y).of(NotOp))
        places = x.convert(i64).array(2 ** np.arange(bit_width(x.element) or 0))

        def bits(v: Formula) -> Formula:
            apart = v.convert(i64).of(UnsqueezeOp, axes=[v.rank])
            return (apart % (places * 2)).compare("ge", places).convert(i64)

        differ = bits(x).compare("ne", bits(y))
        total = differ.choose(places, 0)
        return total.of(ReduceSumOp, axes=[total.rank - 1]).convert(x.element)


@irdl_op_definition
class NotOp(UnaryOp):
    """y = ¬x, on `i1` and on the bits of integers.

    %y = tensor.not %x : (tensor<4xi1>) -> tensor<4xi1>
    """

    name = "tensor.not"
    traits = traits_def(Involution())
    compute = mapped(np.invert)

    ON_TRUTH_VALUES: ClassVar[bool] = True

    def infer(self) -> Sequence[Attribute]:
        _require_bits(tensor_type(self.operand), truth=True)
        return super().infer()

    def decompose(self, x: Formula) -> Formula | None:
        if x.element == i1:
            return None
        return _as_signed(NotOp, x) if _is_unsigned(x.element) else -1 - x


class ShiftOp(BinaryOp, ABC):
    """A move of the bits of integers; by a negative number or by all bits, every bit leaves."""

    def infer(self) -> Sequence[Attribute]:
        _require_bits(tensor_type(self.lhs), truth=False)
        return super().infer()


def _powers(x: Formula, by: Formula, most: int) -> tuple[Formula, Formula]:
    """2^by within 0 … most, and where `by` is outside."""
    table = x.array(np.array([1 << i for i in range(most + 1)], np.uint64))
    near = by.maximum(0).minimum(most)
    return table.of(GatherRowsOp, near), by.compare("ne", near)


@irdl_op_definition
class ShiftLeftOp(ShiftOp):
    """z = x·2^y on integers, wrapping around.

    %z = tensor.shift_left %x, %y : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
    """

    name = "tensor.shift_left"
    compute = mapped(np.left_shift)

    def decompose(self, x: Formula, by: Formula) -> Formula:
        factor, far = _powers(x, by, (bit_width(x.element) or 1) - 1)
        return far.choose(x.number(0), x * factor)


@irdl_op_definition
class ShiftRightOp(ShiftOp):
    """z = ⌊x/2^y⌋ on integers: a sign is kept.

    %z = tensor.shift_right %x, %y : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
    """

    name = "tensor.shift_right"
    compute = mapped(np.right_shift)

    def decompose(self, x: Formula, by: Formula) -> Formula:
        width, unsigned = bit_width(x.element) or 2, _is_unsigned(x.element)
        factor, far = _powers(x, by, width - 1 if unsigned else width - 2)
        gone = x.number(0) if unsigned else (x < 0).choose(x.number(-1), 0)
        return far.choose(gone, (x - x % factor) / factor)
