"""Runs networks on SANA-FE's Loihi; in its environment, and with nothing of ours.

    build/sanafe/bin/python tests/sanafe_peer/simulate.py case.npz

The file has for each population NAME `NAME.tile` and `NAME.core` of each neuron; for an input
`NAME.spikes` [samples, steps, neurons], for neurons `NAME.threshold` and `NAME.potential` of each
and `NAME.bias` [samples, neurons]; for synapses `SOURCE>TARGET` weights [in, out], and `steps`.
Prints the mean of the samples as JSON: J by stage, s, spikes.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import sanafe  # pyright: ignore


def run(case: dict[str, Any], sample: int) -> dict[str, Any]:
    """What SANA-FE says of one sample."""
    arch: Any = sanafe.load_loihi()  # pyright: ignore
    net: Any = sanafe.Network()  # pyright: ignore
    groups: dict[str, Any] = {}
    for name in [key[:-5] for key in case if key.endswith(".tile")]:
        given = f"{name}.spikes" in case
        tiles, cores = case[f"{name}.tile"], case[f"{name}.core"]
        soma = "loihi_inputs" if given else "loihi_lif"
        group = groups[name] = net.create_neuron_group(name, len(tiles))
        numbers: dict[Any, int] = {}
        for i, neuron in enumerate(group):
            if given:
                place = int(tiles[i]), int(cores[i])
                numbers[place] = numbers.get(place, -1) + 1
                values: Any = {"spikes": case[f"{name}.spikes"][sample, :, i].tolist()}
                unit = f"{soma}[{numbers[place]}]"
            else:
                values = {
                    "threshold": float(case[f"{name}.threshold"][i]),
                    "potential": float(case[f"{name}.potential"][i]),
                    "bias": float(case[f"{name}.bias"][sample, i]),
                    **{"reset_mode": "soft", "leak_decay": 1.0, "input_decay": 0.0},
                }
                unit = soma
            neuron.set_attributes(
                soma_hw_name=unit,
                default_synapse_hw_name="loihi_dense_synapse",
                dendrite_hw_name="loihi_dendrites",
                model_attributes=values,
            )
            neuron.map_to_core(arch.tiles[int(tiles[i])].cores[int(cores[i])])
    for key, weights in case.items():
        if ">" in key:
            source, target = (groups[name] for name in key.split(">"))
            pairs = np.argwhere(weights != 0)
            listed = {"w": [float(weights[a, b]) for a, b in pairs]}
            source.connect_neurons_sparse(target, listed, [tuple(map(int, p)) for p in pairs])
    chip: Any = sanafe.SpikingChip(arch)  # pyright: ignore
    chip.load(net)
    return chip.sim(int(case["steps"]))


def main() -> None:
    with np.load(sys.argv[1]) as file:
        case = dict(file)
    samples = len(next(x for key, x in case.items() if key.endswith((".bias", ".spikes"))))
    runs = [run(case, sample) for sample in range(samples)]
    means = {
        f"energy.{stage}": float(np.mean([r["energy"][stage] for r in runs]))
        for stage in ("synapse", "soma", "network", "total")
    }
    means |= {key: float(np.mean([r[key] for r in runs])) for key in ("sim_time", "spikes")}
    print(json.dumps(means))


if __name__ == "__main__":
    main()
