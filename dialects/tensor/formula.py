"""Arithmetic on values, written as formulas: what decompositions and importers make ops with.

A `Formula` is a value whose operators make ops; numbers take its element type. Comparisons give
truth values, of which `choose` makes a choice:

    below = (x < 0).choose(-x, x)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

from xdsl.dialects.builtin import f64
from xdsl.ir import Attribute, Operation, SSAValue

from ..inference import tensor_type
from ..meaning import Array
from ..shapes import DYNAMIC
from . import elementwise, shape


class Writer(Protocol):
    """What inserts ops."""

    def add(self, op: Operation, /) -> SSAValue:
        """Insert an op; its first result."""
        ...

    def number(self, value: float, element: Attribute, /) -> SSAValue:
        """A constant of rank 0."""
        ...

    def numbers(self, values: Array, element: Attribute, /) -> SSAValue:
        """A constant of any size; integers wrap around."""
        ...


class Formula:
    """A value that a writer makes ops of.

    Attributes:
        writer: inserts them.
        value: the value.
    """

    def __init__(self, writer: Writer, value: SSAValue) -> None:
        self.writer, self.value = writer, value

    @property
    def element(self) -> Attribute:
        """The element type."""
        return tensor_type(self.value).element_type

    @property
    def is_double(self) -> bool:
        """Whether the elements are f64, and a formula needs the terms for that."""
        return self.element == f64

    @property
    def square_limit(self) -> float:
        """From here on x + 1 = x, and x² may leave the type's range."""
        return 1e150 if self.is_double else 1e18

    def number(self, value: float) -> Formula:
        """A constant of this element type."""
        return Formula(self.writer, self.writer.number(value, self.element))

    def array(self, values: Array) -> Formula:
        """Constants of this element type."""
        return Formula(self.writer, self.writer.numbers(values, self.element))

    @property
    def rank(self) -> int:
        """The number of axes."""
        return tensor_type(self.value).get_num_dims()

    def size(self, axis: int) -> int | None:
        """The number of elements along an axis, where that is known."""
        count = tensor_type(self.value).get_shape()[axis]
        return None if count == DYNAMIC else count

    def of(self, kind: Callable[..., Operation], *others: Formula | float, **given: Any) -> Formula:
        """An op of this value and others, which may be numbers; `given` is the rest it takes."""
        operands = [self.value, *(self._like(other).value for other in others)]
        return Formula(self.writer, self.writer.add(kind(*operands, **given)))

    def _like(self, other: Formula | float) -> Formula:
        return other if isinstance(other, Formula) else self.number(other)

    def __add__(self, other: Formula | float) -> Formula:
        return self.of(elementwise.AddOp, other)

    def __radd__(self, other: float) -> Formula:
        return self.number(other) + self

    def __sub__(self, other: Formula | float) -> Formula:
        return self.of(elementwise.SubOp, other)

    def __rsub__(self, other: float) -> Formula:
        return self.number(other) - self

    def __mul__(self, other: Formula | float) -> Formula:
        return self.of(elementwise.MulOp, other)

    def __rmul__(self, other: float) -> Formula:
        return self.number(other) * self

    def __truediv__(self, other: Formula | float) -> Formula:
        return self.of(elementwise.DivOp, other)

    def __rtruediv__(self, other: float) -> Formula:
        return self.number(other) / self

    def __floordiv__(self, other: Formula | float) -> Formula:
        """⌊self / other⌋ of integers: the quotient toward zero, or one less; nothing overflows."""
        other = self._like(other)
        quotient = self / other
        beyond = (self - quotient * other).compare("ne", self % other)
        return quotient - beyond.convert(self.element)

    def __mod__(self, other: Formula | float) -> Formula:
        return self.of(elementwise.ModOp, other)

    def __neg__(self) -> Formula:
        return self.of(elementwise.NegOp)

    def __abs__(self) -> Formula:
        return self.of(elementwise.AbsOp)

    def __round__(self) -> Formula:
        return self.of(elementwise.RoundOp)

    def __floor__(self) -> Formula:
        return self.of(elementwise.FloorOp)

    def __lt__(self, other: Formula | float) -> Formula:
        return self.compare("lt", other)

    def __gt__(self, other: Formula | float) -> Formula:
        return self.compare("gt", other)

    def compare(self, predicate: str, other: Formula | float) -> Formula:
        """self ⋈ other as `i1`."""
        return self.of(elementwise.CompareOp, other, predicate=predicate)

    def choose(self, chosen: Formula, other: Formula | float) -> Formula:
        """`chosen` where this truth value holds, else `other`."""
        values = (self.value, chosen.value, chosen._like(other).value)
        return Formula(self.writer, self.writer.add(elementwise.WhereOp(*values)))

    def filled(self, value: Formula | float) -> Formula:
        """`value` as often as there are elements here, whatever the sizes are."""
        value = self._like(value)
        return self.compare("eq", self).choose(value, value)

    def maximum(self, other: Formula | float) -> Formula:
        """The greater of both."""
        return self.of(elementwise.MaximumOp, other)

    def minimum(self, other: Formula | float) -> Formula:
        """The smaller of both."""
        return self.of(elementwise.MinimumOp, other)

    def cut(self, axis: int, start: int, end: int, step: int = 1) -> Formula:
        """self[start:end:step] along an axis."""
        starts, ends, steps = [0] * self.rank, [shape.SLICE_END] * self.rank, [1] * self.rank
        starts[axis], ends[axis], steps[axis] = start, end, step
        return self.of(shape.SliceOp, starts=starts, ends=ends, steps=steps)

    def convert(self, element: Attribute) -> Formula:
        """The same numbers with another element type."""
        return self if self.element == element else self.of(elementwise.ConvertOp, element=element)

    def polynomial(self, coefficients: tuple[float, ...]) -> Formula:
        """Σ c[i]·x^i by Horner's rule; two coefficients at least."""
        result = self * coefficients[-1] + coefficients[-2]
        for coefficient in coefficients[-3::-1]:
            result = result * self + coefficient
        return result

    def odd(self, positive: Formula) -> Formula:
        """f(x) of an odd function, given f(|x|); -0 stays -0."""
        signed = (self < 0).choose(-positive, positive)
        return self.compare("eq", 0).choose(self, signed)


def factorials(first: int, count: int, step: int = 2, sign: int = -1) -> tuple[float, ...]:
    """1/first!, sign/(first + step)!, 1/(first + 2·step)!, …: terms of a Taylor series."""
    return tuple(sign**i / math.factorial(first + step * i) for i in range(count))
