"""Spikes with surrogate gradients: a step forward, the slope of something smooth backward.

Survey: Neftci, Mostafa & Zenke, "Surrogate gradient learning in spiking neural networks" (2019).
With u = v - θ and the slope k:

| name | ds/dv | the curve that has it | source |
| --- | --- | --- | --- |
| `fast_sigmoid` | 1/(1 + k·|u|)² | u/(1 + k·|u|) | Zenke & Ganguli 2018 (SuperSpike); k = 25 |
| `arctan` | k/2/(1 + (π/2·k·u)²) | arctan(π/2·k·u)/π + 1/2 | Fang et al. 2021; k = 2 |
| `triangle` | k·max(0, 1 - k·|u|) | its integral | Esser et al. 2016; Bellec et al. 2018; k = 1 |
| `boxcar` | k where |u| < 1/(2k), else 0 | clip(k·u + 1/2, 0, 1) | Wu et al. 2018, h₁; k = 1 |
| `straight_through` | 1 | u | Bengio et al. 2013; no slope |
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...ir.errors import OptionError, check_choice
from ...ir.neurons.arithmetic import COMPARISONS
from .config import SURROGATES


@dataclass(frozen=True)
class SurrogateGradient:
    """A spike function: `surrogate(v, threshold)` is 1 where v reaches the threshold, else 0.

    Backward, the derivative of the step is replaced by `derivative(v - threshold)`.

    Attributes:
        name: a name of the table above.
        slope: k, above 0; `None` is the default of the table.

    Raises:
        OptionError: an unknown name, or a slope that is not allowed.
    """

    name: str = "fast_sigmoid"
    slope: float | None = None

    def __post_init__(self) -> None:
        check_choice("surrogate gradient", self.name, SURROGATES)
        default = _DEFAULT_SLOPES[self.name]
        if self.slope is None:
            object.__setattr__(self, "slope", default)
        elif default is None:
            raise OptionError(f"the surrogate gradient {self.name} has no slope; leave it out")
        elif not 0 < self.slope < math.inf:
            raise OptionError(f"slope: expected a finite number above 0, got {self.slope}")

    def derivative(self, u: Tensor) -> Tensor:
        """What stands for ds/dv where v is `u` above the threshold; like `u`."""
        return _DERIVATIVES[self.name](u, self.slope or 1.0)

    def primitive(self, u: Tensor) -> Tensor:
        """The curve whose derivative is `derivative`; like `u`."""
        return _PRIMITIVES[self.name](u, self.slope or 1.0)

    def __call__(self, potential: Tensor, threshold: Tensor, compare: str = "ge") -> Tensor:
        """1 where `potential` is above `threshold` (`gt`), or at it too (`ge`); like `potential`.

        Args:
            potential: v, numbers of any shape; integers give integers without a gradient.
            threshold: θ, of the same type, in a shape that broadcasts to that of v.
            compare: `gt` or `ge`.

        Raises:
            OptionError: an unknown comparison.
        """
        check_choice("compare", compare, COMPARISONS)
        if not potential.is_floating_point() or not torch.is_grad_enabled():
            return _fire(potential, threshold, compare)
        fire: Any = _Fire
        return fire.apply(potential, threshold, self, compare)


def _fire(potential: Tensor, threshold: Tensor, compare: str) -> Tensor:
    fired = potential > threshold if compare == "gt" else potential >= threshold
    return fired.to(potential.dtype)


class _Fire(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(
        potential: Tensor, threshold: Tensor, surrogate: SurrogateGradient, compare: str
    ) -> Tensor:
        return _fire(potential, threshold, compare)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        potential, threshold, ctx.surrogate, _ = inputs
        ctx.save_for_backward(potential, threshold)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        potential, threshold = ctx.saved_tensors
        gradient = gradients[0] * ctx.surrogate.derivative(potential - threshold)
        to_threshold = None
        if ctx.needs_input_grad[1]:
            to_threshold = (-gradient).sum_to_size(threshold.shape)
        return gradient, to_threshold, None, None


def _triangle_primitive(u: Tensor, k: float) -> Tensor:
    inside = (k * u).clamp(-1, 1)
    return 0.5 + inside - 0.5 * inside * inside.abs()


_DEFAULT_SLOPES: dict[str, float | None] = {
    "fast_sigmoid": 25.0,
    "arctan": 2.0,
    "triangle": 1.0,
    "boxcar": 1.0,
    "straight_through": None,
}

_DERIVATIVES: dict[str, Callable[[Tensor, float], Tensor]] = {
    "fast_sigmoid": lambda u, k: 1 / (1 + k * u.abs()) ** 2,
    "arctan": lambda u, k: k / 2 / (1 + (math.pi / 2 * k * u) ** 2),
    "triangle": lambda u, k: k * (1 - k * u.abs()).relu(),
    "boxcar": lambda u, k: k * (u.abs() < 1 / (2 * k)).to(u.dtype),
    "straight_through": lambda u, k: torch.ones_like(u),
}

_PRIMITIVES: dict[str, Callable[[Tensor, float], Tensor]] = {
    "fast_sigmoid": lambda u, k: u / (1 + k * u.abs()),
    "arctan": lambda u, k: torch.atan(math.pi / 2 * k * u) / math.pi + 0.5,
    "triangle": _triangle_primitive,
    "boxcar": lambda u, k: (k * u + 0.5).clamp(0, 1),
    "straight_through": lambda u, k: u,
}
