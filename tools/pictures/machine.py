"""A program on a machine: its cores by load, spikes between them, and what it did step by step."""

from __future__ import annotations

from math import ceil, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.arrays import Array
from ...ir.errors import OptionError, refuse
from ...lowering.placement import Placement
from ...lowering.placement.run import Drive
from .figure import WIDTH, panels, plain_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def core_map(placement: Placement, loads: Array | None = None, what: str = "neurons") -> Figure:
    """The chips in use, each a square of its cores, by load.

    Args:
        placement: of a program.
        loads: a number for each core, such as joules, [cores]; by default its neurons.
        what: they are.

    Raises:
        BackendError: matplotlib is missing.
    """
    device, values = placement.device, placement.core_loads["neurons"] if loads is None else loads
    columns = device.core_columns or ceil(sqrt(int(device.cores.max())))
    rows = ceil(int(device.cores.max()) / columns)
    corner = np.array([[part.x, part.y] for part in placement.slices])
    first, last = corner.min(0), corner.max(0)
    width, height = (last - first + 1) * (columns + 1, rows + 1) - 1
    image = np.full((height, width), np.nan)
    for x, y in {(part.x, part.y) for part in placement.slices}:
        left, top = (x - first[0]) * (columns + 1), (y - first[1]) * (rows + 1)
        image[top : top + rows, left : left + columns] = 0.0
    for part in placement.slices:
        left, top = (part.x - first[0]) * (columns + 1), (part.y - first[1]) * (rows + 1)
        place = top + part.processor // columns, left + part.processor % columns
        image[place] = values[part.core]
    title = (
        f"{placement.network} on {device.name}: {placement.cores} cores, {placement.chips} chips"
    )
    return _image(image, title, what, "core.map")


def traffic(placement: Placement) -> Figure:
    """Spikes of a step from each core to each core.

    Raises:
        BackendError: matplotlib is missing.
        OptionError: more than 2,000 cores.
    """
    count = placement.cores
    if count > 2000:
        raise OptionError(
            f"traffic between {count:,} cores cannot be seen; at most 2,000 are drawn"
        )
    image = np.zeros((count, count))
    image[placement.source, placement.target] = placement.spikes
    figure = _image(image, "from core (down) to core (right)", "spikes a step", "core.traffic")
    return figure


def timeline(drive: Drive) -> Figure:
    """Spikes of each population in each step, on average over samples.

    Raises:
        BackendError: matplotlib is missing.
        OptionError: nothing fires.
    """
    fired = {name: x.sum(1) / max(1, drive.samples) for name, x in drive.spikes.items() if x.any()}
    refuse(not fired, "there are no spikes to draw")
    figure, axes = panels(len(fired), 1.1)
    with plain_style():
        for axis, (name, counts) in zip(axes, fired.items(), strict=True):
            (line,) = axis.step(np.arange(len(counts) + 1), [*counts, counts[-1]], where="post")
            line.set_gid(f"timeline.{name}")
            axis.set_title(name, loc="left")
            axis.set_ylabel("spikes")
            axis.set_ylim(0)
        axes[-1].set_xlabel("step")
    return figure


def _image(image: Array, title: str, what: str, gid: str) -> Figure:
    """Numbers as colours; what is no number stays white."""
    with plain_style():
        from matplotlib.figure import Figure

        height, width = image.shape
        figure = Figure(figsize=(WIDTH, min(10.0, max(2.0, 1.0 + 0.8 * WIDTH * height / width))))
        axis: Any = figure.subplots()
        figure.subplots_adjust(0.08, 0.1, 0.98, 0.9)
        shown = axis.pcolormesh(np.ma.masked_invalid(image), cmap="viridis", vmin=0)
        shown.set_gid(gid)
        axis.set_ylim(height, 0)
        axis.set_aspect("equal")
        axis.set_title(title, loc="left")
        axis.set_xticks([])
        axis.set_yticks([])
        figure.colorbar(shown, ax=axis, label=what)
    return figure
