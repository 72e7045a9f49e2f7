"""Energy of a sample on machines: a bar for the most that sources say, a mark for the least."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...lowering.placement.energy import EnergyMetrics
from .figure import WIDTH, plain_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def energy(machines: Sequence[EnergyMetrics]) -> Figure:
    """A panel of what each machine takes, and one for each of what its populations take.

    Bars end at the most that sources say, marks at the least; scales are logarithmic.

    Raises:
        BackendError: matplotlib is missing.
    """
    with plain_style():
        from matplotlib.figure import Figure

        sizes = [len(machines), *(len(machine.by_population) for machine in machines)]
        figure = Figure(figsize=(WIDTH, 1.0 + sum(0.5 + 0.22 * n for n in sizes)))
        figure.set_layout_engine("constrained")
        heights = [0.5 + 0.22 * n for n in sizes]
        axes = figure.subplots(len(sizes), 1, squeeze=False, height_ratios=heights)[:, 0]
        rows = {machine.device.name: machine.total for machine in machines}
        listed = [("all", rows), *((m.device.name, m.by_population) for m in machines)]
        for axis, (title, values) in zip(axes, listed, strict=True):
            names = list(values)
            for index, name in enumerate(names):
                low, high = values[name]
                bar = axis.barh(index, high, color="#4878a8", clip_on=False).patches[0]
                bar.set_gid(f"energy.{title}.{name}")
                axis.plot([low, low], [index - 0.35, index + 0.35], color="black", clip_on=False)
            axis.set_yticks(range(len(names)), names)
            axis.invert_yaxis()
            if any(high > 0 for _, high in values.values()):
                axis.set_xscale("log")
            axis.set_title(title, loc="left")
        axes[-1].set_xlabel("joules a sample")
    return figure
