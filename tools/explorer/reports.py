"""What a program takes where something tells: additions, tables, clocks, joules; and its spikes.

Not here: the numbers themselves, which the interpreter, estimates of circuits and models of
machines give.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ...ir.arrays import Array
from ...ir.errors import TritonError
from ...lowering.neuromorphic.analysis import ComparisonFramework
from ...runtime.spiking.activity import Activity, LayerActivity, record
from .following import Objects

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ...lowering.artifact import Artifact

MOST_NEURONS, MOST_STEPS = 512, 4096
"""Of a raster."""

_CIRCUIT = ("adders", "comparators", "luts", "flip_flops", "block_memories", "clock_mhz")


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> dict[str, Any]:
    """A table as `record` has it: the first cell of a row names a layer; numbers are finite."""
    cells = [
        [None if isinstance(cell, float) and not np.isfinite(cell) else cell for cell in row]
        for row in rows
    ]
    return {"title": title, "columns": list(columns), "rows": cells}


def circuit_tables(artifact: Artifact) -> list[dict[str, Any]]:
    """The layers of a circuit as estimated; none of other artefacts."""
    report = artifact.manifest.get("report")
    if not isinstance(report, dict) or "estimate" not in report:
        return []
    found = cast("dict[str, Any]", report)
    rows = [
        (_place(layer), str(layer["source"]).partition(" ")[0], *(layer.get(c) for c in _CIRCUIT))
        for layer in found["layers"]
    ]
    whole = {**found["totals"], **found["estimate"]}
    rows.append(("the whole circuit", "", *(whole.get(c) for c in _CIRCUIT)))
    return [table("Circuit, estimated", ["layer", "op", *_CIRCUIT], rows)]


def _place(layer: dict[str, Any]) -> str:
    """What a layer is called: its own name, or the one in the place of its op."""
    quoted = str(layer["source"]).split('"')
    return quoted[1] if len(quoted) > 4 else str(layer["name"])


def spiking(
    module: ModuleOp, inputs: Sequence[Array]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rasters of the first sample, and tables; none of a program without spikes."""
    if not any(op.name.startswith("spike.") for op in module.walk()):
        return [], []
    try:
        activity = record(module, inputs)
    except TritonError:
        return [], []
    number = Objects(module).number
    rasters = [
        raster(layer, -1 if layer.operation is None else number.get(layer.operation, -1))
        for layer in activity.layers
        if layer.fires
    ]
    return rasters, [*_activity_tables(activity), *_energy_tables(module, inputs)]


def raster(layer: LayerActivity, op: int = -1) -> dict[str, Any]:
    """The spikes of the first sample: for each step the neurons that fire, among those shown."""
    steps, neurons = min(layer.steps, MOST_STEPS), prod(layer.output.shape[2:])
    fired = layer.output[:steps, 0].reshape(steps, neurons) != 0
    shown = fired[:, :MOST_NEURONS]
    potential = None
    if layer.potential is not None:
        mean = layer.potential[:steps, 0].reshape(steps, neurons).mean(axis=1, dtype=np.float64)
        potential = [float(f"{v:.4g}") for v in np.nan_to_num(mean)]
    return {
        "name": layer.name,
        "op": op,
        "steps": steps,
        "neurons": neurons,
        "spikes": int(fired.sum()),
        "counts": [int(count) for count in fired.sum(axis=1)],
        "fired": [[int(n) for n in np.flatnonzero(row)] for row in shown],
        "potential": potential,
    }


def _activity_tables(activity: Activity) -> list[dict[str, Any]]:
    layers = [(x.name, x.neurons, x.spikes, x.rate) for x in activity.layers]
    synapses = [(s.name, s.op, s.additions, s.dense) for s in activity.synapses]
    return [
        table("Spikes of all samples", ["layer", "neurons", "spikes", "rate"], layers),
        table("Synapses", ["layer", "op", "additions", "of a dense product"], synapses),
    ]


def _energy_tables(module: ModuleOp, inputs: Sequence[Array]) -> list[dict[str, Any]]:
    """Joules a sample, from the least to the most that sources say."""
    try:
        machines = ComparisonFramework().compare(module, inputs).machines
    except TritonError:
        return []
    found = [table("Energy of a sample", ["machine", "least J", "most J"],
                   [(m.device.title, *map(float, m.total)) for m in machines])]  # fmt: skip
    for machine in machines:
        rows = [(name, *map(float, ends)) for name, ends in machine.by_population.items()]
        if rows and not machine.device["inclusive"]:
            found.append(table(f"{machine.device.title}, by layer", found[0]["columns"], rows))
    return found if machines else []
