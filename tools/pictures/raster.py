"""Spike rasters: a mark for each spike of one sample, time to the right, neurons upwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .figure import count_upwards, panels, plain_style
from .trains import Array, Source, chosen, layers_of, of_sample, with_spikes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARK_LIMIT = 20_000
"""With more marks than this, a panel is drawn as pixels in .svg and .pdf files."""


def raster_points(train: Array, sample: int = 0, neurons: int = 200) -> tuple[Array, Array]:
    """The steps and the neurons of the spikes of one sample, in order of time.

    Args:
        train: [T, N, …].
        sample: which of the N.
        neurons: the most neurons; of more, so many evenly apart are taken.

    Raises:
        OptionError: there is no such sample.
    """
    whole = of_sample(train, sample)
    columns = np.asarray(chosen(whole.shape[1], neurons), np.int64)
    steps, rows = np.nonzero(whole[:, columns])
    return steps, columns[rows]


def raster(
    source: Source, *, sample: int = 0, neurons: int = 200, dt: float | None = None
) -> Figure:
    """A raster of each layer, inputs first.

    Args:
        source: a recorded run (`runtime.spiking.activity.record`), or trains, see `trains.Source`.
        sample: which sample of the batch.
        neurons: the most neurons of a layer.
        dt: seconds a step: the axis then is in milliseconds.

    Raises:
        BackendError: matplotlib is missing.
        OptionError: no spikes to draw, or no such sample.
    """
    layers = with_spikes(layers_of(source), "spikes")
    figure, axes = panels(len(layers), 1.5)
    unit = 1.0 if dt is None else dt * 1e3
    with plain_style():
        for axis, layer in zip(axes, layers, strict=True):
            steps, rows = raster_points(layer.output, sample, neurons)
            size = max(2.0, min(8.0, 72.0 / max(1, min(layer.neurons, neurons))))
            (marks,) = axis.plot(
                steps * unit, rows, linestyle="none", marker="|", markersize=size, color="black"
            )
            marks.set_gid(f"spikes.{layer.name}")
            marks.set_rasterized(len(steps) > MARK_LIMIT)
            shown = min(layer.neurons, neurons)
            part = "" if shown == layer.neurons else f", {shown} of {layer.neurons} neurons"
            axis.set_title(f"{layer.name}: {len(steps)} spikes{part}", loc="left")
            axis.set_ylabel("neuron")
            count_upwards(axis)
            axis.set_ylim(-0.5, max(layer.neurons, 1) - 0.5)
            axis.set_xlim(-0.5 * unit, (max(layer.steps, 1) - 0.5) * unit)
        axes[-1].set_xlabel("step" if dt is None else "time in ms")
    return figure
