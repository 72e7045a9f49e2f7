"""Arithmetic on single numbers, as `arith` and `math` ops chosen by the operand's type.

For the bodies of `linalg.generic` and for sizes (type `index`). Integers are signless: where the
sign matters, methods take `unsigned`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ldexp
from typing import cast

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    f32,
    f64,
    i1,
)
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Attribute, Operation, SSAValue

from ....dialects.elements import nearest, numpy_dtype
from ....dialects.shapes import bit_width

Number = int | float
_Binary = Callable[[SSAValue, SSAValue], Operation]
_INTEGER_PREDICATES = {"eq": 0, "ne": 1, "lt": 2, "le": 3, "gt": 4, "ge": 5}
_UNSIGNED_PREDICATES = {"eq": 0, "ne": 1, "lt": 6, "le": 7, "gt": 8, "ge": 9}
_FLOAT_PREDICATES = {"eq": 1, "ne": 13, "lt": 4, "le": 5, "gt": 2, "ge": 3}
"""Ordered comparisons, but for `ne`, which holds for NaN (IEEE 754)."""

_UNORDERED = 14


class Scalars:
    """Appends ops through `insert` and gives their results."""

    def __init__(self, insert: Callable[[Operation], object]) -> None:
        self._insert = insert

    def insert(self, op: Operation) -> SSAValue:
        """Insert an op with one result, and give that."""
        self._insert(op)
        return op.results[0]

    def constant(self, number: Number, type: Attribute) -> SSAValue:
        """`number` as a value of a float, integer or index type."""
        if isinstance(type, AnyFloat):
            return self.insert(
                arith.ConstantOp(FloatAttr(float(nearest(number, numpy_dtype(type))), type))
            )
        if isinstance(type, IndexType):
            return self.insert(arith.ConstantOp(IntegerAttr(int(number), type)))
        integer = cast("IntegerType", type)
        value = bool(number) if type == i1 else int(number)
        return self.insert(arith.ConstantOp(IntegerAttr(value, integer)))

    def index(self, dimension: int) -> SSAValue:
        """The loop counter of a dimension, inside a `linalg.generic`."""
        return self.insert(linalg.IndexOp(dimension))

    def _other(self, x: SSAValue, y: SSAValue | Number) -> SSAValue:
        return y if isinstance(y, SSAValue) else self.constant(y, x.type)

    def _binary(
        self, x: SSAValue, y: SSAValue | Number, on_floats: _Binary, on_integers: _Binary
    ) -> SSAValue:
        other = self._other(x, y)
        make = on_floats if isinstance(x.type, AnyFloat) else on_integers
        return self.insert(make(x, other))

    def add(self, x: SSAValue, y: SSAValue | Number) -> SSAValue:
        """x + y."""
        return self._binary(x, y, arith.AddfOp, arith.AddiOp)

    def sub(self, x: SSAValue, y: SSAValue | Number) -> SSAValue:
        """x - y."""
        return self._binary(x, y, arith.SubfOp, arith.SubiOp)

    def mul(self, x: SSAValue, y: SSAValue | Number) -> SSAValue:
        """x·y."""
        return self._binary(x, y, arith.MulfOp, arith.MuliOp)

    def div(self, x: SSAValue, y: SSAValue | Number, *, unsigned: bool = False) -> SSAValue:
        """x / y; integers truncate toward zero."""
        return self._binary(x, y, arith.DivfOp, arith.DivUIOp if unsigned else arith.DivSIOp)

    def maximum(self, x: SSAValue, y: SSAValue | Number, *, unsigned: bool = False) -> SSAValue:
        """The larger one; NaN where either is NaN. On `i1`, `unsigned` makes it x ∨ y."""
        return self._binary(x, y, arith.MaximumfOp, arith.MaxUIOp if unsigned else arith.MaxSIOp)

    def minimum(self, x: SSAValue, y: SSAValue | Number, *, unsigned: bool = False) -> SSAValue:
        """The smaller one; NaN where either is NaN."""
        return self._binary(x, y, arith.MinimumfOp, arith.MinUIOp if unsigned else arith.MinSIOp)

    def compare(
        self, predicate: str, x: SSAValue, y: SSAValue | Number, *, unsigned: bool = False
    ) -> SSAValue:
        """x ⋈ y for eq, ne, lt, le, gt or ge, as `i1`."""
        other = self._other(x, y)
        if isinstance(x.type, AnyFloat):
            return self.insert(arith.CmpfOp(x, other, _FLOAT_PREDICATES[predicate]))
        table = _UNSIGNED_PREDICATES if unsigned else _INTEGER_PREDICATES
        return self.insert(arith.CmpiOp(x, other, table[predicate]))

    def is_nan(self, x: SSAValue) -> SSAValue:
        """Whether a float is NaN."""
        return self.insert(arith.CmpfOp(x, x, _UNORDERED))

    def select(self, condition: SSAValue, x: SSAValue | Number, y: SSAValue | Number) -> SSAValue:
        """x where the condition holds, else y; one of them at least is a value."""
        if isinstance(y, SSAValue):
            x = self._other(y, x)
        else:
            assert isinstance(x, SSAValue)
            y = self._other(x, y)
        return self.insert(arith.SelectOp(condition, x, y))

    def remainder(self, x: SSAValue, y: SSAValue, *, unsigned: bool = False) -> SSAValue:
        """x - trunc(x / y)·y of integers."""
        return self.insert((arith.RemUIOp if unsigned else arith.RemSIOp)(x, y))

    def negate(self, x: SSAValue) -> SSAValue:
        """-x."""
        if isinstance(x.type, AnyFloat):
            return self.insert(arith.NegfOp(x))
        return self.sub(self.constant(0, x.type), x)

    def both(self, x: SSAValue, y: SSAValue) -> SSAValue:
        """The bits set in both integers."""
        return self.insert(arith.AndIOp(x, y))

    def either(self, x: SSAValue, y: SSAValue) -> SSAValue:
        """The bits set in either integer."""
        return self.insert(arith.OrIOp(x, y))

    def exclusive(self, x: SSAValue, y: SSAValue | Number) -> SSAValue:
        """The bits set in one of two integers."""
        return self.insert(arith.XOrIOp(x, self._other(x, y)))

    def shift_left(self, x: SSAValue, bits: SSAValue) -> SSAValue:
        """x·2^bits."""
        return self.insert(arith.ShLIOp(x, bits))

    def shift_right(self, x: SSAValue, bits: SSAValue, *, unsigned: bool = False) -> SSAValue:
        """⌊x / 2^bits⌋."""
        return self.insert((arith.ShRUIOp if unsigned else arith.ShRSIOp)(x, bits))

    def floor_div(self, x: SSAValue, y: SSAValue | Number) -> SSAValue:
        """⌊x / y⌋ of signed integers."""
        return self.insert(arith.FloorDivSIOp(x, self._other(x, y)))

    def sqrt(self, x: SSAValue) -> SSAValue:
        """√x."""
        return self.insert(math.SqrtOp(x))

    def exp(self, x: SSAValue) -> SSAValue:
        """e^x."""
        return self.insert(math.ExpOp(x))

    def convert(self, x: SSAValue, target: Attribute, *, unsigned: bool = False) -> SSAValue:
        """`x` as the float, integer or index type `target`, by the rules of `tensor.convert`.

        `unsigned` speaks of the integer operand; `i1` is always 0 or 1. A float to an integer gives
        a signed one, see `saturate`.
        """
        if x.type == target:
            return x
        if isinstance(x.type, IndexType) or isinstance(target, IndexType):
            return self._from_index(x, target)
        if target == i1:
            return self.compare("ne", x, 0)
        unsigned = unsigned or x.type == i1
        if isinstance(x.type, AnyFloat):
            if isinstance(target, AnyFloat):
                return self._resize_float(x, target)
            return self.saturate(x, target)
        if isinstance(target, AnyFloat):
            return self.insert((arith.UIToFPOp if unsigned else arith.SIToFPOp)(x, target))
        return self._resize_integer(x, cast("IntegerType", target), unsigned)

    def _from_index(self, x: SSAValue, target: Attribute) -> SSAValue:
        if isinstance(target, AnyFloat):
            wide = self.insert(arith.IndexCastOp(x, IntegerType(64)))
            return self.insert(arith.SIToFPOp(wide, target))
        return self.insert(arith.IndexCastOp(x, target))

    def _resize_float(self, x: SSAValue, target: AnyFloat) -> SSAValue:
        have, want = cast(AnyFloat, x.type).bitwidth, target.bitwidth
        if have == want:  # f16 and bf16
            x, have = self.insert(arith.ExtFOp(x, f32)), 32
        return self.insert((arith.ExtFOp if want > have else arith.TruncFOp)(x, target))

    def _resize_integer(self, x: SSAValue, target: IntegerType, unsigned: bool) -> SSAValue:
        have, want = bit_width(x.type) or 0, bit_width(target) or 0
        if want < have:
            return self.insert(arith.TruncIOp(x, target))
        return self.insert((arith.ExtUIOp if unsigned else arith.ExtSIOp)(x, target))

    def saturate(self, x: SSAValue, target: Attribute, *, unsigned: bool = False) -> SSAValue:
        """A float as an integer: truncated toward zero, saturated, NaN to 0.

        `unsigned` speaks of the result. Computed in f64 for f16, whose range ends below 2^16.
        """
        if cast(AnyFloat, x.type).bitwidth == 16:
            x = self.insert(arith.ExtFOp(x, f64))
        bits = bit_width(target) or 0
        least, most = integer_range(bits, unsigned=unsigned)
        end = ldexp(1.0, bits if unsigned else bits - 1)  # most + 1, exact in f32 and f64
        inside = self.both(self.compare("ge", x, float(least)), self.compare("lt", x, end))
        safe = self.select(inside, x, 0.0)
        make = arith.FPToUIOp if unsigned else arith.FPToSIOp
        result = self.insert(make(safe, cast("IntegerType", target)))
        result = self.select(self.compare("ge", x, end), signed_bits(most, bits), result)
        return self.select(self.compare("lt", x, float(least)), least, result)


def integer_range(bits: int, *, unsigned: bool) -> tuple[int, int]:
    """The least and the greatest integer of a width."""
    return (0, (1 << bits) - 1) if unsigned else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def signed_bits(value: int, bits: int) -> int:
    """The signed integer with the bits of `value`: what a signless constant is written as."""
    return value - (1 << bits) if value >= 1 << (bits - 1) else value
