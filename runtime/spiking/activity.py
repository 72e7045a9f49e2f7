"""What a spiking program did in a run: spikes and potentials of its neurons, additions of synapses.

`record` runs a module in the reference interpreter and keeps what every neuron op gave, also inside
`spike.layer` and `spike.recurrent`. Not here: networks of `spike.simulate`, which `lower-network`
makes ops of first; pictures, in `tools.pictures`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp, NameLoc
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from ...dialects import spike, tensor, ternary
from ...dialects.interpret import evaluate, run_module, widened
from ...dialects.spike.interpret_neurons import potentials
from ...dialects.spike.synapse_counts import Synapse, count_additions
from ...dialects.spike.types import dense_type, is_train
from ...ir.arrays import Array
from ...ir.interpreter import Observer, entry_function
from ...ir.locations import location_text
from ...ir.notebook import html_table, raster_html


@dataclass(frozen=True, eq=False)
class LayerActivity:
    """The neurons of one op, or an input, over a run.

    Attributes:
        name: as its location names it, else path of the weights that feed them, or the op's name.
        op: the op's name, such as `spike.lif`.
        place: where it stands in the source.
        output: [T, N, …]: spikes as truth values; numbers of neurons that send others.
        potential: [T, N, …] after the reset of each step; `None` of inputs and attention, or where
            they were not kept.
        threshold: the number that all neurons fire at, if there is one.
        operation: the op itself; `None` of an argument.
    """

    name: str
    op: str
    place: str
    output: Array = field(repr=False)
    potential: Array | None = field(default=None, repr=False)
    threshold: float | None = None
    operation: Operation | None = field(default=None, repr=False)

    @property
    def fires(self) -> bool:
        """Whether the output is spikes, or graded ones that are mostly 0."""
        return self.output.dtype == np.bool_ or self.op == spike.SigmaDeltaOp.name

    @property
    def is_input(self) -> bool:
        """Whether it has no neurons: an encoder, or an argument of the program."""
        return self.op in (spike.EncodeOp.name, spike.FromTensorOp.name, "argument")

    @property
    def steps(self) -> int:
        """The number of steps."""
        return self.output.shape[0]

    @property
    def neurons(self) -> int:
        """The number of neurons of one sample."""
        return prod(self.output.shape[2:])

    @property
    def spikes(self) -> int:
        """The number of spikes in all samples and steps."""
        return int(np.count_nonzero(self.output)) if self.fires else 0

    @property
    def rate(self) -> float:
        """Spikes a neuron and step, from 0 to 1."""
        return self.spikes / max(1, self.output.size)


@dataclass(frozen=True, eq=False)
class SynapseActivity:
    """What one synapse computed in a run.

    Attributes:
        name: path of the weights, or the op's name.
        op: the op's name.
        additions: of weights other than 0 at a spike; of graded spikes, multiplications as well.
        dense: multiplications and additions of a dense product over all steps.
        is_graded: whether what came in are numbers and not spikes.
    """

    name: str
    op: str
    additions: int
    dense: int
    is_graded: bool


@dataclass(frozen=True, eq=False)
class Activity:
    """One run of a program.

    Attributes:
        outputs: its results.
        layers: its inputs and neurons, in program order.
        synapses: its synapses and attentions, in program order.
        dt: seconds a step, if the program states it.
    """

    outputs: tuple[Array, ...] = field(repr=False)
    layers: tuple[LayerActivity, ...]
    synapses: tuple[SynapseActivity, ...]
    dt: float | None = None

    def _repr_html_(self) -> str:
        title = f"{self.spikes:,} spikes, {self.additions:,} additions (dense: {self.dense:,})"
        rows = [
            (layer.name, layer.op, layer.steps, layer.neurons, layer.spikes, layer.rate)
            for layer in self.layers
        ]
        columns = ["layer", "op", "steps", "neurons", "spikes", "rate"]
        rasters = [
            raster_html(x.name, x.output[:, 0].reshape(x.steps, x.neurons) != 0)
            for x in self.layers[:8]
            if x.fires and x.output.size
        ]
        return html_table(title, columns, rows) + "".join(rasters)

    @property
    def spikes(self) -> int:
        """The spikes of all neurons, without inputs."""
        return sum(layer.spikes for layer in self.layers if not layer.is_input)

    @property
    def additions(self) -> int:
        """The additions of all synapses."""
        return sum(synapse.additions for synapse in self.synapses)

    @property
    def dense(self) -> int:
        """The multiplications and additions of dense products in their place."""
        return sum(synapse.dense for synapse in self.synapses)


def record(
    module: ModuleOp,
    inputs: Sequence[Array],
    function: str = "forward",
    *,
    potentials: bool = True,
    observer: Observer | None = None,
) -> Activity:
    """Run a function of a module and keep what its neurons and synapses did.

    Args:
        module: a verified module.
        inputs: one array an argument.
        function: the name of the function.
        potentials: keep the potentials too, which runs each neuron twice.
        observer: is called after each op, also of layers and recurrences, with it, its operands and
            its results.

    Raises:
        TritonError: see `run_module`.
    """
    recorder = _Recorder(potentials, observer)
    outputs = run_module(module, inputs, function, recorder.see)
    entry = entry_function(module, function)
    arguments = [
        LayerActivity(_hint(value), "argument", location_text(entry), np.asarray(array))
        for value, array in zip(entry.body.block.args, inputs, strict=True)
        if is_train(value)
    ]
    layers = _numbered([*arguments, *recorder.layers])
    dt = _time_step(entry)
    return Activity(outputs, tuple(layers), tuple(recorder.synapses), dt)


def _time_step(function: FuncOp) -> float | None:
    attribute: Any = function.attributes.get(spike.TIME_STEP)
    return None if attribute is None else float(attribute.value.data)


class _Recorder:
    """Sees the ops of a run, goes into regions, keeps what neurons and synapses did."""

    def __init__(self, potentials: bool, observer: Observer | None) -> None:
        self.keeps_potentials, self.observer = potentials, observer
        self.layers: list[LayerActivity] = []
        self.synapses: list[SynapseActivity] = []

    def see(self, op: Operation, operands: Sequence[Array], results: Sequence[Array]) -> None:
        """Note what `op` did."""
        if self.observer is not None:
            self.observer(op, tuple(operands), tuple(results))
        if isinstance(op, spike.LayerOp):
            self._see_body(op.body.block, operands)
        elif isinstance(op, spike.RecurrentOp):
            count = len(op.inputs)
            feedback = np.zeros_like(results[0])
            feedback[1:] = results[0][:-1]
            if op.initial is not None:
                feedback[:1] = operands[-1]
            self._see_body(op.body.block, [*operands[:count], feedback])
        elif isinstance(op, spike.NeuronOp):
            threshold = op.parameter("threshold") if "threshold" in op.PARAMETERS else None
            self._add_layer(
                op,
                results[0],
                potentials(op, *widened(op, operands)) if self.keeps_potentials else None,
                threshold if isinstance(threshold, float) else None,
            )
        elif isinstance(op, spike.AttentionOp) or _is_input(op):
            self._add_layer(op, results[0])
        if isinstance(op, Synapse):
            additions, dense = count_additions(op, operands)
            graded = not is_train(op.operands[0])
            name = weights_name(op) or _short(op)
            self.synapses.append(SynapseActivity(name, op.name, additions, dense, graded))

    def _see_body(self, block: Block, arguments: Sequence[Array]) -> None:
        values: dict[SSAValue, Array] = dict(zip(block.args, arguments, strict=True))
        for op in block.ops:
            if op is block.last_op:
                return
            operands = [values[operand] for operand in op.operands]
            results = evaluate(op, operands)
            values.update(zip(op.results, results, strict=True))
            self.see(op, operands, results)

    def _add_layer(
        self,
        op: Operation,
        output: Array,
        potential: Array | None = None,
        threshold: float | None = None,
    ) -> None:
        name = _layer_name(op)
        place = location_text(op)
        layer = LayerActivity(name, op.name, place, output, potential, threshold, op)
        self.layers.append(layer)


def _is_input(op: Operation) -> bool:
    """Whether trains enter the program here."""
    if isinstance(op, spike.EncodeOp):
        return is_train(op.result)
    return isinstance(op, spike.FromTensorOp) and isinstance(op.operand, BlockArgument)


def _numbered(layers: Sequence[LayerActivity]) -> list[LayerActivity]:
    """The layers with names that differ: `lif`, `lif 2`."""
    seen: dict[str, int] = {}
    named: list[LayerActivity] = []
    for layer in layers:
        seen[layer.name] = count = seen.get(layer.name, 0) + 1
        name = layer.name if count == 1 else f"{layer.name} {count}"
        named.append(replace(layer, name=name))
    return named


def _layer_name(op: Operation) -> str:
    if isinstance(op.location, NameLoc):
        return op.location.desc.data
    if isinstance(op, spike.AttentionOp):
        owner = op.query.owner
        query = weights_name(owner) if isinstance(owner, Operation) else None
        return f"{query.rpartition('.')[0]}.attention" if query and "." in query else "attention"
    if isinstance(op, spike.EncodeOp | spike.FromTensorOp):
        return _hint(op.operands[0])
    return weights_name(op) or _short(op)


def _hint(value: SSAValue) -> str:
    return value.name_hint or "input"


def _short(op: Operation) -> str:
    return op.name.partition(".")[2]


def weights_name(op: Operation) -> str | None:
    """The path of the nearest weights that currents of `op` come from: `fc1` for `fc1.weight`."""
    waiting = [value for value in op.operands if not is_train(value)]
    seen: set[SSAValue] = set()
    while waiting:
        value = _outside(waiting.pop(0))
        if value in seen or is_train(value):
            continue
        seen.add(value)
        owner = value.owner
        if isinstance(owner, tensor.ParameterOp | ternary.ParameterOp):
            if dense_type(value).get_num_dims() > 1:
                key = owner.key.data
                return key.rpartition(".")[0] or key
        elif isinstance(owner, Operation):
            waiting.extend(owner.operands)
    return None


def _outside(value: SSAValue) -> SSAValue:
    """What an argument of the body of a `spike.layer` or `spike.recurrent` stands for."""
    while isinstance(value, BlockArgument):
        around = value.block.parent_op()
        if not isinstance(around, spike.LayerOp | spike.RecurrentOp):
            break
        if value.index >= len(around.inputs):
            break
        value = around.inputs[value.index]
    return value
