"""What the steps of neurons are written with, for values of any kind.

There is an `Arithmetic` of NumPy for the interpreter, of PyTorch for layers that learn, and one of
each target, which writes nodes, operators, registers or wires. Operations have the order that the
steps name, everywhere, so that equal currents give equal spikes. Not here: the models.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")

COMPARISONS = ("gt", "ge")
RESETS = ("subtract", "to_value", "none")
ACTIVATIONS = ("none", "relu")


@dataclass(frozen=True)
class Options:
    """What a neuron has besides numbers; see the ops."""

    compare: str = "ge"
    reset: str = "subtract"
    activation: str = "relu"
    cumulative: bool = False
    shift: int = 0


CHOICES = {"compare": COMPARISONS, "reset": RESETS, "activation": ACTIVATIONS}
"""What an option may be, where it is a word."""


class Arithmetic(ABC, Generic[Value]):
    """A neuron's parameters and options, and what can be done with values of a kind.

    Attributes:
        options: see `Options`.
    """

    options: Options

    @abstractmethod
    def parameter(self, name: str) -> Value:
        """A parameter, in the type of computation."""

    @abstractmethod
    def add(self, a: Value, b: Value) -> Value:
        """a + b."""

    @abstractmethod
    def sub(self, a: Value, b: Value) -> Value:
        """a - b."""

    @abstractmethod
    def mul(self, a: Value, b: Value) -> Value:
        """a·b."""

    @abstractmethod
    def complement(self, name: str) -> Value:
        """1 - p, for a parameter p."""

    @abstractmethod
    def relu(self, a: Value) -> Value:
        """max(a, 0)."""

    @abstractmethod
    def magnitude(self, a: Value) -> Value:
        """|a|."""

    @abstractmethod
    def reaches(self, v: Value, threshold: Value) -> Value:
        """Where v fires: above the threshold (`gt`), or at it too (`ge`)."""

    @abstractmethod
    def is_zero(self, a: Value) -> Value:
        """Where a is 0."""

    @abstractmethod
    def choose(self, where: Value, chosen: Value, other: Value) -> Value:
        """`chosen` where something holds, else `other`."""

    @abstractmethod
    def gated(self, where: Value, a: Value) -> Value:
        """a where something holds, else 0."""

    @abstractmethod
    def as_number(self, where: Value) -> Value:
        """1 where something holds, else 0."""

    def times(self, name: str, x: Value) -> Value:
        """A parameter times x."""
        return self.mul(self.parameter(name), x)

    def driven(self, name: str, x: Value) -> Value:
        """The parameter `input_factor` of a neuron times its input."""
        return self.times(name, x)

    def kept(self, name: str, x: Value) -> Value:
        """What a decay leaves of x."""
        return self.times(name, x)

    def rest(self) -> Value | None:
        """(1-β)·v_leak; `None` where it is 0."""
        return self.mul(self.complement("beta"), self.parameter("v_leak"))

    def leak(self, v: Value) -> Value:
        """β·v + (1-β)·v_leak."""
        v, rest = self.kept("beta", v), self.rest()
        return v if rest is None else self.add(v, rest)

    def fired(self, v: Value, threshold: Value) -> tuple[Value, Value]:
        """The spikes of the potential v, and what the reset leaves of it; see `spike.FiringOp`."""
        spikes = self.reaches(v, threshold)
        return spikes, self.after(spikes, v, threshold)

    def after(self, spikes: Value, v: Value, threshold: Value) -> Value:
        """What the reset leaves of the potential v where there are spikes."""
        match self.options.reset:
            case "subtract":
                return self.choose(spikes, self.sub(v, threshold), v)
            case "to_value":
                return self.choose(spikes, self.parameter("v_reset"), v)
            case _:
                return v


class GeneralArithmetic(Arithmetic[Value], ABC):
    """What only some models need; kernels have none of it."""

    @abstractmethod
    def number(self, value: float) -> Value:
        """A number, in the type of computation."""

    @abstractmethod
    def div(self, a: Value, b: Value) -> Value:
        """a / b."""

    @abstractmethod
    def exp(self, a: Value) -> Value:
        """e^a, which engines round each in its own way."""

    @abstractmethod
    def least(self, a: Value, b: Value) -> Value:
        """min(a, b)."""

    @abstractmethod
    def both(self, a: Value, b: Value) -> Value:
        """Where two things hold."""

    @abstractmethod
    def shifted(self, factor: Value, x: Value, places: int) -> Value:
        """⌊factor·x / 2^places⌋ exactly, for integers and a factor from 0 to 2^places."""

    def kept(self, name: str, x: Value) -> Value:
        """What a decay leaves of x; with a `shift` the decay counts in units of 2^-shift."""
        places = self.options.shift
        return self.shifted(self.parameter(name), x, places) if places else self.times(name, x)


class ArrayArithmetic(GeneralArithmetic[Value], ABC):
    """Steps on values that have Python's operators: arrays and tensors.

    Args:
        options: see `Options`.
        parameters: by name, in the type of computation.
    """

    def __init__(self, options: Options, parameters: Mapping[str, Value]) -> None:
        self.options, self.parameters = options, parameters

    def parameter(self, name: str) -> Value:
        return self.parameters[name]

    def add(self, a: Any, b: Any) -> Any:
        return a + b

    def sub(self, a: Any, b: Any) -> Any:
        return a - b

    def mul(self, a: Any, b: Any) -> Any:
        return a * b

    def div(self, a: Any, b: Any) -> Any:
        return a / b


Step = Callable[[Any, Any, Any], tuple[Any, tuple[Any, ...]]]
"""`step(arithmetic, input, states)`: what a step gives, and the states after it."""

Result = tuple[Value, tuple[Value, ...]]

SILENT = {"gain": 1.0, "w_in": 1.0, "v_leak": 0.0}
"""Parameters that change nothing, by the value with which they do."""
