"""`RecurrentLayer`: neurons that see their own spikes of the step before."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ...ir.errors import OptionError
from .neuron import FiringNeuron
from .steps import State


class RecurrentLayer(nn.Module):
    """Neurons with the currents W x[t] + R s[t-1]; before the first step no neuron has fired.

    The weights are those of `inputs` [neurons, inputs] and `recurrent` [neurons, neurons], without
    biases. Gradients go through time; for learning in time see `eprop`.

    Args:
        inputs: how many there are.
        neurons: how many there are.
        neuron: their model, with numbers or tensors [neurons] for parameters.

    Raises:
        OptionError: a size below 1.
    """

    def __init__(self, inputs: int, neurons: int, neuron: FiringNeuron) -> None:
        super().__init__()
        if inputs < 1 or neurons < 1:
            raise OptionError(f"expected inputs and neurons from 1, got {inputs} and {neurons}")
        self.inputs = nn.Linear(inputs, neurons, bias=False)
        self.recurrent = nn.Linear(neurons, neurons, bias=False)
        self.neuron = neuron

    def forward(
        self, x: Tensor, state: tuple[Tensor, State] | None = None
    ) -> tuple[Tensor, tuple[Tensor, State]]:
        """The spikes [T, N, neurons], and the last spikes and states of the neurons.

        Args:
            x: spikes or currents as floats [T, N, inputs].
            state: the spikes [N, neurons] and states before the first step; none and zeros by
                default.

        Raises:
            OptionError: a shape or type that does not fit.
        """
        if x.dim() != 3 or x.shape[2] != self.inputs.in_features:
            raise OptionError(f"expected [T, N, {self.inputs.in_features}], got {list(x.shape)}")
        spikes, states = state or (x.new_zeros(x.shape[1], self.inputs.out_features), None)
        trains = [x.new_zeros(0, *spikes.shape)]
        for current in self.inputs(x):
            spikes, states = self.neuron.step(current + self.recurrent(spikes), states)
            trains.append(spikes[None])
        zeros = tuple(torch.zeros_like(spikes) for _ in self.neuron.STATES)
        return torch.cat(trains), (spikes, zeros if states is None else states)
