"""What neurons do in a step, said once, for values of any kind.

The steps are written with `Arithmetic`: NumPy's for the interpreter, PyTorch's for layers that
learn, and that of the targets, which write nodes, operators and registers. Operations have the
order that the ops name, everywhere, so that equal currents give equal spikes. Not here: runs over
time (`spike.interpret_neurons`), and the parameters with their bounds (`spike.neurons`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from xdsl.ir import Operation

Value = TypeVar("Value")


@dataclass(frozen=True)
class Options:
    """What a neuron has besides numbers; see the ops."""

    compare: str = "ge"
    reset: str = "subtract"
    activation: str = "relu"
    cumulative: bool = False
    shift: int = 0

    @staticmethod
    def of(op: Operation) -> Options:
        """The options that an op has."""
        attributes: dict[str, Any] = {f.name: getattr(op, f.name, None) for f in fields(Options)}
        return Options(
            **{
                name: getattr(attribute, "value", attribute).data
                for name, attribute in attributes.items()
                if attribute is not None
            }
        )


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

    def rest(self) -> Value | None:
        """(1-β)·v_leak; `None` where it is 0."""
        return self.mul(self.complement("beta"), self.parameter("v_leak"))

    def leak(self, v: Value) -> Value:
        """β·v + (1-β)·v_leak."""
        v, rest = self.times("beta", v), self.rest()
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


def lif(a: Arithmetic[Value], x: Value, states: Sequence[Value]) -> Result[Value]:
    """v = beta v + (1 - beta) v_leak + gain x."""
    v = a.add(a.leak(states[0]), a.driven("gain", x))
    spikes, v = a.fired(v, a.parameter("threshold"))
    return spikes, (v,)


def integrate_fire(a: Arithmetic[Value], x: Value, states: Sequence[Value]) -> Result[Value]:
    """v = v + gain x, on integers too."""
    v = a.add(states[0], a.driven("gain", x))
    spikes, v = a.fired(v, a.parameter("threshold"))
    return spikes, (v,)


def cuba_lif(a: Arithmetic[Value], x: Value, states: Sequence[Value]) -> Result[Value]:
    """A leaky neuron on the current c = alpha c + w_in x."""
    current, v = cuba(a, x, states)
    spikes, v = a.fired(v, a.parameter("threshold"))
    return spikes, (current, v)


def cuba(a: Arithmetic[Value], x: Value, states: Sequence[Value]) -> tuple[Value, Value]:
    """The current c and the potential v of a neuron on a current."""
    current = a.add(a.times("alpha", states[0]), a.driven("w_in", x))
    return current, a.add(a.leak(states[1]), a.times("gain", current))


def leaky_integrator(a: Arithmetic[Value], x: Value, states: Sequence[Value]) -> Result[Value]:
    """v = beta v + (1 - beta) v_leak + gain x, which is the output."""
    v = a.add(a.leak(states[0]), a.driven("gain", x))
    return v, (v,)


def cuba_integrator(a: Arithmetic[Value], x: Value, states: Sequence[Value]) -> Result[Value]:
    """A leaky integrator of a decaying current (NIR's CubaLI)."""
    current, v = cuba(a, x, states)
    return v, (current, v)


def adaptive_lif(a: Arithmetic[Value], x: Value, states: Sequence[Value]) -> Result[Value]:
    """A leaky neuron with the threshold theta + kappa a, a = rho a + (1 - rho) s."""
    v, adaptation = states
    threshold = a.add(a.parameter("threshold"), a.times("kappa", adaptation))
    spikes, v = a.fired(a.add(a.leak(v), a.driven("gain", x)), threshold)
    risen = a.mul(a.complement("rho"), a.as_number(spikes))
    return spikes, (v, a.add(a.times("rho", adaptation), risen))


def sigma_delta(a: Arithmetic[Value], x: Value, states: Sequence[Value]) -> Result[Value]:
    """Sums what comes and sends what changed by the threshold."""
    sigma, last, residue, error = states
    sigma = a.add(sigma, a.driven("gain", x))
    y = a.add(sigma, a.parameter("bias"))
    if a.options.activation == "relu":
        y = a.relu(y)
    change = a.add(a.sub(y, last), residue)
    if a.options.cumulative:
        error = a.add(error, change)
    watched = a.magnitude(error if a.options.cumulative else change)
    sent = a.gated(a.reaches(watched, a.parameter("threshold")), change)
    if a.options.cumulative:
        error = a.gated(a.is_zero(sent), error)
    return sent, (sigma, y, a.sub(change, sent), error)


def integer_lif(a: GeneralArithmetic[Value], x: Value, states: Sequence[Value]) -> Result[Value]:
    """On integers: v = floor(decay v / 2^shift) + gain x."""
    v = a.add(a.shifted(a.parameter("decay"), states[0], a.options.shift), a.driven("gain", x))
    spikes, v = a.fired(v, a.parameter("threshold"))
    return spikes, (v,)


STEPS: dict[str, Step] = {
    "lif": lif,
    "integrate_fire": integrate_fire,
    "cuba_lif": cuba_lif,
    "leaky_integrator": leaky_integrator,
    "cuba_integrator": cuba_integrator,
    "adaptive_lif": adaptive_lif,
    "sigma_delta": sigma_delta,
}
"""What a neuron does in a step, by its model; see the ops of these names."""

GENERAL_STEPS: dict[str, Step] = {**STEPS, "integer_lif": integer_lif}
"""Those and the models that need a `GeneralArithmetic`."""


def model_of(op: Operation | type[Operation]) -> str:
    """The model that an op of a neuron, or its class, is."""
    return op.name.rpartition(".")[2]


def input_factor(model: str) -> str:
    """The parameter that multiplies a neuron's input, before anything else is done with it."""
    return "w_in" if model.startswith("cuba") else "gain"


SILENT = {"gain": 1.0, "w_in": 1.0, "v_leak": 0.0}
"""Parameters that change nothing, by the value with which they do."""
