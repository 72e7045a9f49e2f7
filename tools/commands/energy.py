"""`triton energy`: what a spiking program takes on neuromorphic machines, and beside them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...ir.arrays import Array
from ...ir.errors import LoweringError, OptionError
from ...ir.safe_write import PendingFiles, check_writable
from ...lowering.neuromorphic.analysis import SIDE_BY_SIDE, Comparison, ComparisonFramework
from ...lowering.placement.energy import EnergyMetrics
from ..console import print_json, progress, show, table
from ..inputs import imported, prepare
from ..pictures.energy import energy as drawn
from ..pictures.figure import check_suffix, picture_bytes
from ..pictures.machine import core_map, timeline, traffic
from .options.conversions import Energy

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table


def energy(options: Energy) -> None:
    """Run a program, and tell what a sample takes on each machine."""
    paths = (options.picture, options.core_map, options.traffic, options.timeline)
    given = [path for path in paths if path is not None]
    for path in given:
        check_suffix(path)
        check_writable(path)
    if len(set(map(os.path.realpath, given))) != len(given):
        raise OptionError("each picture needs a file of its own")
    with progress() as bar, PendingFiles() as pending:
        bar.add_task(f"Running {options.file}", total=None)
        module, arrays = prepare(imported(options), options, timesteps=options.timesteps)
        devices = options.device or SIDE_BY_SIDE
        found = ComparisonFramework(devices).compare(module, arrays)
        if not found.machines:
            raise LoweringError("\n".join(found.left_out.values()))
        for path, figure in zip(paths, _figures(found, devices[0]), strict=True):
            if path is not None:
                pending.add(path, picture_bytes(figure(), path.suffix))
    if options.json:
        print_json(found.to_dict())
        return
    apart = [machine for machine in found.machines if not machine.device["inclusive"]]
    show(_machines(found), *map(_populations, apart))
    for name, reason in found.left_out.items():
        print(f"{name} is left out: {reason}")
    for machine in found.machines:
        if machine.refused:
            print(f"{machine.device.text}: the neurons of the program as given; {machine.refused}")
        if machine.missing:
            print(f"{machine.device.text}: no cost is known of {', '.join(machine.missing)}")
    host = max((float(machine.host[1]) for machine in found.machines), default=0.0)
    if host:
        print(f"besides, products before the first spikes: {_joules(host)} on a processor")


def _figures(found: Comparison, device: str) -> list[Callable[[], Figure]]:
    """What can be drawn, in the order of the options."""

    def first() -> EnergyMetrics:
        if device in found.left_out:
            raise LoweringError(found.left_out[device])
        return found.machines[0]

    return [
        lambda: drawn(found.machines),
        lambda: core_map(first().placement, first().by_core[:, 1], "joules, at most"),
        lambda: traffic(first().placement),
        lambda: timeline(first().drive),
    ]


def _machines(found: Comparison) -> Table:
    rows = [
        (
            machine.device.text,
            _range(machine.total) if machine.total.any() or not machine.missing else None,
            _range(machine.idle),
            None if machine.seconds is None else _range(machine.seconds, "s"),
            None if machine.step_seconds is None else _range(machine.step_seconds, "s"),
            machine.keeps_up,
        )
        for machine in found.machines
    ]
    columns = ["machine", "a sample", "of it idle", "takes", "a step computes", "keeps up"]
    return table("Energy", columns, rows)


def _populations(machine: EnergyMetrics) -> Table:
    rows: list[Sequence[object]] = [
        (name, _range(value)) for name, value in machine.by_population.items()
    ]
    rows += [(f"({name})", _range(value)) for name, value in machine.terms.items() if value.any()]
    return table(f"{machine.device.title}, by population and (term)", ["", "a sample"], rows)


def _range(value: Array, unit: str = "J") -> str:
    low, high = float(value[0]), float(value[1])
    return _joules(low, unit) if low == high else f"{_joules(low, unit)} … {_joules(high, unit)}"


def _joules(value: float, unit: str = "J") -> str:
    """A number with the prefix that keeps it between 1 and 1000."""
    prefixes: dict[str, Any] = {"": 1, "m": 1e-3, "µ": 1e-6, "n": 1e-9, "p": 1e-12}
    for prefix, size in prefixes.items():
        if value >= size:
            return f"{value / size:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"
