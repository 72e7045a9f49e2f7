"""The arithmetic of elements, three times: two for an SMT solver, and one on all values at once.

`Terms` makes an integer of w bits a bit vector and a float one of the solver's own floats, so that
a query speaks of all values. `Whole` makes integers whole numbers that must not wrap around.
`Words` makes an element the NumPy vector of what it is for each member of a set of inputs, for
complete enumerations. What an op does with elements stands in `meaning`. Nothing here calls the
compiler.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Any

import numpy as np
import z3

Element = Any
"""A z3 term, or a NumPy vector."""

DType = np.dtype[Any]

BOOL = np.dtype(np.bool_)
I64 = np.dtype(np.int64)


class Algebra(ABC):
    """Arithmetic on elements of one type; integers wrap around, floats round to nearest even."""

    @abstractmethod
    def literal(self, value: Any, dtype: DType) -> Element:
        """A known number."""

    @abstractmethod
    def binary(self, what: str, a: Element, b: Element, dtype: DType) -> Element:
        """`add`, `sub`, `mul` or `div`; the division of integers truncates toward zero."""

    @abstractmethod
    def compare(self, what: str, a: Element, b: Element, dtype: DType) -> Element:
        """`eq`, `ne`, `lt`, `le`, `gt` or `ge`, as a truth value."""

    @abstractmethod
    def where(self, condition: Element, a: Element, b: Element) -> Element:
        """a where the condition holds, else b."""

    @abstractmethod
    def convert(self, a: Element, source: DType, target: DType) -> Element:
        """Another element type, with the rules of `tensor.convert`."""

    @abstractmethod
    def shift_right(self, a: Element, by: Element) -> Element:
        """⌊a / 2^by⌋ of i64."""

    @abstractmethod
    def power_of_two(self, exponent: Element) -> Element:
        """2^exponent of i64, for exponents from 0 to 62."""

    @abstractmethod
    def rounded(self, a: Element, dtype: DType) -> Element:
        """The nearest whole number of a float, halves to even."""

    @abstractmethod
    def root(self, a: Element, dtype: DType) -> Element:
        """The square root of a float."""

    def maximum(self, a: Element, b: Element, dtype: DType) -> Element:
        """The larger one."""
        return self.where(self.compare("lt", a, b, dtype), b, a)

    def minimum(self, a: Element, b: Element, dtype: DType) -> Element:
        """The smaller one."""
        return self.where(self.compare("gt", a, b, dtype), b, a)

    def both(self, a: Element, b: Element) -> Element:
        """a ∧ b."""
        return self.where(a, b, a)

    def negated(self, a: Element) -> Element:
        """¬a."""
        return self.where(a, self.literal(False, BOOL), self.literal(True, BOOL))


class Terms(Algebra):
    """Terms of z3: `BitVec`, `Bool` for truth values, `FP`."""

    def literal(self, value: Any, dtype: DType) -> Element:
        if dtype == BOOL:
            return z3.BoolVal(bool(value))
        if dtype.kind == "f":
            return z3.FPVal(float(value), _sort(dtype))
        return z3.BitVecVal(int(value), 8 * dtype.itemsize)

    def variable(self, name: str, dtype: DType) -> Element:
        """An element that may be anything."""
        if dtype == BOOL:
            return z3.Bool(name)
        if dtype.kind == "f":
            return z3.FP(name, _sort(dtype))
        return z3.BitVec(name, 8 * dtype.itemsize)

    def binary(self, what: str, a: Element, b: Element, dtype: DType) -> Element:
        if dtype.kind == "f":
            operation = {"add": z3.fpAdd, "sub": z3.fpSub, "mul": z3.fpMul, "div": z3.fpDiv}[what]
            return operation(z3.RNE(), a, b)
        if what == "div":
            return a / b if dtype.kind == "i" else z3.UDiv(a, b)
        return {"add": a + b, "sub": a - b, "mul": a * b}[what]

    def compare(self, what: str, a: Element, b: Element, dtype: DType) -> Element:
        if dtype.kind == "f":
            if what in ("eq", "ne"):
                same = z3.fpEQ(a, b)
                return same if what == "eq" else z3.Not(same)
            return {"lt": z3.fpLT, "le": z3.fpLEQ, "gt": z3.fpGT, "ge": z3.fpGEQ}[what](a, b)
        if what in ("eq", "ne"):
            return a == b if what == "eq" else a != b
        if dtype.kind == "u":
            return {"lt": z3.ULT, "le": z3.ULE, "gt": z3.UGT, "ge": z3.UGE}[what](a, b)
        return {"lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[what]

    def where(self, condition: Element, a: Element, b: Element) -> Element:
        return z3.If(condition, a, b)

    def convert(self, a: Element, source: DType, target: DType) -> Element:
        if source == target:
            return a
        if target == BOOL:
            return self.compare("ne", a, self.literal(0, source), source)
        if source == BOOL:
            return self.where(a, self.literal(1, target), self.literal(0, target))
        if target.kind == "f":
            if source.kind == "f":
                return z3.fpFPToFP(z3.RNE(), a, _sort(target))
            to_float = z3.fpSignedToFP if source.kind == "i" else z3.fpUnsignedToFP
            return to_float(z3.RNE(), a, _sort(target))
        width = 8 * target.itemsize
        if source.kind == "f":
            info = np.iinfo(target)
            # The first number above the type is a power of two, and so a float of any type here.
            above = z3.fpGEQ(a, z3.FPVal(float(int(info.max) + 1), _sort(source)))
            below = z3.fpLT(a, z3.FPVal(float(info.min), _sort(source)))
            to_integer = z3.fpToSBV if target.kind == "i" else z3.fpToUBV
            whole = to_integer(z3.RTZ(), a, z3.BitVecSort(width))
            most, least = self.literal(info.max, target), self.literal(info.min, target)
            held = z3.If(above, most, z3.If(below, least, whole))
            return z3.If(z3.fpIsNaN(a), self.literal(0, target), held)
        more = width - a.size()
        if more <= 0:
            return z3.Extract(width - 1, 0, a) if more else a
        return z3.SignExt(more, a) if source.kind == "i" else z3.ZeroExt(more, a)

    def shift_right(self, a: Element, by: Element) -> Element:
        return a >> by

    def power_of_two(self, exponent: Element) -> Element:
        return z3.BitVecVal(1, 64) << exponent

    def rounded(self, a: Element, dtype: DType) -> Element:
        return z3.fpRoundToIntegral(z3.RNE(), a)

    def root(self, a: Element, dtype: DType) -> Element:
        return z3.fpSqrt(z3.RNE(), a)


class Words(Algebra):
    """Vectors of NumPy, one entry a member of the enumeration, or one for all."""

    def literal(self, value: Any, dtype: DType) -> Element:
        return np.asarray(value).astype(dtype).reshape(1)

    def binary(self, what: str, a: Element, b: Element, dtype: DType) -> Element:
        with np.errstate(all="ignore"):
            if what == "div" and dtype.kind != "f":
                wide = a.astype(object), b.astype(object)
                quotient = abs(wide[0]) // abs(wide[1])
                signed = np.where((a < 0) != (b < 0), -quotient, quotient)
                bits = (1 << 8 * dtype.itemsize) - 1
                kept = [int(number) & bits for number in signed.reshape(-1)]
                return np.array(kept, f"u{dtype.itemsize}").view(dtype)
            operation = {
                "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
            }[what]  # fmt: skip
            return operation(a, b, dtype=dtype)

    def compare(self, what: str, a: Element, b: Element, dtype: DType) -> Element:
        comparisons: Any = {
            "eq": np.equal, "ne": np.not_equal, "lt": np.less,
            "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
        }  # fmt: skip
        return comparisons[what](a, b)

    def where(self, condition: Element, a: Element, b: Element) -> Element:
        return np.where(condition, a, b)

    def convert(self, a: Element, source: DType, target: DType) -> Element:
        if target == BOOL:
            return a != 0
        if source.kind == "f" and target.kind in "iu":
            info = np.iinfo(target)
            wide = np.trunc(np.nan_to_num(a.astype(np.float64), nan=0.0))
            # The bounds of 64 bits are no doubles: compare before, and take the number as it is.
            held = np.where(wide >= float(info.max), info.max, 0).astype(target)
            inside = (wide > float(info.min)) & (wide < float(info.max))
            held = np.where(wide <= float(info.min), np.asarray(info.min, target), held)
            return np.where(inside, np.where(inside, wide, 0).astype(target), held)
        return a.astype(target)

    def shift_right(self, a: Element, by: Element) -> Element:
        return np.right_shift(a, by)

    def power_of_two(self, exponent: Element) -> Element:
        return np.left_shift(np.int64(1), exponent)

    def rounded(self, a: Element, dtype: DType) -> Element:
        return np.rint(a)

    def root(self, a: Element, dtype: DType) -> Element:
        with np.errstate(all="ignore"):
            return np.sqrt(a)


class Whole(Algebra):
    """Integers as whole numbers of z3, and floats as its real numbers: linear arithmetic.

    What would wrap around is no result but a condition in `bounds`: that it does not happen, to be
    proven too. Floats are not rounded, not even to integers: what would be is left where it is
    between them.
    """

    def __init__(self) -> None:
        self.bounds: list[Any] = []

    def literal(self, value: Any, dtype: DType) -> Element:
        if dtype == BOOL:
            return z3.BoolVal(bool(value))
        if dtype.kind == "f":
            return z3.RealVal(str(Fraction(float(value))))
        return z3.IntVal(int(value))

    def variable(self, name: str, dtype: DType) -> Element:
        """An element that may be anything; `held` says what."""
        if dtype == BOOL:
            return z3.Bool(name)
        return z3.Real(name) if dtype.kind == "f" else z3.Int(name)

    def held(self, a: Element, dtype: DType) -> Element:
        """The condition that a whole number is one of a type."""
        info = np.iinfo(dtype)
        return z3.And(a >= int(info.min), a <= int(info.max))

    def _kept(self, a: Element, dtype: DType) -> Element:
        if dtype.kind in "iu":
            self.bounds.append(self.held(a, dtype))
        return a

    def binary(self, what: str, a: Element, b: Element, dtype: DType) -> Element:
        if what == "div":
            assert dtype.kind == "f"
            return a / b
        return self._kept({"add": a + b, "sub": a - b, "mul": a * b}[what], dtype)

    def compare(self, what: str, a: Element, b: Element, dtype: DType) -> Element:
        return {
            "eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b,
        }[what]  # fmt: skip

    def where(self, condition: Element, a: Element, b: Element) -> Element:
        return z3.If(condition, a, b)

    def convert(self, a: Element, source: DType, target: DType) -> Element:
        if source == target:
            return a
        if target == BOOL:
            return a != 0
        if source == BOOL:
            return z3.If(a, self.literal(1, target), self.literal(0, target))
        if target.kind == "f":
            return a if source.kind == "f" else z3.ToReal(a)
        return a if source.kind == "f" else self._kept(a, target)

    def shift_right(self, a: Element, by: Element) -> Element:
        return a / self.power_of_two(by)

    def power_of_two(self, exponent: Element) -> Element:
        known: Any = z3.simplify(exponent)
        return z3.IntVal(1 << known.as_long())

    def rounded(self, a: Element, dtype: DType) -> Element:
        return a

    def root(self, a: Element, dtype: DType) -> Element:
        known: Any = z3.simplify(a)
        return self.literal(float(known.as_fraction()) ** 0.5, dtype)


def _sort(dtype: DType) -> Any:
    return {2: z3.Float16(), 4: z3.Float32(), 8: z3.Float64()}[dtype.itemsize]
