"""What all neurons share: parameters as numbers or tensors, states in and out, firing and reset.

The neurons themselves stand in `neurons`.
"""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Mapping, Sequence
from inspect import Parameter, Signature
from typing import ClassVar

import torch
from torch import Tensor, nn

from ...ir.errors import OptionError, check_choice
from ...ir.neurons.arithmetic import CHOICES, SILENT, Options
from ...ir.neurons.model import NeuronModel, ParameterSpec
from .recording import is_recorded, record_neuron
from .steps import State, TensorArithmetic, Value, rounded, run_steps
from .surrogate import SurrogateGradient
from .through_time import run_through_time

DECAYS = {"alpha": 0.8, "beta": 0.9, "rho": 0.99}
"""Decays that are not given: 1 - dt/τ. β and α are those of Norse's `LIFParameters` (dt = 1 ms,
τ_mem = 10 ms, τ_syn = 5 ms); snnTorch's `Leaky` has no default. ρ is that of 100 steps."""

_INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64)


def _default(name: str, spec: ParameterSpec) -> float | None:
    """What a parameter is where none is given; `None` where one has to be."""
    if spec.default is not None or spec.tau:
        return DECAYS.get(name) if spec.default is None else spec.default
    return spec.usual or None


class Neuron(nn.Module, ABC):
    """A population of neurons that runs over the steps of its input current [T, …].

    A parameter is a number for all neurons or a tensor with one for each, which broadcasts to the
    shape of a step; an `nn.Parameter` is trained (nothing keeps it in its bounds), another tensor
    becomes a buffer. All neurons of one model have the same states, in the order of `STATES`; where
    none are given they are zeros. A run that is cut in two and resumed gives the same bits.
    Parameters are rounded to the type of the current; float16 and bfloat16 compute a step in
    float32 and round the states after it.
    """

    MODEL: ClassVar[NeuronModel]
    """What it is; its parameters, options and equations are those of the op of this name."""

    PARAMETERS: ClassVar[Mapping[str, ParameterSpec]]
    """The parameters by name."""

    STATES: ClassVar[tuple[str, ...]]
    """The states, in order."""

    def __init_subclass__(cls, model: NeuronModel | None = None) -> None:
        if model is None:
            return
        said = {"MODEL": model, "PARAMETERS": model.parameters, "STATES": model.states}
        for name, value in said.items():
            setattr(cls, name, value)
        defaults: dict[str, Value | str | bool | None] = {
            name: _default(name, spec) for name, spec in model.parameters.items()
        }
        defaults |= {name: getattr(Options, name) for name in model.options}
        defaults |= {"surrogate": "fast_sigmoid", "detach_reset": False}
        positional = [n for n, spec in model.parameters.items() if spec.default is None]
        if any(defaults[name] is None for name in positional):
            # Python allows no default before an argument without one.
            defaults |= dict.fromkeys(positional)
        listed = [
            Parameter(
                name,
                Parameter.POSITIONAL_OR_KEYWORD if name in positional else Parameter.KEYWORD_ONLY,
                default=Parameter.empty if value is None else value,
            )
            for name, value in defaults.items()
        ]
        cls.__signature__ = Signature(sorted(listed, key=lambda parameter: parameter.kind))

    def __init__(
        self,
        *required: Value,
        surrogate: SurrogateGradient | str = "fast_sigmoid",
        detach_reset: bool = False,
        **settings: Value | str | bool | None,
    ) -> None:
        """Neurons of a model.

        Args:
            required: the decays, and others whose model has no default, in order; those of
                `DECAYS` and with a usual value may be left out.
            surrogate: a `SurrogateGradient` or its name.
            detach_reset: keep gradients out of the reset.
            settings: parameters and options by name; `None` stands for the default.

        Raises:
            OptionError: a value or a name that is not allowed.
        """
        super().__init__()
        model = self.MODEL
        names = [name for name, spec in model.parameters.items() if spec.default is None]
        given = {**dict(zip(names, required, strict=False)), **settings}
        unknown = sorted(given.keys() - model.parameters.keys() - set(model.options))
        if unknown or len(required) > len(names):
            raise OptionError(
                f"{type(self).__name__} has no {', '.join(unknown) or 'other argument'}; "
                f"expected some of {', '.join((*model.parameters, *model.options))}"
            )
        for name in model.options:
            value = given.get(name, getattr(Options, name))
            allowed = CHOICES.get(name)
            if allowed is not None:
                check_choice(name, value, allowed)
            setattr(self, name, value)
        reset = getattr(self, "reset", "to_value")
        if reset != "to_value" and given.get("v_reset") is not None:
            raise OptionError(f"v_reset belongs to the reset to_value alone, got {reset!r}")
        for name, spec in model.parameters.items():
            self._take(name, spec, given.get(name))
        self.surrogate = SurrogateGradient(surrogate) if isinstance(surrogate, str) else surrogate
        self.detach_reset = detach_reset

    def _take(self, name: str, spec: ParameterSpec, given: Value | str | None) -> None:
        """Keep a parameter."""
        value = _default(name, spec) if given is None else given
        if value is None or isinstance(value, str):
            raise OptionError(f"{name}: expected a number or a tensor, got {value or 'none'}")
        _check_bounds(name, value, spec.low, self.MODEL.highest(spec, self.options()))
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
            return record_neuron(self, self.MODEL, x, state)
        step = x.shape[1:]
        values = {name: rounded(getattr(self, name), x) for name in self.PARAMETERS}
        for name, value in values.items():
            if not _broadcasts_to(value.shape, step):
                raise OptionError(
                    f"{name}: expected a shape that broadcasts to {list(step)}, "
                    f"got {list(value.shape)}"
                )
        state = tuple(x.new_zeros(step) for _ in self.STATES) if state is None else state
        self._check_state(x, state)
        said = {name: value for name, value in values.items() if not self._is_silent(name)}
        detach, surrogate = self.detach_reset, self.surrogate
        arithmetic = TensorArithmetic(self.options(), said, surrogate, detach)
        if type(self)._advance is Neuron._advance:
            return run_through_time(self.MODEL.step, arithmetic, x, state)
        return run_steps(self._advance, arithmetic, x, state)

    def step(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """One step: the output, like `x`, and the states after it; see `forward`."""
        outputs, state = self.forward(x.unsqueeze(0), state)
        return outputs.squeeze(0), state

    def _advance(
        self, arithmetic: TensorArithmetic, x: Tensor, state: State
    ) -> tuple[Tensor, State]:
        """One step on tensors of one type."""
        return self.MODEL.step(arithmetic, x, state)

    def options(self) -> Options:
        """What it has besides numbers."""
        return Options(**{name: getattr(self, name) for name in self.MODEL.options})

    def _check_current(self, x: Tensor) -> None:
        if self.MODEL.on_integers and x.dtype in _INTEGERS and x.dim():
            self._check_integers(x.dtype)
        elif not x.is_floating_point() or x.dim() < 1:
            raise OptionError(f"expected a current of floats [T, …], got {x.dtype}{list(x.shape)}")

    def _check_integers(self, dtype: torch.dtype) -> None:
        limits = torch.iinfo(dtype)
        for name in self.PARAMETERS:
            value: Value = getattr(self, name)
            if isinstance(value, Tensor):
                if value.dtype != dtype:
                    raise OptionError(f"{name}: expected {dtype}, got {value.dtype}")
            elif value != int(value) or not limits.min <= value <= limits.max:
                raise OptionError(f"{name}: expected a whole number of {dtype}, got {value:g}")

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

    def extra_repr(self) -> str:
        """The parameters and options, for `repr`."""
        shown: list[str] = []
        for name in self.PARAMETERS:
            value: Value = getattr(self, name)
            text = f"{list(value.shape)}" if isinstance(value, Tensor) else f"{value:g}"
            shown.append(f"{name}={text}")
        shown += [f"{name}={getattr(self, name)}" for name in self.MODEL.options]
        return ", ".join([*shown, f"surrogate={self.surrogate.name}"])


class FiringNeuron(Neuron, ABC):
    """A neuron that fires at a threshold, and is reset where it fired.

    `compare`: `gt` fires above the threshold, `ge` at it too. `reset`: `subtract` takes the
    threshold off the potential, `to_value` sets it to `v_reset`, `none` leaves it. Potentials are
    taken to be finite.

    Spikes are ones of the current's type. Backward, `surrogate` stands for the derivative of a
    spike, through the reset too unless `detach_reset`.
    """

    compare: str
    reset: str


def _broadcasts_to(shape: Sequence[int], step: Sequence[int]) -> bool:
    pairs = zip(reversed(shape), reversed(step), strict=False)
    return len(shape) <= len(step) and all(size in (1, wanted) for size, wanted in pairs)


def _check_bounds(name: str, value: Value, low: float, high: float) -> None:
    if isinstance(value, Tensor):
        if value.is_meta or value.numel() == 0:
            return
        fits = bool((value.isfinite() & (value >= low) & (value <= high)).all())
        shown = f"values from {value.min():g} to {value.max():g}"
    else:
        fits = math.isfinite(value) and low <= value <= high
        shown = f"{value}"
    if not fits:
        bounds = "" if math.isinf(high) else f" from {low:g} to {high:g}"
        raise OptionError(f"{name}: expected finite numbers{bounds}, got {shown}")
