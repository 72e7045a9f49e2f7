"""Records what Lava 0.10 gives in fixed point, for the tests.

Runs in the environment that `environment` makes:

    build/lava/bin/python tests/lava_peer/record.py NETX_FILE tests/lava_peer/recorded

Writes `neurons.npz`: single neurons on currents of random size, spikes and states after each step;
and `mnist.npz`: the network of the file on random spikes, its spikes packed, states of some steps,
and the SHA-256 of all of them.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

import numpy as np

STEPS = 1000
EVERY = 50
"""One step in so many has its states in the file."""

NEURONS: dict[str, dict[str, Any]] = {
    "lif": {"du": 409, "dv": 410, "vth": 900},
    "biased": {"du": 4095, "dv": 0, "vth": 131071, "bias_mant": -4096, "bias_exp": 7},
    "leaky": {"du": 0, "dv": 4095, "vth": 3, "bias_mant": 1234, "bias_exp": 2},
    "wide": {"du": 1, "dv": 1, "vth": 131071},
    "ternary": {"du": 2048, "dv": 100, "vth_hi": 5000, "vth_lo": -700, "bias_mant": 99},
}
"""Parameters as Lava names them."""

SCALES = (3.0, 60.0, 2000.0, 30000.0, 200000.0)
"""Widths of the currents, one neuron each."""


def currents(name: str, steps: int = 300) -> Any:
    """Currents [steps, neurons] of a neuron."""
    rng = np.random.default_rng(sorted(NEURONS).index(name))
    noise = rng.standard_normal((steps, len(SCALES))) + 0.2
    return np.rint(noise * SCALES).astype(np.int32)


def trains(steps: int = STEPS, places: int = 784) -> Any:
    """Random spikes [steps, places], a different share of them in each place and hundred steps."""
    rng = np.random.default_rng(7)
    share = np.repeat(rng.random((-(-steps // 100), places)) ** 6, 100, axis=0)[:steps]
    return rng.random((steps, places)) < share


def _run(last: Any, monitors: dict[str, tuple[Any, Any, str]], steps: int) -> dict[str, Any]:
    from lava.magma.core.run_conditions import RunSteps  # pyright: ignore
    from lava.magma.core.run_configs import Loihi2SimCfg  # pyright: ignore

    last.run(condition=RunSteps(num_steps=steps), run_cfg=Loihi2SimCfg(select_tag="fixed_pt"))
    results = {
        key: monitor.get_data()[process.name][variable]
        for key, (monitor, process, variable) in monitors.items()
    }
    last.stop()
    return {key: np.asarray(value).astype(np.int64) for key, value in results.items()}


def _watch(process: Any, key: str, steps: int) -> dict[str, tuple[Any, Any, str]]:
    from lava.proc.monitor.process import Monitor  # pyright: ignore

    monitors: dict[str, tuple[Any, Any, str]] = {}
    for short, variable in (("s", "s_out"), ("u", "u"), ("v", "v")):
        monitor = Monitor()
        monitor.probe(getattr(process, variable), steps)
        monitors[f"{key}.{short}"] = (monitor, process, variable)
    return monitors


def record_neurons() -> dict[str, Any]:
    """Spikes and states of each of `NEURONS`."""
    from lava.proc.io.source import RingBuffer  # pyright: ignore
    from lava.proc.lif.process import LIF, TernaryLIF  # pyright: ignore

    results: dict[str, Any] = {}
    for name, parameters in NEURONS.items():
        x = currents(name)
        kind = TernaryLIF if "vth_hi" in parameters else LIF
        neuron = kind(shape=(x.shape[1],), name=name, **parameters)
        source = RingBuffer(data=x.T)
        source.s_out.connect(neuron.a_in)
        results |= _run(neuron, _watch(neuron, name, len(x)), len(x))
    return {key: value.astype(np.int32) for key, value in results.items()}


def record_network(path: Path) -> dict[str, Any]:
    """What a netx file of dense layers of LIF does on `trains`."""
    import h5py
    from lava.proc.dense.process import Dense  # pyright: ignore
    from lava.proc.io.source import RingBuffer  # pyright: ignore
    from lava.proc.lif.process import LIF  # pyright: ignore

    source = RingBuffer(data=trains().astype(np.int32).T)
    last, monitors = source, dict[str, tuple[Any, Any, str]]()
    opened: Any = h5py.File(path)
    with opened as file:
        for index in range(len(file["layer"])):
            layer = file[f"layer/{index}"]
            neuron = {
                key: int(layer[f"neuron/{key}"][()]) for key in ("iDecay", "vDecay", "vThMant")
            }
            weights = layer["weight"][()].astype(np.int32)
            dense = Dense(weights=weights, num_weight_bits=8, name=f"dense{index}")
            lif = LIF(
                shape=(len(weights),),
                du=neuron["iDecay"] - 1,
                dv=neuron["vDecay"],
                vth=neuron["vThMant"],
                name=f"layer{index}",
            )
            last.s_out.connect(dense.s_in)
            dense.a_out.connect(lif.a_in)
            monitors |= _watch(lif, f"layer{index}", STEPS)
            last = lif
    return _run(last, monitors, STEPS)


def digest(values: Any) -> str:
    """The SHA-256 of whole numbers as little-endian i32."""
    return hashlib.sha256(np.ascontiguousarray(values, "<i4").tobytes()).hexdigest()


def main() -> None:
    """Write both files."""
    netx, folder = map(Path, sys.argv[1:])
    np.savez_compressed(folder / "neurons.npz", **record_neurons())
    recorded = record_network(netx)
    kept: dict[str, Any] = {}
    for key, values in recorded.items():
        kept[f"{key}.sha256"] = digest(values)
        if key.endswith(".s"):
            kept[key] = np.packbits(values.astype(bool), axis=1)
        else:
            kept[key] = values[EVERY - 1 :: EVERY].astype(np.int32)
    np.savez_compressed(folder / "mnist.npz", **kept)


if __name__ == "__main__":
    main()
