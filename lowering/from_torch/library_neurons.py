"""Neurons of snnTorch and SpikingJelly as single operators of an exported graph.

Both keep their state in the module and step through Python loops, which `torch.export` refuses.
While a module is exported, each neuron that is known here puts the operator
`triton_dsl_library::step` for one step, or `run` for all steps (SpikingJelly's multi-step mode), in
the place of its `forward`. Neither library is imported. Equations, from their sources:

- SpikingJelly (Fang et al. 2023), `IFNode`, `LIFNode`, `ParametricLIFNode`: v ← v + x, or
  v ← v + (x - (v - v_reset))/τ, or with `decay_input=False` v ← v - (v - v_reset)/τ + x; a spike
  where v ≥ θ; then v ← v_reset, or v ← v - θ where `v_reset` is None.
- snnTorch (Eshraghian et al. 2023), `Leaky`: v ← β·v + x with v reset by the spike of the step
  before: `zero` before the decay, `subtract` after it (v ← β·v + x - θ·s[t-1]); a spike where
  v > θ. `Synaptic`: c ← α·c + x, v ← β·v + c, and the same.

Other neurons stay as they are: `torch.export` follows each step of their equations, unless they are
operators of the library's own, as SpikingJelly's `EIFNode` is.

Not here: joining the steps of a neuron (`rolling`), and ops (`rules_spiking`).
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from types import FunctionType
from typing import Protocol, TypeAlias, cast

import torch
from torch import Tensor, nn
from torch._ops import OpOverloadPacket
from torch.library import Library

from ...ir.errors import LoweringError

NAMESPACE = "triton_dsl_library"
STEP, RUN = f"{NAMESPACE}::step", f"{NAMESPACE}::run"

Methods: TypeAlias = "Mapping[str, Callable[..., Tensor | Sequence[Tensor] | None]]"
"""What a neuron has in the place of its own methods while a module is exported."""

_ZEROS = "set reset_mechanism='zero' or 'none', or reset_delay=True"


@dataclass
class Neuron:
    """What an operator has to know of a neuron, in the terms of `dialects.spike`.

    Attributes:
        model: the model of `ir.neurons` with the same equation.
        numbers: parameters that are one number.
        tensors: parameters with a value for each neuron, as the module has them.
        words: `compare` and `reset`.
        states: how many states a step takes and gives.
        start: the potential before the first step.
        delayed: whether a spike takes θ from the potential of the next step.
        shown: whether the potentials of the steps may be read.
    """

    model: str
    numbers: dict[str, float] = field(default_factory=dict[str, float])
    tensors: dict[str, Callable[[], Tensor]] = field(
        default_factory=dict[str, Callable[[], "Tensor"]]
    )
    words: dict[str, str] = field(default_factory=dict[str, str])
    states: int = 1
    start: float = 0.0
    delayed: bool = False
    shown: bool = False

    def settings(self, place: str) -> str:
        """As text, for the operator; `place` tells neurons apart."""
        return json.dumps(
            {
                "place": place,
                "model": self.model,
                "numbers": self.numbers,
                "tensors": list(self.tensors),
                "words": self.words,
                "states": self.states,
                "delayed": self.delayed,
                "shown": self.shown,
            }
        )


class Operators(Protocol):
    """The operators of the namespace: of one step, and of all."""

    step: OpOverloadPacket[..., list[Tensor]]
    run: OpOverloadPacket[..., list[Tensor]]


@cache
def operators() -> Operators:
    """The operators, defined at the first call."""
    schema = "(Tensor x, Tensor[] initial, Tensor[] parameters, str settings) -> Tensor[]"
    library = torch.library.Library(NAMESPACE, "DEF")
    _libraries.append(library)

    def step(
        x: Tensor, initial: list[Tensor], parameters: list[Tensor], settings: str
    ) -> list[Tensor]:
        return [x.new_empty(x.shape) for _ in range(1 + json.loads(settings)["states"])]

    for name in (STEP, RUN):
        library.define(name.removeprefix(f"{NAMESPACE}::") + schema)
        torch.library.register_fake(name, step, lib=library)
    return cast("Operators", getattr(torch.ops, NAMESPACE))


_libraries: list[Library] = []
"""A library's operators go with it."""


@contextmanager
def recognized(module: nn.Module) -> Generator[None]:
    """Neurons of the libraries within `module` give operators in a `with` block.

    Raises:
        LoweringError: one of them means what no op does, or holds a state of an earlier run.
    """
    neurons: list[tuple[nn.Module, Methods]] = []
    modules = cast("Iterable[tuple[str, nn.Module]]", module.named_modules())
    for path, part in modules:
        bases = [(base.__module__.split(".")[0], base.__name__) for base in type(part).__mro__]
        if ("snntorch", "SpikingNeuron") in bases:
            neurons.append((part, _of_snntorch(cast("SnnTorchNeuron", part), path)))
        if ("spikingjelly", "StepModule") in bases:
            neurons.append((part, _of_spikingjelly(cast("SpikingJellyModule", part), path)))
    try:
        for part, methods in neurons:
            part.__dict__.update(methods)
        with warnings.catch_warnings():
            # Of neurons that stay as they are; each run of a module begins with a reset of them.
            if neurons:
                warnings.filterwarnings("ignore", ".*assigned during export", UserWarning)
            yield
    finally:
        for part, methods in neurons:
            for name in methods:
                part.__dict__.pop(name, None)


def _refuse(part: object, path: str, reason: str) -> LoweringError:
    where = f"'{path}' " if path else ""
    return LoweringError(f"{where}({type(part).__module__}.{type(part).__name__}) {reason}")


def _number(value: float | Tensor) -> float | None:
    """A parameter that is one number."""
    if not hasattr(value, "numel"):
        return float(value)
    tensor = cast("Tensor", value)
    return float(tensor.detach()) if tensor.numel() == 1 else None


# SpikingJelly.


_HELD = "holds a state; call functional.reset_net first"


class SpikingJellyModule(Protocol):
    """What is read of `Flatten` and of neurons; each has a part of it."""

    forward: Callable[..., Tensor | Sequence[Tensor]]
    reset: Callable[[], None]

    step_mode: str
    start_dim: int
    end_dim: int
    v: float | Tensor
    v_threshold: float
    v_reset: float | None
    tau: float
    w: Tensor
    decay_input: bool
    surrogate_function: Callable[[Tensor], Tensor]

    def memories(self) -> Iterable[object]:
        """The states."""
        ...


def _of_spikingjelly(part: SpikingJellyModule, path: str) -> Methods:
    """Methods for a neuron that an op is, and for `layer.Flatten`; none for another module."""
    kind = type(part)
    if kind.__name__ == "Flatten" and part.step_mode == "m" and part.start_dim > 0:
        # With time and batch as one axis PyTorch fixes the batch.
        start, end = (axis + (axis >= 0) for axis in (part.start_dim, part.end_dim))

        def flatten(x: Tensor) -> Tensor:
            return x.flatten(start, end)

        return {"forward": flatten}
    known = ("IFNode", "LIFNode", "ParametricLIFNode")
    if kind.__name__ not in known or not kind.__module__.startswith("spikingjelly."):
        return _reset_before(part, path) if hasattr(part, "memories") else {}
    held = [hasattr(part.v, "shape")]  # of an earlier run, until it is reset
    _check_spikes(part, path, part.surrogate_function, [0.0, 1.0, 1.0])
    neuron = _spikingjelly_neuron(part)
    states: list[Tensor] = []

    def forward(x: Tensor) -> Tensor:
        if held[0]:
            raise _refuse(part, path, _HELD)
        if part.step_mode == "s":
            initial = states or _full(x, neuron.start)
            output, *states[:] = _call(operators().step, neuron, path, x, initial)
            return output
        if states:
            raise _refuse(part, path, "runs twice; reset it between")
        initial = _full(x[0], neuron.start)
        output, *states[:] = _call(operators().run, neuron, path, x, initial)
        return output

    def reset() -> None:
        held[0] = False
        states.clear()

    return {"forward": forward, "reset": reset}


def _reset_before(part: SpikingJellyModule, path: str) -> Methods:
    """Methods of a neuron that stays as it is, and wants to be reset after an earlier run."""
    held = [any(hasattr(state, "shape") for state in part.memories())]
    own, clear = part.forward, part.reset

    def forward(*args: Tensor, **kwargs: Tensor) -> Tensor | Sequence[Tensor]:
        if held[0]:
            raise _refuse(part, path, _HELD)
        return own(*args, **kwargs)

    def reset() -> None:
        held[0] = False
        clear()

    return {"forward": forward, "reset": reset}


def _spikingjelly_neuron(part: SpikingJellyModule) -> Neuron:
    numbers: dict[str, float] = {"threshold": float(part.v_threshold)}
    rest = part.v_reset
    words = {"compare": "ge", "reset": "subtract" if rest is None else "to_value"}
    if rest is not None:
        numbers["v_reset"] = float(rest)
    start = float(rest or 0.0)
    if type(part).__name__ == "IFNode":
        return Neuron("integrate_fire", numbers, words=words, start=start)
    inverse = 1 / part.tau if hasattr(part, "tau") else float(part.w.detach().double().sigmoid())
    numbers |= {"beta": 1 - inverse, "v_leak": start, "gain": inverse if part.decay_input else 1.0}
    return Neuron("lif", numbers, words=words, start=start)


# snnTorch.


class SnnTorchNeuron(Protocol):
    """What is read of a neuron; `Leaky` has no current."""

    alpha: Tensor
    beta: Tensor
    threshold: Tensor
    inhibition: bool
    state_quant: object
    graded_spikes_factor: float | Tensor
    spike_grad: Callable[[Tensor], Tensor]
    reset_delay: bool
    reset_mechanism: str
    init_hidden: bool
    output: bool

    @property
    def state_function(self) -> FunctionType:
        """The equation of a step."""
        ...


def _of_snntorch(part: SnnTorchNeuron, path: str) -> Methods:
    """Methods for a neuron; none for one that no op is, whose steps PyTorch follows."""
    kind = type(part)
    names = {"Leaky": ("mem",), "Synaptic": ("syn", "mem")}
    wanted = names.get(kind.__name__, ())
    if (
        not (wanted and kind.__module__.startswith("snntorch."))
        or part.inhibition
        or _number(part.graded_spikes_factor) != 1.0
        or (len(wanted) == 2 and part.state_function.__name__ == "_base_zero")
    ):
        return {}
    neuron = _snntorch_neuron(part, path, wanted)
    # Of an earlier run, until it is reset or another is given.
    held = [any(bool(getattr(part, name).any()) for name in wanted)]
    states: list[Tensor] = []

    def forward(x: Tensor, *args: Tensor, **kwargs: Tensor) -> Tensor | Sequence[Tensor]:
        arguments = dict(zip(wanted, args, strict=False)) | kwargs
        initial = [arguments[name] for name in wanted if arguments.get(name) is not None]
        if not initial:
            if held[0]:
                raise _refuse(part, path, "holds a state; call reset_mem() first")
            initial = list(states)
        elif [state.dim() for state in initial] != [x.dim()] * len(wanted):
            initial = []  # what is not of the input's shape is taken for zeros
        held[0] = False
        output, *states[:] = _call(operators().step, neuron, path, x, initial)
        return output if part.init_hidden and not part.output else (output, *states)

    def reset_mem() -> Tensor | Sequence[Tensor]:
        held[0] = False
        states.clear()
        empty = [torch.zeros(0) for _ in wanted]
        return empty[0] if len(empty) == 1 else tuple(empty)

    return {"forward": forward, "reset_mem": reset_mem}


def _snntorch_neuron(part: SnnTorchNeuron, path: str, states: tuple[str, ...]) -> Neuron:
    if part.state_quant:
        raise _refuse(part, path, "quantizes its states, which no op of the IR does")
    _check_spikes(part, path, part.spike_grad, [0.0, 0.0, 1.0])
    # The equation is bound when the module is made; a mechanism set later changes only the word.
    reset = {"_base_sub": "subtract", "_base_zero": "zero", "_base_int": "none"}[
        part.state_function.__name__
    ]
    if reset == "subtract" and not part.reset_delay:
        raise _refuse(
            part, path, f"compares above twice its threshold as no op of the IR does; {_ZEROS}"
        )
    if not part.reset_delay and part.reset_mechanism != reset:
        raise _refuse(part, path, "got another reset_mechanism than it was made with")
    words = {"compare": "gt", "reset": "to_value" if reset == "zero" else "none"}
    neuron = Neuron(
        "lif" if len(states) == 1 else "cuba_lif",
        words=words,
        states=len(states),
        delayed=reset == "subtract",
        shown=reset != "zero",
    )
    if len(states) == 2:
        _set(neuron, "alpha", part.alpha, lambda: part.alpha.clamp(0, 1))
    _set(neuron, "beta", part.beta, lambda: part.beta.clamp(0, 1))
    _set(neuron, "threshold", part.threshold, lambda: part.threshold)
    lowest = float(part.threshold.detach().min())
    if lowest < 0:
        raise _refuse(part, path, "has a threshold below 0")
    return neuron


def _set(neuron: Neuron, name: str, value: Tensor, values: Callable[[], Tensor]) -> None:
    number = _number(value)
    if number is None:
        neuron.tensors[name] = values
    else:
        neuron.numbers[name] = number if name == "threshold" else min(max(number, 0.0), 1.0)


# Both.


def _check_spikes(
    part: object, path: str, fire: Callable[[Tensor], Tensor], wanted: list[float]
) -> None:
    """Refuse a surrogate that does not fire as a step function: `wanted` below, at and above 0."""
    with torch.no_grad():
        spikes = cast("list[float]", fire(torch.tensor([-0.25, 0.0, 0.25])).tolist())
    if spikes != wanted:
        raise _refuse(part, path, f"fires {spikes} where a step function gives {wanted}")


def _full(x: Tensor, value: float) -> list[Tensor]:
    return [torch.full_like(x, value)] if value else []


def _call(
    operator: Callable[[Tensor, Sequence[Tensor], Sequence[Tensor], str], list[Tensor]],
    neuron: Neuron,
    path: str,
    x: Tensor,
    initial: Sequence[Tensor],
) -> list[Tensor]:
    parameters = [values() for values in neuron.tensors.values()]
    return operator(x, initial, parameters, neuron.settings(path))
