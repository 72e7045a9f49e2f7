"""A step of a spiking neuron on registers: the arithmetic, in the order that all others have.

A model is described by `NeuronStep`: what is the same for all neurons is a number in the code, the
rest is given as registers. Not here: loops over neurons and time (`spiking_layers`), what a model
computes (`ir.neurons`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from xdsl.dialects.builtin import AnyFloat, IntegerType, f32, f64
from xdsl.ir import Attribute, SSAValue

from ....ir.neurons import MODELS
from ....ir.neurons.arithmetic import Arithmetic, Options
from ..llvm.types import integers, width
from .code import Code

KERNELS = [name for name, model in MODELS.items() if model.kernels]
"""The models that kernels compute; loops of ops compute the others."""

Number = float | int
Values = Sequence[SSAValue]


@dataclass(frozen=True)
class NeuronStep:
    """What a neuron computes.

    Attributes:
        model: its name.
        element: of current and states: f32, f64, or a signless integer for `integrate_fire`.
        numbers: parameters that are one number, by name, rounded to the element type.
        each: the names of those that each neuron has its own of, in the order they are given in.
        states: how many states a neuron has.
        spikes: whether the result is spikes, bytes 0 and 1; else numbers.
        options: see `Options`.
    """

    model: str
    element: Attribute
    numbers: tuple[tuple[str, Number], ...]
    each: tuple[str, ...]
    states: int
    spikes: bool
    options: Options

    @property
    def bytes(self) -> int:
        """Bytes of an element."""
        if isinstance(self.element, IntegerType):
            return cast("IntegerType", self.element).width.data // 8
        return 8 if self.element == f64 else 4

    def step(
        self, code: Code, each: Mapping[str, SSAValue], x: SSAValue, states: Values
    ) -> tuple[SSAValue, list[SSAValue]]:
        """What a step gives (truth values for spikes), and the states after it."""
        output, after = MODELS[self.model].step(_Registers(code, self, each, x), x, states)
        return output, list(after)


class _Registers(Arithmetic[SSAValue]):
    """Steps on registers, or scalars, of the type of `like`."""

    def __init__(
        self, code: Code, neuron: NeuronStep, each: Mapping[str, SSAValue], like: SSAValue
    ) -> None:
        self.code = code
        self.neuron, self.options = neuron, neuron.options
        self._each = each
        self._numbers = dict(neuron.numbers)
        self._kind = like.type
        self._floats = isinstance(neuron.element, AnyFloat)

    def _number(self, value: Number) -> SSAValue:
        """The same number in every lane."""
        return self.code.constant(value, self._kind)

    def parameter(self, name: str) -> SSAValue:
        own = self._each.get(name)
        return self._number(self._numbers[name]) if own is None else own

    def add(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.code.fadd(a, b) if self._floats else self.code.add(a, b)

    def sub(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.code.fsub(a, b) if self._floats else self.code.sub(a, b)

    def mul(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.code.fmul(a, b) if self._floats else self.code.mul(a, b)

    def times(self, name: str, x: SSAValue) -> SSAValue:
        """A parameter times x; a factor of 1 changes nothing."""
        return x if self._numbers.get(name) == 1 else super().times(name, x)

    def complement(self, name: str) -> SSAValue:
        known = self._numbers.get(name)
        if known is None:
            return self.sub(self._number(1.0), self.parameter(name))
        kind = _dtype(self.neuron.element)
        return self._number(float(kind(1) - kind(known)))

    def rest(self) -> SSAValue:
        kind = _dtype(self.neuron.element)
        beta, level = self._numbers.get("beta"), self._numbers.get("v_leak")
        if beta is None or level is None:
            return self.mul(self.complement("beta"), self.parameter("v_leak"))
        return self._number(float((kind(1) - kind(beta)) * kind(level)))

    def reaches(self, v: SSAValue, threshold: SSAValue) -> SSAValue:
        code, strict = self.code, self.options.compare == "gt"
        if not self._floats:
            return code.icmp("sgt" if strict else "sge", v, threshold)
        return reaches(code, v, threshold, strict=strict)

    def choose(self, where: SSAValue, chosen: SSAValue, other: SSAValue) -> SSAValue:
        return self.code.select(where, chosen, other)

    def gated(self, where: SSAValue, a: SSAValue) -> SSAValue:
        return self.choose(where, a, self._number(0.0))

    def is_zero(self, a: SSAValue) -> SSAValue:
        bits = self.code.bits(a, integers(a.type))
        return self.code.icmp("eq", self.code.shl(bits, 1), 0)

    def relu(self, a: SSAValue) -> SSAValue:
        return self.code.overloaded("maximum", a, self._number(0.0))

    def magnitude(self, a: SSAValue) -> SSAValue:
        return self.code.fabs(a)

    def as_number(self, where: SSAValue) -> SSAValue:
        return self.choose(where, self._number(1.0), self._number(0.0))


def _dtype(element: Attribute) -> type[np.floating]:
    return np.float32 if element == f32 else np.float64


def infinity_of(x: SSAValue) -> int:
    """The bits of the infinity of a float, or of those in a register."""
    return 0x7FF0 << 48 if width(x.type) == 64 else 0x7F80 << 16


def reaches(code: Code, v: SSAValue, threshold: SSAValue, *, strict: bool) -> SSAValue:
    """Where floats v > θ, or v ≥ θ; never for NaN.

    xDSL's comparison of floats takes no vectors. v - θ is 0 only for v = θ, as there is gradual
    underflow, and floats from 0 to infinity are in the order of their bits.
    """
    above, infinity = code.fsub(v, threshold), infinity_of(v)
    if strict:
        return code.icmp("ult", code.sub(code.bits(above, integers(v.type)), 1), infinity)
    # This makes 0 of -0.
    bits = code.bits(code.fadd(above, 0.0), integers(v.type))
    return code.icmp("ule", bits, infinity)
