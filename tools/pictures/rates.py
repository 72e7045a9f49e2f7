"""Histograms of firing rates: how many neurons of each layer fire how often."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from .figure import count_upwards, panels, plain_style
from .trains import Array, Source, layers_of, with_spikes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BINS = 20
"""Bars from a rate of 0 to 1."""


def neuron_rates(train: Array) -> Array:
    """The spikes a step of each neuron, over all samples and steps of [T, N, …]."""
    flat = train.reshape(prod(train.shape[:2]), prod(train.shape[2:]))
    return np.count_nonzero(flat, axis=0) / max(1, len(flat))


def rates(source: Source, *, bins: int = BINS) -> Figure:
    """A histogram of the firing rates of each layer.

    Args:
        source: a recorded run, or trains, see `trains.Source`.
        bins: the number of bars.

    Raises:
        BackendError: matplotlib is missing.
        OptionError: no spikes to draw.
    """
    layers = with_spikes(layers_of(source), "spikes")
    figure, axes = panels(len(layers), 1.3)
    with plain_style():
        for axis, layer in zip(axes, layers, strict=True):
            firing = neuron_rates(layer.output)
            counts, edges = np.histogram(firing, bins, (0.0, 1.0))
            bars = axis.bar(edges[:-1], counts, np.diff(edges), align="edge", edgecolor="white")
            for index, bar in enumerate(bars.patches):
                bar.set_gid(f"rate.{layer.name}.{index}")
            mean = float(firing.mean()) if firing.size else 0.0
            axis.set_title(f"{layer.name}: mean rate {mean:.3g}", loc="left")
            axis.set_ylabel("neurons")
            count_upwards(axis)
            axis.set_xlim(0.0, 1.0)
        axes[-1].set_xlabel("spikes a step")
    return figure
