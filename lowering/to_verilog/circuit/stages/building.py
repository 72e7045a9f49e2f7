"""The stages of the parts of a program, connected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from math import prod

import numpy as np
from xdsl.ir import Operation, SSAValue

from .....dialects import tensor
from .....dialects.inference import tensor_type
from .....passes.adder_graph.graph import width_of
from .....passes.analysis.compile_time import literal_value
from ..arrays import array_of
from ..circuit_rules import Signals, numbers
from ..evaluation import LayerNames, check_range, evaluate, words
from ..folding.stages import product_stage
from ..framing import Framing
from ..module_names import ModuleNames
from ..pacing import Pacing
from ..signals import Signal
from .arithmetic import ArithmeticStage
from .frames import Accumulation, accumulate_stage, gather_stage, scatter_stage
from .links import fork_stage, join_stage
from .network import BuiltNetwork, Network
from .partition import Part, Partition, WindowOp
from .positions import at_one_position, broadcasts
from .products import Search, on_window, paddings, position_shape, window_shape
from .stage import Layout, Stage
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


class Building:
    """Makes the network of a partition.

    Args:
        modules: the names of the circuit's modules.
        partition: the parts.
        inputs: what a beat of the network's input is: for each argument the bounds of its
            elements.
        names: of layers.
        options: how stages are made.

    Attributes:
        results: what a beat of the results is.
        framings: how beats come and go in words; none where a word is a beat.
    """

    results: Layout

    def __init__(
        self,
        modules: ModuleNames,
        partition: Partition,
        inputs: dict[SSAValue, Bounds],
        names: LayerNames,
        options: BuildOptions,
    ) -> None:
        self.modules = modules
        self.parts = partition.parts
        self.names = names
        self.options = options
        self._channels: dict[tuple[Part, Part], tuple[int, Elements]] = {}
        first = self.parts[0]
        bounds = tuple(ends for of in inputs.values() for ends in of)
        layout, channel = Layout(bounds, first.beats), 0
        self.framings: tuple[Framing, ...] = ()
        if options.word:
            self.framings = (Framing(options.word, layout.width, layout.beats),)
            self.network = Network(modules, words_layout(*self.framings), options.pacing)
            channel, self._marks = beats_of_words(self.network, *self.framings, layout)
        else:
            self.network = Network(modules, layout, options.pacing)
        self._give(first, channel, _side_by_side({value: len(of) for value, of in inputs.items()}))

    def build(self, returned: Sequence[SSAValue]) -> tuple[BuiltNetwork, list[list[int]]]:
        """The network, and for each returned value where its elements are in a beat of results."""
        for part in self.parts[1:-1]:
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
            channel = words_of_beats(self.network, framing, channel, order, self._marks)
        return self.network.finish(channel), places

    def _interval(self, part: Part, bits: int) -> int:
        """The fewest cycles from beat to beat with words around the only part of a network.

        Args:
            part: to be built.
            bits: of a beat of its results, about.

        Returns:
            0 where there are no words or other parts.
        """
        if not self.framings or self.parts[1:-1] != [part]:
            return 0
        out = Framing(self.options.word, bits, part.beats)
        return max(1, max(self.framings[0].words, out.words) // part.beats)

    def _against_bursts(self, part: Part, channel: int) -> int:
        """The channel into a part, behind a place for a FIFO where pixels come row by row."""
        (source, _), *_ = part.sources
        # Windows are so wide that a FIFO of them takes more than a quicker product.
        pixels = part.kind == "window" or (part.kind == "product" and source.kind != "window")
        if not pixels or not _comes_in_bursts(source):
            return channel
        name = self._unique(f"{self.names.of(part.ops[0])}_bursts")
        return self.network.fifo(name, channel, max(3, source.grid[-1]))

    def _unique(self, name: str) -> str:
        return self.modules.new(f"{self.modules.top}_{name}")

    def _taken_by(self, part: Part) -> tuple[int, Elements]:
        """The channel into a part, joined of those of all parts that it takes from."""
        makers = list(dict.fromkeys(source for source, _ in part.sources))
        channels_in = [self._channels[maker, part] for maker in makers]
        if len(channels_in) == 1:
            return channels_in[0]
        name = self._unique("join")
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
        if len(users) == 1:
            self._channels[part, users[0]] = channel, elements
            return
        places = [[place for value in values for place in elements[value]] for values in wanted]
        outputs = self.network.add(fork_stage(self._unique("fork"), layout, places), [channel])
        for user, values, output in zip(users, wanted, outputs, strict=True):
            own = _side_by_side({value: len(elements[value]) for value in values})
            self._channels[part, user] = output, own

    def _stage(self, part: Part, layout: Layout, elements: Elements) -> tuple[Stage, Elements]:
        every = list(range(len(layout.bounds)))
        (value,) = part.exports[:1]
        match part.kind:
            case "product":
                stage = self._product(part, layout, elements)
                return stage, {value: list(range(len(stage.outputs[0].bounds)))}
            case "window":
                return self._window(part, layout)
            case "gather":
                stage = gather_stage(self._unique("gather"), layout)
                return stage, {value: self._gathered(part, value, len(every))}
            case "scatter":
                positions = self._positions(part, value)
                return scatter_stage(self._unique("scatter"), layout, positions), {
                    value: list(range(len(positions[0])))
                }
            case "accumulate":
                (op,) = part.ops
                name = self.names.of(op)
                self.names.note(op, name)
                kind = _ACCUMULATIONS[type(op)]
                stage = accumulate_stage(self._unique(f"{name}_{kind}"), layout, kind)
                return stage, {value: every}
            case _:
                return self._arithmetic(part, layout, elements)

    def _product(self, part: Part, layout: Layout, elements: Elements) -> Stage:
        """A product that takes several cycles a beat, with what follows it."""
        ((source, value),) = part.sources
        name = self.names.of(part.ops[0])
        for op in part.ops:
            self.names.note(op, name)
        windows = source.kind == "window"
        return product_stage(
            self._unique(name),
            part.ops,
            layout,
            list(range(len(layout.bounds))) if windows else elements[value],
            pacing=self.options.pacing,
            time_budget=self.options.search.time_budget,
            keep_beat=not self._is_prompt(source),
        )

    def _window(self, part: Part, layout: Layout) -> tuple[Stage, Elements]:
        (op,) = part.ops
        assert isinstance(op, WindowOp)
        name = self._unique(f"{self.names.of(op)}_window")
        stage = window_stage(
            name, window_shape(op), layout, paddings(op, layout.bounds), self.options.pacing
        )
        places = list(range(len(stage.outputs[0].bounds)))
        return stage, {op.results[0]: places}

    def _gathered(self, part: Part, value: SSAValue, count: int) -> list[int]:
        """Where the elements of a value, in its own order, are in a gathered frame."""
        (source, _), *_ = part.sources
        shape = position_shape(tensor_type(value).get_shape(), ())
        axes = [axis + len(shape) for axis in source.spatial]
        others = [axis for axis in range(len(shape)) if axis not in axes]
        del count
        places = np.arange(prod(shape)).reshape([shape[a] for a in (*axes, *others)])
        return np.transpose(places, np.argsort((*axes, *others))).reshape(-1).tolist()

    def _positions(self, part: Part, value: SSAValue) -> list[list[int]]:
        """For each position the places of its elements in a frame in the value's order."""
        shape = position_shape(tensor_type(value).get_shape(), ())
        axes = [axis + len(shape) for axis in part.spatial]
        places = np.moveaxis(np.arange(prod(shape)).reshape(shape), axes, range(len(axes)))
        return places.reshape(part.beats, -1).tolist()

    def _arithmetic(self, part: Part, layout: Layout, elements: Elements) -> tuple[Stage, Elements]:
        name = self._unique(self.names.of(part.ops[0]) if part.ops else "combine")
        core = self.modules.new(f"{name}_core")
        writer = ArithmeticStage(name, core, layout, self.options.pacing)
        values: dict[SSAValue, Signals] = {}
        windows: dict[Operation, list[Signal]] = {}
        for source, value in part.sources:
            flat = [writer.elements[place] for place in elements[value]]
            if source.kind == "window":
                windows[source.ops[0]] = flat
            else:
                values[value] = array_of(flat, self._shape(value, part))
        for op in part.ops:
            for result, signals in zip(
                op.results, self._evaluated(writer, op, values, windows, part), strict=True
            ):
                values[result] = signals
        flat = [signal for value in part.exports for signal in values[value].reshape(-1)]
        places = _side_by_side({value: values[value].size for value in part.exports})
        bits = sum(width_of(*signal.bounds) for signal in flat)
        return writer.finish(flat, part.beats, self._interval(part, bits)), places

    def _is_prompt(self, part: Part) -> bool:
        """Whether a part has nothing else to do while its beat waits: it gives one a cycle."""
        if part.kind in ("gather", "scatter", "accumulate", "product"):
            return False
        if part.kind == "input" and self.framings:
            return self.framings[0].words <= part.beats
        return all(self._is_prompt(source) for source, _ in part.sources)

    def _shape(self, value: SSAValue, part: Part) -> tuple[int, ...]:
        return position_shape(tensor_type(value).get_shape(), part.spatial)

    def _evaluated(
        self,
        writer: ArithmeticStage,
        op: Operation,
        values: dict[SSAValue, Signals],
        windows: dict[Operation, list[Signal]],
        part: Part,
    ) -> Sequence[Signals]:
        if isinstance(op, WindowOp):
            window = windows[op] if op in windows else list(values[op.operands[0]].reshape(-1))
            name = self.names.of(op)
            self.names.note(op, name)
            writer.circuit.begin(name, words(op))
            result = on_window(writer.circuit, op, window, self.options.search)
            check_range(op, op.results[0], result)
            return [result]
        axes = part.spatial if broadcasts(op) else ()
        operands = [
            values[value] if value in values else _literal(value, axes) for value in op.operands
        ]
        return evaluate(writer.circuit, op, operands, self.names)


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


def _literal(value: SSAValue, spatial: Sequence[int]) -> Signals:
    array = literal_value(value)
    assert array is not None
    return numbers(at_one_position(array.astype(np.int64), tuple(spatial)))
