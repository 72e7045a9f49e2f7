"""The stage of neurons: a beat is a step, and each neuron has a register for each of its states.

A step of a neuron is one cycle: decay, current, comparison and reset follow each other between two
edges of the clock: the step of the model, on signals. After the last step of a frame the registers
take their first values again. Each has the bits that the states of a frame need, found by following
the interval of a neuron from step to step; where that leaves the type, the type's, with sums that
wrap around as its do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from .....ir.neurons import MODELS
from .....passes.adder_graph.graph import around, width_of
from ..arithmetic import add, at_least, clamp, equal_to, plain, scaled, select
from ..circuit import Circuit, Search
from ..pacing import Pacing
from ..signals import Signal, Wire
from .body import ModuleBody, StageBody
from .integer_arithmetic import IntegerArithmetic
from .neuron_rules import Bounds, NeuronRule, Range, state_ranges
from .stage import Layout, Stage

_SHORT_COMPARISON = 12
"""Bits of two look-up tables: a comparison of no more is logic, which synthesis would repeat before
each bit that it selects; the sign of a difference is there already."""


class Neurons:
    """Neurons while their module is being written: arithmetic without registers between.

    Attributes:
        circuit: where the arithmetic goes.
    """

    def __init__(
        self, body: ModuleBody, name: str, source: str, search: Search | None = None
    ) -> None:
        self.body = body
        self.circuit = Circuit(body.block, body.clock, body.reset, Pacing(0))
        self.circuit.search = search or self.circuit.search
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
        ranges: Sequence[Sequence[Range]],
        currents: Sequence[Signal],
        moved: SSAValue,
        first: SSAValue | None,
        restart: SSAValue | None,
        prefix: str = "v",
    ) -> tuple[list[Signal], list[list[SSAValue]]]:
        """A step of all neurons with a register for each state, in cycles in which `moved` is 1.

        Args:
            ranges: where their states lie.
            currents: of the step.
            moved: whether a beat comes in.
            first: whether it is the first of a frame: states begin there; or `None`:
            restart: whether they take their first value at the next edge, after a frame. Registers
                do that by themselves, without a selection before each bit.
            prefix: of the names of the registers of potentials.

        Returns:
            The spikes, and for each neuron the registers of its states.
        """
        spikes: list[Signal] = []
        registers: list[list[SSAValue]] = []
        for index, (rule, where, current) in enumerate(zip(rules, ranges, currents, strict=True)):
            names = [prefix if name == "v" else name for name in rule.states]
            held = [
                self._held(rule.first[k], where[k], f"{names[k]}_{index}", first, restart)
                for k in range(len(where))
            ]
            with self.circuit.element(index):
                fired, after = self.step(rule, where, [signal for _, signal in held], current)
            for (register, _), state, r in zip(held, after, where, strict=True):
                bounds = r.held if first is None else r.all
                if bounds[0] != bounds[1]:
                    width = width_of(*bounds)
                    self.body.drive(register, self.bits(state, width), moved)
            spikes.append(fired)
            registers.append([register for register, _ in held])
        return spikes, registers

    def _held(
        self, begin: int, where: Range, name: str, first: SSAValue | None, restart: SSAValue | None
    ) -> tuple[SSAValue, Signal]:
        """The register of a state, and the state before a step."""
        bounds = where.held if first is None else where.all
        width = width_of(*bounds)
        start = self.body.constant(begin, width)
        if bounds[0] == bounds[1]:
            return start, Signal.constant(bounds[0])
        register = self.body.state(width, name, begin if first is None else None, restart)
        before = register if first is None else self.body.select(first, start, register)
        return register, Signal.of(before, bounds)

    def bits(self, signal: Signal, width: int) -> SSAValue:
        """A number on so many wires."""
        number = plain(self.circuit, signal)
        if number.wire is None:
            return self.body.constant(number.offset, width)
        return self.circuit.bits(number.wire, width)

    def step(
        self,
        rule: NeuronRule,
        where: Sequence[Range],
        states: Sequence[Signal],
        current: Signal,
    ) -> tuple[Signal, Sequence[Signal]]:
        """The spike of a neuron with these states, and its states after."""
        return MODELS[rule.model].step(_Signals(self, rule, where), current, states)


class _Signals(IntegerArithmetic[Signal]):
    """A step on signals, between two edges of the clock."""

    def __init__(self, neurons: Neurons, rule: NeuronRule, where: Sequence[Range]) -> None:
        super().__init__(rule)
        self.circuit, self._body = neurons.circuit, neurons.body
        self._potential = where[rule.states.index("v")]

    def whole(self, value: int) -> Signal:
        return Signal.constant(value)

    def known(self, a: Signal) -> int | None:
        return a.offset if a.wire is None else None

    def add(self, a: Signal, b: Signal) -> Signal:
        return add(self.circuit, a, b)

    def negated(self, a: Signal) -> Signal:
        return a.negated()

    def scaled(self, a: Signal, factor: int) -> Signal:
        return scaled(self.circuit, a, factor)

    def at_least(self, a: Signal, bound: int) -> Signal:
        return at_least(self.circuit, self._inside(a), bound)

    def is_zero(self, a: Signal) -> Signal:
        return equal_to(self.circuit, self._inside(a), 0)

    def relu(self, a: Signal) -> Signal:
        return clamp(self.circuit, self._inside(a), 0, None, self.circuit.name("positive"))

    def choose(self, where: Signal, chosen: Signal, other: Signal) -> Signal:
        chosen, other = self._inside(chosen), self._inside(other)
        bounds = around((chosen.bounds, other.bounds))
        return select(self.circuit, where, chosen, other, bounds, self.circuit.name("left"))

    def shifted(self, factor: Signal, x: Signal, places: int) -> Signal:
        decay = self.fixed(factor)
        if decay == 1 << places:
            return x
        product = plain(self.circuit, self.scaled(self._inside(x), decay))
        if product.wire is None:
            return Signal.constant(product.offset >> places)
        wire = product.wire
        bounds = wire.low >> places, wire.high >> places
        if bounds[0] == bounds[1]:
            return Signal.constant(bounds[0])
        width = width_of(*bounds)
        bits = self.circuit.bits(wire, max(wire.width, places + width))
        return Signal(Wire(self.circuit.extract(bits, places, width), *bounds))

    def fired(self, v: Signal, threshold: Signal) -> tuple[Signal, Signal]:
        """As everywhere; the sign of the difference to the threshold says whether it fires.

        A comparison beside what is left would be one adder more.
        """
        circuit, reset = self.circuit, self.options.reset
        theta = self.fixed(threshold)
        limit = theta + (self.options.compare == "gt")
        total = plain(circuit, v, circuit.name("v"))
        total = self._cut(total) if self._potential.wraps else total
        if reset == "none":
            return at_least(circuit, total, limit), total
        if reset == "to_value" and width_of(*total.bounds) > _SHORT_COMPARISON:
            fired, value = at_least(circuit, total, limit), self.parameter("v_reset")
        else:
            above = plain(circuit, total.plus(-limit), circuit.name("above"))
            fired = self._not_negative(above)
            value = self.parameter("v_reset") if reset == "to_value" else above.plus(limit - theta)
        bounds = self._potential.all
        return fired, select(circuit, fired, value, total, bounds, circuit.name("left"))

    def _not_negative(self, x: Signal) -> Signal:
        """1 where x ≥ 0, by the sign of x."""
        low, high = x.bounds
        if low >= 0 or high < 0 or x.wire is None:
            return Signal.constant(int(low >= 0))
        sign = self.circuit.extract(x.wire.value, x.wire.width - 1, 1)
        return Signal(Wire(self._body.inverse(sign), 0, 1))

    def _inside(self, x: Signal) -> Signal:
        """A number as the type holds it."""
        low, high = self.rule.type
        if low <= x.bounds[0] and x.bounds[1] <= high:
            return x
        return self._cut(plain(self.circuit, x))

    def _cut(self, x: Signal) -> Signal:
        """The lowest bits of a number, which are what it wraps around to."""
        low, high = self.rule.type
        if x.wire is None:
            return Signal.constant((x.offset - low) % (high - low + 1) + low)
        return Signal(Wire(self.circuit.bits(x.wire, width_of(low, high)), low, high))


def all_ranges(
    rules: Sequence[NeuronRule], currents: Sequence[Bounds], steps: int
) -> list[tuple[Range, ...]]:
    """Where the states of neurons lie in frames of so many steps."""
    return [state_ranges(rule, bounds, steps) for rule, bounds in zip(rules, currents, strict=True)]


@dataclass(frozen=True)
class Population:
    """Neurons of a layer that are a stage.

    Attributes:
        name: of the stage.
        layer: the layer of the program.
        source: the op, in words.
        input: what comes in, with the currents.
        places: where the current of each neuron is in a beat.
        rules: of the neurons.
    """

    name: str
    layer: str
    source: str
    input: Layout
    places: Sequence[int]
    rules: Sequence[NeuronRule]

    def begun(self, steps: int) -> tuple[StageBody, Neurons, list[Signal], list[tuple[Range, ...]]]:
        """The body of their stage, their arithmetic in it, their currents, and where their states
        lie in frames of so many steps."""
        body = StageBody(self.input)
        neurons = Neurons(body, self.layer, self.source)
        currents = neurons.elements(body.in_data[0], self.input, self.places)
        where = all_ranges(self.rules, [current.bounds for current in currents], steps)
        return body, neurons, currents, where


def neuron_stage(population: Population) -> Stage:
    """The spikes of neurons, one cycle after their currents; a frame is a sample's steps."""
    rules, steps = population.rules, population.input.beats
    body, neurons, currents, where = population.begun(steps)
    valid, ready, moved = body.taking()
    last = body.counter(steps, moved, "step", early=True).last
    restart = body.any_of(body.reset, body.all_of(moved, last), name="restart")
    fired, _ = neurons.run(rules, where, currents, moved, None, restart)
    bits = [neurons.bits(spike, 1) for spike in fired]
    spikes = body.register(body.joined(bits), moved, "spikes")
    body.drive(valid, body.in_valid[0], ready)
    comment = f"{len(rules)} neurons; a step of {steps} a cycle"
    output = Layout(tuple(spike.bounds for spike in fired), steps)
    return body.stage(population.name, comment, output, (ready, spikes, valid))


def membrane_stage(population: Population, state: int = 0) -> Stage:
    """A state of neurons after the last step of a frame."""
    rules, steps = population.rules, population.input.beats
    body, neurons, currents, where = population.begun(steps)
    valid, ready, moved, first = body.closing(steps, "step")
    _, registers = neurons.run(rules, where, currents, moved, first, None)
    what = "potentials" if rules[0].states[state] == "v" else f"states {rules[0].states[state]}"
    comment = f"The {what} of {len(rules)} neurons after {steps} steps"
    output = Layout(tuple(one[state].all for one in where))
    handshake = ready, body.joined([held[state] for held in registers]), valid
    return body.stage(population.name, comment, output, handshake)
