"""What a run of a spiking program as given asks of a machine.

`drive_of` takes any program that the interpreter runs, also one that no chip takes as it stands:
each neuron op is a population, and so is a sum of weighted spikes that no neuron hears, a readout.
Pools and moves between spikes and neurons become part of the synapses. Not here: runs of what
targets make of programs (`Target.driver`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from ...dialects import spike, tensor, ternary
from ...dialects.interpret import RULES
from ...dialects.spike.neuron import NeuronOp
from ...dialects.spike.types import is_train
from ...dialects.traits import MovesElements, has
from ...ir.arrays import Array
from ...ir.errors import LoweringError, UnsupportedError
from ...ir.identifiers import free_name
from ...ir.interpreter import entry_function
from ...ir.locations import location_text
from ...runtime.spiking.activity import record
from ..stages import apply_passes
from .connectivity import Connectivity, Dense, Diagonal, Sparse, composed, window
from .run import Drive, active_steps, kept, spike_counts
from .workload import Neurons, Synapses, Workload

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ...runtime.spiking.activity import LayerActivity

_PASSES = "lower-network,inline-spike-layers,canonicalize,cse,dce"
_PRODUCTS = (
    *(tensor.MatmulOp, tensor.LinearOp, tensor.ConvOp),
    *(ternary.MatmulOp, ternary.LinearOp, ternary.ConvOp),
)
_ONE = (
    *(spike.ToTensorOp, spike.FromTensorOp, spike.DelayOp, spike.BatchNormOp),
    *(tensor.ConvertOp, tensor.NegOp, tensor.MulOp, tensor.DivOp),
)
"""Ops that leave spikes of one operand where they are, weighted."""
_SUMS = (tensor.AddOp, tensor.SubOp)

Flow = list[tuple[SSAValue, Connectivity | None]]
"""Which trains a value is a sum of, and by which synapses; `None` for the train itself."""


def drive_of(module: ModuleOp, inputs: Sequence[Array], function: str = "forward") -> Drive:
    """Run a spiking program in the reference interpreter, and note what its neurons did.

    Args:
        module: which stays as it is.
        inputs: of the function, as `run_module` takes them.
        function: its name.

    Raises:
        LoweringError: it has no spiking neurons.
        UnsupportedError: ops between spikes and neurons that no synapses are, all of them.
        TritonError: see `run_module`.
    """
    work = module.clone()
    apply_passes(work, _PASSES)
    entry, walk = entry_function(work, function), _Walk()
    activity = record(work, inputs, function, observer=walk.see)
    walk.end(entry, activity.outputs)
    layers = {
        value: layer
        for layer, value in zip(activity.layers, _values(entry, activity.layers), strict=True)
        if layer.operation is None or value in walk.heard or value in walk.sources
    }
    if not walk.heard:
        raise LoweringError(f"@{function} has no spiking neurons to place; see docs/conversion.md")
    names = {value: layer.name for value, layer in layers.items()}
    trains = {value: layer.output for value, layer in layers.items()}
    for value, heard in walk.heard.items():
        if value not in trains:
            trains[value] = np.zeros(heard.shape, np.bool_)
            names[value] = free_name(value.name_hint or "readout", names.values(), " ", first=2)
    steps, samples = next(iter(trains.values())).shape[:2]
    spikes = {names[value]: spike_counts(x) for value, x in trains.items()}
    runs = max(1, steps * samples)
    neurons = [
        Neurons(name, x.shape[1], x.sum(0) / runs, value not in walk.heard)
        for (value, name), x in zip(names.items(), spikes.values(), strict=True)
    ]
    synapses = [
        Synapses(f"{names[source]}-{names[target]}-{i}", names[source], names[target], ways)
        for i, (source, target, ways) in enumerate(walk.synapses)
    ]
    active = dict[str, Array]()
    for value, heard in walk.heard.items():
        layer = layers.get(value)
        potential = kept(heard) if layer is None else layer.potential
        starts = isinstance(value.owner, NeuronOp) and bool(value.owner.initial)
        active[names[value]] = active_steps(heard, potential, starts)
    name = module.sym_name.data if module.sym_name is not None else "network"
    workload = Workload(name, neurons, synapses)
    products = walk.products / max(1, samples)
    given = activity.outputs
    return Drive(workload, spikes, active, samples, steps, activity.dt, products, given)


def _values(entry: FuncOp, layers: Sequence[LayerActivity]) -> list[SSAValue]:
    """The value of each layer: arguments come first."""
    arguments: list[SSAValue] = [value for value in entry.args if is_train(value)]
    made = [layer.operation.results[0] for layer in layers if layer.operation is not None]
    return [*arguments, *made]


class _Walk:
    """Follows spikes through the ops of a run, in their order.

    Attributes:
        flows: what values are sums of.
        sources: trains that come from somewhere else.
        synapses: source, target and who reaches whom.
        heard: of each population, where its current is not 0, [T, N, …].
        products: of numbers with weights.
        lost: of what is made of spikes in another way, the op that did and the sums that it took.
        sums: of such sums, where they are not 0.
        refused: ops that neurons cannot hear through.
    """

    def __init__(self) -> None:
        self.flows: dict[SSAValue, Flow] = {}
        self.sources: set[SSAValue] = set()
        self.synapses: list[tuple[SSAValue, SSAValue, Connectivity]] = []
        self.heard: dict[SSAValue, Array] = {}
        self.products = 0.0
        self.lost: dict[SSAValue, tuple[Operation, frozenset[SSAValue]]] = {}
        self.sums: dict[SSAValue, Array] = {}
        self.refused: set[Operation] = set()

    def see(self, op: Operation, operands: Sequence[Array], results: Sequence[Array]) -> None:
        """An op of the run; a recurrence before the ops in it."""
        for value in op.operands:
            if is_train(value) and value not in self.flows and value not in self.lost:
                self.flows[value] = [(value, None)]
                self.sources.add(value)
        given = [(v, x) for v, x in zip(op.operands, operands, strict=True) if v in self.flows]
        if isinstance(op, spike.RecurrentOp):
            self._enter(op)
        elif isinstance(op, NeuronOp):
            self._neurons(op, operands[0])
        elif not given:
            self._without_spikes(op, operands, results)
        elif isinstance(op, spike.LinearOp) and given[0][0] is op.input:
            self._join(op, _linear(*operands[:2]))
        elif isinstance(op, spike.ConvOp):
            shapes = operands[0].shape[2:], results[0].shape[2:]
            sizes = [op.strides, op.padding, op.dilation]
            self._join(op, window(operands[1] != 0, op.groups.value.data, *shapes, *_ints(sizes)))
        elif isinstance(op, spike.AvgPoolOp | spike.MaxPoolOp):
            source, result = operands[0].shape[2:], results[0].shape[2:]
            ones = np.ones((source[0], 1, *op.kernel.get_values()), np.bool_)
            strides, padding = _ints([op.strides, op.padding])
            way = window(ones, source[0], source, result, strides, padding, [1] * len(strides))
            self._join(op, way)
        elif isinstance(op, _SUMS) or (isinstance(op, _ONE) and len(given) == 1):
            if all(x.shape[2:] == results[0].shape[2:] for _, x in given):
                self.flows[op.results[0]] = [way for v, _ in given for way in self.flows[v]]
            else:
                self._lose(op, given)
        elif has(op, MovesElements) and results[0].shape[:2] == operands[0].shape[:2]:
            self._move(op, operands, results[0])
        else:
            self._lose(op, given)

    def _enter(self, op: spike.RecurrentOp) -> None:
        """What comes into a recurrence, and its feedback, which neurons in it give."""
        block = op.body.block
        for argument, value in zip(block.args, op.inputs, strict=False):
            if value in self.flows:
                self.flows[argument] = self.flows[value]
        end = block.last_op
        assert isinstance(end, spike.YieldOp)
        value = end.operands[0]
        while isinstance(value.owner, spike.ToTensorOp | spike.FromTensorOp):
            value = value.owner.operands[0]
        if isinstance(value.owner, NeuronOp):
            self.flows[op.feedback()] = self.flows[op.output] = [(value, None)]
        else:
            self.refused.add(op)

    def _neurons(self, op: NeuronOp, current: Array) -> None:
        if op.input in self.lost:
            self.refused.add(self.lost[op.input][0])
        self._hear(op.output, op.input, current != 0)
        self.flows[op.output] = [(op.output, None)]

    def _hear(self, target: SSAValue, value: SSAValue, heard: Array) -> None:
        """A population whose current is a value."""
        self.heard[target] = heard
        count = prod(heard.shape[2:])
        for source, ways in self.flows.get(value, []):
            self.synapses.append((source, target, ways or Diagonal(count)))

    def _without_spikes(
        self, op: Operation, operands: Sequence[Array], results: Sequence[Array]
    ) -> None:
        lost = [self.lost[value] for value in op.operands if value in self.lost]
        if lost:
            sums = frozenset[SSAValue]().union(*(taken for _, taken in lost))
            self.lost |= dict.fromkeys(op.results, (lost[0][0], sums))
        elif isinstance(op, (*_PRODUCTS, spike.LinearOp, spike.ConvOp)):
            weight = operands[1]
            convolves = isinstance(op, tensor.ConvOp | ternary.ConvOp | spike.ConvOp)
            outputs = weight.shape[0] if convolves else weight.shape[-1]
            self.products += results[0].size * weight.size / max(1, outputs)

    def _join(self, op: Operation, ways: Connectivity) -> None:
        """Synapses behind those that are there."""
        flow = self.flows[op.operands[0]]
        self.flows[op.results[0]] = [
            (source, ways if before is None else composed(before, ways)) for source, before in flow
        ]

    def _move(self, op: Operation, operands: Sequence[Array], result: Array) -> None:
        """Elements that go elsewhere: found by moving their numbers."""
        self.flows[op.results[0]] = []
        for index, value in enumerate(op.operands):
            if value not in self.flows:
                continue
            count = prod(operands[index].shape[2:])
            numbers = [np.full(x.shape, -1, np.int64) for x in operands]
            numbers[index][:] = np.arange(count).reshape(operands[index].shape[2:])
            moved = np.asarray(RULES[type(op)](op, *numbers))[0, 0].reshape(-1)
            targets = np.flatnonzero(moved >= 0)
            if not len(targets):
                continue
            ways = Sparse.of(moved[targets], targets, count, moved.size)
            for source, before in self.flows[value]:
                way = ways if before is None else composed(before, ways)
                self.flows[op.results[0]].append((source, way))

    def _lose(self, op: Operation, given: Sequence[tuple[SSAValue, Array]]) -> None:
        """What another op takes: where that is given in the end, sums of spikes are readouts."""
        before = [self.lost[value][1] for value in op.operands if value in self.lost]
        weighted = [value for value, _ in given if any(way for _, way in self.flows[value])]
        self.sums |= {value: x != 0 for value, x in given if value in weighted}
        sums = frozenset(weighted).union(*before)
        self.lost |= dict.fromkeys(op.results, (op, sums))

    def end(self, entry: FuncOp, outputs: Sequence[Array]) -> None:
        """What the function gives.

        Raises:
            UnsupportedError: ops between spikes and neurons that are no synapses.
        """
        end = entry.body.block.last_op
        assert isinstance(end, ReturnOp)
        for value, x in zip(end.operands, outputs, strict=True):
            if any(way for _, way in self.flows.get(value, [])):
                self._hear(value, value, x != 0)
            for taken in self.sums:
                if value in self.lost and taken in self.lost[value][1]:
                    self._hear(taken, taken, self.sums[taken])
        if self.refused:
            why = "stands between spikes and neurons, and is no synapse"
            listed = [(op.name, location_text(op), why) for op in self.refused]
            raise UnsupportedError("energy", listed)


def _ints(arrays: Sequence[Any]) -> list[tuple[int, ...]]:
    return [tuple(array.get_values()) for array in arrays]


def _linear(s: Array, weight: Array) -> Connectivity:
    """A matrix, at each place of the axes before the last one."""
    places, mask = prod(s.shape[2:-1]), weight != 0
    if places == 1:
        return Dense(mask)
    source, target = np.nonzero(mask)
    shift = np.arange(places)[:, None]
    return Sparse.of(
        (source + shift * mask.shape[0]).reshape(-1),
        (target + shift * mask.shape[1]).reshape(-1),
        places * mask.shape[0],
        places * mask.shape[1],
    )
