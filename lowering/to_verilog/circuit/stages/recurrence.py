"""The stage of a loop over steps: one step of the body is one cycle, its states are registers.

What the body gives at a step is known before the next edge of the clock, so that feedback arrives
in time for the next step and a step goes in every cycle. All of the body is between two edges: the
clock is the slower the longer it is. Not here: which loops there are (`lower-recurrent`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Operation, SSAValue

from .....dialects import spike
from .....dialects.spike.types import dense_type
from .....passes.adder_graph.graph import width_of
from .....passes.analysis.compile_time import is_literal, literal_value
from ..arithmetic import plain
from ..arrays import array_of
from ..circuit import Search
from ..circuit_rules import Signals
from ..evaluation import LayerNames, evaluate, literal_signals, type_bounds
from ..signals import Signal
from .body import StageBody
from .frames import delays_of
from .neuron_rules import neuron_rules
from .neurons import Neurons, all_ranges
from .products import position_shape
from .stage import Layout, Stage


def is_state(value: SSAValue | None) -> bool:
    """Whether a value is a state of the loop around."""
    if value is None or not value.has_one_use():
        return False
    loop = value.owner if isinstance(value.owner, Operation) else value.owner.parent_op()
    return isinstance(loop, spike.ScanOp) and value in loop.arguments()[2]


def scan_stage(
    name: str,
    op: spike.ScanOp,
    input: Layout,
    runs: Sequence[Sequence[int]],
    names: LayerNames,
    search: Search,
) -> tuple[Stage, list[list[int]]]:
    """A loop, and for each of its outputs where its elements are in a beat of the stage's output.

    Args:
        op: the loop; its states begin with constants.
        input: what comes in; a frame is a sample's steps.
        runs: for each run the places of its elements in a beat.
    """
    body = StageBody(input)
    writer = _Loop(body, op, input, names, search)
    results = writer.outputs(runs)
    flat = [signal for signals in results for signal in signals.reshape(-1)]
    output = Layout(tuple(signal.bounds for signal in flat), input.beats)
    parts = [writer.neurons.bits(s, w) for s, w in zip(flat, output.widths, strict=True)]
    data = body.register(body.joined(parts), writer.moved, "data")
    body.drive(writer.valid, body.in_valid[0], writer.ready)
    comment = f"A loop of {len(op.states)} states; a step of {input.beats} a cycle"
    places: list[list[int]] = []
    for signals in results:
        start = sum(map(len, places))
        places.append(list(range(start, start + signals.size)))
    return body.stage(name, comment, output, (writer.ready, data, writer.valid)), places


class _Loop:
    """A loop while its module is being written.

    Attributes:
        neurons: where its arithmetic goes.
        moved: whether a step comes in.
    """

    def __init__(
        self,
        body: StageBody,
        op: spike.ScanOp,
        input: Layout,
        names: LayerNames,
        search: Search,
    ) -> None:
        self.body, self.op, self.input = body, op, input
        self.names = names
        self.valid, self.ready, self.moved = body.taking()
        last = body.counter(input.beats, self.moved, "step", early=True).last
        self.restart = body.any_of(body.reset, body.all_of(self.moved, last), name="restart")
        self.neurons = Neurons(body, names.of(op), f"{op.name} of {input.beats} steps", search)
        self.circuit = self.neurons.circuit
        self.values: dict[SSAValue, Signals] = {}
        self.registers: list[tuple[int, SSAValue, int]] = []

    def outputs(self, runs: Sequence[Sequence[int]]) -> list[Signals]:
        """What a step gives."""
        steps, _, states = self.op.arguments()
        for argument, places in zip(steps, runs, strict=True):
            flat = self.neurons.elements(self.body.in_data[0], self.input, places)
            self.values[argument] = array_of(flat, _shape(argument))
        held: dict[SSAValue, list[tuple[SSAValue, int]]] = {}
        for index, argument in enumerate(states):
            readers = [use.operation for use in argument.uses]
            if not any(isinstance(reader, spike.NeuronOp) for reader in readers):
                held[argument] = self._held(index, argument)
        for inner in self.op.body.block.ops:
            if not is_literal(inner) and not isinstance(inner, spike.YieldOp):
                self._evaluate(inner)
        after, yielded = self.op.yielded()
        for argument, value in zip(states, after, strict=True):
            pairs = zip(self.values[value].reshape(-1), held.get(argument, ()), strict=False)
            for signal, (register, width) in pairs:
                bits = self.neurons.bits(plain(self.circuit, signal), width)
                self.body.drive(register, bits, self.moved)
        return [
            array_of([plain(self.circuit, s) for s in self.values[value].reshape(-1)], (-1,))
            for value in yielded
        ]

    def _held(self, index: int, argument: SSAValue) -> list[tuple[SSAValue, int]]:
        """The registers of a state that is no potential."""
        shape, bounds = _shape(argument), type_bounds(argument)
        start = literal_value(self.op.states[index])
        assert start is not None
        width = width_of(*bounds)
        firsts = np.broadcast_to(start.astype(np.int64), shape).reshape(-1).tolist()
        registers = [
            self.body.state(width, f"state{index}_{place}", first, self.restart)
            for place, first in enumerate(firsts)
        ]
        self.values[argument] = array_of([Signal.of(value, bounds) for value in registers], shape)
        return [(register, width) for register in registers]

    def _evaluate(self, op: Operation) -> None:
        match op:
            case spike.NeuronOp():
                self._fire(op)
            case spike.DelayOp():
                self._delay(op)
            case _:
                operands = [self._value(value) for value in op.operands]
                results = evaluate(self.circuit, op, operands, self.names)
                self.values.update(zip(op.results, results, strict=True))

    def _value(self, value: SSAValue) -> Signals:
        return self.values[value] if value in self.values else literal_signals(value)

    def _fire(self, op: spike.NeuronOp) -> None:
        name = self.names.of(op)
        self.names.note(op, name)
        self.circuit.begin(name, f"{op.name}, in a loop")
        arguments = list(self.op.arguments()[2])
        first = [self.op.states[arguments.index(state)] for state in op.initial]
        currents = list(self._value(op.input).reshape(-1))
        rules = neuron_rules(op, first)
        where = all_ranges(rules, [current.bounds for current in currents], self.input.beats)
        prefix = f"{op.final[0].name_hint or op.output.name_hint or 'v'}"
        spikes, _ = self.neurons.run(rules, where, currents, self.moved, None, self.restart, prefix)
        self.values[op.output] = array_of(spikes, _shape(op.output))
        # The registers are the state: nothing else reads what is yielded for it.
        self.values.update((state, array_of([], (0,))) for state in op.final)

    def _delay(self, op: spike.DelayOp) -> None:
        """The oldest of the steps before, which then move on by one."""
        assert op.initial is not None and op.final is not None
        self.names.note(op, self.names.of(op))
        whole = np.concatenate([self._value(op.initial), self._value(op.input)])
        places = op.steps.value.data - delays_of(op, whole.shape[1:])
        self.values[op.output] = np.take_along_axis(whole, places[None], axis=0)
        self.values[op.final] = whole[1:]


def _shape(value: SSAValue) -> tuple[int, ...]:
    return position_shape(dense_type(value).get_shape(), ())
