"""A network of stages: who gives beats to whom, how deep its FIFOs are, its modules.

A network has one source and one sink. It is built from the source on; where the ways from a fork
meet again, each gets a place for a FIFO, and so do stages to which beats come in bursts. `finish`
finds out how deep they have to be, after it has put buffers where ready passes through too many
stages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import inf

from xdsl.dialects import hw
from xdsl.ir import Block, Operation

from .....ir.errors import LoweringError
from ..module_names import ModuleNames
from ..pacing import Pacing
from .body import StageBody, load_sizes, port_names
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
    is_queue: bool = False


_DEEPEST = 1 << 24
"""Beats of a FIFO whose depth is not known yet: more than any frame has."""


@cache
def _queue(most: int) -> Stage:
    """A FIFO of at most so many beats, of so many bits that it has a RAM."""
    return fifo_stage("queue", Layout(((0, 1),) * (FEW_BITS + 1)), most)


class Network:
    """A network while it is being built.

    Args:
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
            channel: what comes in.
            most: of a FIFO for bursts: how deep it may be.
        """
        layout = self.layouts[channel]
        level = self.pacing.after_memory(1) + self.pacing.after_selection(layout.width)
        output = self._channel(replace(layout, level=max(layout.level, level)))
        self._places.append(_Place(name, None, (channel,), (output,), most, is_queue=True))
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
        held, ideal = self._held(self._bursts(sink), sink)
        tight, spare = (
            [0 if most <= 1 else max(3, most + more) for most in held] for more in (0, 1)
        )
        every = [
            max(3, most + 1) if most or place.most is None else 0
            for most, place in zip(held, self._fifos, strict=True)
        ]
        for depths, slowest in ((tight, ideal.interval), (spare, ideal.interval), (every, inf)):
            queues = [
                fifo_stage(place.name, self.layouts[place.inputs[0]], depth) if depth else None
                for place, depth in zip(self._fifos, depths, strict=True)
            ]
            places, end = self._placed(queues, sink)
            try:
                timetable = self._scheduled(places, end)
            except LoweringError:
                continue
            if timetable.interval <= slowest:
                return self._stage(places, end), timetable
        raise LoweringError(f"the stages of '{self.name}' wait for each other")

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
        there = [p.most is None or p.inputs[0] in bursts for p in self._fifos]
        queues = [
            _queue(place.most or _DEEPEST) if is_there else None
            for place, is_there in zip(self._fifos, there, strict=True)
        ]
        timetable = self._scheduled(*self._placed(queues, sink))
        held = iter(timetable.held)
        return [next(held) if is_there else 0 for is_there in there], timetable

    def _placed(self, queues: Sequence[Stage | None], sink: int) -> tuple[list[_Place], int]:
        """The stages with those FIFOs in their places, or none there, and the last channel."""
        left, instead = iter(queues), dict[int, int]()
        places: list[_Place] = []
        for place in self._places:
            stage = next(left) if place.is_queue else place.stage
            inputs = tuple(instead.get(channel, channel) for channel in place.inputs)
            if stage is None:
                instead[place.outputs[0]] = inputs[0]
            else:
                places.append(replace(place, stage=stage, inputs=inputs))
        return places, instead.get(sink, sink)

    def _scheduled(self, places: Sequence[_Place], sink: int) -> Schedule:
        nodes = [
            Node(place.stage.handshake, place.inputs, place.outputs, place.is_queue)
            for place in places
            if place.stage
        ]
        return schedule(nodes, 0, sink, self.layouts[sink].beats)

    def _stage(self, places: Sequence[_Place], sink: int) -> Stage:
        body = StageBody(self.layouts[0])
        data, valid = {0: body.in_data[0]}, {0: body.in_valid[0]}
        ready = {sink: body.out_ready[0]}
        later: list[tuple[Operation | Block, str, int]] = []
        stages = [place.stage for place in places if place.stage]
        parts = [module for stage in stages for module in (*stage.parts, stage.module)]
        loads = [memory for stage in stages for memory in stage.loads]
        load_ports = body.load_ports(len(loads), *load_sizes(loads)) if loads else []
        for place, stage in zip(places, stages, strict=True):
            ins, outs = port_names("in", len(place.inputs)), port_names("out", len(place.outputs))
            given = {"clock": body.clock, "reset": body.reset}
            for port, channel in zip(ins, place.inputs, strict=True):
                given |= {f"{port}_data": data[channel], f"{port}_valid": valid[channel]}
            given |= {f"{port}_ready": body.out_ready[0] for port in outs}  # until it is known
            if stage.loads:
                enable, address, word = load_ports
                bits, width = load_sizes(stage.loads)
                first = loads.index(stage.loads[0])
                given |= {
                    "load_enable": body.extract(enable, first, len(stage.loads)),
                    "load_address": body.extract(address, 0, bits),
                    "load_data": body.extract(word, 0, width),
                }
            made = body.instance(stage.module, place.name, given)
            for port, channel in zip(ins, place.inputs, strict=True):
                ready[channel] = made[f"{port}_ready"]
            for port, channel in zip(outs, place.outputs, strict=True):
                data[channel], valid[channel] = made[f"{port}_data"], made[f"{port}_valid"]
                later.append((data[channel].owner, f"{port}_ready", channel))
        for op, port, channel in later:
            assert isinstance(op, hw.InstanceOp)
            op.operands[[name.data for name in op.arg_names].index(port)] = ready[channel]
        comment = f"{len(places)} stages, one after another"
        handshake = ready[0], data[sink], valid[sink]
        return body.stage(self.name, comment, self.layouts[sink], handshake, parts, loads)
