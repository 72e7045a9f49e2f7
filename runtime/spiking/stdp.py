"""Spike-timing-dependent plasticity: weights learn from the order of spikes, without gradients.

Pair-based, by a trace of each neuron (Morrison, Diesmann & Gerstner 2008, "Phenomenological models
of synaptic plasticity based on spike timing", section 4.1; bounds by Gütig et al. 2003, eq. 3). In
a step, for presynaptic spikes p, postsynaptic spikes q and u = (w - w_min)/(w_max - w_min):

    x ← x·exp(-1/τ₊) + p           y ← y·exp(-1/τ₋)
    u ← u - A₋·u^μ₋·p·y            then at least 0
    u ← u + A₊·(1 - u)^μ₊·q·x      then at most 1
    y ← y + q

So a presynaptic spike comes before the postsynaptic one of its step, as its current does. μ = 0 is
additive, μ = 1 multiplicative. With the pairing `nearest` a spike sets its trace to 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ...ir.errors import OptionError
from .neuron import Neuron
from .steps import State


class Traces(NamedTuple):
    """Of presynaptic neurons [N, in], and of postsynaptic ones [N, out]."""

    pre: Tensor
    post: Tensor


@dataclass(frozen=True)
class Stdp:
    """The rule of the equations above.

    Attributes:
        tau_plus, tau_minus: τ in steps, above 0.
        a_plus, a_minus: A, at least 0, in units of the range of weights.
        mu_plus, mu_minus: μ, at least 0.
        w_min, w_max: the bounds of weights.
        pairing: `all` pairs of spikes, or the `nearest` ones.

    Raises:
        OptionError: a value that is not allowed.
    """

    tau_plus: float = 20.0
    tau_minus: float = 20.0
    a_plus: float = 0.01
    a_minus: float = 0.01
    mu_plus: float = 0.0
    mu_minus: float = 0.0
    w_min: float = 0.0
    w_max: float = 1.0
    pairing: str = "all"

    def __post_init__(self) -> None:
        above = (self.tau_plus, self.tau_minus, self.w_max - self.w_min)
        rest = (self.a_plus, self.a_minus, self.mu_plus, self.mu_minus)
        fits = all(0 < n < math.inf for n in above) and all(0 <= n < math.inf for n in rest)
        if not fits or self.pairing not in ("all", "nearest"):
            raise OptionError(
                "expected time constants and w_max - w_min above 0, other numbers from 0, and the "
                f"pairing all or nearest, got {self}"
            )

    @torch.no_grad()
    def step(
        self, weight: Tensor, pre: Tensor, post: Tensor, traces: Traces | None = None
    ) -> tuple[Tensor, Traces]:
        """The weights and traces after a step; a batch changes weights by the mean of its samples.

        Args:
            weight: floats [out, in]; what is out of bounds is brought to them.
            pre: spikes as zeros and ones [N, in] of the weights' type.
            post: [N, out].
            traces: before the step; zeros by default.

        Raises:
            OptionError: shapes that do not fit.
        """
        if pre.shape != (len(pre), weight.shape[1]) or post.shape != (len(pre), weight.shape[0]):
            shapes = [list(tensor.shape) for tensor in (weight, pre, post)]
            raise OptionError(f"expected [out, in], [N, in] and [N, out], got {shapes}")
        x, y = traces or (torch.zeros_like(pre), torch.zeros_like(post))
        x = self._risen(x * math.exp(-1 / self.tau_plus), pre)
        y = y * math.exp(-1 / self.tau_minus)
        span = self.w_max - self.w_min
        share, weight = span / len(pre), weight.clamp(self.w_min, self.w_max)
        slope = ((weight - self.w_min) / span) ** self.mu_minus
        weight = (weight - self.a_minus * share * slope * (y.T @ pre)).clamp(min=self.w_min)
        slope = ((self.w_max - weight) / span) ** self.mu_plus
        weight = (weight + self.a_plus * share * slope * (post.T @ x)).clamp(max=self.w_max)
        return weight, Traces(x, self._risen(y, post))

    def run(
        self, weight: Tensor, pre: Tensor, post: Tensor, traces: Traces | None = None
    ) -> tuple[Tensor, Traces]:
        """The weights and traces after recorded trains [T, N, in] and [T, N, out]; see `step`."""
        traces = traces or Traces(*(weight.new_zeros(train.shape[1:]) for train in (pre, post)))
        for before, after in zip(pre, post, strict=True):
            weight, traces = self.step(weight, before, after, traces)
        return weight, traces

    def _risen(self, trace: Tensor, spikes: Tensor) -> Tensor:
        return trace + spikes if self.pairing == "all" else torch.where(spikes > 0, 1.0, trace)


class StdpLayer(nn.Module):
    """A product with weights and neurons, whose weights learn while they run in training mode.

    Args:
        linear: the product, whose weights are changed in place.
        neuron: the neurons.
        rule: how the weights learn.
    """

    def __init__(self, linear: nn.Linear, neuron: Neuron, rule: Stdp) -> None:
        super().__init__()
        self.linear, self.neuron, self.rule = linear, neuron, rule

    @torch.no_grad()
    def forward(
        self, x: Tensor, state: tuple[State, Traces] | None = None
    ) -> tuple[Tensor, tuple[State, Traces] | None]:
        """Spikes [T, N, out], and the states and traces after the last step.

        Args:
            x: spikes as zeros and ones [T, N, in].
            state: the states and traces before the first step; zeros by default.

        Raises:
            OptionError: a shape or type that does not fit.
        """
        outputs: list[Tensor] = []
        for pre in x:
            potentials, traces = state or (None, None)
            post, potentials = self.neuron.step(self.linear(pre), potentials)
            weight, traces = self.rule.step(self.linear.weight, pre, post, traces)
            if self.training:
                self.linear.weight.copy_(weight)
            outputs.append(post)
            state = (potentials, traces)
        return torch.stack(outputs), state
