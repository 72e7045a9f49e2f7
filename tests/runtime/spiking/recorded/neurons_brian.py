"""Records three neurons of Brian2: potentials, second states and spikes of each step, float64.

Brian2 counts the step of the spike among those of the refractory period, which is so one longer
than the steps of rest.
"""

from __future__ import annotations

from typing import Any

import brian2  # pyright: ignore[reportMissingImports]
import numpy as np

b: Any = brian2
b.prefs.codegen.target = "numpy"
STEPS, NEURONS = 240, 2
MODELS: dict[str, tuple[str, dict[str, Any], float, float, dict[str, float]]] = {
    "refractory_lif": (
        "dv/dt = (0.125 - v) / (8*ms) + current(t, i) / ms : 1 (unless refractory)\nn : 1",
        {"threshold": "v >= 1", "reset": "v -= 1", "refractory": 4 * b.ms},
        1.0, 0.35, {},
    ),
    "izhikevich": (
        "dv/dt = (0.04*v**2 + 5*v + 140 - n + current(t, i)) / ms : 1\n"
        "dn/dt = 0.02 * (0.2*v - n) / ms : 1",
        {"threshold": "v >= 30", "reset": "v = -65\nn += 8"},
        0.5, 20.0, {"v": -65.0, "n": -13.0},
    ),
    "adaptive_exponential": (
        "dv/dt = (30*(2*exp((v + 50.4) / 2) - (v + 70.6)) - n + current(t, i)) / (281*ms) : 1\n"
        "dn/dt = (4*(v + 70.6) - n) / (144*ms) : 1",
        {"threshold": "v >= 20", "reset": "v = -70.6\nn += 80.5"},
        0.1, 4000.0, {"v": -70.6},
    ),
}  # fmt: skip
"""Equations, how it fires, the step in ms, the greatest current, and the first states."""

recorded: dict[str, Any] = {}
for name, (equations, firing, dt, level, first) in MODELS.items():
    b.start_scope()
    b.defaultclock.dt = dt * b.ms
    x = np.random.default_rng(3).random((STEPS, NEURONS)) * level
    current = b.TimedArray(x, dt=dt * b.ms)  # which the equations name
    group = b.NeuronGroup(NEURONS, equations, method="euler", **firing)
    for state, value in first.items():
        setattr(group, state, value)
    states = b.StateMonitor(group, ["v", "n"], record=True, when="end")
    fired = b.SpikeMonitor(group)
    b.run(STEPS * dt * b.ms)
    spikes = np.zeros((STEPS, NEURONS), bool)
    spikes[np.rint(fired.t / b.ms / dt).astype(int), fired.i] = True
    parts = {"x": x, "v": states.v.T, "n": states.n.T, "spikes": spikes}
    recorded |= {f"{name}.{part}": values for part, values in parts.items()}
np.savez_compressed("neurons_brian.npz", **recorded)
