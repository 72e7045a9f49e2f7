"""Clip-floor-shift activations against neurons, and training with them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from triton_dsl.ir.errors import OptionError
from triton_dsl.runtime.spiking.neurons import IntegrateFireNeuron
from triton_dsl.runtime.spiking.qcfs import (
    QcfsActivation,
    fine_tune,
    replace_relus,
    trained_thresholds,
)


@pytest.mark.parametrize("levels", [1, 3, 8])
def test_it_says_what_a_neuron_says(levels: int) -> None:
    # Multiples of 1/64, so that sums are exact: half the threshold is there before the first step.
    x = torch.randint(-128, 256, (500,), generator=torch.Generator().manual_seed(levels)) / 64
    threshold = 2.0
    neuron = IntegrateFireNeuron(threshold=threshold)
    current = x.repeat(levels, 1)
    current[0] += threshold / 2
    train, _ = neuron(current)
    expected = train.sum(0) * threshold / levels
    torch.testing.assert_close(QcfsActivation(threshold, levels)(x), expected)


def test_gradients_pass_through_the_floor() -> None:
    activation = QcfsActivation(2.0, 4)
    x = torch.tensor([-1.0, 0.3, 1.7, 5.0], requires_grad=True)
    activation(x).sum().backward()
    assert x.grad is not None and activation.threshold.grad is not None
    assert x.grad.tolist() == [0.0, 1.0, 1.0, 0.0]
    assert activation.threshold.grad > 0


def test_relus_are_replaced_and_trained_on() -> None:
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    x = torch.rand(256, 8, generator=generator)
    y = (x[:, :4].sum(1) > x[:, 4:].sum(1)).long()
    module = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU6())
    module.append(nn.Linear(16, 2))
    activations = replace_relus(module, x, levels=2)
    assert [module[1], module[3]] == activations
    before = trained_thresholds(activations)
    losses = fine_tune(module, lambda: [(x, y)] * 40, epochs=3, rate=1e-2)
    assert losses[-1] < 0.5 * losses[0]
    after = trained_thresholds(activations)
    assert all(a > 0 and a != b for a, b in zip(after, before, strict=True))


def test_what_cannot_be_replaced_is_refused() -> None:
    relu = nn.ReLU()
    twice = nn.Sequential(nn.Linear(2, 2), relu, nn.Linear(2, 2), relu)
    with pytest.raises(OptionError, match="each used once"):
        replace_relus(twice, torch.zeros(1, 2))
    with pytest.raises(OptionError, match="each used once"):
        replace_relus(nn.Sequential(nn.Linear(2, 2)), torch.zeros(1, 2))
    with pytest.raises(OptionError, match="levels of at least 1"):
        QcfsActivation(1.0, 0)
