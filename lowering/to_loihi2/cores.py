"""Where the neurons of a network stand on a machine, for the core map of the artefact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from ...ir.arrays import Array
from ...ir.interpreter import entry_function
from ..placement import Neurons, Placement, Synapses, Workload, place
from ..placement.connectivity import Connectivity, Dense, Diagonal, window
from ..placement.drive import Drive, drive_in
from .fixed_point import recorded
from .parts import Connection, LoihiNetwork


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
    return place(workload_of(network, name, rates), device)


def workload_of(
    network: LoihiNetwork, name: str, rates: Mapping[str, Array] | None = None
) -> Workload:
    """What placement asks of a network; see `placed`."""
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
    return Workload(name, neurons, synapses)


def measured(module: ModuleOp, network: LoihiNetwork, data: str) -> dict[str, Array]:
    """Spikes a step of each neuron and place of an input on samples, f64 [neurons] by name.

    Args:
        module: the program in fixed point.
        network: what it is made of.
        data: the file of the samples of its inputs.

    Raises:
        OptionError: the samples cannot be read, or do not fit.
    """
    records = recorded(module, data, network.values.values())
    rates = {
        name: np.mean([(x != 0).mean(axis=(0, 1)) for x in records[value]], axis=0).reshape(-1)
        for name, value in network.values.items()
    }
    for part in network.pulses:
        rates[part.name] = np.full(2, (part.last - part.first) / (network.steps or part.last))
    return rates


def driven(module: ModuleOp, network: LoihiNetwork, name: str, inputs: Sequence[Array]) -> Drive:
    """A run of the program in fixed point, by the populations that stand on cores.

    Args:
        module: the program.
        network: what it is made of.
        name: of it.
        inputs: of the program.
    """
    names = {value: part for part, value in network.values.items()}
    given = {
        names[value]: np.asarray(x)
        for value, x in zip(entry_function(module, "forward").args, inputs, strict=True)
        if value in names
    }
    samples, steps = inputs[0].shape[1], len(inputs[0])
    if network.steps is not None:
        samples, steps = len(inputs[0]), network.steps
    for part in network.pulses:
        sent = given[part.name] = np.zeros((steps, samples, 2), np.bool_)
        sent[part.first : part.last] = True
    return drive_in(workload_of(network, name), module, inputs, names.get, given)


def reach(part: Connection, source: tuple[int, ...], target: tuple[int, ...]) -> Connectivity:
    """Who reaches whom; weights of 0 are no synapses."""
    if part.weights is None:
        return Diagonal(prod(source))
    there: Array = part.weights.mantissa != 0
    if part.window is None:
        return Dense(np.ascontiguousarray(there.T))
    of = part.window
    return window(there, of.groups, source, target, of.strides, of.padding, of.dilation)
