"""Weights under STDP in Brian2, spike by spike: `stdp_brian.npz`.

Three synapses on three neurons, one to one, with trains of their own. Pathways run in Brian's
order: presynaptic spikes first, then postsynaptic ones, each with the traces decayed to the step.
"""

from __future__ import annotations

from typing import Any

import brian2  # pyright: ignore[reportMissingImports]
import numpy as np

b: Any = brian2
b.prefs.codegen.target = "numpy"
b.defaultclock.dt = 1 * b.ms
T, N = 300, 3
rng = np.random.default_rng(7)
pre = rng.random((T, N)) < 0.15
post = rng.random((T, N)) < 0.15
result: dict[str, Any] = {"pre": pre, "post": post}

RULES = {
    "additive": ("apre += 1", "apost += 1", "w - 0.02*apost", "w + 0.015*apre"),
    "multiplicative": ("apre += 1", "apost += 1", "w - 0.02*w*apost", "w + 0.015*(1-w)*apre"),
    "nearest": ("apre = 1", "apost = 1", "w - 0.02*apost", "w + 0.015*apre"),
}
for name, (rise_pre, rise_post, down, up) in RULES.items():
    groups: list[Any] = []
    for train in (pre, post):
        steps, neurons = np.nonzero(train)
        groups.append(b.SpikeGeneratorGroup(N, neurons, steps * b.ms))
    synapses = b.Synapses(
        *groups,
        """w : 1
           dapre/dt = -apre/(17*ms) : 1 (event-driven)
           dapost/dt = -apost/(34*ms) : 1 (event-driven)""",
        on_pre=f"{rise_pre}\nw = clip({down}, 0, 1)",
        on_post=f"w = clip({up}, 0, 1)\n{rise_post}",
    )
    synapses.connect(j="i")
    synapses.w = [0.2, 0.5, 0.9]
    monitor = b.StateMonitor(synapses, "w", record=True, when="end")
    b.Network(*groups, synapses, monitor).run(T * b.ms)
    result[name] = monitor.w.T.copy()
np.savez_compressed("stdp_brian.npz", **result)
