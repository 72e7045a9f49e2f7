"""The arithmetic of neurons' steps on integers: of intervals (`neuron_rules`), signals (`neurons`).

All that it needs of a kind of value are sums, known factors, known thresholds and choices.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from .....ir.neurons.arithmetic import GeneralArithmetic, Value

if TYPE_CHECKING:
    from .neuron_rules import NeuronRule


class NoCircuit(Exception):
    """A step needs what circuits of neurons do not have; the message says what."""


class IntegerArithmetic(GeneralArithmetic[Value], ABC):
    """Steps on integers whose parameters are known: by sums, known factors and known thresholds."""

    def __init__(self, rule: NeuronRule) -> None:
        self.options, self.rule = rule.options, rule
        self._numbers = dict(rule.numbers)

    def integer(self, name: str) -> int:
        """A parameter."""
        return self._numbers[name]

    @abstractmethod
    def whole(self, value: int) -> Value:
        """A known number."""

    @abstractmethod
    def negated(self, a: Value) -> Value:
        """-a."""

    @abstractmethod
    def scaled(self, a: Value, factor: int) -> Value:
        """a times a known factor."""

    @abstractmethod
    def at_least(self, a: Value, bound: int) -> Value:
        """Where a is at least a known number."""

    @abstractmethod
    def known(self, a: Value) -> int | None:
        """The number that a value is, where that is known."""

    def parameter(self, name: str) -> Value:
        return self.whole(self.integer(name))

    def complement(self, name: str) -> Value:
        return self.whole(1 - self.integer(name))

    def number(self, value: float) -> Value:
        return self.whole(int(value))

    def sub(self, a: Value, b: Value) -> Value:
        return self.add(a, self.negated(b))

    def times(self, name: str, x: Value) -> Value:
        return self.scaled(x, self.integer(name))

    def mul(self, a: Value, b: Value) -> Value:
        factor = self.known(b)
        return self.scaled(a, factor) if factor is not None else self.scaled(b, self.fixed(a))

    def reaches(self, v: Value, threshold: Value) -> Value:
        strict, bound = self.options.compare == "gt", self.known(threshold)
        if bound is None:
            return self.at_least(self.sub(v, threshold), int(strict))
        return self.at_least(v, bound + strict)

    def gated(self, where: Value, a: Value) -> Value:
        return self.choose(where, a, self.whole(0))

    def both(self, a: Value, b: Value) -> Value:
        return self.choose(a, b, self.whole(0))

    def as_number(self, where: Value) -> Value:
        return where

    def magnitude(self, a: Value) -> Value:
        return self.choose(self.at_least(a, 0), a, self.negated(a))

    def least(self, a: Value, b: Value) -> Value:
        above = self.at_least(self.sub(a, b), 0)
        return self.choose(above, b, a)

    def div(self, a: Value, b: Value) -> Value:
        raise NoCircuit("it divides")

    def exp(self, a: Value) -> Value:
        raise NoCircuit("it has an exponential")

    def fixed(self, a: Value) -> int:
        """The number that a value is.

        Raises:
            NoCircuit: it is not known.
        """
        number = self.known(a)
        if number is None:
            raise NoCircuit("a threshold or a factor changes from step to step")
        return number
