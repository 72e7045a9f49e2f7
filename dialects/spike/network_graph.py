"""How a network hangs together: as a graph of networkx, and the order in which a step runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from xdsl.ir import Operation

from .network import InputOp, NetworkOp, undelayed_sources
from .population import PopulationOp, ProbeOp
from .projection import ProjectionOp

if TYPE_CHECKING:
    from networkx import MultiDiGraph


def nodes(network: NetworkOp) -> dict[str, InputOp | PopulationOp]:
    """Inputs and populations by name, in order."""
    return {
        op.sym_name.data: op
        for op in network.body.block.ops
        if isinstance(op, InputOp | PopulationOp)
    }


def projections(network: NetworkOp) -> Iterator[ProjectionOp]:
    """Every projection, in order."""
    return (op for op in network.body.block.ops if isinstance(op, ProjectionOp))


def probes(network: NetworkOp) -> Iterator[ProbeOp]:
    """Every probe, in order."""
    return (op for op in network.body.block.ops if isinstance(op, ProbeOp))


def to_networkx(network: NetworkOp) -> MultiDiGraph[str]:
    """The network as a `networkx.MultiDiGraph`, for analyses such as partitioning and placement.

    A node is an input or a population, by name, with the attributes `op`, `kind` (`input` or the
    neuron model) and `shape`; an edge is a projection, its key the name, with `op`, `connection`
    and `delay`. The graph's attribute `probes` lists (name, node, variable).
    """
    import networkx as nx

    graph: MultiDiGraph[str] = nx.MultiDiGraph(name=network.sym_name.data, dt=network.dt.value.data)
    for name, op in nodes(network).items():
        kind = "input" if isinstance(op, InputOp) else op.model.data
        graph.add_node(name, op=op, kind=kind, shape=tuple(op.shape.get_values()))
    for edge in projections(network):
        graph.add_edge(
            edge.source.string_value(),
            edge.target.string_value(),
            key=edge.sym_name.data,
            op=edge,
            connection=edge.connection.data,
            delay=edge.delay.value.data,
        )
    graph.graph["probes"] = [
        (op.sym_name.data, op.target.string_value(), op.variable.data) for op in probes(network)
    ]
    return graph


def execution_order(network: NetworkOp) -> list[PopulationOp]:
    """The populations such that each comes after those whose spikes reach it in the same step.

    Of a network without a cycle of undelayed projections; ties keep the order of the text.
    """
    waits, known = undelayed_sources(network), nodes(network)
    order: dict[str, Operation] = {}
    for name in known:
        stack = [name]
        while stack:
            waiting = [source for source in waits[stack[-1]] if source not in order]
            if waiting:
                stack.append(waiting[0])
            else:
                done = stack.pop()
                order[done] = known[done]
    return [op for op in order.values() if isinstance(op, PopulationOp)]
