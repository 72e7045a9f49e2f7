"""Accuracy against spikes: what a conversion can give, one line for each number of steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...lowering.conversion_front import Front
from .figure import panels, plain_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def front(conversions: Front) -> Figure:
    """The conversions as points, spikes a sample to the right, accuracy in percent upwards.

    Raises:
        BackendError: matplotlib is missing.
    """
    figure, (axis,) = panels(1, 3.0)
    codes = sorted({(c.timesteps, c.signed) for c in conversions.conversions})
    with plain_style():
        for steps, signed in codes:
            points = sorted(
                (c.spikes, 100 * c.accuracy)
                for c in conversions.conversions
                if (c.timesteps, c.signed) == (steps, signed)
            )
            (line,) = axis.plot(*zip(*points, strict=True), marker="o", markersize=3)
            line.set_gid(f"{steps}{' signed' if signed else ''}")
            line.set_label(f"T = {steps}{', signed' if signed else ''}")
        axis.set_xlabel("spikes a sample")
        axis.set_ylabel("accuracy, %")
        axis.legend(frameon=False)
    return figure
