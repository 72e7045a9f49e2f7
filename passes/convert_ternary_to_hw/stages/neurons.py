"""The stage of neurons: a beat is a step, and each neuron has a register for its potential.

A step of a neuron is one cycle: decay, current, comparison and reset follow each other between two
edges of the clock. After the last step of a frame the registers take their first values again. Each
has the bits that the potentials of a frame need, found by following the interval of a neuron from
step to step; where that leaves the type, the type's, with sums that wrap around as its do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from xdsl.ir import SSAValue

from ....dialects import spike
from ....dialects.elements import numpy_dtype
from ....dialects.inference import tensor_type
from ....dialects.shapes import DYNAMIC
from ...adder_graph.graph import width_of
from ...compile_time import literal_value
from ..arithmetic import add, at_least, plain, scaled, select
from ..circuit import Circuit
from ..pacing import Pacing
from ..signals import Signal, Wire
from .body import StageBody
from .frames import FrameTiming
from .stage import Layout, Stage
from .timing import PipelineTiming

IntegerNeuronOp = spike.IntegrateFireOp | spike.IntegerLifOp
"""The neurons that are defined on integers."""

Bounds = tuple[int, int]

_SHORT_COMPARISON = 12
"""Bits of two look-up tables: a comparison of no more is logic, which synthesis would repeat before
each bit that it selects; the sign of a difference is there already."""


@dataclass(frozen=True)
class NeuronRule:
    """What one neuron does at a step: v ← ⌊decay·v / 2^shift⌋ + gain·i, compare, fire, reset.

    Attributes:
        limit: it fires at this potential and above.
        first: the potential before a frame.
        type: the least and the largest number of its type.
    """

    decay: int
    shift: int
    gain: int
    threshold: int
    v_reset: int
    limit: int
    reset: str
    first: int
    type: Bounds

    def kept(self, v: int) -> int:
        """What is left of a potential at the next step."""
        return self.decay * v >> self.shift


@dataclass(frozen=True)
class Potential:
    """Where the potential of a neuron lies.

    Attributes:
        held: before a step.
        left: after the last step of a frame.
        wraps: whether sums may wrap around in its type.
    """

    held: Bounds
    left: Bounds
    wraps: bool = False

    @property
    def all(self) -> Bounds:
        """Before and after any step."""
        return min(self.held[0], self.left[0]), max(self.held[1], self.left[1])


@lru_cache(maxsize=65536)
def potential(rule: NeuronRule, current: Bounds, steps: int) -> Potential:
    """Where the potential lies in frames of so many steps, for currents in an interval."""
    ends = [rule.gain * end for end in current]
    low = high = rule.first
    held = (low, high)
    for step in range(steps):
        total = rule.kept(low) + min(ends), rule.kept(high) + max(ends)
        after = _after_reset(rule, total)
        if not all(rule.type[0] <= end <= rule.type[1] for end in (*total, *after)):
            return Potential(rule.type, rule.type, wraps=True)
        if after == (low, high):
            break
        low, high = after
        if step < steps - 1:
            held = min(held[0], low), max(held[1], high)
    return Potential(held, (low, high))


def _after_reset(rule: NeuronRule, total: Bounds) -> Bounds:
    """Where a potential in an interval is after the reset."""
    low, high = total
    ends: list[int] = []
    if low < rule.limit:
        ends += [low, min(high, rule.limit - 1)]
    if high >= rule.limit:
        fired = [max(low, rule.limit), high]
        if rule.reset == "subtract":
            fired = [end - rule.threshold for end in fired]
        elif rule.reset == "to_value":
            fired = [rule.v_reset]
        ends += fired
    return min(ends), max(ends)


def neuron_rules(op: IntegerNeuronOp) -> list[NeuronRule]:
    """The neurons of an op, in the order of the elements of a step."""
    type = tensor_type(op.input)
    shape = tuple(1 if size == DYNAMIC else size for size in type.get_shape()[1:])
    leaky = isinstance(op, spike.IntegerLifOp)
    values = {name: _each(op.parameter(name), shape) for name in op.PARAMETERS}
    first = _each(op.initial[0] if op.initial else 0.0, shape)
    ones = [1] * len(first)
    info = np.iinfo(numpy_dtype(type.element_type))
    strict = int(op.compare.data == "gt")
    columns = (
        values["decay"] if leaky else ones,
        *(values[name] for name in ("gain", "threshold", "v_reset")),
        first,
    )
    return [
        NeuronRule(
            decay=decay,
            shift=op.shift.value.data if isinstance(op, spike.IntegerLifOp) else 0,
            gain=gain,
            threshold=threshold,
            v_reset=v_reset,
            limit=threshold + strict,
            reset=op.reset.data,
            first=start,
            type=(int(info.min), int(info.max)),
        )
        for decay, gain, threshold, v_reset, start in zip(*columns, strict=True)
    ]


def _each(value: float | SSAValue, shape: tuple[int, ...]) -> list[int]:
    """A parameter or state of known value, for each neuron."""
    array = literal_value(value) if isinstance(value, SSAValue) else np.asarray(int(value))
    assert array is not None
    return [int(x) for x in np.broadcast_to(array, shape).reshape(-1)]


class _Neurons:
    """The registers and the arithmetic of a stage's neurons.

    Args:
        name: of the layer.
        source: the op, in words.
        input: the currents of a step.
        places: where the current of each neuron is in a beat.
        rules: of the neurons.
        steps: of a frame.
        width: the bits of a beat that goes out.
    """

    def __init__(
        self,
        name: str,
        source: str,
        input: Layout,
        places: Sequence[int],
        rules: Sequence[NeuronRule],
        steps: int,
        width: int,
    ) -> None:
        self.body = StageBody([input.width], [width])
        self.circuit = Circuit(self.body.block, self.body.clock, self.body.reset, Pacing(0))
        self.circuit.begin(name, source)
        self.rules = rules
        self.potentials = [
            potential(rule, input.bounds[place], steps)
            for rule, place in zip(rules, places, strict=True)
        ]
        starts = [sum(input.widths[:index]) for index in range(len(input.bounds))]
        self.currents = [
            self._signal(
                self.body.extract(self.body.in_data[0], starts[place], input.widths[place]),
                input.bounds[place],
            )
            for place in places
        ]

    @staticmethod
    def _signal(value: SSAValue, bounds: Bounds) -> Signal:
        if bounds[0] == bounds[1]:
            return Signal.constant(bounds[0])
        return Signal(Wire(value, *bounds))

    def run(
        self, moved: SSAValue, first: SSAValue | None, restart: SSAValue | None
    ) -> tuple[list[Signal], list[SSAValue]]:
        """A step of all neurons, in the cycles in which `moved` is 1.

        Args:
            moved: whether a beat comes in.
            first: whether it is the first of a frame: potentials begin there; or `None`:
            restart: whether they take their first value at the next edge, after a frame. Registers
                do that by themselves, without a selection before each bit.

        Returns:
            The spikes, and the registers of the potentials.
        """
        spikes: list[Signal] = []
        registers: list[SSAValue] = []
        for index, (rule, found, current) in enumerate(
            zip(self.rules, self.potentials, self.currents, strict=True)
        ):
            bounds = found.held if first is None else found.all
            width = width_of(*bounds)
            start = self.body.constant(rule.first, width)
            if bounds[0] == bounds[1]:
                register, v = start, Signal.constant(bounds[0])
            else:
                name = f"v_{index}"
                begin = rule.first if first is None else None
                register = self.body.state(width, name, begin, restart)
                before = register if first is None else self.body.select(first, start, register)
                v = self._signal(before, bounds)
            with self.circuit.element(index):
                fired, after = self._step(rule, found, v, current)
            if bounds[0] != bounds[1]:
                self.body.drive(register, self._bits(after, width), moved)
                self.circuit.layer.mux_bits += width
            spikes.append(fired)
            registers.append(register)
        return spikes, registers

    def _bits(self, signal: Signal, width: int) -> SSAValue:
        found = plain(self.circuit, signal)
        if found.wire is None:
            return self.body.constant(found.offset, width)
        return self.circuit.bits(found.wire, width)

    def _step(
        self, rule: NeuronRule, found: Potential, v: Signal, current: Signal
    ) -> tuple[Signal, Signal]:
        circuit = self.circuit
        total = add(circuit, self._kept(rule, v), scaled(circuit, current, rule.gain))
        total = plain(circuit, total, circuit.name("v"))
        if found.wraps and total.wire is not None:
            width = width_of(*rule.type)
            total = Signal(Wire(circuit.bits(total.wire, width), *rule.type))
        if rule.reset == "none":
            return at_least(circuit, total, rule.limit), total
        above = plain(circuit, total.plus(-rule.limit), circuit.name("above"))
        fired = self._not_negative(above)
        value = above.plus(rule.limit - rule.threshold)
        if rule.reset == "to_value":
            value = Signal.constant(rule.v_reset)
            if width_of(*total.bounds) > _SHORT_COMPARISON:
                fired = at_least(circuit, total, rule.limit)
        return fired, select(circuit, fired, value, total, found.all, circuit.name("left"))

    def _not_negative(self, x: Signal) -> Signal:
        """1 where x ≥ 0, by the sign of x: a comparison beside the difference would be one more."""
        low, high = x.bounds
        if low >= 0 or high < 0 or x.wire is None:
            return Signal.constant(int(low >= 0))
        sign = self.circuit.extract(x.wire.value, x.wire.width - 1, 1)
        return Signal(Wire(self.body.inverse(sign), 0, 1))

    def _kept(self, rule: NeuronRule, v: Signal) -> Signal:
        """⌊decay·v / 2^shift⌋."""
        if rule.decay == 1 << rule.shift:
            return v
        product = plain(self.circuit, scaled(self.circuit, v, rule.decay))
        if product.wire is None:
            return Signal.constant(product.offset >> rule.shift)
        wire = product.wire
        bounds = wire.low >> rule.shift, wire.high >> rule.shift
        if bounds[0] == bounds[1]:
            return Signal.constant(bounds[0])
        width = width_of(*bounds)
        bits = self.circuit.bits(wire, max(wire.width, rule.shift + width))
        value = self.circuit.extract(bits, rule.shift, width)
        return Signal(Wire(value, *bounds))


def _last_step(body: StageBody, steps: int, moved: SSAValue) -> SSAValue:
    """Whether the beat that comes is the last of a frame, from a register where that is more."""
    counter = body.counting(steps, "step")
    body.count_on(counter, moved)
    if steps <= 2:
        return counter.last
    last = body.state(1, "last", 0)
    body.drive(last, body.compare(counter.value, "eq", steps - 2), moved)
    return last


def neuron_stage(
    name: str,
    layer: str,
    source: str,
    input: Layout,
    places: Sequence[int],
    rules: Sequence[NeuronRule],
) -> Stage:
    """The spikes of neurons, step by step, one cycle after their currents.

    Args:
        name: of the stage.
        layer: the layer of the program.
        source: the op, in words.
        input: the currents; a frame is a sample's steps.
        places: where the current of each neuron is in a beat.
        rules: of the neurons.
    """
    neurons = _Neurons(layer, source, input, places, rules, input.beats, len(rules))
    body = neurons.body
    valid = body.state(1, "valid", 0)
    ready = body.any_of(body.inverse(valid), body.out_ready[0], name="free")
    moved = body.all_of(ready, body.in_valid[0], name="moved")
    last = _last_step(body, input.beats, moved)
    restart = body.any_of(body.reset, body.all_of(moved, last), name="restart")
    found, _ = neurons.run(moved, None, restart)
    spikes = body.state(len(rules), "spikes")
    bits = [
        body.constant(spike.offset, 1) if spike.wire is None else spike.wire.value
        for spike in found
    ]
    body.drive(spikes, body.joined(bits), moved)
    body.drive(valid, body.in_valid[0], ready)
    comment = f"{len(rules)} neurons; a step of {input.beats} a cycle"
    module = body.finish(name, comment, [ready], [spikes], [valid])
    output = Layout(tuple(spike.bounds for spike in found), input.beats)
    count = neurons.circuit.layer
    count.register_bits += body.register_bits
    return Stage(name, module, (input,), (output,), PipelineTiming(1), layers=(count,))


def membrane_stage(
    name: str,
    layer: str,
    source: str,
    input: Layout,
    places: Sequence[int],
    rules: Sequence[NeuronRule],
) -> Stage:
    """The potentials of neurons after the last step of a frame; arguments as of `neuron_stage`."""
    steps = input.beats
    found = [
        potential(rule, input.bounds[place], steps)
        for rule, place in zip(rules, places, strict=True)
    ]
    output = Layout(tuple(one.all for one in found))
    neurons = _Neurons(layer, source, input, places, rules, steps, output.width)
    body = neurons.body
    valid = body.state(1, "valid", 0)
    first = body.state(1, "first", 1)
    ready = body.any_of(body.inverse(valid), body.out_ready[0], name="free")
    moved = body.all_of(ready, body.in_valid[0], name="moved")
    _, last = body.counter(steps, moved, "step")
    ends = body.all_of(moved, last, name="ends")
    body.drive(valid, ends, ready)
    body.drive(first, ends, moved)
    _, registers = neurons.run(moved, first, None)
    comment = f"The potentials of {len(rules)} neurons after {steps} steps"
    module = body.finish(name, comment, [ready], [body.joined(registers)], [valid])
    count = neurons.circuit.layer
    count.register_bits += body.register_bits
    return Stage(name, module, (input,), (output,), FrameTiming(steps, 1), layers=(count,))
