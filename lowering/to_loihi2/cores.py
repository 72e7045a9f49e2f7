"""Where the neurons of a network stand on a machine, for the core map of the artefact."""

from __future__ import annotations

from math import prod

import numpy as np

from ...ir.arrays import Array
from ..placement import Neurons, Placement, Synapses, Workload, place
from ..placement.connectivity import Connectivity, Dense, Diagonal, window
from .parts import Connection, LoihiNetwork


def placed(network: LoihiNetwork, name: str, device: str) -> Placement:
    """The network on a machine, with a spike of each neuron in each step.

    Args:
        network: what is placed.
        name: of it.
        device: the machine's name, or the path of its file.

    Raises:
        OptionError: there is no such machine.
        LoweringError: it does not fit; with the arithmetic.
    """
    shapes = network.shapes()
    inputs = shapes.keys() - {part.name for part in network.populations}
    neurons = [
        Neurons(part, prod(shape), np.ones(prod(shape)), part in inputs)
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


def reach(part: Connection, source: tuple[int, ...], target: tuple[int, ...]) -> Connectivity:
    """Who reaches whom; weights of 0 are no synapses."""
    if part.weights is None:
        return Diagonal(prod(source))
    there: Array = part.weights.mantissa != 0
    if part.window is None:
        return Dense(np.ascontiguousarray(there.T))
    of = part.window
    return window(there, of.groups, source, target, of.strides, of.padding, of.dilation)
