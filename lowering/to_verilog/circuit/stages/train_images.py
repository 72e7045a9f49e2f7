"""Stages for images of spikes: a beat is a position of a step, positions row by row, steps in turn.

Neurons of a channel are the same at all positions, so that one circuit serves them all; their
potentials stand in a RAM, one word a position. The word of the next position is read while that of
the last one is written. Not here: windows (`window`).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import hw
from xdsl.ir import SSAValue

from .....dialects.shapes import DYNAMIC
from .....dialects.spike.types import dense_type
from .....passes.adder_graph.graph import width_of
from ..memories import Memory
from ..signals import Signal
from .body import StageBody, clog2
from .neuron_rules import NeuronRule
from .neurons import Neurons, all_ranges
from .products import ImageOp
from .stage import Layout, Stage


def image_refusal(op: ImageOp) -> str | None:
    """Why an op on images of spikes cannot become hardware; `None` if it can."""
    shape = dense_type(op.operands[0]).get_shape()
    if shape[0] == DYNAMIC:
        return "how many steps a sample has is not known; give timesteps=T"
    if DYNAMIC in shape[2:]:
        return "the sizes of its images are not known; fix them with infer-shapes"
    return None


def image_neuron_stage(
    name: str,
    layer: str,
    source: str,
    input: Layout,
    places: Sequence[int],
    rules: Sequence[NeuronRule],
    steps: int,
) -> Stage:
    """The spikes of neurons at all positions, one cycle after their currents.

    Args:
        name: of the stage.
        layer: the layer of the program.
        source: the op, in words.
        input: the currents; a frame is the positions, at least two, of a sample's steps.
        places: where the current of each channel is in a beat.
        rules: of the neurons of each channel.
        steps: of a sample.
    """
    positions = input.beats // steps
    body = StageBody(input)
    neurons = Neurons(body, layer, source)
    currents = neurons.elements(body.in_data[0], input, places)
    where = all_ranges(rules, [current.bounds for current in currents], steps)
    valid, ready, moved = body.taking()
    position = body.counting(positions, "position")
    ends = body.all_of(moved, position.last, name="ends")
    _, last = body.counter(steps, ends, "step")
    first = body.register(last, ends, "first", 1)
    held = [state.held for neuron in where for state in neuron]
    widths = [0 if low == high else width_of(low, high) for low, high in held]
    potentials_at = _Kept(body, sum(widths), positions, position.value, position.last, moved)
    body.count_on(position, moved)
    spikes: list[Signal] = []
    following: list[SSAValue] = []
    low, sizes = 0, iter(widths)
    for index, (rule, ranges, current) in enumerate(zip(rules, where, currents, strict=True)):
        states: list[Signal] = []
        own = [next(sizes) for _ in ranges]
        for label, begin, state, width in zip(rule.states, rule.first, ranges, own, strict=True):
            signal = Signal.constant(state.held[0])
            if width:
                before = body.extract(potentials_at.word, low, width)
                begun = body.select(first, body.constant(begin, width), before, f"{label}_{index}")
                signal = Signal.of(begun, state.held)
            low += width
            states.append(signal)
        with neurons.circuit.element(index):
            fired, after = neurons.step(rule, ranges, states, current)
        following += [neurons.bits(s, w) for s, w in zip(after, own, strict=True) if w]
        spikes.append(fired)
    if following:
        potentials_at.write(body.joined(following))
    data = body.state(len(rules), "spikes")
    body.drive(data, body.joined([neurons.bits(spike, 1) for spike in spikes]), moved)
    body.drive(valid, body.in_valid[0], ready)
    comment = f"{len(rules)} neurons at {positions} positions; {steps} steps"
    output = Layout(tuple(spike.bounds for spike in spikes), input.beats)
    parts = [memory.declaration() for memory in potentials_at.memories]
    return body.stage(name, comment, output, (ready, data, valid), parts)


class _Kept:
    """The potentials of all positions.

    Args:
        body: of the module.
        width: of a position's; 0 where all are known.
        positions: how many.
        position: the one whose beat comes.
        last: whether it is the last.
        moved: whether its beat comes in.

    Attributes:
        word: that of the position.
    """

    def __init__(
        self,
        body: StageBody,
        width: int,
        positions: int,
        position: SSAValue,
        last: SSAValue,
        moved: SSAValue,
    ) -> None:
        self.body = body
        self.memories: list[Memory] = []
        if not width:
            return
        memory = Memory.ram(positions, width)
        self.memories.append(memory)
        following = body.add(position, 1)
        if positions & (positions - 1):
            following = body.select(last, body.constant(0, clog2(positions)), following)
        unknown = body.constant(0, width)
        self.word = body.memory(memory, "potentials", [moved, position, unknown, moved, following])

    def write(self, word: SSAValue) -> None:
        """What the position has from now on."""
        op = self.word.owner
        assert isinstance(op, hw.InstanceOp)
        op.operands[_WRITTEN] = word
        # Behind what it takes, as Verilog declares wires; what it gives is declared before all.
        op.detach()
        self.body.put(op)


_WRITTEN = 3
"""The operand of a RAM that is written: behind the clock, whether, and where."""
