"""The graph level: networks of populations and projections, one to one with NIR and PyNN.

Here stand the network and its inputs. `population` has neurons and probes, `projection` synapses,
`models` what the neurons are, `network_graph` how it hangs together, `simulate` and
`interpret_network` what it computes.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import (
    DenseArrayBase,
    FlatSymbolRefAttrConstr,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
    f64,
)
from xdsl.ir import Block, Operation, Region
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    prop_def,
    region_def,
    traits_def,
)
from xdsl.traits import (
    HasParent,
    IsolatedFromAbove,
    NoTerminator,
    SymbolOpInterface,
    SymbolTable,
)
from xdsl.utils.exceptions import VerifyException

from ...ir.definition import irdl_op_definition
from ..fields import parts
from ..shapes import integer
from .models import INTEGRATIONS
from .types import positive_seconds

SIGNALS = ("spikes", "current")


@irdl_op_definition
class NetworkOp(IRDLOperation):
    """A network of spiking neurons as a graph, in steps of `dt` seconds.

    Its body holds inputs, populations, projections and probes, each with a name of its own, and the
    parameters that they take. `integration` says how time constants become decays: `euler`
    1 - dt/τ, or `exact` e^(-dt/τ). Spikes travel in no time unless a projection has a delay, so
    every cycle needs one. `network_graph.to_networkx` gives it as a graph of networkx.

        spike.network @net dt = 1.000000e-03 {
          %w = ternary.parameter "fc.weight" : tensor<784x10x!ternary.trit>
          spike.input @pixels {shape = array<i64: 784>}
          spike.population @out {model = "lif", shape = array<i64: 10>,
              parameters = {tau = 2.000000e-02 : f64}}
          spike.projection @fc @pixels -> @out weights(%w : tensor<784x10x!ternary.trit>)
          spike.probe @spikes @out
        }
    """

    name = "spike.network"

    sym_name = prop_def(SymbolNameConstraint())
    dt = prop_def(FloatAttr[Float64Type])
    integration = prop_def(StringAttr, default_value=StringAttr("euler"))
    body = region_def("single_block")

    traits = traits_def(SymbolOpInterface(), SymbolTable(), NoTerminator(), IsolatedFromAbove())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$sym_name `dt` `=` $dt attr-dict-with-keyword $body"

    def __init__(
        self, name: str, dt: float, ops: Sequence[Operation] = (), integration: str = "euler"
    ) -> None:
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "dt": FloatAttr(dt, f64),
                "integration": StringAttr(integration),
            },
            regions=[Region(Block(ops))],
        )

    def verify_(self) -> None:
        positive_seconds(self, self.dt, "dt")
        one_of(self, "integration", self.integration.data, INTEGRATIONS)
        part = HasParent(NetworkOp)
        for op in self.body.block.ops:
            if not op.has_trait(part) and (op.operands or len(op.results) != 1):
                raise VerifyException(
                    f"'{self.name}' expects inputs, populations, projections, probes and "
                    f"parameters, got '{op.name}'"
                )
        cycle = undelayed_cycle(self)
        if cycle:
            shown = " -> ".join(f"@{name}" for name in (*cycle, cycle[0]))
            raise VerifyException(
                f"'{self.name}' expects a delay of at least 1 in every cycle, {shown} has none"
            )


class PartOp(IRDLOperation, ABC):
    """A part of a network: built of its operands and properties, as `fields.parts` takes them."""

    sym_name = prop_def(SymbolNameConstraint())

    traits = traits_def(SymbolOpInterface(), HasParent(NetworkOp))
    irdl_options = (ParsePropInAttrDict(),)

    def __init__(self, *given: Any, **named: Any) -> None:
        operands, properties, _ = parts(self, given, named)
        super().__init__(operands=operands, properties=properties)


class NodeOp(PartOp, ABC):
    """Where an edge of a network begins or ends."""

    shape = prop_def(DenseArrayBase[IntegerType])


class EdgeOp(PartOp, ABC):
    """What carries spikes from node to node by a `connection`, `delay` steps later."""

    source = prop_def(FlatSymbolRefAttrConstr)
    target = prop_def(FlatSymbolRefAttrConstr)
    connection = prop_def(StringAttr, default_value=StringAttr("linear"))
    delay = prop_def(IntegerAttr[IntegerType], default_value=integer(0))


@irdl_op_definition
class InputOp(NodeOp):
    """Where spikes, or a `current`, enter the network (NIR's Input, a source of PyNN).

    spike.input @pixels {shape = array<i64: 784>}
    """

    name = "spike.input"

    signal = prop_def(StringAttr, default_value=StringAttr("spikes"))

    assembly_format = "$sym_name attr-dict"

    def verify_(self) -> None:
        check_shape(self, self.sym_name.data, self.shape)
        one_of(self, "signal", self.signal.data, SIGNALS)

    def spikes(self) -> bool:
        """Whether it gives spikes; else currents."""
        return self.signal.data == "spikes"


def undelayed_sources(network: NetworkOp) -> dict[str, list[str]]:
    """For each node those that it waits for within a step."""
    ops = network.body.block.ops
    waits: dict[str, list[str]] = {op.sym_name.data: [] for op in ops if isinstance(op, NodeOp)}
    for edge in ops:
        if not isinstance(edge, EdgeOp):
            continue
        source, target = edge.source.string_value(), edge.target.string_value()
        if edge.delay.value.data == 0 and source in waits and target in waits:
            waits[target].append(source)
    return waits


def undelayed_cycle(network: NetworkOp) -> list[str]:
    """The names along a cycle of projections without delay; empty if there is none."""
    waits = undelayed_sources(network)
    safe: set[str] = set()
    for start in waits:
        path: list[str] = []
        pending = [(start, 0)]
        while pending:
            name, index = pending.pop()
            if index == 0:
                if name in path:
                    return path[path.index(name) :][::-1]
                if name in safe:
                    continue
                path.append(name)
            if index < len(waits[name]):
                pending += [(name, index + 1), (waits[name][index], 0)]
            else:
                path.pop()
                safe.add(name)
    return []


def lookup(
    op: Operation, name: SymbolRefAttr, kinds: tuple[type[Operation], ...], wanted: str
) -> Operation:
    """The op beside `op`, in its network, that has the given name.

    Raises:
        VerifyException: there is none, or it is none of `kinds`, in words `wanted`.
    """
    network = op.parent_op()
    own = op.get_attr_or_prop("sym_name")
    where = f"'{op.name}' @{own.data if isinstance(own, StringAttr) else ''}"
    match = None
    if network is not None:
        for other in network.regions[0].block.ops:
            symbol = other.get_attr_or_prop("sym_name")
            if symbol == name.root_reference:
                match = other
    if match is None:
        raise VerifyException(f"{where} refers to {name}, which the network does not have")
    if not isinstance(match, kinds):
        raise VerifyException(f"{where} expects {wanted}, {name} is a '{match.name}'")
    return match


def one_of(op: Operation, what: str, value: str, allowed: Sequence[str]) -> None:
    """Refuse a property that is none of `allowed`."""
    if value not in allowed:
        raise VerifyException(
            f"'{op.name}' expects {what} one of {', '.join(allowed)}, got '{value}'"
        )


def check_shape(op: Operation, name: str, shape: DenseArrayBase[IntegerType]) -> None:
    """Refuse a shape without sizes, or with one below 1."""
    sizes = shape.get_values()
    if not sizes or min(sizes) < 1:
        raise VerifyException(
            f"'{op.name}' @{name} expects a shape of sizes of at least 1, got {list(sizes)}"
        )
