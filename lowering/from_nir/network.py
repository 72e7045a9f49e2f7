"""Writes the `spike.network` of a NIR graph.

Neurons are populations, Inputs inputs, Outputs probes; what lies between is a projection, from and
to relays where a node between has several ends or no neuron beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FloatAttr,
    FunctionType,
    ModuleOp,
    NameLoc,
    StringAttr,
    TensorType,
    f32,
    f64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ...dialects.parameters import add_parameter
from ...dialects.shapes import DYNAMIC, integer
from ...dialects.spike import (
    TIME_STEP,
    InputOp,
    NetworkOp,
    PopulationOp,
    ProbeOp,
    ProjectionOp,
    SimulateOp,
)
from ...dialects.spike.models import least_time
from ...ir.errors import SourceError
from ...ir.identifiers import free_name
from ...ir.locations import file_location
from ...ir.neurons.arithmetic import RESETS
from ...ir.value_names import NAME_ATTRIBUTE
from .graph import FIELDS, MODELS, RESET, Array, Graph, Node, unit_delays
from .shapes import Shape, flatten_axes, group_count, kernel, window
from .values import block_diagonal, floats, one_number, weights

NODE = "nir.node"
"""The attribute of a projection that says which primitive it was, where NIR has several ways."""

NETWORK = "net"

_STEP_LIMIT = 1 << 31


class ProjectionOptions(TypedDict, total=False):
    """What `ProjectionOp` takes besides its name and ends."""

    weights: SSAValue
    bias: SSAValue
    connection: str
    delay: int
    delays: SSAValue
    kernel: Sequence[int]
    strides: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]
    groups: int


@dataclass(frozen=True)
class Timing:
    """Seconds in a step, and how time constants become decays; `None` chooses."""

    dt: float
    integration: str | None


def network_module(
    graph: Graph,
    shapes: Mapping[str, tuple[Shape, Shape]],
    timing: Timing,
    where: str,
    notes: list[str],
) -> ModuleOp:
    """The module of a graph; adds a sentence to `notes` for everything that is not as it says.

    Raises:
        SourceError: values that no network has, such as time constants of 0.
    """
    integration = timing.integration or _integration(graph, timing.dt, notes)
    module = ModuleOp([])
    network = NetworkOp(NETWORK, timing.dt, integration=integration)
    builder = _Builder(graph, shapes, module, network, where, notes)
    builder.check_times()
    builder.build()
    module.body.block.add_op(network)
    network.location = module.location = builder.place(NETWORK)
    if any(n.kind == "Input" for n in graph.nodes.values()) and builder.probes:
        _add_forward(module, network)
    return module


def _integration(graph: Graph, dt: float, notes: list[str]) -> str:
    for name, node in sorted(graph.nodes.items()):
        for key, value in node.values.items():
            if (
                key.startswith("tau")
                and not isinstance(value, str)
                and (value < least_time(dt)).any()
            ):
                notes.append(
                    f"{key} of node '{name}' is shorter than a step of {dt:g} s, so decays are "
                    "exact instead of Euler's; give a smaller dt for those"
                )
                return "exact"
    return "euler"


class _Builder:
    """Puts the ops of a graph into a network, in the order of names."""

    def __init__(
        self,
        graph: Graph,
        shapes: Mapping[str, tuple[Shape, Shape]],
        module: ModuleOp,
        network: NetworkOp,
        where: str,
        notes: list[str],
    ) -> None:
        self.graph, self.shapes, self.module, self.network = graph, shapes, module, network
        self.where, self.notes = where, notes
        self.sources, self.targets = graph.sources(), graph.targets()
        self.names = set(graph.nodes)
        self.relays: dict[tuple[str, str], str] = {}
        self.steps = {
            name: self.delay_steps(name) for name, n in graph.nodes.items() if n.kind == "Delay"
        }
        waiting = [name for name, steps in self.steps.items() if steps.min() >= 1]
        self.unit = unit_delays(graph, waiting)
        self.probes: dict[str, str] = {}

    def place(self, name: str) -> NameLoc:
        """The location of what comes from a node."""
        return NameLoc(StringAttr(name), file_location(self.where, 1))

    def says(self, name: str) -> str:
        return f"{self.where}: node '{name}' ({self.graph.nodes[name].kind})"

    def check_times(self) -> None:
        """Refuse time constants that no step can hold."""
        dt, integration = self.network.dt.value.data, self.network.integration.data
        least = least_time(dt) if integration == "euler" else 0.0
        for name, node in sorted(self.graph.nodes.items()):
            for key in FIELDS[node.kind]:
                if not key.startswith("tau"):
                    continue
                value = node.array(key)
                if (value <= 0).any() or (value < least).any() or not np.isfinite(value).all():
                    raise SourceError(
                        f"{self.says(name)}: expected {key} above 0 and, in Euler steps, of at "
                        f"least {dt:g} s, got {value.min():g}; give a smaller dt"
                    )

    def build(self) -> None:
        """Inputs, populations, projections, probes."""
        kinds = {name: node.kind for name, node in sorted(self.graph.nodes.items())}
        between = [n for n, kind in kinds.items() if kind not in (*MODELS, "Input", "Output")]
        for name, kind in kinds.items():
            if kind == "Input":
                self.add(name, InputOp(name, self.shapes[name][0], "current"))
            elif kind in MODELS:
                self.add_population(name)
        self.choose_probes()
        for name in between:
            self.add_projection(name)
        for source, target in sorted(self.graph.edges):
            entry = self.entry(target)
            if entry is not None and not self.direct(source):
                self.add_identity(source, target, entry)
        for name, kind in kinds.items():
            if kind == "Output":
                watched = self.probes[name]
                self.add(name, ProbeOp(name, watched))
        ordered = sorted(self.network.body.block.ops, key=_rank)
        for op in ordered:
            op.detach()
        self.network.body.block.add_ops(ordered)

    def add(self, node: str, op: Operation) -> None:
        """Append an op that comes from a node."""
        op.location = self.place(node)
        self.network.body.block.add_op(op)

    def parameter(self, node: str, key: str, values: Array) -> SSAValue:
        """A parameter named after the node and its field."""
        op = add_parameter(self.module, f"{node}.{key}", values)
        self.add(node, op)
        return op.results[0]

    def fresh(self, wish: str) -> str:
        """A name that nothing in the network has."""
        name = free_name(wish, self.names, ".")
        self.names.add(name)
        return name

    def relay(self, node: str, side: str) -> str:
        """The relay in front of (`in`) or behind (`out`) a node."""
        if (node, side) not in self.relays:
            name = self.relays[node, side] = self.fresh(f"{node}.{side}")
            self.add(node, PopulationOp(name, "relay", self.shapes[node][side == "out"]))
        return self.relays[node, side]

    def between(self, name: str) -> bool:
        return self.graph.nodes[name].kind not in (*MODELS, "Input", "Output")

    def choose_probes(self) -> None:
        """Let each Output watch what it gets, or a relay where that is not one population."""
        watched: set[str] = set()
        for name, node in sorted(self.graph.nodes.items()):
            if node.kind == "Output":
                sources = self.sources[name]
                plain = len(sources) == 1 and self.graph.nodes[sources[0]].kind != "Input"
                if plain and sources[0] not in watched:
                    watched.add(sources[0])
                    self.probes[name] = ""
        for name, fields in self.probes.items():
            self.probes[name] = fields or self.exit(self.sources[name][0])
        for name, node in sorted(self.graph.nodes.items()):
            if node.kind == "Output" and name not in self.probes:
                self.probes[name] = self.relay(name, "in")

    def entry(self, name: str) -> str | None:
        """The population that gathers what comes to a node; `None` where its one source stands."""
        kind = self.graph.nodes[name].kind
        if kind in MODELS:
            return name
        if kind == "Output":
            return self.relays.get((name, "in"))
        return self.relay(name, "in") if len(self.sources[name]) > 1 else None

    def direct(self, name: str) -> bool:
        """Whether a node between projects straight into what gathers for its one target."""
        targets = self.targets[name]
        return self.between(name) and len(targets) == 1 and self.entry(targets[0]) is not None

    def exit(self, name: str) -> str:
        """The input or population that has what a node gives."""
        return self.relay(name, "out") if self.between(name) else name

    def add_population(self, name: str) -> None:
        node = self.graph.nodes[name]
        parameters: dict[str, float | SSAValue] = {}
        for key in FIELDS[node.kind]:
            values = floats(node.array(key), f"{self.says(name)}: {key}")
            number = one_number(values)
            parameters[key] = self.parameter(name, key, values) if number is None else number
        model, shape = MODELS[node.kind], self.shapes[name][0]
        reset = node.metadata.get(RESET, "to_value")
        if reset not in RESETS:
            raise SourceError(
                f"{self.says(name)}: reset in its metadata is '{reset}'; expected "
                f"{' or '.join(RESETS)}"
            )
        self.add(name, PopulationOp(name, model, shape, parameters, reset=reset))

    def add_identity(self, source: str, target: str, entry: str) -> None:
        name = self.fresh(f"{source}->{target}")
        delay = int((source, target) in self.unit)
        op = ProjectionOp(name, self.exit(source), entry, connection="one_to_one", delay=delay)
        self.add(target, op)

    def add_projection(self, name: str) -> None:
        sources, targets = self.sources[name], self.targets[name]
        entry = self.entry(name)
        start = self.exit(sources[0]) if entry is None else entry
        end = self.entry(targets[0]) if self.direct(name) else None
        delay = int(entry is None and (sources[0], name) in self.unit)
        delay += int(end is not None and (name, targets[0]) in self.unit)
        end = self.relay(name, "out") if end is None else end
        options, marks = self.projection(name)
        options["delay"] = options.get("delay", 0) + delay
        op = ProjectionOp(name, start, end, **options)
        if marks:
            op.attributes[NODE] = DictionaryAttr(marks)
        self.add(name, op)

    def projection(self, name: str) -> tuple[ProjectionOptions, dict[str, Attribute]]:
        """The arguments of a node's projection, and what to remember of the node."""
        node, shape, says = self.graph.nodes[name], self.shapes[name][0], self.says(name)
        kind, options, marks = node.kind, ProjectionOptions(), dict[str, Attribute]()
        if kind in ("Affine", "Linear"):
            matrix = weights(node.array("weight"), f"{says}: weight")
            if matrix.ndim > 2:
                marks["kind"] = StringAttr(kind)
                matrix = block_diagonal(matrix, says)
            options["weights"] = self.parameter(name, "weight", matrix.T)
        elif kind == "Scale":
            values = weights(node.array("scale"), f"{says}: scale")
            options |= {
                "connection": "one_to_one",
                "weights": self.parameter(name, "scale", values),
            }
        elif kind == "Flatten":
            start, end = flatten_axes(node, shape, says)
            marks["kind"] = StringAttr(kind)
            marks |= {"start": integer(start), "end": integer(end)}
            options["connection"] = "one_to_one"
        elif kind == "Delay":
            options, marks = self.delay(name)
        else:
            geometry = window(node, shape, says)
            options |= {"strides": geometry.strides, "padding": geometry.padding}
            if kind.endswith("Pool2d"):
                options["connection"] = "avg_pool" if kind == "AvgPool2d" else "sum_pool"
                options["kernel"] = kernel(node, says)
            else:
                matrix = weights(node.array("weight"), f"{says}: weight")
                options["connection"] = "conv"
                options["weights"] = self.parameter(name, "weight", matrix)
                options |= {"dilation": geometry.dilation, "groups": group_count(node, says)}
                if isinstance(node.values["padding"], str):
                    marks["padding"] = StringAttr(node.values["padding"])
        if "bias" in node.values:
            options["bias"] = self.parameter(name, "bias", self.bias(name, node))
        return options, marks

    def bias(self, name: str, node: Node) -> Array:
        values = floats(node.array("bias"), f"{self.says(name)}: bias")
        weight = node.array("weight")
        channels = weight.shape[:1] if node.kind.startswith("Conv") else weight.shape[:-1]
        try:
            return np.broadcast_to(values, channels).reshape(-1)
        except ValueError:
            shown = channels[0] if len(channels) == 1 else list(channels)
            raise SourceError(
                f"{self.says(name)}: expected a bias of {shown}, got {list(values.shape)}"
            ) from None

    def delay(self, name: str) -> tuple[ProjectionOptions, dict[str, Attribute]]:
        steps, delays = self.steps[name], self.graph.nodes[name].array("delay")
        least = int(steps.min())
        options: ProjectionOptions = {"connection": "one_to_one", "delay": least}
        if (steps != least).any():
            options["delays"] = self.parameter(name, "delay", steps - least)
        single = delays.dtype == np.float32
        marks: dict[str, Attribute] = {
            "kind": StringAttr("Delay"),
            "steps": integer(least),
            "type": f32 if single else f64,
        }
        return options, marks

    def delay_steps(self, name: str) -> Array:
        """The steps of a Delay, whose time is in seconds."""
        delays = self.graph.nodes[name].array("delay")
        exact = delays.astype(np.float64) / self.network.dt.value.data
        if not ((exact >= 0) & (exact < _STEP_LIMIT)).all():
            raise SourceError(
                f"{self.says(name)}: expected delays in seconds of at least 0 and below "
                f"{_STEP_LIMIT} steps"
            )
        steps: Array = np.rint(exact).astype(np.int64)
        far = np.abs(exact - steps) > 1e-5 * np.maximum(steps, 1)
        if far.any():
            self.notes.append(
                f"the delay of {delays.reshape(-1)[far.reshape(-1)][0]:g} s of node '{name}' is "
                f"rounded to whole steps of {self.network.dt.value.data:g} s"
            )
        return steps


def _rank(op: Operation) -> int:
    """Inputs and populations with their parameters, then projections with theirs, then probes."""
    user = op
    if not isinstance(op, InputOp | PopulationOp | ProjectionOp | ProbeOp):
        user = next(use.operation for use in op.results[0].uses)
    return 0 if isinstance(user, InputOp | PopulationOp) else 2 if isinstance(user, ProbeOp) else 1


def _add_forward(module: ModuleOp, network: NetworkOp) -> None:
    """A function from currents of the inputs to what the probes record."""
    inputs = [op for op in network.body.block.ops if isinstance(op, InputOp)]
    probes = [op for op in network.body.block.ops if isinstance(op, ProbeOp)]
    types = [TensorType(f32, (DYNAMIC, DYNAMIC, *op.shape.get_values())) for op in inputs]
    block = Block(arg_types=types)
    run = SimulateOp(network, block.args)
    end = ReturnOp(*run.results)
    block.add_ops([run, end])
    function = FuncOp(
        "forward",
        FunctionType.from_lists(types, [result.type for result in run.results]),
        Region(block),
        arg_attrs=_named([op.sym_name.data for op in inputs]),
        res_attrs=_named([op.sym_name.data for op in probes]),
    )
    function.attributes[TIME_STEP] = FloatAttr(network.dt.value.data, f64)
    for op in (function, run, end):
        op.location = network.location
    module.body.block.add_op(function)


def _named(names: list[str]) -> ArrayAttr[DictionaryAttr]:
    return ArrayAttr([DictionaryAttr({NAME_ATTRIBUTE: StringAttr(name)}) for name in names])
