"""One step of each spiking neuron model on registers, operation for operation as interpreted.

A model is described by `NeuronStep`: what is the same for all neurons is a number in the code, the
rest is given as registers. Not here: loops over neurons and time (`spiking_layers`), what a model
means (`dialects.spike`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from xdsl.dialects.builtin import AnyFloat, IntegerType, f32, f64
from xdsl.ir import Attribute, SSAValue

from ..llvm.types import lanes, like, suffix
from .code import Code

Number = float | int
Values = Sequence[SSAValue]


@dataclass(frozen=True)
class NeuronStep:
    """What a neuron computes.

    Attributes:
        model: `lif`, `integrate_fire`, `cuba_lif`, `leaky_integrator`, `adaptive_lif`,
            `sigma_delta`.
        element: of current and states: f32, f64, or a signless integer for `integrate_fire`.
        numbers: parameters that are one number, by name, rounded to the element type.
        each: the names of those that each neuron has its own of, in the order they are given in.
        states: how many states a neuron has.
        spikes: whether the result is spikes, bytes 0 and 1; else numbers.
        compare, reset, activation, cumulative: see `dialects.spike.neuron`.
    """

    model: str
    element: Attribute
    numbers: tuple[tuple[str, Number], ...]
    each: tuple[str, ...]
    states: int
    spikes: bool
    compare: str = "ge"
    reset: str = "subtract"
    activation: str = "relu"
    cumulative: bool = False

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
        return _MODELS[self.model](_Step(code, self, each, x), x, list(states))


class _Step:
    """Arithmetic on registers, or scalars, of the type of `like`."""

    def __init__(
        self, code: Code, neuron: NeuronStep, each: Mapping[str, SSAValue], like: SSAValue
    ) -> None:
        self.code = code
        self.neuron = neuron
        self._each = each
        self._numbers = dict(neuron.numbers)
        self._kind = like.type
        self._floats = isinstance(neuron.element, AnyFloat)

    def number(self, value: Number) -> SSAValue:
        """The same number in every lane."""
        return self.code.constant(value, self._kind)

    def p(self, name: str) -> SSAValue:
        """A parameter."""
        register = self._each.get(name)
        return self.number(self._numbers[name]) if register is None else register

    def add(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """a + b."""
        return self.code.fadd(a, b) if self._floats else self.code.add(a, b)

    def sub(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """a - b."""
        return self.code.fsub(a, b) if self._floats else self.code.sub(a, b)

    def mul(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """a · b."""
        return self.code.fmul(a, b) if self._floats else self.code.mul(a, b)

    def times(self, name: str, x: SSAValue) -> SSAValue:
        """A parameter times x; a factor of 1 changes nothing."""
        return x if self._numbers.get(name) == 1 else self.mul(self.p(name), x)

    def complement(self, name: str) -> SSAValue:
        """1 - p."""
        known = self._numbers.get(name)
        if known is None:
            return self.sub(self.number(1.0), self.p(name))
        kind = _dtype(self.neuron.element)
        return self.number(float(kind(1) - kind(known)))

    def leak(self, v: SSAValue, current: SSAValue) -> SSAValue:
        """β·v + (1-β)·v_leak + g·i."""
        kind = _dtype(self.neuron.element)
        beta, rest = self._numbers.get("beta"), self._numbers.get("v_leak")
        if beta is None or rest is None:
            toward = self.mul(self.complement("beta"), self.p("v_leak"))
        else:
            toward = self.number(float((kind(1) - kind(beta)) * kind(rest)))
        decayed = self.add(self.mul(self.p("beta"), v), toward)
        return self.add(decayed, self.times("gain", current))

    def fires(self, v: SSAValue, threshold: SSAValue) -> SSAValue:
        """Where v > θ, or v ≥ θ; never for NaN.

        xDSL's comparison of floats takes no vectors. v - θ is 0 only for v = θ, as there is gradual
        underflow, and floats from 0 to infinity are in the order of their bits.
        """
        code, strict = self.code, self.neuron.compare == "gt"
        if not self._floats:
            return code.icmp("sgt" if strict else "sge", v, threshold)
        above = code.fsub(v, threshold)
        if strict:
            bits = self._bits(above)
            lowered = code.sub(bits, 1)
            return code.icmp("ult", lowered, self._infinity)
        # This makes 0 of -0.
        bits = self._bits(code.fadd(above, self.number(0.0)))
        return code.icmp("ule", bits, self._infinity)

    @property
    def _infinity(self) -> int:
        return 0x7FF0 << 48 if self.neuron.element == f64 else 0x7F80 << 16

    def _bits(self, a: SSAValue) -> SSAValue:
        return self.code.bits(a, like(a.type, IntegerType(8 * self.neuron.bytes)))

    def fired(self, v: SSAValue, threshold: SSAValue) -> tuple[SSAValue, SSAValue]:
        """The spikes of the potential v, and what the reset leaves of it."""
        spikes = self.fires(v, threshold)
        match self.neuron.reset:
            case "subtract":
                return spikes, self.select(spikes, self.sub(v, threshold), v)
            case "to_value":
                return spikes, self.select(spikes, self.p("v_reset"), v)
            case _:
                return spikes, v

    def select(self, where: SSAValue, yes: SSAValue, no: SSAValue) -> SSAValue:
        """`yes` where something holds, else `no`; xDSL's selection takes no vectors."""
        code = self.code
        if lanes(yes.type) is None:
            return code.select(where, yes, no)
        first, second = self._bits(yes), self._bits(no)
        mask = code.resize(where, first.type)
        rest = code.xor(mask, -1)
        return code.bits(code.or_(code.and_(first, mask), code.and_(second, rest)), yes.type)

    def not_zero(self, a: SSAValue) -> SSAValue:
        """Where a float is not 0."""
        code, bits = self.code, self._bits(a)
        return code.icmp("ne", code.shl(bits, 1), 0)

    def magnitude(self, a: SSAValue) -> SSAValue:
        """|a|."""
        return self.code.intrinsic(f"llvm.fabs.{suffix(a.type)}", [a], a.type)

    def indicator(self, where: SSAValue) -> SSAValue:
        """1 where something holds, else 0."""
        return self.select(where, self.number(1.0), self.number(0.0))


def _dtype(element: Attribute) -> type[np.floating]:
    return np.float32 if element == f32 else np.float64


Result = tuple[SSAValue, list[SSAValue]]


def _lif(s: _Step, x: SSAValue, states: Values) -> Result:
    spikes, v = s.fired(s.leak(states[0], x), s.p("threshold"))
    return spikes, [v]


def _integrate_fire(s: _Step, x: SSAValue, states: Values) -> Result:
    spikes, v = s.fired(s.add(states[0], s.times("gain", x)), s.p("threshold"))
    return spikes, [v]


def _cuba_lif(s: _Step, x: SSAValue, states: Values) -> Result:
    current = s.add(s.mul(s.p("alpha"), states[0]), s.times("w_in", x))
    spikes, v = s.fired(s.leak(states[1], current), s.p("threshold"))
    return spikes, [current, v]


def _leaky_integrator(s: _Step, x: SSAValue, states: Values) -> Result:
    v = s.leak(states[0], x)
    return v, [v]


def _adaptive_lif(s: _Step, x: SSAValue, states: Values) -> Result:
    v, adaptation = states
    threshold = s.add(s.p("threshold"), s.times("kappa", adaptation))
    spikes, v = s.fired(s.leak(v, x), threshold)
    raised = s.mul(s.complement("rho"), s.indicator(spikes))
    return spikes, [v, s.add(s.mul(s.p("rho"), adaptation), raised)]


def _sigma_delta(s: _Step, x: SSAValue, states: Values) -> Result:
    code, zero = s.code, s.number(0.0)
    sigma, last, residue, error = states
    sigma = s.add(sigma, s.times("gain", x))
    y = s.add(sigma, s.p("bias"))
    if s.neuron.activation == "relu":
        y = code.overloaded("maximum", y, zero)
    change = s.add(s.sub(y, last), residue)
    if s.neuron.cumulative:
        error = s.add(error, change)
    watched = s.magnitude(error if s.neuron.cumulative else change)
    sent = s.select(s.fires(watched, s.p("threshold")), change, zero)
    if s.neuron.cumulative:
        error = s.select(s.not_zero(sent), zero, error)
    return sent, [sigma, y, s.sub(change, sent), error]


_MODELS: dict[str, Callable[[_Step, SSAValue, Values], Result]] = {
    "lif": _lif,
    "integrate_fire": _integrate_fire,
    "cuba_lif": _cuba_lif,
    "leaky_integrator": _leaky_integrator,
    "adaptive_lif": _adaptive_lif,
    "sigma_delta": _sigma_delta,
}

MODELS = tuple(_MODELS)
"""The models that there are."""
