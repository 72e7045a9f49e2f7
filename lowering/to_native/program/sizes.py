"""Sizes of a compiled program: polynomials in the one free size, the batch.

Not here: sizes as values of generated code (`writer`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ....runtime.native.abi.interface import ALIGNMENT

_BEYOND = 1 << 62
"""Numbers from here on mean "to the end"."""


@dataclass(frozen=True)
class Size:
    """a + b·batch + c·batch² + …, for a batch that is not negative.

    Attributes:
        coefficients: a, b, c, …; the last is not 0.
    """

    coefficients: tuple[int, ...]

    @staticmethod
    def of(*coefficients: int) -> Size:
        """The polynomial with these coefficients, the constant first."""
        count = len(coefficients)
        while count and coefficients[count - 1] == 0:
            count -= 1
        return Size(coefficients[:count])

    @property
    def number(self) -> int | None:
        """The size if it does not depend on the batch."""
        if len(self.coefficients) > 1:
            return None
        return self.coefficients[0] if self.coefficients else 0

    def coefficient(self, power: int) -> int:
        """The factor of batch^power."""
        return self.coefficients[power] if power < len(self.coefficients) else 0

    def at(self, batch: int) -> int:
        """The size for one batch."""
        return sum(c * batch**power for power, c in enumerate(self.coefficients))

    def __add__(self, other: Size) -> Size:
        degree = max(len(self.coefficients), len(other.coefficients))
        return Size.of(*(self.coefficient(p) + other.coefficient(p) for p in range(degree)))

    def __sub__(self, other: Size) -> Size:
        return self + other * Size.of(-1)

    def __mul__(self, other: Size) -> Size:
        result = [0] * max(0, len(self.coefficients) + len(other.coefficients) - 1)
        for i, a in enumerate(self.coefficients):
            for j, b in enumerate(other.coefficients):
                result[i + j] += a * b
        return Size.of(*result)

    def over(self, divisor: int) -> Size | None:
        """⌊self / divisor⌋, if that is a polynomial."""
        if divisor <= 0 or any(c % divisor for c in self.coefficients[1:]):
            return None
        return Size.of(*(c // divisor for c in self.coefficients))

    def most(self, other: Size) -> Size | None:
        """The larger of two sizes, if one is for every batch; no size reaches `_BEYOND`."""
        for size in (self, other):
            if size.number is not None and size.number >= _BEYOND:
                return size
        difference = (self - other).coefficients
        if all(c >= 0 for c in difference):
            return self
        return other if all(c <= 0 for c in difference) else None

    def bound(self, other: Size) -> Size:
        """A size that is below neither."""
        degree = max(len(self.coefficients), len(other.coefficients))
        return Size.of(*(max(self.coefficient(p), other.coefficient(p)) for p in range(degree)))

    def aligned(self, multiple: int = ALIGNMENT) -> Size:
        """The least size above whose coefficients are all multiples."""
        return Size.of(*(-(-c // multiple) * multiple for c in self.coefficients))

    def __str__(self) -> str:
        names = ["", "batch"] + [f"batch^{power}" for power in range(2, len(self.coefficients))]
        terms = [
            str(c) if not name else name if c == 1 else f"{c}*{name}"
            for name, c in zip(names, self.coefficients, strict=False)
            if c
        ]
        return " + ".join(terms) or "0"


def least_batch(sizes: Iterable[Size]) -> int:
    """The least batch for which no size is negative, of those that grow in proportion to it."""
    lines = [size.coefficients for size in sizes if len(size.coefficients) == 2]
    return max([0, *(-(a // b) for a, b in lines if b > 0)])


ZERO, ONE, TWO, BATCH = Size.of(), Size.of(1), Size.of(2), Size.of(0, 1)


def product(sizes: Iterable[Size]) -> Size:
    """The product of sizes, 1 of none."""
    result = ONE
    for size in sizes:
        result = result * size
    return result
