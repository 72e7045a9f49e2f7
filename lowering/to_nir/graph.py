"""NIR's nodes and edges of a network: relays go, projections become the nodes between neurons."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import numpy as np
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

from ...dialects.spike import InputOp, NetworkOp, PopulationOp, ProbeOp, ProjectionOp
from ...ir.identifiers import free_name
from ..emission import UnsupportedOps
from ..from_nir.graph import Edge, Graph, Node, unit_delays
from .forms import with_reset_nodes
from .nodes import Inexpressible, delay, marks, neuron, own_steps, plain, synapses

Resets = Literal["refuse", "metadata", "nodes"]
"""What becomes of neurons that do not reset to a value: see `NirOptions`."""


def graph_of(network: NetworkOp, unsupported: UnsupportedOps, resets: Resets = "refuse") -> Graph:
    """The NIR graph of a network; what NIR cannot hold goes to `unsupported`.

    `resets` says what becomes of neurons that do not reset to a value.

    NIR states feedback without a delay, and every simulator adds a step. So the step of a
    projection that closes a cycle is left out where the importer would add the very same; else all
    delays become Delay nodes.
    """
    writer = _Writer(network, unsupported, resets)
    feedback = [op for op in writer.projections if _steps(op) == 1 and writer.closes_cycle(op)]
    graph = writer.graph(feedback)
    if graph is None or not _same_steps(writer, graph, feedback):
        graph = writer.graph([])
    assert graph is not None
    return graph


def _steps(op: ProjectionOp) -> int:
    """The steps that no Delay node of the source stands for."""
    return op.delay.value.data - own_steps(op)


def _same_steps(writer: _Writer, graph: Graph, feedback: list[ProjectionOp]) -> bool:
    """Whether the importer would delay just the projections of `feedback`."""
    waiting = [
        name
        for name, node in graph.nodes.items()
        if node.kind == "Delay" and node.array("delay").min() >= writer.dt / 2
    ]
    closing = unit_delays(graph, waiting) - writer.resetting
    for op in feedback:
        into, out = writer.crossing[op.sym_name.data]
        chained = bool(writer.chains[op.sym_name.data])
        if not (into and into <= closing) and not (chained and out and out <= closing):
            return False
    names = {op.sym_name.data for op in feedback}
    for edge in closing:
        crossing = [n for n in names if edge in set[Edge]().union(*writer.crossing[n])]
        if len(crossing) != 1:
            return False
    return True


class _Writer:
    """Gathers nodes and edges.

    Attributes:
        chains: by projection the nodes that it became.
        crossing: by projection the edges into those nodes and out of them; both the same where it
            became none.
        resetting: the edges that close the cycle of a reset.
    """

    def __init__(self, network: NetworkOp, unsupported: UnsupportedOps, resets: Resets) -> None:
        self.resets, self.resetting = resets, set[Edge]()
        ops = list(network.body.block.ops)
        self.network, self.unsupported, self.dt = network, unsupported, network.dt.value.data
        self.projections = [op for op in ops if isinstance(op, ProjectionOp)]
        self.ends = [op for op in ops if isinstance(op, InputOp | PopulationOp)]
        self.probes = [op for op in ops if isinstance(op, ProbeOp)]
        self.arriving: dict[str, list[ProjectionOp]] = {op.sym_name.data: [] for op in self.ends}
        for op in self.projections:
            self.arriving[op.target.string_value()].append(op)
        self.relays = {
            op.sym_name.data
            for op in self.ends
            if isinstance(op, PopulationOp) and op.model.data == "relay"
        }
        self.chains: dict[str, list[str]] = {}
        self.crossing: dict[str, tuple[set[Edge], set[Edge]]] = {}
        self.converted: dict[str, list[Node] | None] = {}
        self.refused: set[Operation] = set()
        self.names = {_name(op) for op in ops}

    def closes_cycle(self, op: ProjectionOp) -> bool:
        """Whether the source of a projection can be reached from its target."""
        seen: set[str] = set()
        pending = [op.source.string_value()]
        while pending:
            name = pending.pop()
            if name not in seen:
                seen.add(name)
                pending += [p.source.string_value() for p in self.arriving[name]]
        return op.target.string_value() in seen

    def refuse(self, op: Operation, reason: str) -> None:
        if op not in self.refused:
            self.refused.add(op)
            self.unsupported.add(op, reason)

    def fresh(self, wish: str, nodes: dict[str, Node]) -> str:
        return free_name(wish, nodes.keys() | self.names, ".")

    def graph(self, feedback: list[ProjectionOp]) -> Graph | None:
        """The graph without the steps of `feedback`; `None` for a cycle of relays alone."""
        nodes: dict[str, Node] = {}
        for op in self.ends:
            name = op.sym_name.data
            if isinstance(op, InputOp):
                nodes[name] = Node("Input", {"shape": np.array(op.shape.get_values(), np.int64)})
            elif name not in self.relays:
                try:
                    nodes[name] = neuron(op, self.resets != "refuse")
                except Inexpressible as reason:
                    self.refuse(op, str(reason))
        edges: set[Edge] = set()
        for op in self.projections:
            self.add_chain(op, op in feedback, nodes, edges)
        origins = _Origins(self)
        try:
            self.connect(origins, nodes, edges)
        except _RelayCycle:
            return None
        metadata = {"dt": self.dt, "integration": self.network.integration.data}
        known = {(a, b) for a, b in edges if a in nodes and b in nodes}
        self.check_names(nodes)
        graph = Graph(nodes, sorted(known), metadata)
        if self.resets == "nodes":
            self.resetting = with_reset_nodes(graph, self.fresh)
        return graph

    def add_chain(
        self, op: ProjectionOp, feedback: bool, nodes: dict[str, Node], edges: set[Edge]
    ) -> None:
        """The nodes of a projection, and the edges between them."""
        name, links = op.sym_name.data, list[Node]()
        bare = plain(op)
        marked = bool(marks(op)) and bare
        steps = op.delay.value.data - feedback
        if steps or op.delays is not None or marked:
            links.append(delay(op, steps, self.dt))
        if name not in self.converted:
            try:
                self.converted[name] = [] if bare else synapses(op)
            except Inexpressible as reason:
                self.refuse(op, str(reason))
                self.converted[name] = None
        links += self.converted[name] or []
        main = len(links) - 1
        chain: list[str] = []
        for index, node in enumerate(links):
            wish = name if index == main else self.fresh(f"{name}.{node.kind.lower()}", nodes)
            nodes[wish] = node
            chain.append(wish)
        edges.update(pairwise(chain))
        self.chains[name] = chain

    def connect(self, origins: _Origins, nodes: dict[str, Node], edges: set[Edge]) -> None:
        """The edges between nodes of different ops, and the Outputs."""
        for op in self.projections:
            name, chain = op.sym_name.data, self.chains[op.sym_name.data]
            sources = origins.of(op.source.string_value())
            if chain and not sources and self.converted[name] is not None:
                self.refuse(op, f"@{name} comes from a relay that receives nothing; remove it")
            into = {(source, chain[0]) for source in sources} if chain else set[Edge]()
            edges |= into
            self.crossing[name] = (into, set())
        for name in self.arriving:
            if name not in self.relays:
                edges |= self.gather(origins, name, name)
        for probe in self.probes:
            name, watched = probe.sym_name.data, probe.target.string_value()
            if probe.variable.data != "output":
                self.refuse(
                    probe,
                    f"@{name}: NIR's Output is what a neuron gives; watch its output, or run the "
                    "network here",
                )
            shape = probe.population().shape.get_values()
            nodes[name] = Node("Output", {"shape": np.array(shape, np.int64)})
            edges |= self.gather(origins, watched, name)
        for op in self.projections:
            name, chain = op.sym_name.data, self.chains[op.sym_name.data]
            out = {edge for edge in edges if chain and edge[0] == chain[-1]}
            if not chain:
                sources = set(origins.of(op.source.string_value()))
                targets = self.receivers(op.target.string_value(), set())
                out = {(a, b) for a, b in edges if a in sources and b in targets}
                self.crossing[name] = (out, out)
            else:
                self.crossing[name] = (self.crossing[name][0], out)

    def receivers(self, name: str, seen: set[str]) -> set[str]:
        """The nodes that get what a population gathers."""
        if name not in self.relays:
            return {name}
        if name in seen:
            return set()
        seen.add(name)
        names = {p.sym_name.data for p in self.probes if p.target.string_value() == name}
        for op in self.projections:
            if op.source.string_value() == name:
                chain = self.chains[op.sym_name.data]
                names |= {chain[0]} if chain else self.receivers(op.target.string_value(), seen)
        return names

    def gather(self, origins: _Origins, name: str, node: str) -> set[Edge]:
        """The edges that bring to `node` what the population `name` gives or gathers."""
        own = name == node
        sources = origins.arriving(name) if own else origins.of(name)
        if len(set(sources)) != len(sources):
            op = next(op for op in self.ends if op.sym_name.data == name)
            twice = next(source for source in sources if sources.count(source) > 1)
            self.refuse(
                op,
                f"@{name} receives '{twice}' twice, and NIR has an edge once; make the two "
                "projections one of twice the weight",
            )
        return {(source, node) for source in sources}

    def check_names(self, nodes: dict[str, Node]) -> None:
        for op in self.network.body.block.ops:
            name = _name(op)
            if "/" in name or "\0" in name or name in (".", ".."):
                self.refuse(op, f"@{name}: HDF5 cannot have that name; rename it without '/'")


def _name(op: Operation) -> str:
    """The name of an op of a network; empty for a parameter."""
    symbol = op.properties.get("sym_name")
    return symbol.data if isinstance(symbol, StringAttr) else ""


class _RelayCycle(Exception):
    """Relays that hand on to each other in a circle."""


class _Origins:
    """What the relays of a network stand for: the nodes whose sum they are."""

    def __init__(self, writer: _Writer) -> None:
        self.writer = writer
        self.known: dict[str, list[str]] = {}
        self.open: set[str] = set()

    def of(self, name: str) -> list[str]:
        """The nodes whose sum a population or input gives."""
        if name not in self.writer.relays:
            return [name]
        if name not in self.known:
            if name in self.open:
                raise _RelayCycle
            self.open.add(name)
            self.known[name] = self.arriving(name)
        return self.known[name]

    def arriving(self, name: str) -> list[str]:
        """The nodes whose sum a population receives."""
        names: list[str] = []
        for op in self.writer.arriving[name]:
            chain = self.writer.chains[op.sym_name.data]
            names += chain[-1:] or self.of(op.source.string_value())
        return names
