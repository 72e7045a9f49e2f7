"""What placement asks of a network: its neurons with the spikes they send, and who reaches whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from ...dialects.spike import InputOp, NetworkOp, ProjectionOp
from ...dialects.spike.interpret_network import network_value
from ...dialects.spike.network_graph import nodes, projections
from ...ir.arrays import Array
from ...ir.errors import OptionError, did_you_mean
from .connectivity import Connectivity, Dense, Diagonal, window

if TYPE_CHECKING:
    from networkx import MultiDiGraph

ActivityLike = Mapping[str, "Array | float"]
"""Spikes a neuron and step, by population or input: one number, or an array of one for each."""


@dataclass(frozen=True, eq=False)
class Neurons:
    """A population or an input.

    Attributes:
        name: its name.
        count: of neurons, or of places of an input.
        rates: spikes a step of each, f64 [count].
        is_input: whether it has places and no neurons.
    """

    name: str
    count: int
    rates: Array
    is_input: bool = False


@dataclass(frozen=True, eq=False)
class Synapses:
    """A projection.

    Attributes:
        name: its name.
        source: the name of where it comes from.
        target: the name of where it goes to.
        connectivity: who reaches whom.
    """

    name: str
    source: str
    target: str
    connectivity: Connectivity


@dataclass(frozen=True, eq=False)
class Workload:
    """A network as placement sees it.

    Attributes:
        name: of the network.
        neurons: populations and inputs, in order.
        synapses: projections, in order.

    Raises:
        OptionError: sizes that do not fit, or names that there are not.
    """

    name: str
    neurons: Sequence[Neurons]
    synapses: Sequence[Synapses]

    def __post_init__(self) -> None:
        counts = {part.name: part.count for part in self.neurons}
        for part in self.synapses:
            ends = (counts.get(part.source), counts.get(part.target))
            got = (part.connectivity.sources, part.connectivity.targets)
            if ends != got:
                raise OptionError(
                    f"@{part.name} joins {got[0]} and {got[1]} neurons, "
                    f"@{part.source} and @{part.target} have {ends[0]} and {ends[1]}"
                )

    def graph(self) -> MultiDiGraph[str]:
        """Populations and inputs with `count` and `rate`, projections with `synapses`."""
        import networkx as nx

        graph: MultiDiGraph[str] = nx.MultiDiGraph(name=self.name)
        for part in self.neurons:
            graph.add_node(part.name, count=part.count, rate=float(part.rates.mean()))
        for edge in self.synapses:
            count = edge.connectivity.synapses
            graph.add_edge(edge.source, edge.target, key=edge.name, synapses=count)
        return graph


def workload_of(network: NetworkOp, activity: ActivityLike | None = None) -> Workload:
    """What placement asks of a `spike.network`.

    Args:
        network: whose parameters have values.
        activity: measured spikes a neuron and step by name; 1 where nothing is said.

    Raises:
        OptionError: activity of an unknown name, or of another size.
    """
    known, activity = nodes(network), activity or {}
    for name in activity:
        if name not in known:
            raise OptionError(f"activity: there is no '{name}'{did_you_mean(name, list(known))}")
    neurons: list[Neurons] = []
    for name, op in known.items():
        count = prod(op.shape.get_values())
        rates = np.asarray(activity.get(name, 1.0), np.float64).reshape(-1)
        if rates.size not in (1, count) or not (rates >= 0).all():
            raise OptionError(f"activity: expects 1 or {count} rates of at least 0 for '{name}'")
        rates = np.broadcast_to(rates, (count,))
        neurons.append(Neurons(name, count, rates, isinstance(op, InputOp)))
    synapses = [
        Synapses(
            op.sym_name.data, op.source.string_value(), op.target.string_value(), connectivity(op)
        )
        for op in projections(network)
    ]
    return Workload(network.sym_name.data, neurons, synapses)


def connectivity(op: ProjectionOp) -> Connectivity:
    """Who reaches whom by a projection; weights of 0 are no synapses."""
    source, _ = op.ends()
    shape = tuple(source.shape.get_values())
    if op.connection.data == "one_to_one":
        return Diagonal(prod(shape))
    if op.connection.data == "linear":
        assert op.weights is not None
        return Dense(network_value(op.weights) != 0)
    strides, padding, dilation = op.window()
    if op.weights is None:
        assert op.kernel is not None
        mask, groups = np.ones((shape[0], 1, *op.kernel.get_values()), np.bool_), shape[0]
    else:
        mask, groups = network_value(op.weights) != 0, op.group_count()
    return window(mask, groups, shape, op.result_shape(shape), strides, padding, dilation)
