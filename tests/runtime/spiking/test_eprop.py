"""E-prop: the paper's equations in NumPy, NEST's, and gradients through time where they agree."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from triton_dsl.ir.errors import OptionError
from triton_dsl.runtime.spiking.neuron import FiringNeuron
from triton_dsl.spiking import (
    AdaptiveLifNeuron,
    CubaLifNeuron,
    EProp,
    IntegrateFireNeuron,
    LeakyIntegrator,
    LifNeuron,
    RecurrentLayer,
    SurrogateGradient,
)

RECORDED = Path(__file__).resolve().parent / "recorded"
T, N, INPUTS, NEURONS, OUTPUTS = 25, 3, 5, 7, 2
TRIANGLE = SurrogateGradient("triangle", 0.5)

NEURON: dict[str, Callable[[], FiringNeuron]] = {
    "lif": lambda: LifNeuron(0.9, surrogate=TRIANGLE, detach_reset=True),
    "lif each": lambda: LifNeuron(torch.linspace(0.5, 0.95, NEURONS).double(), threshold=0.7),
    "lif to value": lambda: LifNeuron(
        0.8, reset="to_value", v_reset=0.1, surrogate=TRIANGLE, detach_reset=True
    ),
    "integrate and fire": lambda: IntegrateFireNeuron(surrogate="arctan"),
    "current-based": lambda: CubaLifNeuron(0.7, 0.9, surrogate=TRIANGLE, detach_reset=True),
    "adaptive": lambda: AdaptiveLifNeuron(0.9, 0.97, 1.8, surrogate=TRIANGLE, detach_reset=True),
    "adaptive, whole": lambda: AdaptiveLifNeuron(0.9, 0.97, 1.8, surrogate=TRIANGLE),
}


def network(neuron: FiringNeuron, seed: int = 0) -> tuple[RecurrentLayer, nn.Linear, Tensor]:
    torch.manual_seed(seed)
    layer = RecurrentLayer(INPUTS, NEURONS, neuron).double()
    with torch.no_grad():
        layer.inputs.weight.uniform_(-0.4, 0.8)
    x = (torch.rand(T, N, INPUTS) < 0.4).double()
    return layer, nn.Linear(NEURONS, OUTPUTS).double(), x


def weights(layer: RecurrentLayer, readout: nn.Linear) -> list[Tensor]:
    return [layer.inputs.weight, layer.recurrent.weight, readout.weight, readout.bias]


def loss_of(targets: Tensor) -> Callable[[Tensor, int], Tensor]:
    return lambda y, t: (y - targets[t]).pow(2).sum() + y.sin().sum()


@pytest.mark.parametrize("name", NEURON)
@pytest.mark.parametrize("kappa", [0.0, 0.85])
def test_as_through_time_without_the_spikes_of_others(name: str, kappa: float) -> None:
    layer, readout, x = network(NEURON[name]())
    targets = torch.randn(T, N, OUTPUTS).double()
    loss = loss_of(targets)
    # What it does without e-prop: autograd through time, recurrent spikes taken as inputs.
    spikes, state, trains = torch.zeros(N, NEURONS).double(), None, list[Tensor]()
    for now in x:
        current = layer.inputs(now) + layer.recurrent(spikes.detach())
        spikes, state = layer.neuron.step(current, state)
        trains.append(spikes)
    y, _ = LeakyIntegrator(kappa)(readout(torch.stack(trains)))
    total = torch.stack([loss(y[t], t) for t in range(T)]).sum()
    expected = torch.autograd.grad(total, weights(layer, readout))
    rate = torch.stack(trains).mean().item()
    assert 0.05 < rate < 0.9

    eprop = EProp(layer, readout, kappa)
    outputs = eprop.run(x, loss)
    torch.testing.assert_close(outputs, y.detach())
    torch.testing.assert_close(layer(x)[0], torch.stack(trains))
    for weight, gradient in zip(weights(layer, readout), expected, strict=True):
        torch.testing.assert_close(weight.grad, gradient, rtol=1e-9, atol=1e-10)
        assert gradient.abs().max() > 1e-2
    # A batch that begins anew adds the same once more.
    eprop.reset()
    eprop.run(x, loss)
    torch.testing.assert_close(layer.inputs.weight.grad, 2 * expected[0])


@pytest.mark.parametrize("name", ["lif", "adaptive"])
def test_the_whole_gradient_without_recurrence(name: str) -> None:
    """Feed-forward, nothing is left out."""
    layer, readout, x = network(NEURON[name]())
    nn.init.zeros_(layer.recurrent.weight)
    targets = torch.randn(T, N, OUTPUTS).double()
    y, _ = LeakyIntegrator(0.9)(readout(layer(x)[0]))
    expected = torch.autograd.grad((y - targets).square().sum(), weights(layer, readout))
    EProp(layer, readout, 0.9).run(x, lambda y, t: (y - targets[t]).square().sum())
    for k in (0, 2, 3):
        torch.testing.assert_close(weights(layer, readout)[k].grad, expected[k])


def paper(parameters: dict[str, Any], x: Any, targets: Any, feedback: Any) -> tuple[Any, Any]:
    """Bellec et al. 2020, Methods: e-prop of LIF and ALIF neurons in NumPy, neuron by neuron.

    Outputs and the gradients of input and recurrent weights for the errors y - y*, with the
    pseudo-derivative γ·max(0, 1 - |(v - A)/v_th|)/v_th with γ v_th² = 1/2, no reset.
    """
    w_in, w_rec, w_out, bias = (parameters[k] for k in ("in", "rec", "out", "bias"))
    alpha, rho, beta, kappa = (parameters[k] for k in ("alpha", "rho", "beta", "kappa"))
    outputs = np.zeros((T, N, OUTPUTS))
    gradient = np.zeros((NEURONS, INPUTS + NEURONS))
    for n in range(N):
        v, a, z, y = (np.zeros(k) for k in (NEURONS, NEURONS, NEURONS, OUTPUTS))
        filtered_inputs = np.zeros(INPUTS + NEURONS)
        vectors = np.zeros((NEURONS, INPUTS + NEURONS))
        filtered = np.zeros((NEURONS, INPUTS + NEURONS))
        for t in range(T):
            sources = np.concatenate([x[t, n], z])
            v = alpha * v + w_in @ x[t, n] + w_rec @ z
            filtered_inputs = alpha * filtered_inputs + sources
            threshold = 1.0 + beta * a
            psi = 0.5 * np.maximum(0, 1 - 0.5 * np.abs(v - threshold))
            z = (v >= threshold).astype(float)
            y = kappa * y + w_out @ z + bias
            outputs[t, n] = y
            for j in range(NEURONS):
                trace = psi[j] * (filtered_inputs - beta * vectors[j])
                filtered[j] = kappa * filtered[j] + trace
                vectors[j] = psi[j] * filtered_inputs + (rho - psi[j] * beta) * vectors[j]
                signal = sum(feedback[k, j] * (y - targets[t, n])[k] for k in range(OUTPUTS))
                gradient[j] += signal * filtered[j]
            a = rho * a + z
    return outputs, gradient


@pytest.mark.parametrize("is_adaptive", [False, True])
@pytest.mark.parametrize("is_random", [False, True])
def test_as_the_paper(is_adaptive: bool, is_random: bool) -> None:
    rho, beta = 0.95, 0.3 if is_adaptive else 0.0
    neuron: FiringNeuron = LifNeuron(0.8, reset="none", surrogate=TRIANGLE)
    if is_adaptive:
        # Its adaptation is (1 - ρ) times that of the paper.
        kappa = beta / (1 - rho)
        neuron = AdaptiveLifNeuron(0.8, rho, kappa, reset="none", surrogate=TRIANGLE)
    layer, readout, x = network(neuron, 1)
    rng = np.random.default_rng(0)
    targets, feedback = rng.normal(size=(T, N, OUTPUTS)), rng.normal(size=(OUTPUTS, NEURONS))
    parameters: dict[str, Any] = dict(
        zip(
            ("in", "rec", "out", "bias"),
            (weight.detach().numpy() for weight in weights(layer, readout)),
            strict=True,
        ),
        alpha=0.8,
        rho=rho,
        beta=beta,
        kappa=0.7,
    )
    used = feedback if is_random else parameters["out"]
    outputs, gradient = paper(parameters, x.numpy(), targets, used)
    eprop = EProp(layer, readout, 0.7, torch.from_numpy(feedback) if is_random else None)
    wanted = torch.from_numpy(targets)
    y = eprop.run(x, lambda y, t: 0.5 * (y - wanted[t]).square().sum())
    np.testing.assert_allclose(y, outputs, atol=1e-12)
    found: list[Any] = [layer.inputs.weight.grad, layer.recurrent.weight.grad]
    np.testing.assert_allclose(np.concatenate(found, 1), gradient, rtol=1e-9, atol=1e-9)
    assert 0.05 < layer(x)[0].mean().item() < 0.9


def test_as_nest() -> None:
    """Adaptive neurons with feedback of its own: the same spikes, readouts and gradients."""
    data = np.load(RECORDED / "eprop_nest.npz")
    beta, rho, kappa = (math.exp(-1 / tau) for tau in (12, 25, 8))
    # NEST takes the threshold off a step after the spike: a synapse of the neuron with itself.
    neuron = AdaptiveLifNeuron(
        beta, rho, 0.4 / (1 - rho), threshold=0.6, reset="none", surrogate=TRIANGLE
    )
    layer, readout = RecurrentLayer(8, 6, neuron).double(), nn.Linear(6, 2, bias=False).double()
    recorded = {name: torch.from_numpy(data[name]) for name in data}
    with torch.no_grad():
        layer.inputs.weight.copy_(recorded["w_in"])
        layer.recurrent.weight.copy_(recorded["w_rec"] - 0.6 * torch.eye(6))
        readout.weight.copy_(recorded["w_out"])
    x = recorded["x"].double()[:, None]
    eprop = EProp(layer, readout, kappa, recorded["feedback"].T)
    y = eprop.run(x, lambda y, t: 0.5 * (y - recorded["targets"][t]).square().sum())
    assert torch.equal(layer(x)[0][:, 0] > 0, recorded["spikes"])
    torch.testing.assert_close(y[:, 0], recorded["y"], rtol=1e-12, atol=1e-12)
    found: list[Any] = [layer.inputs.weight.grad, layer.recurrent.weight.grad, readout.weight.grad]
    # Its filter of traces is (1 - κ) times that of the paper.
    for name, gradient in zip(("in", "rec", "out"), found, strict=True):
        scale = 1.0 if name == "out" else 1 - kappa
        expected = recorded[f"gradient_{name}"]
        torch.testing.assert_close(scale * gradient, expected, rtol=1e-6, atol=1e-5)
        assert expected.abs().max() > 10


def test_a_recurrent_layer_that_is_cut_goes_on() -> None:
    layer, _, x = network(NEURON["adaptive"]())
    whole, last = layer(x)
    first, state = layer(x[:9])
    second, end = layer(x[9:], state)
    assert torch.equal(torch.cat([first, second]), whole) and torch.equal(last[0], whole[-1])
    assert all(map(torch.equal, last[1], end[1]))
    assert layer(x[:0])[0].shape == (0, N, NEURONS)


def test_it_learns_a_pattern() -> None:
    """Pattern generation, as in Figure 2 of the paper: a sum of sines from a fixed input."""
    torch.manual_seed(0)
    steps = 50
    neuron = AdaptiveLifNeuron(0.9, 0.99, 0.5, surrogate=TRIANGLE, detach_reset=True)
    layer = RecurrentLayer(20, 60, neuron)
    with torch.no_grad():
        layer.inputs.weight.normal_(0, 0.5)
        layer.recurrent.weight.normal_(0, 0.08)
    readout = nn.Linear(60, 1)
    times = torch.arange(steps) / steps * 2 * torch.pi
    target = (0.5 * (2 * times).sin() + 0.3 * (3 * times + 1).sin())[:, None, None]
    x = (torch.arange(20) == (torch.arange(steps) * 20 // steps)[:, None])[:, None].float()
    optimizer = torch.optim.Adam([*layer.parameters(), *readout.parameters()], 0.01)
    eprop, errors = EProp(layer, readout, 0.9), list[float]()
    for _ in range(50):
        optimizer.zero_grad()
        eprop.reset()
        y = eprop.run(x, lambda y, t: (y - target[t]).square().sum())
        optimizer.step()
        errors.append((y - target).square().mean().item())
    assert errors[-1] < 0.15 * errors[0]


def test_arguments_that_are_refused() -> None:
    layer, readout, x = network(NEURON["lif"]())
    with pytest.raises(OptionError, match="inputs and neurons from 1"):
        RecurrentLayer(0, 3, LifNeuron(0.9))
    with pytest.raises(OptionError, match=r"expected \[T, N, 5\]"):
        layer(x[..., :4])
    with pytest.raises(OptionError, match=r"readout: expected weights \[2, 7\]"):
        EProp(layer, nn.Linear(6, 2), 0.5)
    with pytest.raises(OptionError, match=r"feedback: expected weights \[2, 7\]"):
        EProp(layer, readout, 0.5, torch.rand(7, 2))
    with pytest.raises(OptionError, match="kappa: expected a number from 0 to 1"):
        EProp(layer, readout, 1.5)
    eprop = EProp(layer, readout, 0.5)
    with pytest.raises(OptionError, match="after a step"):
        eprop.learn(torch.rand(N, OUTPUTS))
    eprop.step(x[0])
    with pytest.raises(OptionError, match=r"expected ∂E/∂y \[3, 2\]"):
        eprop.learn(torch.rand(N, 1).double())
