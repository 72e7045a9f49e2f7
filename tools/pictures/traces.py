"""Membrane traces: the potentials of some neurons of each layer over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .figure import panels, plain_style
from .trains import Array, Source, layers_of, most_active, of_sample, with_spikes

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def traces(source: Source, *, sample: int = 0, neurons: int = 4, dt: float | None = None) -> Figure:
    """The potentials after each step, and the threshold where all neurons have one.

    Args:
        source: a recorded run, or potentials [T, N, …], several by name.
        sample: which sample of the batch.
        neurons: how many neurons of a layer: those that fire most; of arrays, that vary most.
        dt: seconds a step: the axis then is in milliseconds.

    Raises:
        BackendError: matplotlib is missing.
        OptionError: no potentials to draw, or no such sample.
    """
    layers = with_spikes(layers_of(source, potentials=True), "potentials")
    figure, axes = panels(len(layers), 1.5)
    unit = 1.0 if dt is None else dt * 1e3
    with plain_style():
        for axis, layer in zip(axes, layers, strict=True):
            assert layer.potential is not None
            potential = of_sample(layer.potential, sample)
            shown = _kept(of_sample(layer.output, sample), neurons)
            for neuron in shown:
                (line,) = axis.plot(
                    np.arange(layer.steps) * unit,
                    potential[:, neuron],
                    linewidth=1,
                    label=f"neuron {neuron}",
                )
                line.set_gid(f"trace.{layer.name}.{neuron}")
            if layer.threshold is not None:
                axis.axhline(layer.threshold, color="grey", linestyle="--", linewidth=1)
            axis.set_title(layer.name, loc="left")
            axis.set_ylabel("potential")
            axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize="small")
        axes[-1].set_xlabel("step" if dt is None else "time in ms")
    return figure


def _kept(output: Array, neurons: int) -> list[int]:
    if output.dtype == np.bool_:
        return most_active(output, neurons)
    spread = output.max(axis=0, initial=-np.inf) - output.min(axis=0, initial=np.inf)
    return sorted(np.argsort(-spread, kind="stable")[:neurons].tolist())
