"""`triton run`: a program on inputs, in the interpreter or a real engine."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from ...ir.safe_write import PendingFiles, keep_sources
from ...lowering.engine import run_target
from ...runtime.device_choice import use_device
from ...runtime.spiking.activity import Activity, record
from ..console import print_json, progress, show, table
from ..inputs import imported, prepare
from .options.runs import Run
from .spiking import check_pictures, draw, facts, lowered, pictures, tables


def run(options: Run) -> None:
    """Run a program, write its outputs and pictures, and tell what it gave."""
    output = options.output
    check_pictures(options)
    keep_sources(output, (options.file, options.inputs, options.weights, options.labels))
    device = use_device(options.device, options.provider)
    with progress() as bar, PendingFiles() as pending, device:
        bar.add_task(f"Running {options.file}", total=None)
        module, arrays = prepare(imported(options), options, timesteps=options.timesteps)
        with_potentials = options.traces is not None
        name, outputs, activity = _run(module, options.engine, arrays, with_potentials)
        shares = None
        if pictures(options):
            assert activity is not None
            shares = draw(options, pending, module, arrays, activity)
        if output is not None:
            _save(pending, output, outputs)
    has_spikes = activity is not None and bool(activity.layers or activity.synapses)
    if options.json:
        report: dict[str, Any] = {
            "engine": name,
            "outputs": [
                {"shape": list(o.shape), "dtype": str(o.dtype), "values": o.tolist()}
                for o in outputs
            ],
        }
        if activity is not None and has_spikes:
            report["spiking"] = facts(activity)
        if shares is not None:
            report["accuracy"] = shares
        print_json(report)
        return
    rows = [
        (f"output {i}", "x".join(map(str, o.shape)) or "scalar", str(o.dtype), _range(o))
        for i, o in enumerate(outputs)
    ]
    columns = ["output", "shape", "dtype", "minimum … maximum"]
    show(table(f"{options.file} on {name}", columns, rows))
    for value in outputs:
        print(value)
    if activity is not None and has_spikes:
        show(*tables(activity))
    if shares is not None:
        print(f"accuracy after {len(shares)} steps: {shares[-1]:.4f}")


def _run(
    module: ModuleOp, engine: str, arrays: Sequence[Any], potentials: bool
) -> tuple[str, list[Any], Activity | None]:
    if engine == "interpreter":
        activity = record(lowered(module), arrays, potentials=potentials)
        return "the reference interpreter", list(activity.outputs), activity
    name, outputs, _ = run_target(module, engine, arrays)
    return name, outputs, None


def _range(array: Any) -> str:
    return f"{array.min():.4g} … {array.max():.4g}" if array.size else "empty"


def _save(pending: PendingFiles, path: Path, outputs: Sequence[Any]) -> None:
    names = ["output"] if len(outputs) == 1 else [f"output{i}" for i in range(len(outputs))]
    buffer = io.BytesIO()
    np.savez(buffer, **dict(zip(names, outputs, strict=True)))
    pending.make_folder(path.parent)
    pending.add(path, buffer.getvalue())
