"""Where the neurons of a network stand on a machine, for the core map of the artefact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ...dialects.interpret import run_module
from ...ir.arrays import Array
from ...ir.interpreter import entry_function
from ...ir.samples import read_samples
from ...passes.calibration.observation import bind_samples
from ..placement import Neurons, Placement, Synapses, Workload, place
from ..placement.connectivity import Connectivity, Dense, Diagonal, window
from .parts import Connection, LoihiNetwork

SAMPLES = 64
"""Samples that activity is measured on."""


def placed(
    network: LoihiNetwork, name: str, device: str, rates: Mapping[str, Array] | None = None
) -> Placement:
    """The network on a machine.

    Args:
        network: what is placed.
        name: of it.
        device: the machine's name, or the path of its file.
        rates: spikes a step of each neuron; without them each fires in each step.

    Raises:
        OptionError: there is no such machine.
        LoweringError: it does not fit; with the arithmetic.
    """
    shapes = network.shapes()
    inputs = shapes.keys() - {part.name for part in network.populations}
    neurons = [
        Neurons(part, prod(shape), (rates or {}).get(part, np.ones(prod(shape))), part in inputs)
        for part, shape in shapes.items()
    ]
    synapses = [
        Synapses(
            part.name,
            part.source,
            part.target,
            reach(part, shapes[part.source], shapes[part.target]),
        )
        for part in network.connections
    ]
    return place(Workload(name, neurons, synapses), device)


def measured(module: ModuleOp, network: LoihiNetwork, data: Path) -> dict[str, Array]:
    """Spikes a step of each neuron and place of an input on samples, f64 [neurons] by name.

    Args:
        module: the program in fixed point.
        network: what it is made of.
        data: samples of the inputs, of which the first `SAMPLES` are run.

    Raises:
        OptionError: the samples cannot be read, or do not fit.
    """
    function = entry_function(module, "forward")
    names = {value: name for name, value in network.values.items()}
    counts = {name: np.zeros(()) for name in names.values()}

    def take(values: Sequence[SSAValue], arrays: Sequence[Array]) -> None:
        for value, array in zip(values, arrays, strict=True):
            if value in names:
                fired = np.count_nonzero(array, axis=(0, 1)).reshape(-1)
                counts[names[value]] = counts[names[value]] + fired / prod(array.shape[:2])

    batches = bind_samples(function, read_samples(data), size=SAMPLES, limit=SAMPLES)
    for batch in batches:
        take(function.body.block.args, batch)
        run_module(module, batch, "forward", lambda op, _, results: take(op.results, results))
    rates = {name: count / len(batches) for name, count in counts.items()}
    for part in network.pulses:
        rates[part.name] = np.full(2, (part.last - part.first) / (network.steps or part.last))
    return rates


def reach(part: Connection, source: tuple[int, ...], target: tuple[int, ...]) -> Connectivity:
    """Who reaches whom; weights of 0 are no synapses."""
    if part.weights is None:
        return Diagonal(prod(source))
    there: Array = part.weights.mantissa != 0
    if part.window is None:
        return Dense(np.ascontiguousarray(there.T))
    of = part.window
    return window(there, of.groups, source, target, of.strides, of.padding, of.dilation)
