"""When populations run: in PyNN every projection takes a step at least, ours may take none.

A population runs `offset` steps behind ours, the same for all its neurons, and a projection of d
steps takes d + offset(target) - offset(source), which is 1 or more. Inputs have the offset 0.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from ...dialects.spike import NetworkOp, ProjectionOp
from ...dialects.spike.network_graph import nodes, projections

if TYPE_CHECKING:
    from networkx import DiGraph

_START = ""


def offsets(network: NetworkOp) -> tuple[dict[str, int], list[ProjectionOp]]:
    """The least offset of each node, by the longest paths to it.

    Returns:
        The offsets by name, and the projections of a cycle that has fewer steps than projections;
        where there is one nothing is placed.
    """
    import networkx as nx

    graph: DiGraph[str] = nx.DiGraph()
    for name in nodes(network):
        graph.add_edge(_START, name, weight=0)
    edges: dict[tuple[str, str], ProjectionOp] = {}
    for op in projections(network):
        ends = op.source.string_value(), op.target.string_value()
        weight = op.delay.value.data - 1
        if ends not in edges or weight < graph.edges[ends]["weight"]:
            graph.add_edge(*ends, weight=weight)
            edges[ends] = op
    try:
        lengths = nx.single_source_bellman_ford_path_length(graph, _START)
    except nx.NetworkXUnbounded:
        cycle = nx.find_negative_cycle(graph, _START)
        return {}, [edges[pair] for pair in pairwise(cycle) if pair in edges]
    return {name: -int(length) for name, length in lengths.items() if name != _START}, []
