"""One update by e-prop in NEST, of adaptive neurons and a readout: `eprop_nest.npz`.

The models of NEST that are named after Bellec et al. 2020. A sequence of inputs and targets runs
twice: in the second run each synapse that gets a spike applies the gradient of the first one.
"""

from __future__ import annotations

from typing import Any

import nest as package  # pyright: ignore[reportMissingImports]
import numpy as np

nest: Any = package
T, INPUTS, NEURONS, OUTPUTS, ETA = 60, 8, 6, 2, 1e-3
rng = np.random.default_rng(5)
x = rng.random((T, INPUTS)) < 0.25
# Traces of NEST leave out what arrives in the first step of an interval.
x[:2] = False
targets = rng.normal(size=(T, OUTPUTS))
weights = {
    "in": rng.normal(0.15, 0.4, (NEURONS, INPUTS)),
    "rec": rng.normal(0, 0.2, (NEURONS, NEURONS)) * (1 - np.eye(NEURONS)),
    "out": rng.normal(0, 0.5, (OUTPUTS, NEURONS)),
}
feedback = rng.normal(0, 0.5, (NEURONS, OUTPUTS))

nest.set(
    eprop_learning_window=float(T),
    eprop_reset_neurons_on_update=True,
    eprop_update_interval=float(T),
    resolution=1.0,
    total_num_virtual_procs=1,
)
shared = {"C_m": 1.0, "E_L": 0.0, "I_e": 0.0, "regular_spike_arrival": True, "V_m": 0.0}
generators = nest.Create("spike_generator", INPUTS)
inputs = nest.Create("parrot_neuron", INPUTS)
neurons = nest.Create(
    "eprop_iaf_adapt_bsshslm_2020",
    NEURONS,
    {
        **shared, "tau_m": 12.0, "t_ref": 0.0, "V_th": 0.6, "c_reg": 0.0, "adapt_beta": 0.4,
        "adapt_tau": 25.0, "surrogate_gradient_function": "piecewise_linear",
        "surrogate_gradient_height": 0.5, "surrogate_gradient_width": 2.0,
    },
)  # fmt: skip
readout = nest.Create(
    "eprop_readout_bsshslm_2020", OUTPUTS, {**shared, "tau_m": 8.0, "loss": "mean_squared_error"}
)
rates = nest.Create("step_rate_generator", OUTPUTS)
spikes = nest.Create("spike_recorder")
meter = nest.Create(
    "multimeter", {"interval": 1.0, "record_from": ["readout_signal", "target_signal"]}
)
nest.SetDefaults(
    "eprop_synapse_bsshslm_2020",
    {
        "optimizer": {
            "type": "gradient_descent", "batch_size": 1, "eta": ETA, "Wmin": -100.0, "Wmax": 100.0
        },
        "average_gradient": False,
    },
)  # fmt: skip


def connect(sources: Any, ends: Any, model: str, rule: str = "all_to_all", **options: Any) -> None:
    nest.Connect(sources, ends, rule, {"synapse_model": model, "delay": 1.0, **options})


synapse = "eprop_synapse_bsshslm_2020"
connect(generators, inputs, "static_synapse", "one_to_one")
for sources, ends, name in ((inputs, neurons, "in"), (neurons, neurons, "rec"),
                            (neurons, readout, "out")):  # fmt: skip
    connect(sources, ends, synapse, tau_m_readout=8.0, weight=weights[name])
connect(readout, neurons, "eprop_learning_signal_connection_bsshslm_2020", weight=feedback)
connect(rates, readout, "rate_connection_delayed", "one_to_one", receptor_type=2)
connect(neurons, spikes, "static_synapse")
connect(meter, readout, "static_synapse")
for generator, train in zip(generators, x.T, strict=True):
    times = np.flatnonzero(train) + 1.0
    times = np.concatenate([times, times + T])
    # In the second run every input fires once more.
    generator.spike_times = times
for rate, target in zip(rates, targets.T, strict=True):
    rate.set(amplitude_times=np.arange(2.0 * T) + 4.0, amplitude_values=np.tile(target, 2))
nest.Simulate(2.0 * T + 5)

fired = spikes.events
z = np.zeros((T + 10, NEURONS), np.bool_)
for time, sender in zip(fired["times"], fired["senders"], strict=True):
    if time < T + 10:
        z[int(time), sender - neurons[0].global_id] = True
seen = meter.events
# A spike takes a step to each layer, and the generators begin at the first.
result: dict[str, Any] = {"x": x, "targets": targets, "feedback": feedback, "spikes": z[3 : T + 3]}
outputs = [seen["readout_signal"][seen["senders"] == cell.global_id] for cell in readout]
result["y"] = np.stack(outputs, 1)[4 : T + 4]
for name, (sources, ends) in {
    "in": (inputs, neurons), "rec": (neurons, neurons), "out": (neurons, readout)
}.items():  # fmt: skip
    after = np.full(weights[name].shape, np.nan)
    found = nest.GetConnections(sources, ends)
    for source, target, weight in zip(found.source, found.target, found.weight, strict=True):
        after[target - ends[0].global_id, source - sources[0].global_id] = weight
    result[f"w_{name}"] = weights[name]
    result[f"gradient_{name}"] = (weights[name] - after) / ETA
np.savez_compressed("eprop_nest.npz", **result)
