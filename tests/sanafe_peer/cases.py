"""Networks for SANA-FE, where `place` puts their neurons, and what both say of their energy.

python -m sanafe_peer.cases    # in tests/: runs SANA-FE, writes recorded/energy.json
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects import spike
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import attach_store
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.store import ParameterStore
from triton_dsl.lowering.conversion import convert_to_snn
from triton_dsl.lowering.from_torch import from_torch
from triton_dsl.lowering.placement import place
from triton_dsl.lowering.placement.drive import drive_of
from triton_dsl.lowering.placement.energy import EnergyMetrics, energy_of
from triton_dsl.lowering.placement.placement import Placement

from .environment import python

Array = NDArray[Any]
HERE = Path(__file__).parent
RECORDED = HERE / "recorded" / "energy.json"


@dataclass(frozen=True, eq=False)
class Case:
    """A network twice: for us, and in numbers for SANA-FE by the names of `drive_of`."""

    module: ModuleOp
    inputs: list[Array]
    numbers: dict[str, Array]


def layers() -> Case:
    """Spikes through three layers of a tenth of all synapses, each a step later."""
    sizes, steps, samples, rng = (120, 300, 200, 10), 20, 3, np.random.default_rng(4)
    train = rng.random((steps, samples, sizes[0])) < 0.2
    store, lines, value = ParameterStore(), list[str](), "%x"
    numbers: dict[str, Array] = {"x.spikes": train.swapaxes(0, 1), "steps": np.array(steps)}
    names = ["x", *(f"n{i}" for i in range(3))]
    for i, (a, b) in enumerate(pairwise(sizes)):
        weight = rng.normal(0.3, 1, (a, b)) * (rng.random((a, b)) < 0.1)
        weight = (np.rint(weight * 16) / 32).astype(np.float32)
        store.add(f"n{i}.weight", weight)
        size = f"?x?x{b}"
        lines += [
            f"%d{i} = spike.delay {value} {{steps = 1 : i64}}"
            f" : (!spike.train<?x?x{a}>) -> !spike.train<?x?x{a}>",
            f'%w{i} = tensor.parameter "n{i}.weight" : tensor<{a}x{b}xf32>',
            f"%i{i} = spike.linear %d{i}, %w{i}"
            f" : !spike.train<?x?x{a}>, tensor<{a}x{b}xf32> -> tensor<{size}xf32>",
            f'%n{i} = spike.integrate_fire %i{i} {{compare = "gt"}}'
            f" : (tensor<{size}xf32>) -> !spike.train<{size}>",
        ]
        value = f"%n{i}"
        numbers |= {f"{names[i]}>n{i}": weight} | {
            f"n{i}.{key}": np.full(b, of) for key, of in (("threshold", 1.0), ("potential", 0.0))
        }
        numbers[f"n{i}.bias"] = np.zeros((samples, b))
    text = "\n".join(lines)
    module = parse_module(
        f"func.func @forward(%x: !spike.train<?x?x120>) -> !spike.train<?x?x10> {{ {text}\n"
        f"func.return {value} : !spike.train<?x?x10> }}"
    )
    attach_store(module, store)
    return Case(module, [train], numbers)


def currents() -> Case:
    """Neurons under constant currents, then a readout; in 64ths, as SANA-FE's neurons count."""
    hidden, classes, steps, rng = 256, 10, 8, np.random.default_rng(5)
    current = np.rint(rng.normal(0.1, 0.5, (20, hidden)) * 64).astype(np.float32) / 64
    weight = np.rint(rng.normal(0, 0.5, (hidden, classes)) * 64).astype(np.float32) / 64
    initial, threshold = (
        (rng.integers(low, high, hidden) / 64).astype(np.float32)
        for low, high in ((0, 32), (48, 128))
    )
    store = ParameterStore()
    for name, value in (("initial", initial), ("threshold", threshold), ("weight", weight)):
        store.add(name, value)
    train, sums = f"!spike.train<{steps}x?x{hidden}>", f"tensor<{steps}x?x{classes}xf32>"
    module = parse_module(f"""
    func.func @forward(%x: tensor<?x{hidden}xf32>) -> tensor<?x{classes}xf32> {{
      %c = spike.encode %x {{scheme = "direct", timesteps = {steps} : i64}}
        : (tensor<?x{hidden}xf32>) -> tensor<{steps}x?x{hidden}xf32>
      %z = tensor.clamp %x {{min = 0.0 : f64, max = 0.0 : f64}}
        : (tensor<?x{hidden}xf32>) -> tensor<?x{hidden}xf32>
      %i = tensor.parameter "initial" : tensor<{hidden}xf32>
      %v = tensor.add %z, %i
        : (tensor<?x{hidden}xf32>, tensor<{hidden}xf32>) -> tensor<?x{hidden}xf32>
      %t = tensor.parameter "threshold" : tensor<{hidden}xf32>
      %s = spike.integrate_fire %c initial(%v : tensor<?x{hidden}xf32>)
        threshold(%t : tensor<{hidden}xf32>) {{compare = "gt"}}
        : (tensor<{steps}x?x{hidden}xf32>) -> {train}
      %w = tensor.parameter "weight" : tensor<{hidden}x{classes}xf32>
      %l = spike.linear %s, %w : {train}, tensor<{hidden}x{classes}xf32> -> {sums}
      %d = spike.decode %l {{scheme = "membrane", readout = "mean"}}
        : ({sums}) -> tensor<?x{classes}xf32>
      func.return %d : tensor<?x{classes}xf32>
    }}""")
    attach_store(module, store)
    parts = initial, current, threshold, weight, np.zeros(classes)
    return under_currents(module, current, steps, parts)


def digits(images: Array, samples: Array, network: Any, steps: int = 8) -> Case:
    """The converted perceptron on images; its first layer hears a constant current."""
    import torch

    program = from_torch(network, torch.from_numpy(samples[:2]), dynamic={"input": {0: "N"}})
    module = convert_to_snn(program, samples, steps)
    seen: dict[str, Array] = {}

    def see(op: Any, operands: Any, results: Any) -> None:
        if isinstance(op, spike.IntegrateFireOp):
            names = ["current", *(["initial"] if op.initial else []), "threshold"]
            seen.update(zip(names, operands, strict=True))
        elif isinstance(op, spike.LinearOp):
            seen.update(weight=operands[1], bias=operands[2])

    run_module(module, [images], observer=see)
    hidden = seen["current"][0]
    assert (seen["current"] == hidden).all() and (seen["initial"] == seen["initial"][0]).all()
    threshold = np.broadcast_to(seen["threshold"], hidden.shape[1:])
    parts = seen["initial"][0], hidden, threshold, seen["weight"], seen["bias"]
    return under_currents(module, images, steps, parts)


def under_currents(
    module: ModuleOp, inputs: Array, steps: int, parts: tuple[Array, Array, Array, Array, Array]
) -> Case:
    """The case of one layer, of start, currents, thresholds, weights and biases of a readout."""
    initial, current, threshold, weight, bias = parts
    first, last = (part.name for part in drive_of(module, [inputs]).workload.neurons)
    numbers = {
        f"{first}.threshold": threshold,
        f"{first}.potential": initial,
        f"{first}.bias": current,
        f"{last}.threshold": np.full(len(bias), 1e9),
        f"{last}.potential": np.zeros(len(bias)),
        f"{last}.bias": np.broadcast_to(bias, (len(current), len(bias))),
        f"{first}>{last}": weight,
        "steps": np.array(steps),
    }
    return Case(module, [inputs], numbers)


def ours(case: Case) -> tuple[EnergyMetrics, Placement]:
    """What we say, on SANA-FE's constants."""
    drive = drive_of(case.module, case.inputs)
    placement = place(drive.workload, HERE / "loihi.toml")
    return energy_of(drive, placement), placement


def stages(energy: EnergyMetrics) -> dict[str, float]:
    """Our terms as SANA-FE adds them up."""
    terms = {name: float(value[0]) for name, value in energy.terms.items()}
    return {
        "synapse": terms["synapse"],
        "soma": terms["step"] + terms["update"] + terms["spike"],
        "network": terms["message"] + terms["hop_x"] + terms["hop_y"],
        "total": float(energy.total[0]),
    }


def sanafe(case: Case, placement: Placement) -> dict[str, float]:
    """What SANA-FE says of the same neurons on the same cores."""
    numbers = dict(case.numbers)
    for name in dict.fromkeys(part.population for part in placement.slices):
        parts = placement.of(name)
        spots = np.concatenate([np.full(part.neurons, part.processor) for part in parts])
        x, y = spots % 16, spots // 16
        numbers[f"{name}.tile"] = x // 2 * 4 + y // 2  # SANA-FE counts tiles by columns of 4
        numbers[f"{name}.core"] = x % 2 + y % 2 * 2
    with TemporaryDirectory() as folder:
        path = Path(folder) / "case.npz"
        np.savez(path, allow_pickle=False, **numbers)
        command = [str(python()), str(HERE / "simulate.py"), str(path)]
        told = subprocess.run(
            command, check=True, capture_output=True, encoding="utf-8", cwd=folder
        )
    return json.loads(told.stdout.strip().splitlines()[-1])


def record(cases: Mapping[str, Case]) -> None:
    """Run SANA-FE and keep what it said."""
    told: dict[str, dict[str, float]] = {}
    for name, case in cases.items():
        energy, placement = ours(case)
        told[name] = sanafe(case, placement)
        print(name, stages(energy), told[name], energy.seconds)
    RECORDED.write_text(json.dumps(told, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    record({"layers": layers(), "currents": currents()})
