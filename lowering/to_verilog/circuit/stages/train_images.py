"""Stages for images of spikes: a beat is a position of a step, positions row by row, steps in turn.

Neurons of a channel are the same at all positions, so that one circuit serves them all; their
potentials stand in a RAM, one word a position. The word of the next position is read while that of
the last one is written. Not here: windows (`window`).
"""

from __future__ import annotations

from xdsl.dialects import hw
from xdsl.ir import SSAValue

from .....passes.adder_graph.graph import width_of
from ..memories import Memory
from ..signals import Signal
from .body import StageBody
from .counters import Counter
from .neurons import Population
from .stage import Layout, Stage


def image_neuron_stage(population: Population, steps: int) -> Stage:
    """The spikes of neurons at all positions, one cycle after their currents.

    Args:
        population: a neuron a channel; a frame is the positions, at least two, of a sample's steps.
        steps: of a sample.
    """
    rules, input = population.rules, population.input
    positions = input.beats // steps
    body, neurons, currents, where = population.begun(steps)
    valid, ready, moved = body.taking()
    position = Counter(body, positions, "position")
    ends = body.all_of(moved, position.last, name="ends")
    last = body.counter(steps, ends, "step").last
    first = body.register(last, ends, "first", 1)
    held = [state.held for neuron in where for state in neuron]
    widths = [0 if low == high else width_of(low, high) for low, high in held]
    memory = Memory.ram(positions, sum(widths), apart=True) if any(widths) else None
    potentials: SSAValue | None = None
    following = position.step(moved)
    if memory:
        # The word of the next position; what is written at this one is not known yet.
        operands = [moved, position.value, body.constant(0, memory.width), moved, following]
        potentials = body.memory(memory, "potentials", operands)
    spikes: list[Signal] = []
    after_all: list[SSAValue] = []
    low, sizes = 0, iter(widths)
    for index, (rule, ranges, current) in enumerate(zip(rules, where, currents, strict=True)):
        states: list[Signal] = []
        own = [next(sizes) for _ in ranges]
        for label, begin, state, width in zip(rule.states, rule.first, ranges, own, strict=True):
            signal = Signal.constant(state.held[0])
            if width and potentials is not None:
                before = body.extract(potentials, low, width)
                begun = body.select(first, body.constant(begin, width), before, f"{label}_{index}")
                signal = Signal.of(begun, state.held)
            low += width
            states.append(signal)
        with neurons.circuit.element(index):
            fired, after = neurons.step(rule, ranges, states, current)
        after_all += [neurons.bits(s, w) for s, w in zip(after, own, strict=True) if w]
        spikes.append(fired)
    if potentials is not None:
        _write(body, potentials, body.joined(after_all))
    bits = [neurons.bits(spike, 1) for spike in spikes]
    data = body.register(body.joined(bits), moved, "spikes")
    body.drive(valid, body.in_valid[0], ready)
    comment = f"{len(rules)} neurons at {positions} positions; {steps} steps"
    output = Layout(tuple(spike.bounds for spike in spikes), input.beats)
    parts = [memory.declaration()] if memory else []
    return body.stage(population.name, comment, output, (ready, data, valid), parts)


def _write(body: StageBody, before: SSAValue, word: SSAValue) -> None:
    """What the position has from now on, instead of the word before."""
    op = before.owner
    assert isinstance(op, hw.InstanceOp)
    op.operands[_WRITTEN] = word
    # Behind what it takes, as Verilog declares wires; what it gives is declared before all.
    op.detach()
    body.put(op)


_WRITTEN = 3
"""The operand of a RAM that is written: behind the clock, whether, and where."""
