"""The stages of the parts of a program, connected; or the one circuit that all of it is.

Not here: which parts there are (`partition`), what is refused (`refusals`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain
from math import prod

import numpy as np
from xdsl.ir import Operation, SSAValue

from .....dialects import spike, tensor
from .....dialects.spike.types import dense_type
from .....ir.progress import tracked
from ..arrays import array_of
from ..circuit import Circuit, Search
from ..circuit_rules import Signals
from ..evaluation import (
    LayerNames,
    check_batch,
    check_range,
    evaluate,
    literal_signals,
    words,
)
from ..folding.stages import product_stage
from ..framing import Framing
from ..module_names import ModuleNames
from ..pacing import Pacing
from ..pipeline import Core, Pipeline
from .frames import (
    Accumulation,
    accumulate_stage,
    check_gathered,
    delay_stage,
    delays_of,
    gather_stage,
    last_stage,
    repeat_stage,
    scatter_stage,
)
from .links import fork_stage, join_stage, selection_stage
from .network import Network
from .neuron_rules import neuron_rules
from .neurons import Population, membrane_stage, neuron_stage
from .partition import Partition
from .parts import Part, read_as, truth_values
from .positions import broadcasts
from .products import ImageOp, WindowOp, on_window, paddings, position_shape, window_shape
from .recurrence import scan_stage
from .schedule import Schedule
from .stage import Layout, Stage, repeated
from .train_images import image_neuron_stage
from .window import window_stage
from .words import beats_of_words, words_layout, words_of_beats

_ACCUMULATIONS: dict[type[Operation], Accumulation] = {
    tensor.ReduceSumOp: "sum",
    tensor.ReduceMaxOp: "max",
    tensor.ReduceMinOp: "min",
}

Bounds = Sequence[tuple[int, int]]
"""The least and the largest value of each element."""

Elements = dict[SSAValue, list[int]]
"""For each value the places of its elements in a beat."""


@dataclass(frozen=True)
class BuildOptions:
    """How stages are made.

    Attributes:
        pacing: where registers are wanted.
        search: how adders are searched for.
        word: bits of a word of the streams; 0 where a word is a beat.
    """

    pacing: Pacing
    search: Search
    word: int = 0


@dataclass
class Building:
    """Makes the network of a partition.

    Args:
        inputs: what a beat of the network's input is: for each argument the bounds of its
            elements.

    Attributes:
        results: what a beat of the results is.
        framings: how beats come and go in words; none where a word is a beat.
    """

    modules: ModuleNames
    partition: Partition
    inputs: dict[SSAValue, Bounds]
    names: LayerNames
    options: BuildOptions
    results: Layout = field(init=False)
    network: Network = field(init=False)
    framings: tuple[Framing, ...] = field(default=(), init=False)

    def __post_init__(self) -> None:
        self.parts = self.partition.parts
        self._channels: dict[tuple[Part, Part], tuple[int, Elements]] = {}

    def core(
        self, inputs: Mapping[str, SSAValue], outputs: Mapping[str, SSAValue], name: str
    ) -> Core:
        """The circuit of a program that is one piece of arithmetic."""
        layouts = {port: Layout(tuple(self.inputs[value])) for port, value in inputs.items()}
        writer = Pipeline(name, layouts, self.options.pacing, self.options.search)
        values: dict[SSAValue, Signals] = {
            value: array_of(flat, position_shape(dense_type(value).get_shape(), ()))
            for value, flat in zip(inputs.values(), writer.elements, strict=True)
        }
        for part in self.parts:
            self._compute(writer.circuit, part, values)
        return writer.finish(
            {
                port: list((values[v] if v in values else literal_signals(v, ())).reshape(-1))
                for port, v in outputs.items()
            }
        )

    def build(self, returned: Sequence[SSAValue]) -> tuple[Stage, Schedule, list[list[int]]]:
        """The network, its schedule, and where the returned values are in a beat of results."""
        first = self.parts[0]
        bounds = tuple(ends for of in self.inputs.values() for ends in of)
        layout, channel, marks = Layout(bounds, first.beats), 0, 0
        if self.options.word:
            self.framings = (Framing(self.options.word, layout.width, layout.beats),)
            self.network = Network(self.modules, words_layout(*self.framings), self.options.pacing)
            channel, marks = beats_of_words(self.network, *self.framings, layout)
        else:
            self.network = Network(self.modules, layout, self.options.pacing)
        sizes = {value: len(of) for value, of in self.inputs.items()}
        self._give(first, channel, _side_by_side(sizes))
        for part in tracked(self.parts[1:-1], "Stage of the circuit", shown=False):
            channel, elements = self._taken_by(part)
            channel = self._against_bursts(part, channel)
            stage, places = self._stage(part, self.network.layouts[channel], elements)
            (output,) = self.network.add(stage, [channel])
            self._give(part, output, places)
        channel, elements = self._taken_by(self.parts[-1])
        self.results = self.network.layouts[channel]
        places = [elements[value] for value in returned]
        if self.framings:
            order = [*chain.from_iterable(places)]
            bits = sum(self.results.widths[index] for index in order)
            framing = Framing(self.options.word, bits, self.results.beats)
            self.framings = (*self.framings, framing)
            channel = words_of_beats(self.network, framing, channel, order, marks)
        return *self.network.finish(channel), places

    def _against_bursts(self, part: Part, channel: int) -> int:
        """The channel into a part, behind a place for a FIFO where pixels come row by row."""
        (source, _), *_ = part.sources
        # Windows are so wide that a FIFO of them takes more than a quicker product.
        pixels = part.kind == "window" or (part.kind == "product" and source.kind != "window")
        if not pixels or not _comes_in_bursts(source):
            return channel
        name = self.network.unique(f"{self.names.of(part.ops[0])}_bursts")
        return self.network.fifo(name, channel, max(3, source.grid[-1]))

    def _taken_by(self, part: Part) -> tuple[int, Elements]:
        """The channel into a part, joined of those of all parts that it takes from."""
        makers = list(dict.fromkeys(source for source, _ in part.sources))
        channels_in = [self._channels[maker, part] for maker in makers]
        if len(channels_in) == 1:
            return channels_in[0]
        name = self.network.unique("join")
        channels = [
            self.network.fifo(self.modules.new(f"{name}_fifo_{index}"), channel)
            for index, (channel, _) in enumerate(channels_in)
        ]
        stage = join_stage(name, [self.network.layouts[channel] for channel in channels])
        (output,) = self.network.add(stage, channels)
        elements: Elements = {}
        start = 0
        for channel, places in channels_in:
            for value, own in places.items():
                elements[value] = [start + place for place in own]
            start += len(self.network.layouts[channel].bounds)
        return output, elements

    def _give(self, part: Part, channel: int, elements: Elements) -> None:
        """Give a part's results to all that take from it."""
        users = [p for p in self.parts if any(source is part for source, _ in p.sources)]
        wanted = [[v for source, v in user.sources if source is part] for user in users]
        layout = self.network.layouts[channel]
        places = [[place for value in values for place in elements[value]] for values in wanted]
        if len(users) == 1 and len(places[0]) == len(layout.bounds):
            self._channels[part, users[0]] = channel, elements
            return
        if len(users) == 1:
            stage = selection_stage(self.network.unique("selection"), layout, places[0])
        else:
            stage = fork_stage(self.network.unique("fork"), layout, places)
        outputs = self.network.add(stage, [channel])
        for user, values, output in zip(users, wanted, outputs, strict=True):
            own = _side_by_side({value: len(elements[value]) for value in values})
            self._channels[part, user] = output, own

    def _stage(self, part: Part, layout: Layout, elements: Elements) -> tuple[Stage, Elements]:
        (source, value), *_ = part.sources
        result, op = part.exports[0], part.ops[0] if part.ops else None
        layer = "" if op is None else self.names.of(op)
        if op is not None:
            self.names.note(op, layer)
        match part.kind:
            case "product":
                stage = self._product(part, layout, elements)
            case "window":
                assert isinstance(op, WindowOp | ImageOp)
                shape, name = window_shape(op), self.network.unique(f"{layer}_window")
                frames = layout.beats // prod(shape.size)
                image = replace(layout, beats=prod(shape.size))
                around = paddings(op, layout.bounds)
                one = window_stage(name, shape, image, around, self.options.pacing)
                stage = repeated(one, layout, frames)
            case "gather":
                frame = replace(layout, beats=layout.beats // part.beats)
                check_gathered(result, frame)
                one = gather_stage(self.network.unique("gather"), frame)
                places = _gathered(part, source, value, elements[value], len(layout.bounds))
                return repeated(one, layout, part.beats), {result: places}
            case "scatter":
                positions = _positions(part, source, value, elements[value])
                one = scatter_stage(
                    self.network.unique("scatter"), replace(layout, beats=1), positions
                )
                stage = repeated(one, layout, layout.beats)
            case "accumulate":
                (op,), places = part.ops, elements[value]
                kind = _ACCUMULATIONS[type(op)]
                stage = accumulate_stage(self.network.unique(f"{layer}_{kind}"), layout, kind)
                check_range(op, result, (stage.outputs[0].bounds[place] for place in places))
                return stage, {result: places}
            case "stepwise":
                return self._stepwise(part, layer, layout, elements)
            case _:
                return self._arithmetic(part, layout, elements)
        return stage, {result: list(range(len(stage.outputs[0].bounds)))}

    def _stepwise(
        self, part: Part, layer: str, layout: Layout, elements: Elements
    ) -> tuple[Stage, Elements]:
        """Neurons, or what else works step by step; for each value where its elements are."""
        (op,), (_, value), result = part.ops, part.sources[0], part.exports[0]
        if isinstance(op, spike.ScanOp):
            return self._loop(part, op, layer, layout, elements)
        if isinstance(result.owner, Operation):
            self.names.note(result.owner, layer)
        places = elements[value]
        own = list(range(len(places)))
        source = f"{op.name} of {len(places)}"
        match op:
            case spike.NeuronOp():
                final, steps = list[SSAValue](op.final), (part.grid or (1,))[0]
                name = self.network.unique(
                    f"{layer}_{'membrane' if result in final else 'neurons'}"
                )
                positions = 1 if result in final else layout.beats // steps
                if len(part.spatial) > 1:
                    source += f" at {positions} positions"
                rules = neuron_rules(op)[::positions]
                neurons = Population(name, layer, source, layout, places, rules)
                if result in final:
                    stage = membrane_stage(neurons, final.index(result))
                elif positions > 1:
                    stage = image_neuron_stage(neurons, steps)
                else:
                    stage = neuron_stage(neurons)
            case spike.DelayOp():
                name = self.network.unique(f"{layer}_delay")
                shape = position_shape(dense_type(op.input).get_shape()[1:], ())
                stage = delay_stage(name, layout, places, delays_of(op, shape).ravel().tolist())
            case spike.EncodeOp():
                assert op.timesteps is not None
                name, own = self.network.unique(f"{layer}_repeat"), places
                stage = repeat_stage(name, layout, op.timesteps.value.data)
            case _:
                stage, own = last_stage(self.network.unique(f"{layer}_last"), layout), places
        return stage, {result: own}

    def _loop(
        self, part: Part, op: spike.ScanOp, layer: str, layout: Layout, elements: Elements
    ) -> tuple[Stage, Elements]:
        """A loop over steps; its results are read as tensors, or as trains by other loops."""
        runs = [elements[read_as(value)] for value in op.runs]
        name = self.network.unique(f"{layer}_loop")
        stage, places = scan_stage(name, op, layout, runs, self.names, self.options.search)
        every: Elements = {}
        for value, own in zip(op.outputs, places, strict=True):
            every |= dict.fromkeys((value, *truth_values(value)), own)
        for value in every:
            if isinstance(value.owner, Operation):
                self.names.note(value.owner, layer)
        return stage, {value: every[value] for value in part.exports}

    def _product(self, part: Part, layout: Layout, elements: Elements) -> Stage:
        """A product that takes several cycles a beat, with what follows it."""
        ((source, value),) = part.sources
        name = self.names.of(part.ops[0])
        for op in part.ops:
            self.names.note(op, name)
        windows = source.kind == "window"
        return product_stage(
            self.network.unique(name),
            part.ops,
            layout,
            list(range(len(layout.bounds))) if windows else elements[value],
            pacing=self.options.pacing,
            time_budget=self.options.search.time_budget,
            keep_beat=not self._is_prompt(source),
        )

    def _arithmetic(self, part: Part, layout: Layout, elements: Elements) -> tuple[Stage, Elements]:
        name = self.network.unique(self.names.of(part.ops[0]) if part.ops else "combine")
        options, core = self.options, self.modules.new(f"{name}_core")
        writer = Pipeline(core, {"x": layout}, options.pacing, options.search, name)
        values: dict[SSAValue, Signals] = {}
        for source, value in part.sources:
            flat = [writer.elements[0][place] for place in elements[value]]
            shape = position_shape(dense_type(value).get_shape(), part.spatial)
            values[value] = array_of(flat, (-1,) if source.kind == "window" else shape)
        self._compute(writer.circuit, part, values)
        signals = [signal for value in part.exports for signal in values[value].reshape(-1)]
        places = _side_by_side({value: values[value].size for value in part.exports})
        made = writer.finish({"y": signals}, part.beats)
        return made.stage(name, layout), places

    def _compute(self, circuit: Circuit, part: Part, values: dict[SSAValue, Signals]) -> None:
        """What the ops of an arithmetic part make of values at one position.

        A window's result is that of its op in `values` until the op is computed.
        """
        for op in tracked(part.ops, "Arithmetic of", shown=False, name=lambda op: op.name):
            if isinstance(op, WindowOp | ImageOp):
                (result,) = op.results
                taken = values[result if result in values else op.operands[0]]
                name = self.names.of(op)
                self.names.note(op, name)
                circuit.begin(name, words(op))
                values[result] = on_window(circuit, op, list(taken.reshape(-1)))
                check_range(op, result, (x.bounds for x in values[result].reshape(-1)))
                continue
            axes = part.spatial if broadcasts(op) else ()
            operands = [
                values[value] if value in values else literal_signals(value, axes)
                for value in op.operands
            ]
            results = evaluate(circuit, op, operands, self.names)
            for result, signals in zip(op.results, results, strict=True):
                if not self.partition.timed:
                    check_batch(op, result, signals)
                values[result] = signals

    def _is_prompt(self, part: Part) -> bool:
        """Whether a part has nothing else to do while its beat waits: it gives one a cycle."""
        if part.kind not in ("input", "window", "arithmetic"):
            return False
        if part.kind == "input" and self.framings:
            return self.framings[0].words <= part.beats
        return all(self._is_prompt(source) for source, _ in part.sources)


def _side_by_side(sizes: Mapping[SSAValue, int]) -> Elements:
    """The places of values of so many elements each, in one beat after another."""
    starts = accumulate(sizes.values(), initial=0)
    pairs = zip(sizes.items(), starts, strict=False)
    return {value: list(range(start, start + size)) for (value, size), start in pairs}


def _comes_in_bursts(part: Part) -> bool:
    """Whether a part gives the beats of some rows alone, as stages behind a stride do."""
    if part.kind == "window":
        (op,) = part.ops
        if not isinstance(op, WindowOp):
            return False  # images of spikes come and go step by step
        return part.beats > 1 and window_shape(op).strides != (1, 1)
    if part.kind not in ("arithmetic", "product") or not part.spatial:
        return False
    return any(_comes_in_bursts(source) for source, _ in part.sources)


def _gathered(
    part: Part, source: Part, value: SSAValue, places: Sequence[int], width: int
) -> list[int]:
    """Where the elements of a value, in its own order, are in a gathered beat.

    Args:
        part: gathers positions.
        source: has the value position by position.
        value: what is wanted.
        places: of its elements in the beat of a position.
        width: the elements of such a beat.
    """
    shape = position_shape(dense_type(value).get_shape(), part.spatial)
    axes = [axis for axis in source.spatial if axis not in part.spatial]
    grid = position_shape(shape, [a for a in range(-len(shape), 0) if a not in axes])
    positions = np.arange(prod(grid)).reshape(grid)
    own = np.reshape(places, position_shape(shape, axes))
    return (positions * width + own).reshape(-1).tolist()


def _positions(part: Part, source: Part, value: SSAValue, places: Sequence[int]) -> list[list[int]]:
    """For each position the places of its elements in a beat that has those of the value there."""
    shape = position_shape(dense_type(value).get_shape(), source.spatial)
    axes = [axis for axis in part.spatial if axis not in source.spatial]
    every = np.moveaxis(np.reshape(places, shape), axes, range(len(axes)))
    return every.reshape(prod(shape[axis] for axis in axes), -1).tolist()
