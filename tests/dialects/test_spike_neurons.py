"""Neurons against loops written from the published equations, and runs that are cut in two."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import TensorType, bf16, f16, f32, f64, i32
from xdsl.ir import Block

from triton_dsl.dialects import spike
from triton_dsl.dialects.elements import numpy_dtype
from triton_dsl.dialects.interpret import evaluate

Array = NDArray[Any]
RunOp = Callable[..., tuple[Array, ...]]

RNG = np.random.default_rng(5)


def current(steps: int = 40, *shape: int) -> NDArray[np.float32]:
    """A current that makes neurons fire now and then."""
    return (RNG.standard_normal((steps, *(shape or (3, 4)))) * 0.6 + 0.25).astype(np.float32)


class ScalarLif:
    """Compare, fire and reset of one neuron, on Python's floats."""

    def __init__(self, compare: str, reset: str, threshold: float, v_reset: float) -> None:
        self.compare, self.reset = compare, reset
        self.threshold, self.v_reset = threshold, v_reset

    def settle(self, v: float, threshold: float | None = None) -> tuple[bool, float]:
        threshold = self.threshold if threshold is None else threshold
        spike = v > threshold if self.compare == "gt" else v >= threshold
        if spike and self.reset == "subtract":
            v = v - threshold
        elif spike and self.reset == "to_value":
            v = self.v_reset
        return spike, v


FIRING = [(c, r) for c in ("gt", "ge") for r in ("subtract", "to_value", "none")]


@pytest.mark.parametrize(("compare", "reset"), FIRING)
def test_lif(compare: str, reset: str, run_op: RunOp) -> None:
    x = current().astype(np.float64)
    beta, leak, gain, threshold = 0.8, -0.05, 0.7, 0.4
    v_reset = -0.1 if reset == "to_value" else None
    spikes, final = run_op(
        lambda v: spike.LifOp(
            v,
            beta,
            v_leak=leak,
            gain=gain,
            threshold=threshold,
            v_reset=v_reset,
            compare=compare,
            reset=reset,
            final=True,
        ),
        x,
    )
    neuron = ScalarLif(compare, reset, threshold, -0.1)
    for place in np.ndindex(x.shape[1:]):
        v = 0.0
        for t in range(len(x)):
            v = beta * v + (1 - beta) * leak + gain * x[(t, *place)]
            fired, v = neuron.settle(v)
            assert spikes[(t, *place)] == fired
        assert final[place] == v
    assert 0 < spikes.sum() < spikes.size


def test_lif_with_parameters_of_each_neuron(run_op: RunOp) -> None:
    x = current(30, 2, 5).astype(np.float64)
    beta = RNG.random(5)
    threshold = RNG.random((2, 1)) + 0.1
    (spikes,) = run_op(
        lambda v, b, t: spike.LifOp(v, b, threshold=t, gain=0.5, compare="gt"), x, beta, threshold
    )
    for n, c in np.ndindex(2, 5):
        neuron = ScalarLif("gt", "subtract", float(threshold[n, 0]), 0.0)
        v = 0.0
        for t in range(len(x)):
            fired, v = neuron.settle(beta[c] * v + 0.5 * x[t, n, c])
            assert spikes[t, n, c] == fired


@pytest.mark.parametrize(("compare", "reset"), FIRING)
def test_integrate_fire(compare: str, reset: str, run_op: RunOp) -> None:
    x = current().astype(np.float64)
    spikes, final = run_op(
        lambda v: spike.IntegrateFireOp(
            v, gain=0.5, threshold=0.75, compare=compare, reset=reset, final=True
        ),
        x,
    )
    neuron = ScalarLif(compare, reset, 0.75, 0.0)
    for place in np.ndindex(x.shape[1:]):
        v = 0.0
        for t in range(len(x)):
            fired, v = neuron.settle(v + 0.5 * x[(t, *place)])
            assert spikes[(t, *place)] == fired
        assert final[place] == v


def test_integrate_fire_on_integers_is_exact(run_op: RunOp) -> None:
    x = RNG.integers(-5, 9, (50, 4)).astype(np.int32)
    x[10, 0] = 2**31 - 1  # wraps around
    threshold = np.array([7, 3, 1, 9], np.int32)
    spikes, final = run_op(
        lambda v, t: spike.IntegrateFireOp(v, threshold=t, gain=3.0, final=True), x, threshold
    )
    for c in range(4):
        v = 0
        for t in range(50):
            v = (v + 3 * int(x[t, c]) + 2**31) % 2**32 - 2**31
            fired = v >= threshold[c]
            v = v - int(threshold[c]) if fired else v
            assert spikes[t, c] == fired
        assert final[c] == v
    assert final.dtype == np.int32


@pytest.mark.parametrize(("compare", "reset"), FIRING)
def test_cuba_lif(compare: str, reset: str, run_op: RunOp) -> None:
    x = current().astype(np.float64)
    spikes, last_current, final = run_op(
        lambda v: spike.CubaLifOp(
            v,
            0.6,
            0.8,
            w_in=0.5,
            v_leak=0.1,
            gain=0.9,
            threshold=0.5,
            compare=compare,
            reset=reset,
            final=True,
        ),
        x,
    )
    neuron = ScalarLif(compare, reset, 0.5, 0.0)
    for place in np.ndindex(x.shape[1:]):
        c = v = 0.0
        for t in range(len(x)):
            c = 0.6 * c + 0.5 * x[(t, *place)]
            fired, v = neuron.settle(0.8 * v + (1 - 0.8) * 0.1 + 0.9 * c)
            assert spikes[(t, *place)] == fired
        assert (last_current[place], final[place]) == (c, v)


def test_leaky_integrator(run_op: RunOp) -> None:
    x = current(12).astype(np.float64)
    trace, final = run_op(
        lambda v: spike.LeakyIntegratorOp(v, 0.9, v_leak=0.3, gain=0.2, final=True), x
    )
    v = np.zeros(x.shape[1:])
    for t in range(len(x)):
        v = 0.9 * v + (1 - 0.9) * 0.3 + 0.2 * x[t]
        np.testing.assert_array_equal(trace[t], v)
    np.testing.assert_array_equal(final, v)


@pytest.mark.parametrize("reset", ["subtract", "to_value", "none"])
def test_adaptive_lif(reset: str, run_op: RunOp) -> None:
    x = current(80).astype(np.float64) + 0.3
    spikes, final, adaptation = run_op(
        lambda v: spike.AdaptiveLifOp(
            v, 0.9, 0.95, 1.8, gain=0.5, threshold=0.5, reset=reset, final=True
        ),
        x,
    )
    neuron = ScalarLif("ge", reset, 0.5, 0.0)
    for place in np.ndindex(x.shape[1:]):
        v = a = 0.0
        for t in range(len(x)):
            fired, v = neuron.settle(0.9 * v + 0.5 * x[(t, *place)], 0.5 + 1.8 * a)
            a = 0.95 * a + (1 - 0.95) * fired
            assert spikes[(t, *place)] == fired
        assert (final[place], adaptation[place]) == (v, a)


def test_adaptation_slows_a_neuron_down(run_op: RunOp) -> None:
    x = np.ones((200, 1))
    plain, adaptive = (
        run_op(lambda v, k=k: spike.AdaptiveLifOp(v, 0.9, 0.99, k), x)[0].sum() for k in (0.0, 5.0)
    )
    assert adaptive < plain / 2


@pytest.mark.parametrize("activation", ["none", "relu"])
@pytest.mark.parametrize("cumulative", [False, True])
def test_sigma_delta(activation: str, cumulative: bool, run_op: RunOp) -> None:
    x = current(60).astype(np.float64)
    sent, *final = run_op(
        lambda v: spike.SigmaDeltaOp(
            v,
            gain=0.5,
            bias=-0.2,
            threshold=0.3,
            activation=activation,
            cumulative=cumulative,
            final=True,
        ),
        x,
    )
    for place in np.ndindex(x.shape[1:]):
        sigma = last = residue = error = 0.0
        for t in range(len(x)):
            sigma += 0.5 * x[(t, *place)]
            y = max(sigma - 0.2, 0.0) if activation == "relu" else sigma - 0.2
            change = y - last + residue
            error += change
            fires = abs(error if cumulative else change) >= 0.3
            out = change if fires else 0.0
            if out:
                error = 0.0
            residue, last = change - out, y
            assert sent[(t, *place)] == out
        states = (sigma, last, residue, error if cumulative else 0.0)
        assert tuple(state[place] for state in final) == states
    # What was sent adds up to the activation, but for what is still held back.
    held = np.abs(sent.sum(axis=0) - final[1])
    np.testing.assert_allclose(held, np.abs(final[2]), atol=1e-12)


BUILDERS: dict[str, Callable[..., spike.NeuronOp]] = {
    "lif": lambda x, **o: spike.LifOp(x, 0.9, gain=0.7, reset="to_value", v_reset=0.1, **o),
    "integrate_fire": lambda x, **o: spike.IntegrateFireOp(x, threshold=2.0, **o),
    "cuba_lif": lambda x, **o: spike.CubaLifOp(x, 0.5, 0.9, v_leak=0.1, compare="gt", **o),
    "leaky_integrator": lambda x, **o: spike.LeakyIntegratorOp(x, 0.95, gain=0.3, **o),
    "adaptive_lif": lambda x, **o: spike.AdaptiveLifOp(x, 0.9, 0.8, 1.5, **o),
    "sigma_delta": lambda x, **o: spike.SigmaDeltaOp(x, threshold=0.4, **o),
    "cumulative": lambda x, **o: spike.SigmaDeltaOp(x, threshold=0.4, cumulative=True, **o),
}


def run_neuron(
    build: Callable[..., spike.NeuronOp], element: Any, x: Array, states: tuple[Array, ...]
) -> tuple[Array, ...]:
    types = [TensorType(element, a.shape) for a in (x, *states)]
    values = Block(arg_types=types).args
    op = build(values[0], initial=values[1:], final=True)
    op.verify()
    return evaluate(op, [x, *states])


@given(
    st.sampled_from(sorted(BUILDERS)),
    st.sampled_from([f16, bf16, f32, f64]),
    st.integers(0, 12),
    st.integers(0, 2**32),
)
def test_a_run_cut_in_two_gives_the_same_bits(name: str, element: Any, cut: int, seed: int) -> None:
    x = np.random.default_rng(seed).normal(0.3, 1.0, (12, 2, 3)).astype(numpy_dtype(element))
    build = BUILDERS[name]
    whole = run_neuron(build, element, x, ())
    first = run_neuron(build, element, x[:cut], ())
    second = run_neuron(build, element, x[cut:], first[1:])
    np.testing.assert_array_equal(np.concatenate([first[0], second[0]]), whole[0])
    for resumed, expected in zip(second[1:], whole[1:], strict=True):
        np.testing.assert_array_equal(resumed, expected)


def test_states_of_halves_are_rounded_after_each_step() -> None:
    x = np.full((1000, 1), 0.001, np.float16)
    trace, _ = run_neuron(BUILDERS["leaky_integrator"], f16, x, ())
    v = np.float16(0)
    for t in range(1000):
        beta, gain = np.float32(np.float16(0.95)), np.float32(np.float16(0.3))
        v = np.float16(beta * np.float32(v) + gain * np.float32(x[t, 0]))
        assert trace[t, 0] == v


def test_integers_stay_whole() -> None:
    (value,) = Block(arg_types=[TensorType(i32, [4, 2])]).args
    with pytest.raises(Exception, match="expects threshold as a whole number"):
        spike.IntegrateFireOp(value, threshold=0.5)
    with pytest.raises(Exception, match="expects a current of floats, got"):
        spike.LifOp(value, 0.5)


@pytest.mark.parametrize("tau", [2.0, 3.7])
def test_lif_in_the_form_of_spikingjelly(tau: float, run_op: RunOp) -> None:
    """v ← v + (x - (v - v_reset))/τ with a hard reset: LIFNode with `decay_input`."""
    x = current(50).astype(np.float64) * 2
    (spikes,) = run_op(
        lambda v: spike.LifOp(v, 1 - 1 / tau, gain=1 / tau, threshold=0.5, reset="to_value"), x
    )
    v = np.zeros(x.shape[1:])
    expected = np.zeros(x.shape, bool)
    for t in range(len(x)):
        v = v + (x[t] - v) / tau
        expected[t] = v >= 0.5
        v = np.where(expected[t], 0.0, v)
    assert (spikes == expected).mean() > 0.999  # rounded in another order


def test_lif_in_the_form_of_nir(run_op: RunOp) -> None:
    """τ·v̇ = v_leak - v + R·i in Euler steps (NIR, Pedersen et al. 2024)."""
    dt, tau, r, leak, threshold, v_reset = 1e-3, 2e-2, 1.5, -0.2, 0.4, -0.3
    x = current(100).astype(np.float64) * 2
    beta = 1 - dt / tau
    (spikes,) = run_op(
        lambda v: spike.LifOp(
            v,
            beta,
            v_leak=leak,
            gain=r * dt / tau,
            threshold=threshold,
            v_reset=v_reset,
            compare="gt",
            reset="to_value",
        ),
        x,
    )
    v = np.zeros(x.shape[1:])
    expected = np.zeros(x.shape, bool)
    for t in range(len(x)):
        v = v + dt / tau * (leak - v + r * x[t])
        expected[t] = v > threshold
        v = np.where(expected[t], v_reset, v)
    assert (spikes == expected).mean() > 0.999
    assert spikes.any()


@pytest.mark.parametrize("beta", [1 - 0.04, float(np.exp(-0.04))], ids=["euler", "exact"])
def test_the_neuron_of_the_nir_paper(beta: float, run_op: RunOp) -> None:
    """τ = 2.5 ms, threshold 0.1, dt = 0.1 ms: it fires at the steps that Norse and Loihi 2 report
    for this input (Pedersen et al. 2024, `lif_norse.nir`)."""
    x = np.zeros(1000)
    x[[60, 220, 270, 310, 320, 350, 370, 840, 850, *range(400, 540, 10), *range(670, 790, 10)]] = 1
    x[420] = 0
    (spikes,) = run_op(
        lambda v: spike.LifOp(
            v, beta, gain=1 - beta, threshold=0.1, compare="gt", reset="to_value"
        ),
        x,
    )
    assert np.flatnonzero(spikes).tolist() == [460, 510, 710, 760]


NUMBERS: dict[type[spike.NeuronOp], dict[str, float]] = {
    spike.LifOp: dict(beta=0.9, v_leak=0.1, gain=0.7, threshold=0.5, v_reset=-0.2),
    spike.IntegrateFireOp: dict(gain=0.7, threshold=0.5, v_reset=-0.2),
    spike.CubaLifOp: dict(
        alpha=0.5, beta=0.9, w_in=0.8, v_leak=0.1, gain=0.7, threshold=0.5, v_reset=-0.2
    ),
    spike.LeakyIntegratorOp: dict(beta=0.9, v_leak=0.1, gain=0.7),
    spike.AdaptiveLifOp: dict(
        beta=0.9, rho=0.8, kappa=1.5, v_leak=0.1, gain=0.7, threshold=0.5, v_reset=-0.2
    ),
    spike.SigmaDeltaOp: dict(gain=0.7, bias=-0.1, threshold=0.3),
}


@pytest.mark.parametrize("kind", NUMBERS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("element", [f16, f64], ids=str)
def test_a_number_is_the_same_for_each_neuron(kind: Any, element: Any, run_op: RunOp) -> None:
    dtype = numpy_dtype(element)
    x = current(20).astype(dtype)
    options: dict[str, Any] = {"final": True}
    if "v_reset" in NUMBERS[kind]:
        options["reset"] = "to_value"
    assert set(NUMBERS[kind]) == set(kind.PARAMETERS)
    numbers = run_op(lambda v: kind(v, **NUMBERS[kind], **options), x)
    values = [np.full(4, number, dtype) for number in NUMBERS[kind].values()]
    each = run_op(
        lambda v, *p: kind(v, **dict(zip(NUMBERS[kind], p, strict=True)), **options), x, *values
    )
    for a, b in zip(numbers, each, strict=True):
        np.testing.assert_array_equal(a, b)
