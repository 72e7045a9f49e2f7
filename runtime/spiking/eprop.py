"""E-prop: recurrent layers that learn while they run, in memory that does not grow with time.

Bellec et al. 2020, "A solution to the learning dilemma for recurrent networks of spiking neurons"
(eq. 1 and Methods): the gradient of a loss E is taken as Σ_t L_j[t]·ē_ji[t], without what a spike
does through the spikes of others. For a synapse from i to the neuron j with states h, current c and
spikes z:

    ε[t] = ∂h[t]/∂h[t-1]·ε[t-1] + ∂h[t]/∂c[t]·x_i[t]        eligibility vector
    e[t] = ∂z[t]/∂h[t-1]·ε[t-1] + ∂z[t]/∂c[t]·x_i[t]        eligibility trace
    ē[t] = κ·ē[t-1] + e[t]                                  as the readout filters spikes
    y[t] = κ·y[t-1] + W z[t] + b                            the readout
    L_j[t] = Σ_k B_jk·∂E/∂y_k[t]                            learning signal

The derivatives are those of the neuron's own step with its surrogate gradient, so each model of
`neurons` learns. The paper leaves its reset out, as `detach_reset` does.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ...ir.errors import OptionError, refuse
from .recurrent import RecurrentLayer


class EProp:
    """Runs a layer and its readout step by step, and adds e-prop's gradients to their weights.

    `step` and `learn` take turns, or `run` does both; then an optimizer takes the gradients.
    States and traces, of N · neurons · (inputs + neurons) numbers each, stay until `reset`.

    Args:
        layer: whose weights learn.
        readout: W [outputs, neurons] and perhaps b, which learn too.
        kappa: κ from 0 to 1.
        feedback: Bᵀ [outputs, neurons] of random e-prop; by default W, which is symmetric e-prop.

    Raises:
        OptionError: a value that is not allowed.
    """

    def __init__(
        self,
        layer: RecurrentLayer,
        readout: nn.Linear,
        kappa: float,
        feedback: Tensor | None = None,
    ) -> None:
        for name, weight in (("readout", readout.weight), ("feedback", feedback)):
            wanted = (readout.out_features, layer.inputs.out_features)
            if weight is not None and weight.shape != wanted:
                shown = f"expected weights {list(wanted)}, got {list(weight.shape)}"
                raise OptionError(f"{name}: {shown}")
        refuse(not 0 <= kappa <= 1, f"kappa: expected a number from 0 to 1, got {kappa}")
        self.layer, self.readout, self.kappa, self.feedback = layer, readout, kappa, feedback
        self.reset()

    def reset(self) -> None:
        """Begin with a new batch: no spikes, states and traces of zeros."""
        self._spikes: Tensor | None = None
        self._states: tuple[Tensor, ...] = ()
        self._vectors: tuple[Tensor, ...] = ()
        self._trace = self._filtered = self._output = torch.zeros(())
        self._bias = 0.0

    @torch.no_grad()
    def step(self, x: Tensor) -> Tensor:
        """The readout y[t], [N, outputs], for the inputs x[t], [N, inputs]."""
        layer = self.layer
        if self._spikes is None:
            self._spikes = x.new_zeros(len(x), layer.inputs.out_features)
            self._states = tuple(torch.zeros_like(self._spikes) for _ in layer.neuron.STATES)
            self._vectors = tuple(x.new_zeros(()) for _ in self._states)
        sources = torch.cat([x, self._spikes], 1)[:, None]
        current = layer.inputs(x) + layer.recurrent(self._spikes)
        with torch.enable_grad():
            before = [tensor.detach().requires_grad_() for tensor in (current, *self._states)]
            spikes, after = layer.neuron.step(before[0], tuple(before[1:]))
            slopes = [
                torch.autograd.grad(output.sum(), before, retain_graph=True, materialize_grads=True)
                for output in (spikes, *after)
            ]

        def eligibility(slope: tuple[Tensor, ...]) -> Tensor:
            parts = zip(slope[1:], self._vectors, strict=True)
            return sum((s[..., None] * v for s, v in parts), slope[0][..., None] * sources)

        trace = eligibility(slopes[0])
        self._vectors = tuple(eligibility(slope) for slope in slopes[1:])
        self._spikes, self._states = spikes.detach(), tuple(state.detach() for state in after)
        self._trace = self.kappa * self._trace + trace
        self._filtered = self.kappa * self._filtered + self._spikes
        self._bias = self.kappa * self._bias + 1
        self._output = self.kappa * self._output + self.readout(self._spikes)
        return self._output.clone()

    @torch.no_grad()
    def learn(self, error: Tensor) -> None:
        """Add the gradients of a step to those of the weights.

        Args:
            error: ∂E/∂y[t], [N, outputs], for the readout that `step` gave last.

        Raises:
            OptionError: another shape, or no step before.
        """
        if error.shape != self._output.shape:
            shape = list(self._output.shape)
            raise OptionError(f"expected ∂E/∂y {shape} after a step, got {list(error.shape)}")
        signal = error @ (self.readout.weight if self.feedback is None else self.feedback)
        gradient, inputs = torch.einsum("nj,nji->ji", signal, self._trace), self.layer.inputs
        _add(inputs.weight, gradient[:, : inputs.in_features])
        _add(self.layer.recurrent.weight, gradient[:, inputs.in_features :])
        _add(self.readout.weight, error.T @ self._filtered)
        _add(self.readout.bias, (error * self._bias).sum(0))

    def run(self, x: Tensor, loss: Callable[[Tensor, int], Tensor]) -> Tensor:
        """The readout of all steps [T, N, outputs], with the gradients of each step added.

        Args:
            x: [T, N, inputs].
            loss: `loss(y, t)`, the part of E that step t has, of the readout [N, outputs].
        """
        outputs: list[Tensor] = []
        for t, now in enumerate(x):
            outputs.append(self.step(now))
            y = outputs[-1].requires_grad_()
            self.learn(*torch.autograd.grad(loss(y, t), [y]))
        return torch.stack(outputs).detach()


def _add(parameter: Tensor | None, gradient: Tensor) -> None:
    if parameter is not None:
        parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
