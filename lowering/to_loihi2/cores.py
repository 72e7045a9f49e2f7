"""The neurons and synapses of a network of Loihi, for its core map, and what they do in a run."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from ...dialects.spike.neuron import NeuronOp
from ...ir.arrays import Array
from ...ir.interpreter import entry_function
from ...runtime.spiking.activity import record
from ..placement import Neurons, Synapses, Workload
from ..placement.connectivity import Connectivity, Dense, Diagonal, window
from ..placement.run import Drive, active_steps, spike_counts
from .parts import Connection, LoihiNetwork


def workload(
    network: LoihiNetwork, name: str, rates: Mapping[str, Array] | None = None
) -> Workload:
    """What placement asks of a network.

    Args:
        network: what is placed.
        name: of it.
        rates: spikes a step of each neuron; without them each fires in each step.
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
    return Workload(name, neurons, synapses)


def drive(
    module: ModuleOp, network: LoihiNetwork, work: Workload, inputs: Sequence[Array]
) -> Drive:
    """What the neurons of a network do in a run.

    Args:
        module: the program in fixed point, which the interpreter runs.
        network: what it is made of.
        work: of that.
        inputs: of `@forward`.

    Warns:
        UserWarning: numbers that are beyond what stands for the largest, and cut.
    """
    for part, x in zip(network.inputs, inputs, strict=True):
        unit, most = part.numbers or (np.inf, 1)
        largest, held = np.abs(x).max(initial=0), float(unit) * most
        if largest > held * (1 + 1e-6):
            told = f"{part.name}: numbers up to {largest:g} are cut at {held:g}; compile with "
            warnings.warn(f"{told}data=FILE or peak={largest:g}", stacklevel=2)
    heard = dict[SSAValue, Array]()
    said = dict[SSAValue, Array](zip(entry_function(module, "forward").args, inputs, strict=True))

    def see(op: Operation, operands: Sequence[Array], results: Sequence[Array]) -> None:
        said.update(zip(op.results, results, strict=True))
        if isinstance(op, NeuronOp):
            heard[op.output] = operands[0] != 0

    activity = record(module, inputs, observer=see)
    layers = {part.operation: part for part in activity.layers if part.operation is not None}
    neurons = {part.name for part in network.populations}
    sent, active = dict[str, Array](), dict[str, Array]()
    for name, value in network.values.items():
        sent[name] = np.asarray(said[value])
        if name in neurons:
            op = value.owner
            assert isinstance(op, NeuronOp)
            active[name] = active_steps(heard[value], layers[op].potential, bool(op.initial))
    steps, samples = next(iter(sent.values())).shape[:2]
    spikes = {name: spike_counts(x) for name, x in sent.items()}
    for part in network.pulses:
        spikes[part.name] = np.zeros((steps, 2), np.int64)
        spikes[part.name][part.first : part.last] = samples
    return Drive(work, spikes, active, samples, steps, activity.dt, 0.0, activity.outputs)


def reach(part: Connection, source: tuple[int, ...], target: tuple[int, ...]) -> Connectivity:
    """Who reaches whom; weights of 0 are no synapses."""
    if part.weights is None:
        return Diagonal(prod(source))
    there: Array = part.weights.mantissa != 0
    if part.window is None:
        return Dense(np.ascontiguousarray(there.T))
    of = part.window
    return window(there, of.groups, source, target, of.strides, of.padding, of.dilation)
