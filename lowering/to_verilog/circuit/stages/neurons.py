"""The stage of neurons: a beat is a step, and each neuron has a register for its potential.

A step of a neuron is one cycle: decay, current, comparison and reset follow each other between two
edges of the clock. After the last step of a frame the registers take their first values again. Each
has the bits that the potentials of a frame need, found by following the interval of a neuron from
step to step; where that leaves the type, the type's, with sums that wrap around as its do.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from .....passes.adder_graph.graph import width_of
from ..arithmetic import add, at_least, plain, scaled, select
from ..circuit import Circuit
from ..pacing import Pacing
from ..signals import Signal, Wire
from .body import ModuleBody, StageBody
from .frames import FrameTiming
from .neuron_rules import Bounds, NeuronRule, Potential, potential
from .stage import Layout, Stage
from .timing import PipelineTiming

_SHORT_COMPARISON = 12
"""Bits of two look-up tables: a comparison of no more is logic, which synthesis would repeat before
each bit that it selects; the sign of a difference is there already."""


class Neurons:
    """Neurons while their module is being written: arithmetic without registers between.

    Args:
        body: of the module.
        name: of the layer.
        source: the op, in words.

    Attributes:
        circuit: where the arithmetic goes.
    """

    def __init__(self, body: ModuleBody, name: str, source: str) -> None:
        self.body = body
        self.circuit = Circuit(body.block, body.clock, body.reset, Pacing(0))
        self.circuit.begin(name, source)

    def elements(self, beat: SSAValue, layout: Layout, places: Sequence[int]) -> list[Signal]:
        """Elements of a beat."""
        return [
            Signal.of(self.body.element(beat, layout, place), layout.bounds[place])
            for place in places
        ]

    def run(
        self,
        rules: Sequence[NeuronRule],
        ranges: Sequence[Potential],
        currents: Sequence[Signal],
        moved: SSAValue,
        first: SSAValue | None,
        restart: SSAValue | None,
        prefix: str = "v",
    ) -> tuple[list[Signal], list[SSAValue]]:
        """A step of all neurons with a register each, in the cycles in which `moved` is 1.

        Args:
            rules: of the neurons.
            found: where their potentials lie.
            currents: of the step.
            moved: whether a beat comes in.
            first: whether it is the first of a frame: potentials begin there; or `None`:
            restart: whether they take their first value at the next edge, after a frame. Registers
                do that by themselves, without a selection before each bit.
            prefix: of the names of the registers.

        Returns:
            The spikes, and the registers of the potentials.
        """
        spikes: list[Signal] = []
        registers: list[SSAValue] = []
        for index, (rule, where, current) in enumerate(zip(rules, ranges, currents, strict=True)):
            bounds = where.held if first is None else where.all
            width = width_of(*bounds)
            start = self.body.constant(rule.first, width)
            if bounds[0] == bounds[1]:
                register, v = start, Signal.constant(bounds[0])
            else:
                name = f"{prefix}_{index}"
                begin = rule.first if first is None else None
                register = self.body.state(width, name, begin, restart)
                before = register if first is None else self.body.select(first, start, register)
                v = Signal.of(before, bounds)
            with self.circuit.element(index):
                fired, after = self.step(rule, where, v, current)
            if bounds[0] != bounds[1]:
                self.body.drive(register, self.bits(after, width), moved)
                self.circuit.layer.mux_bits += width
            spikes.append(fired)
            registers.append(register)
        return spikes, registers

    def bits(self, signal: Signal, width: int) -> SSAValue:
        """A number on so many wires."""
        number = plain(self.circuit, signal)
        if number.wire is None:
            return self.body.constant(number.offset, width)
        return self.circuit.bits(number.wire, width)

    def step(
        self, rule: NeuronRule, where: Potential, v: Signal, current: Signal
    ) -> tuple[Signal, Signal]:
        """The spike of a neuron with the potential `v`, and its potential after."""
        circuit = self.circuit
        total = add(circuit, self._kept(rule, v), scaled(circuit, current, rule.gain))
        total = plain(circuit, total, circuit.name("v"))
        if where.wraps and total.wire is not None:
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
        return fired, select(circuit, fired, value, total, where.all, circuit.name("left"))

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


def potentials(
    rules: Sequence[NeuronRule], currents: Sequence[Bounds], steps: int
) -> list[Potential]:
    """Where the potentials of neurons lie in frames of so many steps."""
    return [potential(rule, bounds, steps) for rule, bounds in zip(rules, currents, strict=True)]


def last_step(body: StageBody, steps: int, moved: SSAValue) -> SSAValue:
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
    body = StageBody([input.width], [len(rules)])
    neurons = Neurons(body, layer, source)
    currents = neurons.elements(body.in_data[0], input, places)
    where = potentials(rules, [current.bounds for current in currents], input.beats)
    valid, ready, moved = body.taking()
    last = last_step(body, input.beats, moved)
    restart = body.any_of(body.reset, body.all_of(moved, last), name="restart")
    fired, _ = neurons.run(rules, where, currents, moved, None, restart)
    spikes = body.state(len(rules), "spikes")
    body.drive(spikes, body.joined([neurons.bits(spike, 1) for spike in fired]), moved)
    body.drive(valid, body.in_valid[0], ready)
    comment = f"{len(rules)} neurons; a step of {input.beats} a cycle"
    channels = input, Layout(tuple(spike.bounds for spike in fired), input.beats)
    handshake = ready, spikes, valid
    return body.stage(name, comment, channels, PipelineTiming(1), handshake, neurons.circuit.layers)


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
    where = potentials(rules, [input.bounds[place] for place in places], steps)
    output = Layout(tuple(one.all for one in where))
    body = StageBody([input.width], [output.width])
    neurons = Neurons(body, layer, source)
    currents = neurons.elements(body.in_data[0], input, places)
    valid, ready, moved = body.taking()
    first = body.state(1, "first", 1)
    _, last = body.counter(steps, moved, "step")
    ends = body.all_of(moved, last, name="ends")
    body.drive(valid, ends, ready)
    body.drive(first, ends, moved)
    _, registers = neurons.run(rules, where, currents, moved, first, None)
    comment = f"The potentials of {len(rules)} neurons after {steps} steps"
    handshake, timing = (ready, body.joined(registers), valid), FrameTiming(steps, 1)
    return body.stage(name, comment, (input, output), timing, handshake, neurons.circuit.layers)
