"""Weights learn by spike timing as in Brian2 and NEST, and by hand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from triton_dsl.ir.errors import OptionError
from triton_dsl.spiking import IntegrateFireNeuron, LifNeuron, Stdp, StdpLayer

RECORDED = Path(__file__).resolve().parent / "recorded"


def one_by_one(rule: Stdp, weights: Any, pre: Any, post: Any) -> Any:
    """The weights [T, synapses] of synapses that each join two neurons of their own."""
    state: Any = [(torch.tensor([[w]], dtype=torch.float64), None) for w in weights]
    history = np.empty(pre.shape)
    for t in range(len(pre)):
        for k, (weight, traces) in enumerate(state):
            before, after = (torch.tensor([[float(a[t, k])]]).double() for a in (pre, post))
            state[k] = rule.step(weight, before, after, traces)
            history[t, k] = state[k][0].item()
    return history


@pytest.mark.parametrize("name", ["additive", "multiplicative", "nearest"])
def test_as_brian(name: str) -> None:
    data = np.load(RECORDED / "stdp_brian.npz")
    mu = float(name == "multiplicative")
    pairing = "nearest" if name == "nearest" else "all"
    rule = Stdp(17, 34, 0.015, 0.02, mu, mu, pairing=pairing)
    weights = one_by_one(rule, [0.2, 0.5, 0.9], data["pre"], data["post"])
    np.testing.assert_allclose(weights, data[name], rtol=0, atol=1e-12)
    assert np.ptp(data[name], 0).min() > 0.1


@pytest.mark.parametrize("mu", [0.0, 0.4, 1.0])
def test_as_nest(mu: float) -> None:
    data = np.load(RECORDED / "stdp_nest.npz")
    last = max(data["pre"].max(), data["post"].max()) + 2
    trains = np.zeros((2, last, 1), np.bool_)
    trains[0, data["pre"]] = True
    # The dendrite takes a step.
    trains[1, data["post"] + 1] = True
    rule = Stdp(168, 337, 0.05, 1.1 * 0.05, mu, mu, w_max=2.0)
    weights = one_by_one(rule, [1.2], *trains)
    np.testing.assert_allclose(weights[data["pre"], 0], data[f"mu_{mu:g}"], rtol=0, atol=1e-12)


TRAINS = st.integers(1, 12).flatmap(
    lambda steps: st.tuples(
        st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=steps, max_size=steps),
        st.lists(st.lists(st.booleans(), min_size=2, max_size=2), min_size=steps, max_size=steps),
    )
)


@settings(deadline=None)
@given(TRAINS, st.sampled_from([0.0, 0.5, 1.0]), st.integers(0, 2**31))
def test_every_pair_by_its_distance(trains: Any, mu: float, seed: int) -> None:
    """By the definition: each pair counts by exp(-|Δt|/τ), one in the same step as 0 apart."""
    pre, post = (torch.tensor(train, dtype=torch.float64)[:, None] for train in trains)
    start = torch.from_numpy(np.random.default_rng(seed).random((2, 3)))
    rule = Stdp(5.0, 7.0, 0.1, 0.2, mu, mu)
    weight = start.numpy().copy()
    for t in range(len(pre)):
        for i, j in np.ndindex(3, 2):
            if pre[t, 0, i]:
                trace = sum(math.exp(-(t - s) / 7.0) for s in range(t) if post[s, 0, j])
                weight[j, i] = max(0, weight[j, i] - 0.2 * weight[j, i] ** mu * trace)
        for i, j in np.ndindex(3, 2):
            if post[t, 0, j]:
                trace = sum(math.exp(-(t - s) / 5.0) for s in range(t + 1) if pre[s, 0, i])
                weight[j, i] = min(1, weight[j, i] + 0.1 * (1 - weight[j, i]) ** mu * trace)
    learnt, _ = rule.run(start, pre, post)
    np.testing.assert_allclose(learnt.numpy(), weight, rtol=1e-12, atol=1e-12)
    assert ((learnt >= 0) & (learnt <= 1)).all()


def test_a_run_that_is_cut_goes_on() -> None:
    generator = torch.Generator().manual_seed(0)
    pre = (torch.rand(40, 5, 6, generator=generator) < 0.3).float()
    post = (torch.rand(40, 5, 4, generator=generator) < 0.3).float()
    start = torch.rand(4, 6, generator=generator)
    rule = Stdp(mu_plus=0.5, pairing="nearest")
    whole, last = rule.run(start, pre, post)
    first, traces = rule.run(start, pre[:17], post[:17])
    second, end = rule.run(first, pre[17:], post[17:], traces)
    assert torch.equal(whole, second) and all(map(torch.equal, last, end))
    assert rule.run(start, pre[:0], post[:0])[1].post.shape == (5, 4)


def test_a_batch_is_the_mean_of_its_samples() -> None:
    pre, post = torch.tensor([[[1.0], [0.0]]]), torch.tensor([[[1.0], [1.0]]])
    weight, _ = Stdp(a_plus=0.1).run(torch.tensor([[0.5]]), pre, post)
    assert weight.item() == pytest.approx(0.5 + 0.1 / 2)


def pattern(steps: int, generator: torch.Generator) -> Tensor:
    """Of twenty inputs the first ten fire together every eighth step, all of them by chance."""
    train = (torch.rand(steps, 1, 20, generator=generator) < 0.05).float()
    train[::8, :, :10] = 1
    return train


def test_a_neuron_learns_what_fires_together() -> None:
    """Song, Miller & Abbott 2000: inputs that fire together win over those that do not."""
    generator = torch.Generator().manual_seed(1)
    linear = nn.Linear(20, 1, bias=False)
    nn.init.constant_(linear.weight, 0.3)
    rule = Stdp(10, 10, 0.02, 0.024)
    layer = StdpLayer(linear, LifNeuron(0.8, threshold=2.0), rule)
    spikes, state = layer(pattern(1500, generator))
    together, others = linear.weight[0, :10], linear.weight[0, 10:]
    assert together.min() > 0.8 and others.max() < 0.4
    assert spikes.shape == (1500, 1, 1) and state is not None
    before = linear.weight.clone()
    layer.eval()(pattern(50, generator), state)
    assert torch.equal(before, linear.weight)


def test_a_layer_learns_from_its_own_spikes() -> None:
    """A layer that learns little is the rule on the trains that it receives and gives."""
    generator = torch.Generator().manual_seed(2)
    x = (torch.rand(30, 2, 4, generator=generator) < 0.4).double()
    linear = nn.Linear(4, 3, bias=False).double()
    nn.init.constant_(linear.weight, 0.4)
    start = linear.weight.detach().clone()
    layer = StdpLayer(linear, IntegrateFireNeuron(threshold=1.0), Stdp(a_plus=1e-6, a_minus=1e-6))
    spikes, _ = layer(x)
    learnt, _ = layer.rule.run(start, x, spikes)
    assert spikes.sum() > 10
    torch.testing.assert_close(learnt, linear.weight.detach(), rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    "wrong",
    [{"tau_plus": 0}, {"a_minus": -1}, {"w_max": 0}, {"mu_plus": math.nan}, {"pairing": "some"}],
)
def test_rules_that_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        Stdp(**wrong)


def test_shapes_that_are_refused() -> None:
    with pytest.raises(OptionError, match=r"expected \[out, in\]"):
        Stdp().step(torch.rand(2, 3), torch.zeros(1, 2), torch.zeros(1, 2))


def test_nothing_changes_without_spikes() -> None:
    start = torch.rand(4, 3) * 1.7 - 1
    rule = Stdp(mu_plus=0.3, mu_minus=0.3, w_min=-1.0, w_max=0.7)
    weight, _ = rule.run(start, torch.zeros(50, 2, 3), torch.zeros(50, 2, 4))
    assert torch.equal(weight, start)
    weight, _ = rule.run(start * 9, torch.ones(1, 2, 3), torch.ones(1, 2, 4))
    assert ((weight >= -1) & (weight <= 0.7)).all()
