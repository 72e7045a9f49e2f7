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
from .neuron import Neuron, State

PAIRINGS = ("all", "nearest")


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
        w_min, w_max: the bounds; weights are to be between them.
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
        positive = (self.tau_plus, self.tau_minus, self.w_max - self.w_min)
        others = (self.a_plus, self.a_minus, self.mu_plus, self.mu_minus)
        if not all(0 < value < math.inf for value in positive) or not all(
            0 <= value < math.inf for value in others
        ):
            raise OptionError(
                f"expected time constants and w_max - w_min above 0, others from 0, got {self}"
            )
        if self.pairing not in PAIRINGS:
            raise OptionError(f"pairing: expected all or nearest, got {self.pairing!r}")

    @torch.no_grad()
    def step(
        self, weight: Tensor, pre: Tensor, post: Tensor, traces: Traces | None = None
    ) -> tuple[Tensor, Traces]:
        """The weights and traces after a step; a batch changes weights by the mean of its samples.

        Args:
            weight: floats [out, in].
            pre: spikes as zeros and ones [N, in] of the weights' type.
            post: [N, out].
            traces: before the step; zeros by default.

        Raises:
            OptionError: shapes that do not fit.
        """
        count = len(pre)
        if pre.shape != (count, weight.shape[1]) or post.shape != (count, weight.shape[0]):
            shapes = [list(tensor.shape) for tensor in (weight, pre, post)]
            raise OptionError(f"expected [out, in], [N, in] and [N, out], got {shapes}")
        x, y = traces or (torch.zeros_like(pre), torch.zeros_like(post))
        x = self._risen(x * math.exp(-1 / self.tau_plus), pre)
        y = y * math.exp(-1 / self.tau_minus)
        u = (weight - self.w_min) / (self.w_max - self.w_min)
        u = (u - self.a_minus / count * u**self.mu_minus * (y.T @ pre)).clamp(min=0)
        u = (u + self.a_plus / count * (1 - u).clamp(min=0) ** self.mu_plus * (post.T @ x)).clamp(
            max=1
        )
        return self.w_min + u * (self.w_max - self.w_min), Traces(x, self._risen(y, post))

    def run(
        self, weight: Tensor, pre: Tensor, post: Tensor, traces: Traces | None = None
    ) -> tuple[Tensor, Traces]:
        """The weights and traces after recorded trains [T, N, in] and [T, N, out]; see `step`."""
        for before, after in zip(pre, post, strict=True):
            weight, traces = self.step(weight, before, after, traces)
        none = Traces(weight.new_zeros(pre.shape[1:]), weight.new_zeros(post.shape[1:]))
        return weight, traces or none

    def _risen(self, trace: Tensor, spikes: Tensor) -> Tensor:
        return trace + spikes if self.pairing == "all" else torch.where(spikes > 0, 1.0, trace)


class StdpLayer(nn.Module):
    """A product with weights and neurons, whose weights learn while they run in training mode.

    Args:
        linear: the product, changed in place; its weights are to be within the bounds of `rule`.
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
