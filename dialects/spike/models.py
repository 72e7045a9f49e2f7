"""Neuron models of the graph level: parameters in continuous time, as NIR and PyNN state them.

A model of a population is one of the neuron ops; here is what numbers that op gets for a given dt.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...ir.arrays import Array
from ...ir.neurons import MODELS as NEURON_MODELS
from ...ir.neurons.fixed_threshold import CUBA_INTEGRATOR
from ...ir.neurons.model import GAIN, LEVEL, THRESHOLD, NeuronModel, ParameterSpec

Numbers = Mapping[str, Array]
"""Parameters by name, each a scalar or one value a neuron, in f64."""

INTEGRATIONS = ("euler", "exact")

FIRING_MODELS = ("lif", "integrate_fire", "cuba_lif", "adaptive_lif")
"""Models with a threshold and a reset."""

_NAMES = {"gain": "r", "threshold": "v_threshold"}
"""What NIR calls parameters that it has by other names."""


def _continuous(model: NeuronModel) -> dict[str, ParameterSpec]:
    """The parameters of a model in continuous time."""
    return {
        spec.tau or _NAMES.get(name, name): ParameterSpec(None, 0.0) if spec.tau else spec
        for name, spec in model.parameters.items()
    }


MODELS: dict[str, Mapping[str, ParameterSpec]] = {
    **{name: _continuous(NEURON_MODELS[name]) for name in (*FIRING_MODELS, "leaky_integrator")},
    "cuba_integrator": _continuous(CUBA_INTEGRATOR),
    "integrator": {"r": GAIN},
    "sigma_delta": {"bias": LEVEL, "threshold": THRESHOLD},
    "threshold": {"threshold": THRESHOLD},
    "relay": {},
}
"""The parameters of each model. Those whose names begin with `tau` are seconds."""

SPIKING_MODELS = (*FIRING_MODELS, "threshold")
"""Models that give spikes; the others give graded ones."""


def least_time(dt: float) -> float:
    """The shortest time constant whose Euler steps do not overshoot: dt, as float32 may hold it."""
    return dt * (1 - 2.0**-24)


def decay(tau: Array, dt: float, integration: str) -> Array:
    """What is left after a step: 1 - dt/τ (`euler`), not below 0, or e^(-dt/τ) (`exact`)."""
    return np.exp(-dt / tau) if integration == "exact" else np.maximum(1 - dt / tau, 0)


def discrete(model: str, p: Numbers, dt: float, integration: str) -> dict[str, Array]:
    """The parameters of the neuron op of a model, for steps of `dt` seconds.

    With β = `decay`(τ): the leak of a membrane or synaptic current is β and its input is weighted
    by 1 - β; an integrator adds R·dt·i.

    Args:
        model: one of `MODELS`.
        p: all parameters of the model.
        dt: the length of a step in seconds.
        integration: `euler` or `exact`.
    """
    if model == "sigma_delta":
        return {"gain": np.asarray(1.0), **p}
    if model == "integrator":
        return {"gain": p["r"] * dt, "beta": np.asarray(1.0), "v_leak": np.asarray(0.0)}
    if model in ("threshold", "relay"):
        return dict(p)
    own = CUBA_INTEGRATOR if model == "cuba_integrator" else NEURON_MODELS[model]
    result: dict[str, Array] = {}
    for name, spec in own.parameters.items():
        value = p[spec.tau or _NAMES.get(name, name)]
        result[name] = decay(value, dt, integration) if spec.tau else value
    for weight, kept in (("gain", "beta"), ("w_in", "alpha")):
        if weight in result:
            result[weight] = result[weight] * (1 - result[kept] if kept in result else dt)
    return result
