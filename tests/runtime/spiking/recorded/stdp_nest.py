"""Weights under NEST's `stdp_synapse` for exponents of its bounds: `stdp_nest.npz`.

NEST's delay is dendritic: a postsynaptic spike reaches the synapse one step of 0.1 ms later.
Presynaptic spikes are at whole milliseconds, postsynaptic ones half a millisecond off, so that none
meet. Weights are recorded at presynaptic spikes, which is when NEST brings them up to date.
"""

from __future__ import annotations

from typing import Any

import nest as package  # pyright: ignore[reportMissingImports]
import numpy as np

nest: Any = package
rng = np.random.default_rng(3)
pre = 2.0 + np.flatnonzero(rng.random(200) < 0.2)
post = 2.5 + np.flatnonzero(rng.random(200) < 0.2)
result: dict[str, Any] = {}
for mu in (0.0, 0.4, 1.0):
    nest.ResetKernel()
    nest.SetKernelStatus({"resolution": 0.1})
    sources = [nest.Create("spike_generator", params={"spike_times": t}) for t in (pre, post)]
    ends = [nest.Create("parrot_neuron") for _ in sources]
    spikes = nest.Create("spike_recorder")
    weights = nest.Create("weight_recorder")
    ends[1].set(tau_minus=33.7)
    nest.CopyModel(
        "stdp_synapse",
        "rule",
        {
            "weight_recorder": weights, "tau_plus": 16.8, "lambda": 0.05, "alpha": 1.1,
            "mu_plus": mu, "mu_minus": mu, "Wmax": 2.0, "weight": 1.2, "delay": 0.1,
            "receptor_type": 1,
        },
    )  # fmt: skip
    for source, end in zip(sources, ends, strict=True):
        nest.Connect(source, end, syn_spec={"delay": 0.1})
        nest.Connect(end, spikes)
    nest.Connect(ends[0], ends[1], syn_spec="rule")
    nest.Simulate(250.0)
    events = spikes.get("events")
    for name, end in zip(("pre", "post"), ends, strict=True):
        fired = np.round(events["times"][events["senders"] == end.global_id] * 10)
        result[name] = np.sort(fired.astype(np.int64))
    order = np.argsort(weights.get("events", "times"))
    result[f"mu_{mu:g}"] = weights.get("events", "weights")[order]
np.savez_compressed("stdp_nest.npz", **result)
