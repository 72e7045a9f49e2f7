"""Neuron models of the graph level: parameters in continuous time, as NIR and PyNN state them.

A model of a population is one of the neuron ops; here is what numbers that op gets for a given dt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ...ir.arrays import Array
from .neuron import GAIN, LEVEL, THRESHOLD, ParameterSpec

Numbers = Mapping[str, Array]
"""Parameters by name, each a scalar or one value a neuron, in f64."""

INTEGRATIONS = ("euler", "exact")

SECONDS = ParameterSpec(None, 0.0)
_FIRING = {"v_threshold": THRESHOLD, "v_reset": LEVEL}

MODELS: dict[str, Mapping[str, ParameterSpec]] = {
    "lif": {"tau": SECONDS, "r": GAIN, "v_leak": LEVEL, **_FIRING},
    "integrate_fire": {"r": GAIN, **_FIRING},
    "cuba_lif": {
        "tau_syn": SECONDS,
        "tau_mem": SECONDS,
        "w_in": GAIN,
        "r": GAIN,
        "v_leak": LEVEL,
        **_FIRING,
    },
    "adaptive_lif": {
        "tau": SECONDS,
        "tau_adaptation": SECONDS,
        "kappa": ParameterSpec(),
        "r": GAIN,
        "v_leak": LEVEL,
        **_FIRING,
    },
    "leaky_integrator": {"tau": SECONDS, "r": GAIN, "v_leak": LEVEL},
    "cuba_integrator": {
        "tau_syn": SECONDS,
        "tau_mem": SECONDS,
        "w_in": GAIN,
        "r": GAIN,
        "v_leak": LEVEL,
    },
    "integrator": {"r": GAIN},
    "sigma_delta": {"bias": LEVEL, "threshold": THRESHOLD},
    "threshold": {"threshold": THRESHOLD},
    "relay": {},
}
"""The parameters of each model. Those whose names begin with `tau` are seconds."""

FIRING_MODELS = ("lif", "integrate_fire", "cuba_lif", "adaptive_lif")
"""Models with a threshold and a reset."""

SPIKING_MODELS = (*FIRING_MODELS, "threshold")
"""Models that give spikes; the others give graded ones."""


def decay(tau: Array, dt: float, integration: str) -> Array:
    """What is left after a step: 1 - dt/τ (`euler`) or e^(-dt/τ) (`exact`)."""
    return np.exp(-dt / tau) if integration == "exact" else 1 - dt / tau


def _leaky(p: Numbers, tau: str, keep: Callable[[Array], Array]) -> dict[str, Array]:
    beta = keep(p[tau])
    return {"beta": beta, "v_leak": p["v_leak"], "gain": p["r"] * (1 - beta)}


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

    def keep(tau: Array) -> Array:
        return decay(tau, dt, integration)

    result: dict[str, Array] = {}
    if model in ("lif", "adaptive_lif", "leaky_integrator"):
        result = _leaky(p, "tau", keep)
    elif model in ("cuba_lif", "cuba_integrator"):
        alpha = keep(p["tau_syn"])
        result = {"alpha": alpha, "w_in": p["w_in"] * (1 - alpha), **_leaky(p, "tau_mem", keep)}
    elif model in ("integrate_fire", "integrator"):
        result = {"gain": p["r"] * dt}
    elif model == "sigma_delta":
        result = {"gain": np.asarray(1.0), "bias": p["bias"], "threshold": p["threshold"]}
    elif model == "threshold":
        result = {"threshold": p["threshold"]}
    if model == "integrator":
        result |= {"beta": np.asarray(1.0), "v_leak": np.asarray(0.0)}
    if model == "adaptive_lif":
        result |= {"rho": keep(p["tau_adaptation"]), "kappa": p["kappa"]}
    if model in FIRING_MODELS:
        result |= {"threshold": p["v_threshold"], "v_reset": p["v_reset"]}
    return result
