"""A network of stages: who gives beats to whom, how deep its FIFOs are, its modules.

A network has one source and one sink. It is built from the source on; where the ways from a fork
meet again, each gets a place for a FIFO, and `finish` finds out how deep it has to be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from xdsl.ir import Operation, SSAValue

from ....ir.errors import LoweringError
from ..circuit import LayerCount
from .body import StageBody, port_names
from .links import fifo_stage
from .schedule import Node, Schedule, schedule
from .stage import AnyModule, Layout, Stage
from .timing import FifoTiming


@dataclass(frozen=True)
class _Place:
    """A stage, or a FIFO whose depth is not known yet, and its channels."""

    name: str
    stage: Stage | None
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class BuiltNetwork:
    """A network as modules.

    Attributes:
        modules: those of the stages and all their parts; the last one is the network, a stage too.
        schedule: its latency and interval.
        layers: what its stages are made of.
        input: what comes in.
        output: what goes out.
    """

    modules: tuple[AnyModule, ...]
    schedule: Schedule
    layers: tuple[LayerCount, ...]
    input: Layout
    output: Layout


class Network:
    """A network while it is being built.

    Args:
        name: of its module.
        input: what comes in, on channel 0.

    Attributes:
        layouts: what each channel carries.
    """

    def __init__(self, name: str, input: Layout) -> None:
        self.name = name
        self.layouts = [input]
        self._places: list[_Place] = []

    def add(self, stage: Stage, inputs: Sequence[int]) -> list[int]:
        """Connect a stage to those channels; the channels of its outputs."""
        outputs = [self._channel(layout) for layout in stage.outputs]
        self._places.append(_Place(stage.name, stage, tuple(inputs), tuple(outputs)))
        return outputs

    def fifo(self, name: str, channel: int) -> int:
        """A place for a FIFO behind a channel; the channel behind it."""
        output = self._channel(self.layouts[channel])
        self._places.append(_Place(name, None, (channel,), (output,)))
        return output

    def _channel(self, layout: Layout) -> int:
        self.layouts.append(layout)
        return len(self.layouts) - 1

    def finish(self, sink: int) -> BuiltNetwork:
        """The modules, with FIFOs as deep as they get at the network's own pace.

        A FIFO that never holds more than one beat is left out.
        """
        beats = self.layouts[sink].beats
        nodes = [
            Node(
                FifoTiming(None) if p.stage is None else p.stage.timing.copy(), p.inputs, p.outputs
            )
            for p in self._places
        ]
        ideal = schedule(nodes, 0, sink, beats)
        if all(place.stage for place in self._places):
            return self._built(self._places, ideal, 0, sink)
        held = [n.timing.most if isinstance(n.timing, FifoTiming) else 0 for n in nodes]
        for spare in (0, 1):
            depths = [0 if most <= 1 else max(3, most + spare) for most in held]
            found = self._with_depths(depths)
            places, merged = found
            actual = self._scheduled(places, merged(0), merged(sink), beats)
            if actual is not None and actual.interval <= ideal.interval:
                return self._built(places, actual, merged(0), merged(sink))
        depths = [max(3, most + 1) for most in held]
        places, merged = self._with_depths(depths)
        actual = self._scheduled(places, merged(0), merged(sink), beats)
        if actual is None:
            raise LoweringError(f"the stages of '{self.name}' wait for each other")
        return self._built(places, actual, merged(0), merged(sink))

    def _scheduled(
        self, places: Sequence[_Place], source: int, sink: int, beats: int
    ) -> Schedule | None:
        nodes = [Node(p.stage.timing.copy(), p.inputs, p.outputs) for p in places if p.stage]
        try:
            return schedule(nodes, source, sink, beats)
        except LoweringError:
            return None

    def _with_depths(self, depths: Sequence[int]) -> tuple[list[_Place], Callable[[int], int]]:
        """The places with FIFOs of those depths, 0 for none, and what became of a channel."""
        instead: dict[int, int] = {}

        def merged(channel: int) -> int:
            while channel in instead:
                channel = instead[channel]
            return channel

        places: list[_Place] = []
        for place, depth in zip(self._places, depths, strict=True):
            stage = place.stage
            if stage is None:
                if not depth:
                    instead[place.outputs[0]] = place.inputs[0]
                    continue
                stage = fifo_stage(place.name, self.layouts[place.inputs[0]], depth)
            inputs = tuple(merged(channel) for channel in place.inputs)
            places.append(replace(place, stage=stage, inputs=inputs))
        return places, merged

    def _built(
        self, places: Sequence[_Place], found: Schedule, source: int, sink: int
    ) -> BuiltNetwork:
        stages = [place.stage for place in places if place.stage]
        modules: dict[str, AnyModule] = {}
        for stage in stages:
            for module in (*stage.parts, stage.module):
                modules.setdefault(module.sym_name.data, module)
        module = self._module(places, source, sink)
        layers = tuple(layer for stage in stages for layer in stage.layers)
        ends = self.layouts[source], self.layouts[sink]
        return BuiltNetwork((*modules.values(), module), found, layers, *ends)

    def _module(self, places: Sequence[_Place], source: int, sink: int) -> AnyModule:
        body = StageBody([self.layouts[source].width], [self.layouts[sink].width])
        data = {source: body.in_data[0]}
        valid = {source: body.in_valid[0]}
        ready = {sink: body.out_ready[0]}
        later: list[tuple[Operation, int, int]] = []
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
        return body.finish(
            self.name,
            f"{len(places)} stages, one after another",
            [ready[source]],
            [data[sink]],
            [valid[sink]],
        )
