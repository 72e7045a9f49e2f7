"""A NIR graph in other words: resets that NIR lacks as nodes, and steps of another length.

Not here: the graph of a network (`graph`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ...dialects.spike.models import decay
from ...ir.arrays import Array
from ...ir.errors import LoweringError
from ..from_nir.graph import RESET, Edge, Graph, Node, Value


def with_reset_nodes(graph: Graph, fresh: Callable[[str, dict[str, Node]], str]) -> set[Edge]:
    """Write neurons that do not reset to a value as NIR's integrators, thresholds and scales.

    A potential v that loses the threshold θ with each spike is one that never resets and receives
    -β·θ/g times the spikes of the last step, where β is what a step leaves of it and g what it
    adds of its input: the integrator is `NAME.v` (of a CubaLIF its current `NAME.i` besides), the
    neuron a Threshold, and `NAME.reset` a Scale in a cycle, to which readers add a step.

    Args:
        graph: which is changed.
        fresh: gives a name that no node has.

    Returns:
        The edges that close such a cycle.

    Raises:
        LoweringError: a neuron whose input has no weight.
    """
    closing = set[Edge]()
    for name, node in list(graph.nodes.items()):
        reset = node.metadata.get(RESET)
        if reset is None:
            continue
        first = v = fresh(f"{name}.v", graph.nodes)
        kind, taken = {"IF": ("I", ("r",)), "LIF": ("LI", ("tau", "r", "v_leak"))}.get(
            node.kind, ("LI", ("tau_mem", "r", "v_leak"))
        )
        graph.nodes[v] = Node(kind, {key.removesuffix("_mem"): node.values[key] for key in taken})
        if node.kind == "CubaLIF":
            first = fresh(f"{name}.i", graph.nodes)
            still = np.zeros_like(node.array("v_leak"))
            current = {"tau": node.array("tau_syn"), "r": node.array("w_in"), "v_leak": still}
            graph.nodes[first] = Node("LI", {**current})
        threshold = node.array("v_threshold")
        edges = {(a, first if b == name else b) for a, b in graph.edges} | {(v, name)}
        edges |= {(first, v)} if first != v else set()
        graph.nodes[name] = Node("Threshold", {"threshold": threshold})
        if reset == "subtract":
            back = fresh(f"{name}.reset", graph.nodes)
            scale = -threshold * _kept_per_input(graph, graph.nodes[v], name)
            graph.nodes[back] = Node("Scale", {"scale": scale.astype(threshold.dtype)})
            edges |= {(name, back), (back, v)}
            closing.add((back, v))
        graph.edges = sorted(edges)
    return closing


def _kept_per_input(graph: Graph, node: Node, name: str) -> Array:
    """β/g of an I or LI: what a step leaves of a potential, for what it adds of an input."""
    dt, integration = graph.metadata["dt"], graph.metadata["integration"]
    assert isinstance(dt, float) and isinstance(integration, str)
    r = node.array("r").astype(np.float64)
    kept = decay(node.array("tau"), dt, integration) if node.kind == "LI" else np.ones_like(r)
    gain = r * (1 - kept if node.kind == "LI" else dt)
    if not gain.all():
        raise LoweringError(
            f"@{name} adds nothing of its input, so nothing can reset it; remove it"
        )
    return kept / gain


def retimed(graph: Graph, dt: float) -> Graph:
    """The graph for steps of `dt` seconds, each of which does what one did before.

    Time constants and delays grow as the steps do, and integrators without one add as much less.
    """
    before = graph.metadata["dt"]
    assert isinstance(before, float)
    factor = dt / before

    def scaled(kind: str, key: str, value: Value) -> Value:
        if isinstance(value, str):
            return value
        if key.startswith("tau") or key == "delay":
            return (value * factor).astype(value.dtype)
        if key == "r" and kind in ("I", "IF"):
            return (value / factor).astype(value.dtype)
        return value

    nodes = {
        name: replace(n, values={key: scaled(n.kind, key, v) for key, v in n.values.items()})
        for name, n in graph.nodes.items()
    }
    return replace(graph, nodes=nodes, metadata={**graph.metadata, "dt": dt})
