"""Neurons of PyTorch against the reference interpreter, spike for spike and state for state."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from triton_dsl.dialects import spike
from triton_dsl.ir.errors import OptionError
from triton_dsl.ir.neurons.arithmetic import ACTIVATIONS, COMPARISONS, RESETS
from triton_dsl.runtime.spiking.config import ENCODINGS, NEURON_MODELS, SpikingConfig
from triton_dsl.runtime.spiking.neuron import Neuron
from triton_dsl.runtime.spiking.neurons import (
    AdaptiveLifNeuron,
    CubaLifNeuron,
    IntegrateFireNeuron,
    LeakyIntegrator,
    LifNeuron,
    SigmaDeltaNeuron,
    make_neuron,
)
from triton_dsl.runtime.spiking.surrogate import SurrogateGradient

RunOp = Callable[..., tuple[Tensor, ...]]

MODELS: list[tuple[type[Neuron], type[spike.NeuronOp]]] = [
    (LifNeuron, spike.LifOp),
    (IntegrateFireNeuron, spike.IntegrateFireOp),
    (CubaLifNeuron, spike.CubaLifOp),
    (AdaptiveLifNeuron, spike.AdaptiveLifOp),
    (LeakyIntegrator, spike.LeakyIntegratorOp),
    (SigmaDeltaNeuron, spike.SigmaDeltaOp),
]
NUMBERS = {
    "alpha": 0.7,
    "beta": 0.83,
    "rho": 0.9,
    "kappa": 0.3,
    "w_in": 0.9,
    "v_leak": -0.07,
    "gain": 0.6,
    "threshold": 0.45,
    "bias": 0.11,
}
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


def current(dtype: torch.dtype = torch.float32, *shape: int) -> Tensor:
    """A current that makes neurons fire now and then."""
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(shape or (40, 3, 5), generator=generator, dtype=torch.float64)
    return (x * 0.6 + 0.3).to(dtype)


def numbers(model: type[Neuron], reset: str | None = None) -> dict[str, Any]:
    chosen = {name: value for name, value in NUMBERS.items() if name in model.PARAMETERS}
    return {**chosen, "v_reset": -0.1} if reset == "to_value" else chosen


@pytest.mark.parametrize(("model", "op"), MODELS)
def test_parameters_and_states_are_those_of_the_op(
    model: type[Neuron], op: type[spike.NeuronOp]
) -> None:
    assert model.MODEL is op.MODEL
    assert (model.PARAMETERS, model.STATES) == (op.PARAMETERS, op.STATES)


def test_choices_are_those_of_the_dialect() -> None:
    from triton_dsl.dialects.spike import attention, coding, normalization
    from triton_dsl.runtime.spiking import attention as torch_attention
    from triton_dsl.runtime.spiking import coding as torch_coding
    from triton_dsl.runtime.spiking import normalization as torch_normalization

    assert coding.ENCODINGS == ENCODINGS
    for name in ("DECODINGS", "READOUTS", "MAX_PERIOD"):
        assert getattr(torch_coding, name) == getattr(coding, name)
    assert torch_attention.KINDS == attention.KINDS
    assert torch_normalization.KINDS == normalization.KINDS


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("reset", RESETS)
@pytest.mark.parametrize("compare", COMPARISONS)
@pytest.mark.parametrize(("model", "op"), MODELS[:4])
def test_firing_neurons(
    model: Any, op: Any, compare: str, reset: str, dtype: torch.dtype, run_op: RunOp
) -> None:
    x, settings = current(dtype), numbers(model, reset)
    spikes, state = model(**settings, compare=compare, reset=reset)(x)
    expected, *final = run_op(
        lambda i: op(i, **settings, compare=compare, reset=reset, final=True), x
    )
    assert torch.equal(spikes, expected.to(dtype))
    assert 0 < spikes.sum() < spikes.numel()
    for mine, theirs in zip(state, final, strict=True):
        assert mine.dtype == dtype and torch.equal(mine, theirs)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("cumulative", [False, True])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("compare", COMPARISONS)
def test_sigma_delta(
    compare: str, activation: str, cumulative: bool, dtype: torch.dtype, run_op: RunOp
) -> None:
    x = current(dtype) - 0.3
    settings: dict[str, Any] = {**numbers(SigmaDeltaNeuron), "compare": compare}
    settings |= {"activation": activation, "cumulative": cumulative}
    sent, state = SigmaDeltaNeuron(**settings)(x)
    expected, *final = run_op(lambda i: spike.SigmaDeltaOp(i, **settings, final=True), x)
    assert torch.equal(sent, expected) and 0 < (sent != 0).sum() < sent.numel()
    assert all(torch.equal(a, b) for a, b in zip(state, final, strict=True))


def test_what_sigma_delta_sends_follows_its_activation() -> None:
    x = current(torch.float64).requires_grad_()
    neuron = SigmaDeltaNeuron(threshold=0.2, activation="none", surrogate="straight_through")
    sent, _ = neuron(x)
    assert bool(((sent.cumsum(0) - x.cumsum(0)).abs() < 0.2 + 1e-9).all())
    every, _ = SigmaDeltaNeuron(threshold=0.0, activation="none")(x)
    torch.testing.assert_close(every, x)
    (gradient,) = torch.autograd.grad(sent.sum(), x)
    assert bool(gradient.isfinite().all()) and gradient.any()


@pytest.mark.parametrize("dtype", FLOATS)
def test_leaky_integrator(dtype: torch.dtype, run_op: RunOp) -> None:
    x, settings = current(dtype), numbers(LeakyIntegrator)
    trace, (v,) = LeakyIntegrator(**settings)(x)
    expected, final = run_op(lambda i: spike.LeakyIntegratorOp(i, **settings, final=True), x)
    assert torch.equal(trace, expected) and torch.equal(v, final)
    assert torch.equal(v, trace[-1])


@pytest.mark.parametrize(("model", "op"), MODELS)
def test_defaults(model: Any, op: Any, run_op: RunOp) -> None:
    """What is left out, such as a gain of one, changes no bit."""
    settings = {
        name: NUMBERS[name]
        for name in ("alpha", "beta", "rho", "kappa")
        if name in model.PARAMETERS
    }
    x = current()
    output, state = model(**settings)(x)
    expected, *final = run_op(lambda i: op(i, **settings, final=True), x)
    assert torch.equal(output, expected.to(x.dtype))
    assert all(torch.equal(a, b) for a, b in zip(state, final, strict=True))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("model", "op"), MODELS)
def test_parameters_of_each_neuron(model: Any, op: Any, dtype: torch.dtype, run_op: RunOp) -> None:
    x = current(dtype)
    generator = torch.Generator().manual_seed(1)
    settings = {
        name: value + 0.1 * torch.rand(3 if name == "beta" else 1, 5, generator=generator)
        for name, value in numbers(model).items()
    }
    output, _ = model(**settings)(x)
    names = list(settings)
    (expected,) = run_op(
        lambda i, *values: op(i, **dict(zip(names, values, strict=True))),
        x,
        *(v.to(dtype) for v in settings.values()),
    )
    assert torch.equal(output, expected.to(x.dtype))


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64])
@pytest.mark.parametrize("reset", RESETS)
def test_integers_wrap_around(dtype: torch.dtype, reset: str, run_op: RunOp) -> None:
    generator = torch.Generator().manual_seed(4)
    x = torch.randint(-40, 60, (30, 6), generator=generator).to(dtype)
    settings: dict[str, Any] = {
        "gain": 2.0,
        "threshold": 70.0,
        "v_reset": -3.0 if reset == "to_value" else None,
    }
    spikes, (v,) = IntegrateFireNeuron(**settings, reset=reset)(x)
    expected, final = run_op(
        lambda i: spike.IntegrateFireOp(i, **settings, reset=reset, final=True), x
    )
    assert torch.equal(spikes, expected.to(dtype)) and torch.equal(v, final)
    assert spikes.any()


@pytest.mark.parametrize(("model", "op"), MODELS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_a_run_can_be_cut_and_taken_in_steps(model: Any, op: Any, dtype: torch.dtype) -> None:
    x, neuron = current(dtype), model(**numbers(model))
    whole, last = neuron(x)
    for cut in (0, 17, 40):
        first, state = neuron(x[:cut])
        second, state = neuron(x[cut:], state)
        assert torch.equal(torch.cat([first, second]), whole)
        assert all(torch.equal(a, b) for a, b in zip(state, last, strict=True))
    state = None
    for t, step in enumerate(x):
        output, state = neuron.step(step, state)
        assert torch.equal(output, whole[t])


def test_given_states(run_op: RunOp) -> None:
    x = current()
    c, v = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(2))
    spikes, _ = CubaLifNeuron(0.7, 0.8)(x, (c, v))
    (expected,) = run_op(lambda i, c, v: spike.CubaLifOp(i, 0.7, 0.8, initial=[c, v]), x, c, v)
    assert torch.equal(spikes, expected.to(x.dtype))


def gradient_by_hand(x: Tensor, reset: str, detach: bool, compare: str) -> tuple[Tensor, ...]:
    """d(Σ c·s)/d(x, β, θ) of a LIF by the recurrences of its equations, with the arctan slope."""
    beta, threshold, v_reset = 0.8, 0.5, -0.2
    weights = torch.arange(len(x), dtype=x.dtype) + 1
    before, potentials, spikes = [torch.zeros_like(x[0])], [], []
    for current in x:
        u = beta * before[-1] + current
        s = ((u >= threshold) if compare == "ge" else (u > threshold)).to(x.dtype)
        after = {"subtract": u - threshold * s, "to_value": torch.where(s > 0, v_reset, u)}
        before.append(after.get(reset, u))
        potentials.append(u)
        spikes.append(s)
    to_after, to_beta, to_threshold = torch.zeros_like(x[0]), 0.0, 0.0
    to_x = torch.zeros_like(x)
    for t in reversed(range(len(x))):
        u, s = potentials[t], spikes[t]
        slope = 1 / (1 + (torch.pi * (u - threshold)) ** 2)
        through = {"subtract": torch.full_like(u, -threshold), "to_value": v_reset - u}
        to_s = weights[t] + (0 if detach or reset == "none" else to_after * through[reset])
        kept = 1 - s if reset == "to_value" else torch.ones_like(s)
        to_u = to_after * kept + to_s * slope
        to_threshold -= float((to_s * slope).sum())
        if reset == "subtract":
            to_threshold -= float((to_after * s).sum())
        to_x[t] = to_u
        to_beta += float((to_u * before[t]).sum())
        to_after = to_u * beta
    return to_x, torch.tensor(to_beta), torch.tensor(to_threshold)


@pytest.mark.parametrize("detach", [False, True])
@pytest.mark.parametrize("reset", RESETS)
@pytest.mark.parametrize("compare", COMPARISONS)
def test_gradients_through_time(reset: str, detach: bool, compare: str) -> None:
    x = current(torch.float64, 12, 4).requires_grad_()
    neuron = LifNeuron(
        nn.Parameter(torch.tensor(0.8, dtype=torch.float64)),
        threshold=nn.Parameter(torch.tensor(0.5, dtype=torch.float64)),
        v_reset=-0.2 if reset == "to_value" else None,
        reset=reset,
        compare=compare,
        surrogate=SurrogateGradient("arctan", 2.0),
        detach_reset=detach,
    )
    spikes, _ = neuron(x)
    (spikes * (torch.arange(12, dtype=x.dtype) + 1)[:, None]).sum().backward()
    found = (x.grad, neuron.beta.grad, neuron.threshold.grad)  # pyright: ignore[reportAttributeAccessIssue]
    for mine, theirs in zip(
        found, gradient_by_hand(x.detach(), reset, detach, compare), strict=True
    ):
        torch.testing.assert_close(mine, theirs, check_dtype=False)


def test_the_threshold_of_an_adaptive_neuron_is_trained_through_its_adaptation() -> None:
    """κ has a gradient only through Θ = θ + κ·a, and a only where it has fired before."""
    kappa = nn.Parameter(torch.tensor(0.3))
    neuron = AdaptiveLifNeuron(0.8, 0.9, kappa, threshold=0.5, surrogate="arctan")
    quiet, _ = neuron(torch.zeros(5, 2))
    (gradient,) = torch.autograd.grad(quiet.sum(), kappa)
    assert gradient == 0
    spikes, _ = neuron(torch.ones(5, 2))
    (gradient,) = torch.autograd.grad(spikes.sum(), kappa)
    assert gradient < 0


def test_parameters_are_trained_and_saved() -> None:
    neuron = LifNeuron(nn.Parameter(torch.tensor([0.9, 0.5])), threshold=torch.tensor(2.0))
    assert [name for name, _ in neuron.named_parameters()] == ["beta"]
    assert set(neuron.state_dict()) == {"beta", "threshold"}


@pytest.mark.parametrize(
    ("model", "names"),
    list(zip(NEURON_MODELS, ["beta", "", "alpha beta", "beta rho kappa"], strict=True)),
)
def test_neuron_of_a_configuration(model: str, names: str) -> None:
    config = SpikingConfig(neuron_model=model, threshold=2.5, surrogate_gradient="triangle")
    neuron = make_neuron(config, **{name: 0.25 for name in names.split()})
    assert neuron.surrogate == SurrogateGradient("triangle")
    assert getattr(neuron, "threshold") == 2.5  # noqa: B009
    assert all(getattr(neuron, name) == 0.25 for name in names.split())
    assert make_neuron(config, v_reset=0.1).reset == "to_value"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LifNeuron(1.5), "beta: expected finite numbers from 0 to 1, got 1.5"),
        (lambda: LifNeuron(float("nan")), "beta: expected finite"),
        (lambda: LifNeuron(torch.tensor([0.5, -1.0])), "got values from -1 to 0.5"),
        (lambda: LifNeuron(0.5, compare="eq"), "compare: expected one of gt, ge"),
        (lambda: LifNeuron(0.5, reset="zero"), "reset: expected one of"),
        (lambda: LifNeuron(0.5, v_reset=0.0), "v_reset belongs to the reset to_value"),
        (lambda: SigmaDeltaNeuron(activation="gelu"), "activation: expected one of none, relu"),
        (lambda: SigmaDeltaNeuron(compare="eq"), "compare: expected one of gt, ge"),
        (lambda: make_neuron(SpikingConfig(), alpha=0.5), "the neuron LIF has no alpha"),
        (lambda: LifNeuron(0.5)(torch.ones(3, dtype=torch.int32)), "current of floats"),
        (lambda: LifNeuron(0.5)(torch.ones(())), "current of floats"),
        (lambda: LifNeuron(torch.full((3,), 0.5))(torch.ones(2, 4)), "broadcast"),
        (lambda: LifNeuron(0.5)(torch.ones(2, 4), ()), r"expected 1 state\(s\), v, got 0"),
        (lambda: LifNeuron(0.5)(torch.ones(2, 4), (torch.ones(3),)), r"state v: expected"),
        (lambda: LifNeuron(0.5)(torch.ones(2, 4), (torch.ones(4).half(),)), "float16"),
        (
            lambda: IntegrateFireNeuron(threshold=1.5)(torch.ones(3, dtype=torch.int32)),
            "threshold: expected a whole number of torch.int32, got 1.5",
        ),
        (
            lambda: IntegrateFireNeuron(threshold=128)(torch.ones(3, dtype=torch.int8)),
            "threshold: expected a whole number of torch.int8, got 128",
        ),
        (
            lambda: IntegrateFireNeuron(gain=torch.ones(1))(torch.ones(3, dtype=torch.int8)),
            "gain: expected torch.int8",
        ),
    ],
)
def test_refusals(make: Callable[[], object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        make()


def test_decays_have_defaults() -> None:
    neuron = LifNeuron()
    assert neuron.beta == 0.9 and LifNeuron(0.5).beta == 0.5 and LifNeuron(beta=None).beta == 0.9
    cuba = CubaLifNeuron()
    assert (cuba.alpha, cuba.beta) == (0.8, 0.9)
    assert inspect.signature(LifNeuron).parameters["beta"].default == 0.9
    x = torch.rand(6, 3)
    assert torch.equal(LifNeuron()(x)[0], LifNeuron(0.9)(x)[0])
