"""A step of a neuron on tensors, and runs over all steps, which autograd follows.

Generated modules carry these texts. Not here: layers (`neuron`), and gradients without a graph of
each step (`through_time`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from ...ir.neurons.arithmetic import ArrayArithmetic, Options, Step

Value = float | Tensor
State = tuple[Tensor, ...]


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
        return int(value) if float(value).is_integer() else value

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


def run_steps(
    step: Step, arithmetic: TensorArithmetic, x: Tensor, state: State
) -> tuple[Tensor, State]:
    """What a neuron gives at all steps of x, like x, and the states after the last one."""
    wide = wide_type(x.dtype)
    state = tuple(value.to(wide) for value in state)
    outputs: list[torch.Tensor] = []
    for current in x.to(wide).unbind(0):
        output, state = step(arithmetic, current, state)
        if wide != x.dtype:
            output = output.to(x.dtype)
            state = tuple(value.to(x.dtype).to(wide) for value in state)
        outputs.append(output)
    after = tuple(value.to(x.dtype) for value in state)
    return torch.stack(outputs) if outputs else x.clone(), after


def rounded(value: Value, x: Tensor) -> Tensor:
    """A parameter rounded to the type of x, in the type a step is computed in."""
    if not isinstance(value, torch.Tensor):
        value = torch.full((), value, dtype=x.dtype, device=x.device)
    return value.to(x.dtype).to(wide_type(x.dtype))


def wide_type(dtype: torch.dtype) -> torch.dtype:
    """The type a step is computed in."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
