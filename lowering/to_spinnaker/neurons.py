"""Populations as PyNN's `IF_curr_delta`, whose step NEST and sPyNNaker both compute as ours.

A step of it is v = β·v + Σw, a spike where v ≥ θ, then v = v_reset. NEST (`iaf_psc_delta`)
integrates exactly, so β = e^(-dt/τ). sPyNNaker (`lif_neuron_closed_form`, `input_type_delta.h`)
adds 1000/dt·Σw·R·(1-β) with R = τ/C in numbers of 16.15 bits; C = 1000·τ·(1-β)/dt makes that Σw,
and NEST does not look at C. Leaks go to 0; what else a neuron adds in a step comes as spikes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...dialects.spike import NetworkOp, PopulationOp
from ...dialects.spike.interpret_network import population_parameters
from ...dialects.spike.models import discrete
from ...ir.arrays import Array
from ..emission import Inexpressible

FRACTION = 1 << 15
"""Parts of 1 in a number of 16.15 bits."""

MOST_ERROR = 0.01
"""The most that rounding to 16.15 bits may change an input by, as a part of it."""

LEAST_LEAK = 2.0**-12
"""The leak of neurons that have none: SpiNNaker multiplies inputs by it, in 16.15 bits."""

LEAKLESS_UNIT = 2.0**-3
"""By how much their potentials are smaller, so that sums of 16.15 bits hold 64 thresholds."""

_SILENT = 2.0**14
_LEAKLESS = 2.0**60

_REASONS = {
    "cuba_lif": "an exponential current, which NEST integrates exactly and SpiNNaker by other "
    "steps; take 'lif', or Loihi",
    "cuba_integrator": "an exponential current, which NEST integrates exactly and SpiNNaker by "
    "other steps; take 'leaky_integrator'",
    "adaptive_lif": "a threshold that adapts, which IF_curr_delta has not",
    "sigma_delta": "graded spikes, which IF_curr_delta neither takes nor gives",
}


@dataclass(frozen=True, eq=False)
class Cell:
    """A population in PyNN's numbers, each one for all neurons or one each.

    Attributes:
        tau_m: ms.
        cm: nF.
        v_thresh: mV.
        v_reset: mV.
        above: whether it fires above the threshold alone, and not at it.
        unit: mV that 1 of ours is.
        gain: what a weight is multiplied with, before `unit`.
        constant: what a step adds besides, before `unit`.
        error: the part by which numbers of 16.15 bits change inputs, at most.
    """

    tau_m: Array
    cm: Array
    v_thresh: Array
    v_reset: Array
    above: bool
    unit: float
    gain: Array
    constant: Array
    error: float


def cell_of(op: PopulationOp, network: NetworkOp, step_ms: float, nest_only: bool) -> Cell:
    """A population as `IF_curr_delta`.

    Args:
        op: the population.
        network: which says how long a step is and how time constants become decays.
        step_ms: how long a step is in PyNN.
        nest_only: whether numbers may be beyond 16.15 bits.

    Raises:
        Inexpressible: it is no such neuron; says why.
    """
    model = op.model.data
    if model in _REASONS:
        raise Inexpressible(f"the model '{model}' has {_REASONS[model]}")
    p = discrete(model, population_parameters(op), network.dt.value.data, network.integration.data)
    # The interpreter rounds to f32, and so do we; products are of f64 in both.
    p = {name: value.astype(np.float32).astype(np.float64) for name, value in p.items()}
    fires = "threshold" in p
    if fires and model != "threshold" and op.reset.data != "to_value":
        raise Inexpressible(
            f"the reset '{op.reset.data}', where IF_curr_delta resets to a value; train or convert "
            "with reset 'to_value', or take Loihi"
        )
    beta = p.get("beta", np.asarray(0.0 if model == "threshold" else 1.0))
    leakless = bool((beta == 1).any())
    if not nest_only:
        beta = np.where(beta == 1, 1 - LEAST_LEAK, beta)
    decays = beta > 0
    tau = np.where(decays, step_ms, step_ms / 1000).astype(np.float64)
    with np.errstate(divide="ignore"):
        tau = np.where(decays & (beta < 1), -step_ms / np.log(np.where(decays, beta, 0.5)), tau)
    tau = np.where(beta == 1, _LEAKLESS, tau)
    cm = 1000 * tau * -np.expm1(-step_ms / tau) / step_ms
    threshold = p.get("threshold", np.asarray(_SILENT))
    if not (threshold > 0).all():
        raise Inexpressible("thresholds of 0 or less, at which resting neurons fire")
    reset = p.get("v_reset", np.asarray(0.0))
    if not (reset < threshold).all():
        raise Inexpressible("a reset to its threshold or above")
    # Thresholds from 1 to 2 mV leave sums 32 times as large, in steps of 2^-15.
    unit = 2.0 ** -np.floor(np.log2(threshold.max())) if fires else 1.0
    if leakless:
        # SpiNNaker divides what arrives in a step by the leak before it multiplies by it.
        unit *= LEAKLESS_UNIT
    error = _error(tau, cm, step_ms)
    if not nest_only and error > MOST_ERROR:
        raise Inexpressible(
            f"a leak of {float((1 - beta).min()):.3g} a step, by which SpiNNaker multiplies inputs "
            f"in 16.15 bits: off by {error:.0%}; leak more, or run in NEST alone with nest-only"
        )
    largest = np.abs(np.append(threshold.ravel() * unit, reset.ravel() * unit)).max()
    if largest >= 1 << 16 or threshold.min() * unit * FRACTION < 1:
        raise Inexpressible("thresholds or resets too far apart for numbers of 16.15 bits")
    gain = p.get("gain", np.asarray(1.0))
    constant = (1 - beta) * p.get("v_leak", np.asarray(0.0))
    above = model == "threshold" or op.compare.data == "gt"
    return Cell(tau, cm, threshold * unit, reset * unit, above, float(unit), gain, constant, error)


def _error(tau: Array, cm: Array, step_ms: float) -> float:
    """How far an input of 1 is from 1 where R and β are numbers of 16.15 bits."""
    resistance = np.rint(tau / cm * FRACTION) / FRACTION
    decay = np.rint(np.exp(-step_ms / tau) * FRACTION) / FRACTION
    return float(np.abs(1000 / step_ms * resistance * (1 - decay) - 1).max())
