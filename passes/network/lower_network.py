"""The pass `lower-network`: a network that a program runs, as ops on whole runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, f32, i1
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ...dialects import spike, tensor
from ...dialects.shapes import Shape, merge_dim
from ...dialects.spike.network_graph import execution_order, nodes, probes, projections, to_networkx
from ...dialects.spike.types import TIME_STEP, TrainType, dense_type
from ..analysis.replacement import erase
from .network_ops import NEURONS, NetworkOps, named


@dataclass(frozen=True)
class LowerNetworkPass(ModulePass):
    """Turn `spike.simulate` into synapses, neurons and delays; cycles become `spike.recurrent`.

    Populations become the neuron ops of their models, in the order in which a step runs, and
    projections the synapses between them; sums are in the order of the text, so results are those
    of `spike.simulate`. Populations that reach each other form one `spike.recurrent`, whose
    feedback is what travels with delay among them. What comes from outside is summed before it. A
    probe of `v` is one more `spike.recurrent`, of the potentials. The function gets the network's
    `spike.dt`; networks that nothing runs any more go.

        %o = spike.simulate @net(%x) : (!spike.train<32x?x784>) -> !spike.train<32x?x10>
        // becomes, with a population of `lif` and one matrix
        %w = tensor.parameter "fc.weight" : tensor<784x10xf32>
        %i = spike.linear %x, %w
             : !spike.train<32x?x784>, tensor<784x10xf32> -> tensor<32x?x10xf32>
        %o = spike.lif %i {beta = 0.95 : f64, gain = 0.05 : f64, v_reset = 0.0 : f64, …}
             : (tensor<32x?x10xf32>) -> !spike.train<32x?x10>

    Reads the time constants and other numbers of neurons, not the weights.

    Raises:
        PassError: a time constant is shorter than the step, or a delay is negative.
        ParameterError: the numbers of neurons are parameters without values.
    """

    name = "lower-network"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        simulations = [inner for inner in op.walk() if isinstance(inner, spike.SimulateOp)]
        networks = [inner.find_network() for inner in simulations]
        for simulation, network in zip(simulations, networks, strict=True):
            _Lowering(op, simulation, network).run()
        for network in dict.fromkeys(networks):
            erase(network)


@dataclass(eq=False)
class _Group:
    """Populations that reach each other, or one alone, in the order in which a step runs.

    Attributes:
        members: the populations.
        fed: those whose output comes back with delay; empty for a population without cycle.
    """

    members: list[spike.PopulationOp]
    fed: list[spike.PopulationOp] = field(default_factory=list[spike.PopulationOp])


class _Lowering:
    """One simulation of a network; `outputs` and `currents` hold what is known by name."""

    def __init__(self, module: ModuleOp, op: spike.SimulateOp, network: spike.NetworkOp) -> None:
        self.op = op
        self.network = network
        self.ops = NetworkOps(module, InsertPoint.before(op), op.location)
        self.outputs: dict[str, SSAValue] = {}
        self.currents: dict[str, SSAValue] = {}
        self.incoming: dict[str, list[spike.ProjectionOp]] = {}
        for edge in projections(network):
            self.incoming.setdefault(edge.target.string_value(), []).append(edge)

    def run(self) -> None:
        """Put the ops in the place of the simulation."""
        names = [n for n, node in nodes(self.network).items() if isinstance(node, spike.InputOp)]
        self.outputs.update(zip(names, self.op.inputs, strict=True))
        for group in self._groups():
            if group.fed:
                self._cycle(group)
            else:
                self._alone(group.members[0])
        results = [self._recorded(probe) for probe in probes(self.network)]
        function = _function_around(self.op)
        for old, value in zip(self.op.outputs, results, strict=True):
            if value.type != old.type and isinstance(value.owner, Operation):
                value = Rewriter.replace_value_with_new_type(value, old.type)
            if value.name_hint is None:
                value.name_hint = old.name_hint
            old.replace_all_uses_with(value)
        erase(self.op)
        if function is not None:
            function.attributes.setdefault(TIME_STEP, self.network.dt)
            function.update_function_type()

    def _groups(self) -> list[_Group]:
        """Groups such that each comes after those that reach it; ties keep the order of a step."""
        import networkx as nx

        graph = to_networkx(self.network)
        order = execution_order(self.network)
        place = {op.sym_name.data: index for index, op in enumerate(order)}
        parts = [part & place.keys() for part in nx.strongly_connected_components(graph)]
        first = {name: min(map(place.__getitem__, part)) for part in parts for name in part}
        above: dict[int, set[int]] = {index: set() for index in first.values()}
        for name, edges in self.incoming.items():
            for edge in edges:
                source = edge.source.string_value()
                if source in place and first[source] != first[name]:
                    above[first[name]].add(first[source])
        groups: list[_Group] = []
        done: set[int] = set()
        while len(done) < len(above):
            index = min(i for i in above if i not in done and above[i] <= done)
            members = [op for op in order if first[op.sym_name.data] == index]
            groups.append(_Group(members, self._fed(members)))
            done.add(index)
        return groups

    def _fed(self, members: Sequence[spike.PopulationOp]) -> list[spike.PopulationOp]:
        names = {op.sym_name.data for op in members}
        sources = {
            edge.source.string_value()
            for name in names
            for edge in self.incoming.get(name, [])
            if edge.delay.value.data > 0
        }
        return [op for op in members if op.sym_name.data in sources]

    def _alone(self, op: spike.PopulationOp) -> None:
        name = op.sym_name.data
        parts = [
            self.ops.arriving(edge, self.outputs[edge.source.string_value()])
            for edge in self.incoming.get(name, [])
        ]
        shape = op.shape.get_values()
        current = self.ops.sum(parts) if parts else self.ops.nothing(self.op.inputs[0], shape)
        self.currents[name] = current
        self.outputs[name] = self.ops.population(op, current, self.network)

    def _recorded(self, probe: spike.ProbeOp) -> SSAValue:
        op = probe.population()
        name, model = op.sym_name.data, op.model.data
        if probe.variable.data == "output" or NEURONS[model] is spike.LeakyIntegratorOp:
            return self.outputs[name]
        return self.ops.potential(op, self.currents[name], self.network)

    # Cycles.

    def _cycle(self, group: _Group) -> None:
        """A `spike.recurrent` of the populations of a group."""
        body = _Body(self, group)
        names = [op.sym_name.data for op in group.members]
        for op in group.members:
            body.population(op)
        body.settle_inputs()
        first = body.joined()
        watched = {
            probe.target.string_value()
            for probe in probes(self.network)
            if probe.variable.data == "v"
        }
        outputs = [body.outputs[name] for name in names]
        currents = [body.currents[name] for name in names if name in watched]
        yielded = list(dict.fromkeys([first, *outputs, *currents]))
        body.ops.add_end(yielded)
        run = spike.RecurrentOp(body.inputs, body.block)
        self.ops.add(run, group.members[0])
        results = dict(zip(yielded, run.results, strict=True))
        for op in group.members:
            name = op.sym_name.data
            self.outputs[name] = named(results[body.outputs[name]], op)
            if name in watched:
                self.currents[name] = results[body.currents[name]]


class _Body:
    """The body of the `spike.recurrent` of a group.

    Attributes:
        inputs: the values outside that its arguments stand for.
        outputs, currents: what its populations give and receive, by name.
    """

    def __init__(self, around: _Lowering, group: _Group) -> None:
        self.around = around
        self.group = group
        self.inputs: list[SSAValue] = []
        self.block = Block(arg_types=[self._type_of_feedback()])
        self.ops = NetworkOps.inside(self.block, around.ops)
        self.outputs: dict[str, SSAValue] = {}
        self.currents: dict[str, SSAValue] = {}
        self._before: dict[str, SSAValue] = {}

    def _leading(self) -> Shape:
        """The number of steps and the batch size, as far as they are known."""
        first, *others = (dense_type(value).get_shape()[:2] for value in self.around.op.inputs)
        steps, batch = first
        for shape in others:
            steps, batch = merge_dim(steps, shape[0], "steps"), merge_dim(batch, shape[1], "batch")
        return (steps, batch)

    def _type_of_feedback(self) -> Attribute:
        fed = self.group.fed
        shape = fed[0].shape.get_values()
        if len(fed) > 1:
            shape = [sum(self._sizes())]
        full = (*self._leading(), *shape)
        return TrainType(full) if self._spikes() else TensorType(f32, full)

    def _spikes(self) -> bool:
        return all(op.spikes() for op in self.group.fed)

    def _sizes(self) -> list[int]:
        """How many neurons each population has that is fed back."""
        return [prod(op.shape.get_values()) for op in self.group.fed]

    def joined(self) -> SSAValue:
        """What is fed back: the output of one population, or of several side by side."""
        outputs = [self.outputs[op.sym_name.data] for op in self.group.fed]
        if len(outputs) == 1:
            return outputs[0]
        element = i1 if self._spikes() else f32
        flat = [
            self.ops.reshaped(self.ops.dense(value, element), [size])
            for value, size in zip(outputs, self._sizes(), strict=True)
        ]
        joined = self.ops.add(tensor.ConcatenateOp(flat, 2))
        return self.ops.add(spike.FromTensorOp(joined)) if self._spikes() else joined

    def _step_before(self, name: str) -> SSAValue:
        """The output of a population one step before: its part of the feedback."""
        if not self._before:
            self._before = self._split()
        return self._before[name]

    def _split(self) -> dict[str, SSAValue]:
        fed, feedback = self.group.fed, self.block.args[-1]
        if len(fed) == 1:
            return {fed[0].sym_name.data: feedback}
        parts = self.ops.parts(self.ops.dense(feedback, i1), self._sizes())
        signals: dict[str, SSAValue] = {}
        for op, part in zip(fed, parts, strict=True):
            value = self.ops.reshaped(part, op.shape.get_values())
            if op.spikes():
                value = self.ops.add(spike.FromTensorOp(value))
            signals[op.sym_name.data] = value
        return signals

    def _input(self, value: SSAValue) -> SSAValue:
        """The argument that stands for a value outside."""
        if value not in self.inputs:
            self.block.insert_arg(value.type, len(self.inputs))
            self.inputs.append(value)
        return self.block.args[self.inputs.index(value)]

    def population(self, op: spike.PopulationOp) -> None:
        """Add the ops of a population; those that reach it in the same step are there."""
        name, around = op.sym_name.data, self.around
        members = {member.sym_name.data for member in self.group.members}
        early: list[SSAValue] = []
        parts: list[SSAValue] = []
        for edge in around.incoming[name]:
            source, late = edge.source.string_value(), edge.delay.value.data > 0
            if source in members:
                before = self._step_before(source) if late else self.outputs[source]
                parts.append(self.ops.arriving(edge, before, int(late)))
                continue
            arriving = around.ops.arriving(edge, around.outputs[source])
            if parts:
                parts.append(self._input(arriving))
            else:
                early.append(arriving)
        if early:
            parts.insert(0, self._input(around.ops.sum(early)))
        self.currents[name] = self.ops.sum(parts)
        self.outputs[name] = self.ops.population(op, self.currents[name], around.network)

    def settle_inputs(self) -> None:
        """Give a body without inputs one that tells the number of steps and the batch size."""
        if not self.inputs:
            self._input(self.around.op.inputs[0])


def _function_around(op: Operation) -> FuncOp | None:
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, FuncOp):
        parent = parent.parent_op()
    return parent
