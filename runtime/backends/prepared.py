"""A model as a backend runs it: in what precision, compiled or not; and how long it takes."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import Any, Literal, Self, cast

import torch
from torch import Tensor, nn

from ...ir.errors import BackendError, first_line
from ...ir.extras import install, plug_ins
from ..native.held import state_of
from ..native.provider import GROUP
from .options import OptimizationLevel

Runs = Literal["plain", "compiled", "native"]
Sample = Tensor | Sequence[Any] | Mapping[str, Any]
"""The arguments of a call as a tuple or a list; anything else is the only one."""


def checked(model: object) -> nn.Module:
    """`model`, a module with weights.

    Raises:
        BackendError: it is something else.
    """
    if not isinstance(model, nn.Module):
        raise BackendError(f"expected a torch.nn.Module, got {type(model).__name__}")
    if any(tensor.is_meta for tensor in (*model.parameters(), *model.buffers())):
        raise BackendError(
            "the model is on the device meta and has no weights: "
            "make it with to_empty(device='cpu') and load_state_dict first"
        )
    return model


class PreparedModel(nn.Module):
    """A model with what a backend decided about running it.

    It has the state, the parameters and the attributes of `module`, so that a checkpoint of one is
    a checkpoint of the other.

    Attributes:
        module: the model itself.
        level: what it was prepared at.
        device_type: of PyTorch, for mixed precision.
        dtype: in which products run by `torch.autocast`; `None` for that of the model.
        runs: `plain`; `compiled` by `torch.compile`, where what PyTorch cannot compile runs as it
            is, with a warning; or `native`, as machine code of the target `native`, where inputs of
            other types or sizes, calls with gradients and those in training run as they are. Both
            are compiled at the first call, native code again when PyTorch counts changed weights.
    """

    module: nn.Module

    def __init__(self, module: nn.Module, level: OptimizationLevel, device_type: str) -> None:
        super().__init__()
        self.module = module
        self.level = level
        self.device_type = device_type
        self.dtype: torch.dtype | None = None
        self.runs: Runs = "plain"
        # A dictionary, so that it is no submodule.
        self._compiled: dict[str, Callable[..., Any]] = {}
        self._compiled_of: list[tuple[int, int]] | None = None

    def having(
        self,
        module: nn.Module | None = None,
        *,
        dtype: torch.dtype | None = None,
        runs: Runs | None = None,
    ) -> Self:
        """The same with another module, with mixed precision, or compiled."""
        given = cast("object", dtype)
        if given is not None and not isinstance(given, torch.dtype):
            raise BackendError(f"expected a torch.dtype such as torch.float16, got {given!r}")
        result = type(self)(module or self.module, self.level, self.device_type)
        result.dtype = dtype or self.dtype
        result.runs = runs or self.runs
        return result.train(self.training)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What `module` gives."""
        with self._precision():
            plainly = self.training or torch.is_grad_enabled() or kwargs
            if self.runs == "native" and not plainly:
                return self._native(args)
            if self.runs != "compiled":
                return self.module(*args, **kwargs)
            if "module" not in self._compiled:
                self._compiled["module"] = torch.compile(self.module)
            try:
                return self._compiled["module"](*args, **kwargs)
            except _compiler_errors() as error:
                reason = first_line(error)
                warnings.warn(f"runs as it is, not compiled: {reason}", stacklevel=2)
                self.runs = "plain"
                return self.module(*args, **kwargs)

    def _native(self, args: tuple[Any, ...]) -> Any:
        """The result by native code; of what that does not take, by the module."""
        module = self.module
        state = [state_of(tensor) for tensor in (*module.parameters(), *module.buffers())]
        if state != self._compiled_of:
            self._compiled["native"], self._compiled_of = _native_code(module, args), state
        return self._compiled["native"](*args)

    def _precision(self) -> AbstractContextManager[Any]:
        if self.dtype is None:
            return nullcontext()
        return torch.autocast(self.device_type, self.dtype)

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The state of `module`, under its own keys."""
        return self.module.state_dict(*args, **kwargs)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Take a state of `module`."""
        return self.module.load_state_dict(*args, **kwargs)

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, nn.Parameter]]:
        """The parameters of `module`, under its own names."""
        return self.module.named_parameters(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """What this has not, of `module`."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("module"), name)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A copy that compiles anew."""
        result = self.having(copy.deepcopy(self.module, memo))
        memo[id(self)] = result
        return result


def _compiler_errors() -> type[Exception]:
    """What `torch.compile` raises; its compiler is loaded only where it is used."""
    return import_module("torch._dynamo.exc").TorchDynamoException


def _native_code(module: nn.Module, args: tuple[Any, ...]) -> Callable[..., Any]:
    """A module as a function that runs machine code.

    Raises:
        BackendError: there is no compiler.
        TritonError: the module is no program, or has what no native code is made of.
    """
    for entry in plug_ins(GROUP, "module"):
        return entry.load()(module, args)
    raise BackendError(f"no native compiler is installed: {install('native')}")


def arguments(sample: Sample) -> tuple[Any, ...]:
    """`sample` as the arguments of a call."""
    return tuple(sample) if isinstance(sample, tuple | list) else (sample,)


ROUNDS = 25
"""Runs of each model, after two that warm up; five of one that takes longer than `_LONG`. The best
counts, so that other work on the machine does not decide."""
_TURN, _LONG = 0.001, 0.05
"""Seconds: short calls are repeated so long in a run, and which calls are long."""


def seconds(
    models: Sequence[nn.Module], sample: Sample, synchronize: Callable[[], None]
) -> list[float]:
    """The least time of a call of each model, in turns, without gradients."""
    args = arguments(sample)
    found: list[list[float]] = [[] for _ in models]
    repeats, rounds, turn = 1, ROUNDS, 0
    with torch.inference_mode():
        while turn < rounds + 2:
            for times, model in zip(found, models, strict=True):
                synchronize()
                start = time.perf_counter()
                for _ in range(repeats):
                    model(*args)
                synchronize()
                times.append((time.perf_counter() - start) / repeats)
            if turn == 1:
                slowest = max(times[-1] for times in found)
                rounds = 5 if slowest > _LONG else ROUNDS
                repeats = min(max(1, round(_TURN / max(slowest, 1e-6))), 200)
            turn += 1
    return [min(times[2:]) for times in found]
