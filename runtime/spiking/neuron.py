"""What all neurons share: parameters as numbers or tensors, states in and out, firing and reset.

The neurons themselves stand in `neurons`.
"""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from ...dialects.neuron_equations import GENERAL_STEPS, SILENT, ArrayArithmetic, Options
from ...ir.errors import OptionError
from .recording import is_recorded, record_neuron
from .surrogate import COMPARISONS, SurrogateGradient

RESETS = ("subtract", "to_value", "none")

Value = float | Tensor
State = tuple[Tensor, ...]


class Spec(NamedTuple):
    """What a parameter is where nobody gives it, and its bounds."""

    default: float | None = None
    low: float = -math.inf
    high: float = math.inf


DECAY = Spec(None, 0.0, 1.0)
GAIN = Spec(1.0)
LEVEL = Spec(0.0)
THRESHOLD = Spec(1.0)


class Neuron(nn.Module, ABC):
    """A population of neurons that runs over the steps of its input current [T, …].

    A parameter is a number for all neurons or a tensor with one for each, which broadcasts to the
    shape of a step; an `nn.Parameter` is trained (nothing keeps it in its bounds), another tensor
    becomes a buffer. All neurons of one model have the same states, in the order of `STATES`; where
    none are given they are zeros. A run that is cut in two and resumed gives the same bits.
    Parameters are rounded to the type of the current; float16 and bfloat16 compute a step in
    float32 and round the states after it.
    """

    PARAMETERS: ClassVar[Mapping[str, Spec]]
    """The parameters by name."""

    STATES: ClassVar[tuple[str, ...]]
    """The states, in order."""

    MODEL: ClassVar[str]
    """What it does in a step, as `dialects.neuron_equations` names it."""

    surrogate = SurrogateGradient()
    detach_reset: bool = False

    def __init__(self, parameters: Mapping[str, Value | None]) -> None:
        super().__init__()
        for name, spec in self.PARAMETERS.items():
            argument = parameters[name]
            value = spec.default if argument is None else argument
            if value is None:
                raise OptionError(f"{name}: expected a number or a tensor, got none")
            _check_bounds(name, value, spec)
            if isinstance(value, nn.Parameter):
                self.register_parameter(name, value)
            elif isinstance(value, Tensor):
                self.register_buffer(name, value)
            else:
                setattr(self, name, float(value))

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """The outputs of all steps, like `x`, and the states after the last one.

        Args:
            x: the current, floats [T, …].
            state: the states before the first step, each like a step of `x`; zeros by default.

        Raises:
            OptionError: a type or shape that does not fit.
        """
        self._check_current(x)
        if is_recorded(self):
            return record_neuron(self, list(self.PARAMETERS), x, state)
        step = x.shape[1:]
        wide = wide_type(x.dtype)
        values = self._values(x, wide)
        for name, value in values.items():
            if not _broadcasts_to(value.shape, step):
                raise OptionError(
                    f"{name}: expected a shape that broadcasts to {list(step)}, "
                    f"got {list(value.shape)}"
                )
        state = tuple(x.new_zeros(step) for _ in self.STATES) if state is None else state
        self._check_state(x, state)
        outputs: list[Tensor] = []
        said = {name: value for name, value in values.items() if not self._is_silent(name)}
        detach, surrogate = self.detach_reset, self.surrogate
        arithmetic = TensorArithmetic(self.options(), said, surrogate, detach)
        for current in x.unbind(0):
            output, state = self._advance(
                arithmetic, current.to(wide), tuple(before.to(wide) for before in state)
            )
            state = tuple(after.to(x.dtype) for after in state)
            outputs.append(output.to(x.dtype))
        return torch.stack(outputs) if outputs else x.clone(), state

    def step(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """One step: the output, like `x`, and the states after it; see `forward`."""
        outputs, state = self.forward(x.unsqueeze(0), state)
        return outputs.squeeze(0), state

    def _advance(
        self, arithmetic: TensorArithmetic, x: Tensor, state: State
    ) -> tuple[Tensor, State]:
        """One step on tensors of one type."""
        return GENERAL_STEPS[self.MODEL](arithmetic, x, state)

    def options(self) -> Options:
        """What it has besides numbers."""
        return Options()

    def _check_current(self, x: Tensor) -> None:
        if not x.is_floating_point() or x.dim() < 1:
            raise OptionError(f"expected a current of floats [T, …], got {x.dtype}{list(x.shape)}")

    def _check_state(self, x: Tensor, state: State) -> None:
        if len(state) != len(self.STATES):
            raise OptionError(
                f"expected {len(self.STATES)} state(s), {', '.join(self.STATES)}, got {len(state)}"
            )
        for name, before in zip(self.STATES, state, strict=True):
            if before.shape != x.shape[1:] or before.dtype != x.dtype:
                raise OptionError(
                    f"state {name}: expected {x.dtype}{list(x.shape[1:])}, "
                    f"got {before.dtype}{list(before.shape)}"
                )

    def _is_silent(self, name: str) -> bool:
        value: Value = getattr(self, name)
        return not isinstance(value, Tensor) and value == SILENT.get(name)

    def _values(self, x: Tensor, dtype: torch.dtype) -> dict[str, Tensor]:
        values: dict[str, Tensor] = {}
        for name in self.PARAMETERS:
            value: Value = getattr(self, name)
            if not isinstance(value, Tensor):
                value = torch.full((), value, dtype=x.dtype, device=x.device)
            values[name] = value.to(x.dtype).to(dtype)
        return values

    def extra_repr(self) -> str:
        """The parameters, for `repr`."""
        shown: list[str] = []
        for name in self.PARAMETERS:
            value: Value = getattr(self, name)
            text = f"{list(value.shape)}" if isinstance(value, Tensor) else f"{value:g}"
            shown.append(f"{name}={text}")
        return ", ".join(shown)


class FiringNeuron(Neuron, ABC):
    """A neuron that fires at a threshold, and is reset where it fired.

    `compare`: `gt` fires above the threshold, `ge` at it too. `reset`: `subtract` takes the
    threshold off the potential, `to_value` sets it to `v_reset`, `none` leaves it. Potentials are
    taken to be finite.

    Spikes are ones of the current's type. Backward, `surrogate` stands for the derivative of a
    spike, through the reset too unless `detach_reset`.
    """

    def __init__(
        self,
        parameters: Mapping[str, Value | None],
        compare: str,
        reset: str,
        surrogate: SurrogateGradient | str,
        detach_reset: bool,
    ) -> None:
        for what, value, allowed in (("compare", compare, COMPARISONS), ("reset", reset, RESETS)):
            if value not in allowed:
                raise OptionError(f"{what}: expected one of {', '.join(allowed)}, got {value!r}")
        if reset != "to_value" and parameters["v_reset"] is not None:
            raise OptionError(f"v_reset belongs to the reset to_value alone, got {reset!r}")
        super().__init__(parameters)
        self.compare, self.reset, self.detach_reset = compare, reset, detach_reset
        self.surrogate = SurrogateGradient(surrogate) if isinstance(surrogate, str) else surrogate

    def options(self) -> Options:
        return Options(self.compare, self.reset)

    def extra_repr(self) -> str:
        """The settings, for `repr`."""
        return (
            f"{super().extra_repr()}, compare={self.compare}, reset={self.reset}, "
            f"surrogate={self.surrogate.name}"
        )


class TensorArithmetic(ArrayArithmetic[Tensor]):
    """What the steps of neurons are made of, on tensors; spikes are ones among zeros.

    A factor that is not among the parameters is 1, a leak without level goes towards 0.

    Args:
        options: see `Options`.
        parameters: by name, in the type of computation.
        surrogate: gives the spikes of v, the threshold and the comparison, with gradients.
        detach_reset: whether gradients stay out of resets.
    """

    def __init__(
        self,
        options: Options,
        parameters: Mapping[str, Tensor],
        surrogate: Callable[[Tensor, Tensor, str], Tensor],
        detach_reset: bool = False,
    ) -> None:
        self.options, self.parameters = options, parameters
        self.surrogate, self.detach_reset = surrogate, detach_reset

    def complement(self, name: str) -> Tensor:
        return 1 - self.parameters[name]

    def relu(self, a: Tensor) -> Tensor:
        return a.relu()

    def magnitude(self, a: Tensor) -> Tensor:
        return a.abs()

    def reaches(self, v: Tensor, threshold: Tensor) -> Tensor:
        return self.surrogate(v, threshold, self.options.compare)

    def is_zero(self, a: Tensor) -> Tensor:
        return (a == 0).to(a.dtype)

    def choose(self, where: Tensor, chosen: Tensor, other: Tensor) -> Tensor:
        return chosen * where + other * (1 - where)

    def gated(self, where: Tensor, a: Tensor) -> Tensor:
        return torch.where(a.isfinite(), a * where, torch.where(where != 0, a, 0))

    def as_number(self, where: Tensor) -> Tensor:
        return where

    def number(self, value: float) -> Any:
        return value

    def exp(self, a: Tensor) -> Tensor:
        return a.exp()

    def least(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.minimum(a, b)

    def both(self, a: Tensor, b: Tensor) -> Tensor:
        return a * b

    def shifted(self, factor: Tensor, x: Tensor, places: int) -> Tensor:
        return ((factor * x.long()) >> places).to(x.dtype)

    def times(self, name: str, x: Tensor) -> Tensor:
        return self.parameters[name] * x if name in self.parameters else x

    def rest(self) -> Tensor | None:
        if "v_leak" not in self.parameters:
            return None
        return self.complement("beta") * self.parameters["v_leak"]

    def after(self, spikes: Tensor, v: Tensor, threshold: Tensor) -> Tensor:
        """As everywhere, on finite numbers, with gradients through the reset."""
        fired = spikes.detach() if self.detach_reset else spikes
        match self.options.reset:
            case "subtract":
                return v - threshold * fired
            case "to_value":
                return self.choose(fired, self.parameter("v_reset"), v)
            case _:
                return v


def wide_type(dtype: torch.dtype) -> torch.dtype:
    """The type a step is computed in."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def _broadcasts_to(shape: Sequence[int], step: Sequence[int]) -> bool:
    pairs = zip(reversed(shape), reversed(step), strict=False)
    return len(shape) <= len(step) and all(size in (1, wanted) for size, wanted in pairs)


def _check_bounds(name: str, value: Value, spec: Spec) -> None:
    if isinstance(value, Tensor):
        if value.is_meta or value.numel() == 0:
            return
        fits = bool((value.isfinite() & (value >= spec.low) & (value <= spec.high)).all())
        shown = f"values from {value.min():g} to {value.max():g}"
    else:
        fits = math.isfinite(value) and spec.low <= value <= spec.high
        shown = f"{value}"
    if not fits:
        bounds = "" if math.isinf(spec.high) else f" from {spec.low:g} to {spec.high:g}"
        raise OptionError(f"{name}: expected finite numbers{bounds}, got {shown}")
