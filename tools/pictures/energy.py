"""Energy of a sample on machines, from the least to the most that sources say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...lowering.placement.energy import EnergyMetrics
from .figure import WIDTH, plain_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def energy(machines: Sequence[EnergyMetrics]) -> Figure:
    """A panel of what machines take, and one for what populations take on each that has terms.

    Lines go from the least to the most that sources say; scales are logarithmic.

    Raises:
        BackendError: matplotlib is missing.
    """
    with plain_style():
        from matplotlib.figure import Figure

        apart = [machine for machine in machines if not machine.device["inclusive"]]
        sizes = [len(machines), *(len(machine.by_population) for machine in apart)]
        figure = Figure(figsize=(WIDTH, 1.0 + sum(0.5 + 0.22 * n for n in sizes)))
        # Placed by numbers: a layout that is solved for differs in its last digits between runs.
        height = float(figure.get_figheight())
        names = [m.device.text for m in machines] + [n for m in apart for n in m.by_population]
        left = min(0.5, max(0.2, 0.04 + 0.0095 * max(map(len, names))))
        figure.subplots_adjust(left, 0.5 / height, 0.97, 1 - 0.4 / height, hspace=1.0)
        heights = [0.5 + 0.22 * n for n in sizes]
        axes = figure.subplots(len(sizes), 1, squeeze=False, height_ratios=heights)[:, 0]
        rows = {machine.device.text: machine.total for machine in machines}
        listed = [("all", rows), *((m.device.text, m.by_population) for m in apart)]
        for axis, (title, values) in zip(axes, listed, strict=True):
            names = list(values)
            for index, name in enumerate(names):
                low, high = values[name]
                if high > 0:
                    ends = [low if low > 0 else high, high]
                    (line,) = axis.plot(ends, [index, index], marker="|", linewidth=4)
                    line.set_gid(f"energy.{title}.{name}")
            axis.set_yticks(range(len(names)), names)
            axis.set_ylim(len(names) - 0.5, -0.5)
            axis.set_xscale("log")
            axis.set_title(title, loc="left")
        axes[-1].set_xlabel("joules a sample")
    return figure
