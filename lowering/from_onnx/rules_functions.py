"""Rules of trigonometric and hyperbolic functions, composed of arithmetic.

The series are evaluated in f64 and rounded once; f64 itself has about 1e-12 of relative error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import f64
from xdsl.ir import SSAValue

from ...dialects import tensor
from .emitter import Call, Emitter, Rule


class _Calculator:
    """Arithmetic on f64 tensors."""

    def __init__(self, e: Emitter) -> None:
        self.e = e

    def number(self, value: float) -> SSAValue:
        return self.e.number(value, f64)

    def add(self, x: SSAValue, y: SSAValue | float) -> SSAValue:
        return self.e.add(tensor.AddOp(x, self._value(y)))

    def mul(self, x: SSAValue, y: SSAValue | float) -> SSAValue:
        return self.e.add(tensor.MulOp(x, self._value(y)))

    def div(self, x: SSAValue | float, y: SSAValue | float) -> SSAValue:
        return self.e.add(tensor.DivOp(self._value(x), self._value(y)))

    def _value(self, y: SSAValue | float) -> SSAValue:
        return y if isinstance(y, SSAValue) else self.number(y)

    def series(self, x: SSAValue, coefficients: Sequence[float]) -> SSAValue:
        """Σ c[i]·x^i by Horner's rule."""
        made = self.add(self.mul(x, coefficients[-1]), coefficients[-2])
        for coefficient in reversed(coefficients[:-2]):
            made = self.add(self.mul(made, x), coefficient)
        return made

    def sine(self, x: SSAValue) -> SSAValue:
        """sin(x) for |x| ≤ π/2 by its Taylor series, else after taking multiples of π away."""
        turns = self.e.add(tensor.RoundOp(self.mul(x, 1 / math.pi)))
        # π in two parts, so that turns·π keeps its low bits.
        rest = self.add(x, self.mul(turns, -3.141592502593994))
        rest = self.add(rest, self.mul(turns, -1.5099579909783765e-07))
        square = self.mul(rest, rest)
        terms = [(-1) ** i / math.factorial(2 * i + 1) for i in range(11)]
        value = self.mul(self.series(square, terms), rest)
        odd = self.e.add(tensor.ModOp(turns, self.number(2)))
        return self.mul(value, self.add(self.mul(odd, -2), 1))

    def arctangent(self, x: SSAValue) -> SSAValue:
        """atan(x): halved twice by atan(x) = 2·atan(x/(1 + √(1 + x²))), then its series."""
        size = self.e.add(tensor.AbsOp(x))
        large = self.e.add(tensor.CompareOp(size, self.number(1), "gt"))
        inner = self.e.add(tensor.WhereOp(large, self.div(1, size), size))
        for _ in range(3):
            root = self.e.add(tensor.SqrtOp(self.add(self.mul(inner, inner), 1)))
            inner = self.div(inner, self.add(root, 1))
        terms = [(-1) ** i / (2 * i + 1) for i in range(12)]
        angle = self.mul(self.mul(self.series(self.mul(inner, inner), terms), inner), 8)
        other = self.add(self.mul(angle, -1), math.pi / 2)
        angle = self.e.add(tensor.WhereOp(large, other, angle))
        return self.mul(angle, self.e.add(tensor.SignOp(x)))

    def root(self, x: SSAValue) -> SSAValue:
        return self.e.add(tensor.SqrtOp(x))

    def exp(self, x: SSAValue) -> SSAValue:
        return self.e.add(tensor.ExpOp(x))

    def log(self, x: SSAValue) -> SSAValue:
        return self.e.add(tensor.LogOp(x))


def _in_double(function: Callable[[_Calculator, SSAValue], SSAValue]) -> Rule:
    """A rule for a function computed in f64."""

    def rule(e: Emitter, call: Call) -> SSAValue:
        return e.convert(function(_Calculator(e), e.convert(call[0], f64)), call[0])

    return rule


def _cosine(c: _Calculator, x: SSAValue) -> SSAValue:
    return c.sine(c.add(x, math.pi / 2))


def _arcsine(c: _Calculator, x: SSAValue) -> SSAValue:
    return c.arctangent(c.div(x, c.root(c.add(c.mul(c.mul(x, x), -1), 1))))


def _hyperbolic(sign: int) -> Callable[[_Calculator, SSAValue], SSAValue]:
    def function(c: _Calculator, x: SSAValue) -> SSAValue:
        up, down = c.exp(x), c.exp(c.mul(x, -1))
        return c.mul(c.add(up, c.mul(down, sign)), 0.5)

    return function


def _arsinh(c: _Calculator, x: SSAValue) -> SSAValue:
    size = c.e.add(tensor.AbsOp(x))
    made = c.log(c.add(size, c.root(c.add(c.mul(size, size), 1))))
    return c.mul(made, c.e.add(tensor.SignOp(x)))


def _arcosh(c: _Calculator, x: SSAValue) -> SSAValue:
    return c.log(c.add(x, c.root(c.add(c.mul(x, x), -1))))


def _artanh(c: _Calculator, x: SSAValue) -> SSAValue:
    quotient = c.div(c.add(x, 1), c.add(c.mul(x, -1), 1))
    return c.mul(c.log(quotient), 0.5)


RULES: dict[str, Rule] = {
    "Acos": _in_double(lambda c, x: c.add(c.mul(_arcsine(c, x), -1), math.pi / 2)),
    "Acosh": _in_double(_arcosh),
    "Asin": _in_double(_arcsine),
    "Asinh": _in_double(_arsinh),
    "Atan": _in_double(lambda c, x: c.arctangent(x)),
    "Atanh": _in_double(_artanh),
    "Cos": _in_double(_cosine),
    "Cosh": _in_double(_hyperbolic(1)),
    "Sin": _in_double(lambda c, x: c.sine(x)),
    "Sinh": _in_double(_hyperbolic(-1)),
    "Tan": _in_double(lambda c, x: c.div(c.sine(x), _cosine(c, x))),
}
"""By the type of the operator."""
