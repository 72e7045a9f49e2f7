"""A NIR graph as plain data: nodes of named arrays, and edges; repaired and without subgraphs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from ...ir.arrays import Array
from ...ir.errors import SourceError
from ...ir.identifiers import free_name

Edge = tuple[str, str]
Value = Array | str
"""A field of a node: numbers, or a word such as the padding `same`."""

NirData = Mapping[str, object]
"""A node as `nir` writes it: nested dictionaries of numbers and words, of strangers."""

FIELDS: dict[str, tuple[str, ...]] = {
    "Input": ("shape",),
    "Output": ("shape",),
    "Affine": ("weight", "bias"),
    "Linear": ("weight",),
    "Scale": ("scale",),
    "Conv1d": ("input_shape", "weight", "stride", "padding", "dilation", "groups", "bias"),
    "Conv2d": ("input_shape", "weight", "stride", "padding", "dilation", "groups", "bias"),
    "SumPool2d": ("kernel_size", "stride", "padding"),
    "AvgPool2d": ("kernel_size", "stride", "padding"),
    "Flatten": ("input_type", "start_dim", "end_dim"),
    "Delay": ("delay",),
    "Threshold": ("threshold",),
    "I": ("r",),
    "LI": ("tau", "r", "v_leak"),
    "IF": ("r", "v_threshold", "v_reset"),
    "LIF": ("tau", "r", "v_leak", "v_threshold", "v_reset"),
    "CubaLI": ("tau_syn", "tau_mem", "r", "v_leak", "w_in"),
    "CubaLIF": ("tau_syn", "tau_mem", "r", "v_leak", "v_threshold", "v_reset", "w_in"),
}
"""The fields of each primitive of NIR 1.0, in its order."""

RESET = "reset"
"""The entry of a neuron's metadata that says what it does after a spike."""

EDGE_LIMIT = 1 << 22
"""The most edges that one end of a subgraph may stand for."""

DEPTH_LIMIT = 32
"""How deep subgraphs may stand in each other."""

_OPTIONAL = {"shape", "input_shape", "input_type", "v_reset", "w_in"}

MODELS: dict[str, str] = {
    "I": "integrator",
    "LI": "leaky_integrator",
    "IF": "integrate_fire",
    "LIF": "lif",
    "CubaLI": "cuba_integrator",
    "CubaLIF": "cuba_lif",
    "Threshold": "threshold",
}
"""The primitives that are neurons, and the model of a population that each is."""


@dataclass
class Node:
    """A primitive: its kind and its fields; `metadata` is its own.

    `reset` in the metadata of a neuron is what it does after a spike, `subtract` or, as without,
    `to_value`: an agreement of this project, for NIR has no word for the first.
    """

    kind: str
    values: dict[str, Value] = field(default_factory=dict[str, Value])
    metadata: dict[str, str] = field(default_factory=dict[str, str])

    def array(self, name: str) -> Array:
        """A field of numbers."""
        value = self.values[name]
        assert not isinstance(value, str)
        return value


@dataclass
class Graph:
    """Primitives by name, and edges between them; `metadata` is that of the whole file."""

    nodes: dict[str, Node]
    edges: list[Edge]
    metadata: NirData = field(default_factory=dict[str, object])

    def sources(self) -> dict[str, list[str]]:
        """For each node those with an edge to it, sorted."""
        by_target: dict[str, list[str]] = {name: [] for name in self.nodes}
        for source, target in sorted(self.edges):
            by_target[target].append(source)
        return by_target

    def targets(self) -> dict[str, list[str]]:
        """For each node those that it has an edge to, sorted."""
        by_source: dict[str, list[str]] = {name: [] for name in self.nodes}
        for source, target in sorted(self.edges):
            by_source[source].append(target)
        return by_source


def flat_graph(data: NirData, where: str) -> tuple[Graph, list[str]]:
    """The graph of a NIR dictionary, as `NIRGraph.to_dict` gives it, without subgraphs.

    The nodes of a subgraph get its name and a dot before their own. An edge at a subgraph means
    its one Input or Output, that of several which has the name of the other end, or the one that
    it names with a dot. Dangling and repeated edges are left out.

    Args:
        data: nested dictionaries of arrays and strings.
        where: the file, for messages.

    Returns:
        The graph, and a sentence for each repair.

    Raises:
        SourceError: what is no NIR graph, or cannot be repaired.
    """
    if data.get("type") != "NIRGraph":
        data = {"type": "NIRGraph", "nodes": {"node": data}, "edges": []}
    reader = _Reader(where)
    reader.read(data, "", 0)
    metadata = data.get("metadata")
    graph = Graph(reader.nodes, list(reader.edges))
    if isinstance(metadata, dict):
        graph.metadata = cast("NirData", metadata)
    _dissolve(graph, reader, where)
    return graph, reader.notes


class _Reader:
    """Gathers the nodes and edges of a graph and of the graphs in it.

    Attributes:
        subgraphs: by name the names of their Inputs and Outputs.
        dangling: by the end that is there, what is said of an edge whose other end is not.
    """

    def __init__(self, where: str) -> None:
        self.where = where
        self.nodes: dict[str, Node] = {}
        self.edges: dict[Edge, None] = {}
        self.subgraphs: dict[str, list[str]] = {}
        self.notes: list[str] = []
        self.dangling: dict[str, str] = {}

    def read(self, data: NirData, prefix: str, depth: int) -> None:
        raw = data.get("nodes")
        if not isinstance(raw, dict) or not raw:
            raise SourceError(f"{self.where}: the graph '{prefix[:-1]}' has no nodes")
        if depth > DEPTH_LIMIT:
            raise SourceError(f"{self.where}: graphs stand in each other deeper than {DEPTH_LIMIT}")
        members = cast("dict[str, object]", raw)
        for key in sorted(members):
            name, member = f"{prefix}{key}", members[key]
            if not isinstance(member, dict):
                raise SourceError(f"{self.where}: '{name}' is no node")
            inner = cast("NirData", member)
            if name in self.nodes or name in self.subgraphs:
                raise SourceError(f"{self.where}: two nodes are called '{name}'; rename one")
            if inner.get("type") == "NIRGraph":
                self.subgraphs[name] = []
                self.read(inner, f"{name}.", depth + 1)
                continue
            self.nodes[name] = node = _node(inner, name, self.where)
            if prefix and node.kind in ("Input", "Output"):
                self.subgraphs[prefix[:-1]].append(name)
        for pair in self._edges(data, prefix):
            source, target = (prefix + end for end in pair)
            absent = [e for e in (source, target) if not (e in self.nodes or e in self.subgraphs)]
            if absent:
                note = (
                    f"edge '{source}' -> '{target}' is left out, for there is no node '{absent[0]}'"
                )
                self.notes.append(note)
                self.dangling |= {source: note, target: note}
                continue
            ends = self._end(source, "Output", pair[1]), self._end(target, "Input", pair[0])
            if ends in self.edges:
                shown = f"'{source}' -> '{target}'"
                self.notes.append(f"edge {shown} stands there twice and is taken once")
            self.edges[ends] = None

    def _end(self, name: str, kind: str, other: str) -> str:
        """The node that an edge from or to `other` means by a name."""
        if name not in self.subgraphs:
            return name
        ends = [end for end in self.subgraphs[name] if self.nodes[end].kind == kind]
        named = [end for end in ends if end == f"{name}.{other}"]
        if len(named or ends) != 1:
            advice = f"name one of them, as in '{ends[0]}'" if ends else f"give it an {kind}"
            raise SourceError(
                f"{self.where}: an edge at the subgraph '{name}' needs one {kind} in it, "
                f"it has {len(ends)}; {advice}"
            )
        return (named or ends)[0]

    def _edges(self, data: NirData, prefix: str) -> Iterable[Edge]:
        """The edges as written."""
        for pair in cast("Iterable[Iterable[object]]", data.get("edges", ())):
            ends = [_text(item) for item in pair]
            if len(ends) != 2:
                raise SourceError(
                    f"{self.where}: expected pairs of names as edges, got {ends} in the graph "
                    f"'{prefix[:-1]}'"
                )
            yield ends[0], ends[1]


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _node(data: NirData, name: str, where: str) -> Node:
    """A primitive with all its fields, numbers as arrays."""
    kind = _text(data.get("type", ""))
    if kind not in FIELDS:
        raise SourceError(
            f"{where}: node '{name}' has the unknown type '{kind}'; NIR has {', '.join(FIELDS)}"
        )
    values: dict[str, Value] = {}
    for key in FIELDS[kind]:
        value = data.get(key)
        if isinstance(value, str | bytes):
            values[key] = _text(value)
        elif value is not None:
            values[key] = _numbers(value, f"{where}: {key} of node '{name}'")
        elif key not in _OPTIONAL:
            raise SourceError(f"{where}: node '{name}' ({kind}) has no {key}")
        words = ("padding",) if kind.startswith("Conv") else ()
        if isinstance(values.get(key), str) and key not in words:
            raise SourceError(f"{where}: {key} of node '{name}' must be numbers")
    if "v_threshold" in values and "v_reset" not in values:
        values["v_reset"] = np.zeros_like(values["v_threshold"])
    if kind in ("CubaLI", "CubaLIF") and "w_in" not in values:
        values["w_in"] = np.ones_like(values["v_leak"])
    metadata = data.get("metadata")
    stated = cast("NirData", metadata).get(RESET) if isinstance(metadata, dict) else None
    firing = "v_reset" in values and isinstance(stated, str | bytes)
    return Node(kind, values, {RESET: _text(stated)} if firing else {})


def _numbers(value: object, what: str) -> Array:
    array: Array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise SourceError(f"{what} must be numbers, got {array.dtype}")
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise SourceError(f"{what} holds NaN")
    return array


def _dissolve(graph: Graph, reader: _Reader, where: str) -> None:
    """Take out inputs and outputs of subgraphs that have edges on both sides."""
    sources = {name: set(ends) for name, ends in graph.sources().items()}
    targets = {name: set(ends) for name, ends in graph.targets().items()}
    for name in (end for ends in reader.subgraphs.values() for end in ends):
        inward = graph.nodes[name].kind == "Input"
        into, out = sources[name], targets[name]
        if (into and not out) if inward else (out and not into):
            way = "hands on to nothing" if inward else "receives nothing"
            reason = reader.dangling.get(name, "no edge in its subgraph is at it")
            raise SourceError(f"{where}: '{name}' {way}: {reason}; add that node or edge")
        if not into or not out:
            continue
        if len(into) * len(out) > EDGE_LIMIT:
            raise SourceError(f"{where}: more than {EDGE_LIMIT} edges go through '{name}'")
        for source in sorted(into):
            twice = sorted(out & targets[source])
            if twice:
                raise SourceError(
                    f"{where}: '{twice[0]}' gets the output of '{source}' twice, straight and "
                    f"through '{name}'; put a Scale into one of the two ways"
                )
            targets[source] = (targets[source] | out) - {name}
        for target in out:
            sources[target] = (sources[target] | into) - {name}
        del graph.nodes[name], sources[name], targets[name]
    graph.edges = sorted((source, target) for source in targets for target in targets[source])


def close_ends(graph: Graph, where: str) -> list[str]:
    """Give ends without an Input or Output one, as `nir` does; a sentence for each repair.

    Raises:
        SourceError: an edge into an Input or out of an Output.
    """
    notes: list[str] = []
    sources, targets = graph.sources(), graph.targets()
    for name, node in sorted(graph.nodes.items()):
        if (node.kind == "Input" and sources[name]) or (node.kind == "Output" and targets[name]):
            raise SourceError(f"{where}: an edge goes the wrong way at the {node.kind} '{name}'")
        if node.kind == "Output" and not sources[name]:
            notes.append(f"Output '{name}' is left out, for it receives nothing")
            del graph.nodes[name]
        if not sources[name] and node.kind not in ("Input", "Output"):
            new = free_name(f"input_{name}", graph.nodes, first=0)
            graph.nodes[new] = Node("Input")
            graph.edges.append((new, name))
            notes.append(f"node '{name}' receives nothing and gets the Input '{new}'")
        if not targets[name] and node.kind not in ("Input", "Output"):
            new = free_name(f"output_{name}", graph.nodes, first=0)
            graph.nodes[new] = Node("Output")
            graph.edges.append((name, new))
            notes.append(f"nothing receives what node '{name}' gives; it gets the Output '{new}'")
    return notes


def unit_delays(graph: Graph, delayed: Collection[str] = ()) -> set[Edge]:
    """The edges that close a cycle and so take a step: NIR states cycles without a delay.

    Found from the inputs in the order of names, so that they are the feedback of a network.

    Args:
        graph: the graph.
        delayed: the Delay nodes of at least one step; a cycle through one needs no other delay.
    """
    targets, loops = graph.targets(), set[Edge]()
    roots = sorted(graph.nodes, key=lambda name: (graph.nodes[name].kind != "Input", name))
    state: dict[str, int] = {}
    for root in roots:
        stack = [(root, 0)]
        while stack:
            name, index = stack.pop()
            if index == 0:
                if state.get(name):
                    continue
                state[name] = 1
            following = [] if name in delayed else targets[name]
            if index == len(following):
                state[name] = 2
                continue
            stack.append((name, index + 1))
            if state.get(following[index]) == 1:
                loops.add((name, following[index]))
            else:
                stack.append((following[index], 0))
    return loops
