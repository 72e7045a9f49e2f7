"""A network of stages: who gives beats to whom, how deep its FIFOs are, its modules.

A network has one source and one sink. It is built from the source on; where the ways from a fork
meet again, each gets a place for a FIFO, and so do stages to which beats come in bursts. `finish`
finds out how deep they have to be, after it has put buffers where ready passes through too many
stages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from xdsl.ir import Operation, SSAValue

from .....ir.errors import LoweringError
from ..memories import Memory
from ..module_names import ModuleNames
from ..pacing import Pacing
from .body import StageBody, load_sizes, port_names
from .handshake import Handshake
from .links import FEW_BITS, fifo_stage
from .ready_paths import Hop, buffered_channels
from .schedule import Node, Schedule, schedule
from .stage import Layout, Stage


@dataclass(frozen=True)
class _Place:
    """A stage, or a FIFO whose depth is not known yet, and its channels.

    A FIFO with a number in `most` is for bursts: it is there, no deeper than that, where the
    network is slower without it.
    """

    name: str
    stage: Stage | None
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    most: int | None = None


_DEEPEST = 1 << 24
"""Beats of a FIFO whose depth is not known yet: more than any frame has."""

Merged = Callable[[int], int]
"""What became of a channel when FIFOs were left out."""


def _merged(instead: Mapping[int, int], channel: int) -> int:
    while channel in instead:
        channel = instead[channel]
    return channel


@cache
def _queue(most: int | None) -> Handshake:
    """How a FIFO of at most so many beats moves them, of so many bits that it has a RAM."""
    return fifo_stage("queue", Layout(((0, 1),) * (FEW_BITS + 1)), most or _DEEPEST).handshake


class Network:
    """A network while it is being built.

    Args:
        modules: the names of the circuit's modules.
        input: what comes in, on channel 0.
        pacing: how many stages ready may pass through in a cycle, and when FIFOs give beats.

    Attributes:
        layouts: what each channel carries.
    """

    def __init__(self, modules: ModuleNames, input: Layout, pacing: Pacing) -> None:
        self.modules = modules
        self.name = modules.new(f"{modules.top}_stages")
        self.pacing = pacing
        self.layouts = [input]
        self._places: list[_Place] = []

    def unique(self, wish: str) -> str:
        """A name for a stage."""
        return self.modules.new(f"{self.modules.top}_{wish}")

    def add(self, stage: Stage, inputs: Sequence[int]) -> list[int]:
        """Connect a stage to those channels; the channels of its outputs."""
        outputs = [self._channel(layout) for layout in stage.outputs]
        self._places.append(_Place(stage.name, stage, tuple(inputs), tuple(outputs)))
        return outputs

    def fifo(self, name: str, channel: int, most: int | None = None) -> int:
        """A place for a FIFO behind a channel; the channel behind it.

        Args:
            name: of the stage.
            channel: what comes in.
            most: of a FIFO for bursts: how deep it may be.
        """
        layout = self.layouts[channel]
        level = self.pacing.after_memory(1) + self.pacing.after_selection(layout.width)
        output = self._channel(replace(layout, level=max(layout.level, level)))
        self._places.append(_Place(name, None, (channel,), (output,), most))
        return output

    def _channel(self, layout: Layout) -> int:
        self.layouts.append(layout)
        return len(self.layouts) - 1

    def finish(self, sink: int) -> tuple[Stage, Schedule]:
        """The network as a stage, with FIFOs as deep as they get at its own pace.

        Its parts are those of its stages, equal memories as often as there are users.
        A FIFO that never holds more than one beat is left out.
        """
        self._cut_ready(sink)
        bursts = self._bursts(sink)
        held, ideal = self._held(bursts, sink)
        if not held:
            return self._built(*self._with_depths([]), ideal, sink)
        for spare in (0, 1):
            depths = [0 if most <= 1 else max(3, most + spare) for most in held]
            places, merged = self._with_depths(depths)
            actual = self._scheduled(places, merged, sink)
            if actual is not None and actual.interval <= ideal.interval:
                return self._built(places, merged, actual, sink)
        depths = [
            max(3, most + 1) if most or place.most is None else 0
            for most, place in zip(held, self._fifos, strict=True)
        ]
        places, merged = self._with_depths(depths)
        actual = self._scheduled(places, merged, sink)
        if actual is None:
            raise LoweringError(f"the stages of '{self.name}' wait for each other")
        return self._built(places, merged, actual, sink)

    @property
    def _fifos(self) -> list[_Place]:
        """The places of FIFOs, in order."""
        return [place for place in self._places if place.stage is None]

    def _cut_ready(self, sink: int) -> None:
        """Put buffers where ready passes through too many stages."""
        hops = [
            Hop(p.stage is None or p.stage.handshake.passes_ready, p.inputs, p.outputs)
            for p in self._places
        ]
        widths = {channel: layout.width for channel, layout in enumerate(self.layouts)}
        cut = {
            channel: self._channel(self.layouts[channel])
            for channel in buffered_channels(hops, widths, self.pacing.ready_stages)
            if channel != sink
        }
        places: list[_Place] = []
        for place in self._places:
            own = tuple(channel for channel in place.inputs if channel in cut)
            for channel in own:
                name = self.modules.new(f"{self.name}_buffer_{channel}")
                stage = fifo_stage(name, self.layouts[channel], 2)
                places.append(_Place(name, stage, (channel,), (cut[channel],)))
            inputs = tuple(cut.get(channel, channel) for channel in place.inputs)
            places.append(replace(place, inputs=inputs))
        self._places = places

    def _bursts(self, sink: int) -> set[int]:
        """The channels before FIFOs for bursts without which the network is slower."""
        bursts = {place.inputs[0] for place in self._fifos if place.most is not None}
        if not bursts:
            return bursts
        _, best = self._held(bursts, sink)
        if self._held(set(), sink)[1].interval <= best.interval:
            return set()
        for channel in sorted(bursts, key=lambda c: -self.layouts[c].width):
            if self._held(bursts - {channel}, sink)[1].interval <= best.interval:
                bursts.remove(channel)
        return bursts

    def _held(self, bursts: set[int], sink: int) -> tuple[list[int], Schedule]:
        """What FIFOs hold at most, with those bursts, and all others as deep as they get."""
        instead: dict[int, int] = {}
        nodes: list[Node] = []
        left_out: set[int] = set()
        for place in self._places:
            inputs = tuple(_merged(instead, channel) for channel in place.inputs)
            if place.stage is not None:
                nodes.append(Node(place.stage.handshake.copy(), inputs, place.outputs))
            elif place.most is not None and place.inputs[0] not in bursts:
                instead[place.outputs[0]] = place.inputs[0]
                left_out.add(place.inputs[0])
            else:
                nodes.append(Node(_queue(place.most).copy(), inputs, place.outputs, is_queue=True))
        end = _merged(instead, sink)
        timetable = schedule(nodes, 0, end, self.layouts[sink].beats)
        held = iter(timetable.held)
        most = [0 if place.inputs[0] in left_out else next(held) for place in self._fifos]
        return most, timetable

    def _scheduled(self, places: Sequence[_Place], merged: Merged, sink: int) -> Schedule | None:
        nodes = [Node(p.stage.handshake.copy(), p.inputs, p.outputs) for p in places if p.stage]
        try:
            return schedule(nodes, merged(0), merged(sink), self.layouts[sink].beats)
        except LoweringError:
            return None

    def _with_depths(self, depths: Sequence[int]) -> tuple[list[_Place], Merged]:
        """The places with FIFOs of those depths, 0 for none, and what became of a channel."""
        instead: dict[int, int] = {}
        left = list(depths)
        places: list[_Place] = []
        for place in self._places:
            stage = place.stage
            if stage is None:
                depth = left.pop(0)
                if not depth:
                    instead[place.outputs[0]] = place.inputs[0]
                    continue
                stage = fifo_stage(place.name, self.layouts[place.inputs[0]], depth)
            inputs = tuple(_merged(instead, channel) for channel in place.inputs)
            places.append(replace(place, stage=stage, inputs=inputs))
        return places, lambda channel: _merged(instead, channel)

    def _built(
        self, places: Sequence[_Place], merged: Merged, timetable: Schedule, sink: int
    ) -> tuple[Stage, Schedule]:
        source, sink = merged(0), merged(sink)
        return self._stage(places, source, sink), timetable

    def _stage(self, places: Sequence[_Place], source: int, sink: int) -> Stage:
        body = StageBody(self.layouts[source])
        data = {source: body.in_data[0]}
        valid = {source: body.in_valid[0]}
        ready = {sink: body.out_ready[0]}
        later: list[tuple[Operation, int, int]] = []
        stages = [place.stage for place in places if place.stage]
        parts = [module for stage in stages for module in (*stage.parts, stage.module)]
        loads = [memory for stage in stages for memory in stage.loads]
        load_ports = body.load_ports(len(loads), *load_sizes(loads)) if loads else []
        for place in places:
            assert place.stage is not None
            operands: list[tuple[str, SSAValue]] = [("clock", body.clock), ("reset", body.reset)]
            for port, channel in zip(
                port_names("in", len(place.inputs)), place.inputs, strict=True
            ):
                operands += [(f"{port}_data", data[channel]), (f"{port}_valid", valid[channel])]
            unknown = len(operands)
            outs = port_names("out", len(place.outputs))
            operands += [(f"{port}_ready", body.out_ready[0]) for port in outs]
            if place.stage.loads:
                first = loads.index(place.stage.loads[0])
                operands += _load_operands(body, place.stage.loads, load_ports, first)
            results = [(f"{port}_ready", 1) for port in port_names("in", len(place.inputs))]
            for port, channel in zip(outs, place.outputs, strict=True):
                results += [(f"{port}_data", self.layouts[channel].width), (f"{port}_valid", 1)]
            prefix = place.stage.module.sym_name.data
            values = list(body.instance(prefix, place.name, operands, results))
            op = values[0].owner
            assert isinstance(op, Operation)
            for index, channel in enumerate(place.outputs):
                later.append((op, unknown + index, channel))
            for channel in place.inputs:
                ready[channel] = values.pop(0)
            for channel in place.outputs:
                data[channel], valid[channel] = values.pop(0), values.pop(0)
        for op, operand, channel in later:
            op.operands[operand] = ready[channel]
        comment = f"{len(places)} stages, one after another"
        handshake = ready[source], data[sink], valid[sink]
        return body.stage(self.name, comment, self.layouts[sink], handshake, parts, loads)


def _load_operands(
    body: StageBody, loads: Sequence[Memory], ports: Sequence[SSAValue], first: int
) -> list[tuple[str, SSAValue]]:
    """What a stage's ports for words of memories take of those of the network.

    Args:
        body: of the network.
        loads: the stage's memories.
        ports: of the network.
        first: the place of the first of its memories among all.
    """
    bits = len(loads), *load_sizes(loads)
    names = ("load_enable", "load_address", "load_data")
    lows = (first, 0, 0)
    return [
        (name, body.extract(port, low, size))
        for name, port, low, size in zip(names, ports, lows, bits, strict=True)
    ]
