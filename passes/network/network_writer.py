"""Writes the network of `build-network`: its inputs, populations, projections and probes."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import AnyFloat, ModuleOp, TensorType, f32, f64
from xdsl.ir import Operation, SSAValue

from ...dialects import spike
from ...dialects.parameters import Array
from ..analysis.compile_time import literal
from ..analysis.replacement import insert_before
from .network_parts import Arrival, Node, Signal

KINDS = {"integrator": "potential", "leaky_integrator": "potential", "relay": "sum"}
"""What populations are called that give no spikes."""


class NetworkWriter:
    """Writes the ops of a network.

    Attributes:
        names: the nodes that the results need, each after those that it receives from.
        probes: by node the name of its probe.
    """

    def __init__(self, module: ModuleOp, dt: float) -> None:
        self.module, self.dt = module, dt
        self.names: dict[Node, str] = {}
        self.probes: dict[Node, str] = {}
        self._taken: set[str] = set()
        self._literals: dict[SSAValue, SSAValue] = {}
        self._ops: list[Operation] = []

    def probe(self, signal: Signal, value: SSAValue) -> str:
        """Record a signal; the name of its probe."""
        assert isinstance(value.owner, Operation)
        node = signal.node(value.owner)
        if node.is_input:
            node = Node("relay", node.shape, value.owner, arrivals=[Arrival(node)])
        self._reach(node)
        if node not in self.probes:
            self.probes[node] = self._fresh(f"{self.names[node]}_out")
        return self.probes[node]

    def _reach(self, node: Node) -> None:
        """Name a node after all those that it receives from."""
        stack, seen = [(node, False)], set[Node]()
        while stack:
            current, done = stack.pop()
            if done:
                self.names[current] = self._fresh(_hint(current))
            elif current not in seen and current not in self.names:
                seen.add(current)
                stack.append((current, True))
                stack += [(arrival.source, False) for arrival in reversed(current.arrivals)]

    def _fresh(self, wish: str) -> str:
        name, number = wish, 1
        while name in self._taken:
            name, number = f"{wish}_{number}", number + 1
        self._taken.add(name)
        return name

    def network(self) -> spike.NetworkOp:
        """The network, put at the start of the module."""
        ends = [self._end(node, name) for node, name in self.names.items()]
        projections = [
            self._projection(arrival, node) for node in self.names for arrival in node.arrivals
        ]
        probes = [spike.ProbeOp(probe, self.names[node]) for node, probe in self.probes.items()]
        result = spike.NetworkOp("net", self.dt, [*self._ops, *ends, *projections, *probes])
        first = self.module.body.block.first_op
        assert first is not None
        insert_before(first, result)
        return result

    def _end(self, node: Node, name: str) -> Operation:
        if node.is_input:
            return spike.InputOp(name, node.shape, node.model)
        numbers: dict[str, float | SSAValue] = {
            key: self._literal(array.astype(np.float64), f"{name}.{key}", f64)
            if array.ndim
            else float(array)
            for key, array in node.parameters.items()
        }
        population = spike.PopulationOp(name, node.model, node.shape, numbers)
        return self._located(population, node.origin)

    def _projection(self, arrival: Arrival, target: Node) -> Operation:
        source, end = self.names[arrival.source], self.names[target]
        name = self._fresh(f"{source}_{end}")
        operands = {
            key: self._clone(value)
            if isinstance(value, SSAValue)
            else self._literal(np.asarray(value), f"{name}.{key}", f32)
            for key, value in arrival.operands.items()
        }
        options: dict[str, Any] = {**operands, **arrival.windows}
        projection = spike.ProjectionOp(
            name, source, end, connection=arrival.connection, delay=arrival.delay, **options
        )
        return self._located(projection, target.origin)

    def _literal(self, array: Array, key: str, element: AnyFloat) -> SSAValue:
        op = literal(self.module, key, array, TensorType(element, array.shape))
        self._ops.append(op)
        return op.results[0]

    def _clone(self, value: SSAValue) -> SSAValue:
        if value not in self._literals:
            assert isinstance(value.owner, Operation)
            op = value.owner.clone()
            op.results[0].name_hint = value.name_hint
            self._ops.append(op)
            self._literals[value] = op.results[0]
        return self._literals[value]

    def _located(self, op: Operation, origin: Operation | SSAValue) -> Operation:
        if isinstance(origin, Operation):
            op.location = origin.location
        return op


def _hint(node: Node) -> str:
    """A name for a node: what the program calls the value, or what it is."""
    value = node.origin.results[0] if isinstance(node.origin, Operation) else node.origin
    kind = "input" if node.is_input else KINDS.get(node.model, "neurons")
    hint = value.name_hint
    if hint is None:
        return kind
    return f"{hint}_{kind}" if node.model in KINDS else hint
