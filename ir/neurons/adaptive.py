"""Neurons that adapt: one raises its threshold, one sends changes alone."""

from __future__ import annotations

from collections.abc import Sequence

from .arithmetic import Arithmetic, Result, Value
from .model import FIRES, GAIN, LEVEL, THRESHOLD, NeuronModel, ParameterSpec, decay


def adaptive_lif(a: Arithmetic[Value], x: Value, states: Sequence[Value]) -> Result[Value]:
    """A leaky neuron with the threshold theta + kappa a, a = rho a + (1 - rho) s."""
    v, adaptation = states
    threshold = a.add(a.parameter("threshold"), a.times("kappa", adaptation))
    spikes, v = a.fired(a.add(a.leak(v), a.driven("gain", x)), threshold)
    risen = a.mul(a.complement("rho"), a.as_number(spikes))
    return spikes, (v, a.add(a.times("rho", adaptation), risen))


def sigma_delta(a: Arithmetic[Value], x: Value, states: Sequence[Value]) -> Result[Value]:
    """Sums what comes and sends what changed by the threshold."""
    sigma, last, residue, error = states
    sigma = a.add(sigma, a.driven("gain", x))
    y = a.add(sigma, a.parameter("bias"))
    if a.options.activation == "relu":
        y = a.relu(y)
    change = a.add(a.sub(y, last), residue)
    if a.options.cumulative:
        error = a.add(error, change)
    watched = a.magnitude(error if a.options.cumulative else change)
    sent = a.gated(a.reaches(watched, a.parameter("threshold")), change)
    if a.options.cumulative:
        error = a.gated(a.is_zero(sent), error)
    return sent, (sigma, y, a.sub(change, sent), error)


ADAPTIVE_LIF = NeuronModel(
    adaptive_lif,
    "Leaky neurons whose threshold rises with their own spikes.",
    {
        "beta": decay("tau"),
        "rho": decay("tau_adaptation", 100.0),
        "kappa": ParameterSpec(usual=1.8),
        "v_leak": LEVEL,
        "gain": GAIN,
        "threshold": THRESHOLD,
        "v_reset": LEVEL,
    },
    ("v", "a"),
    options=FIRES,
    kernels=True,
)
SIGMA_DELTA = NeuronModel(
    sigma_delta,
    "Graded spikes: sums of what comes in, of which changes alone are sent on.",
    {"gain": GAIN, "bias": LEVEL, "threshold": THRESHOLD},
    ("sigma", "y", "r", "e"),
    options=("activation", "cumulative", "compare"),
    spikes=False,
    kernels=True,
)
