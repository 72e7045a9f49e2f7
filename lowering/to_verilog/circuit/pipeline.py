"""A pipelined circuit as a module of its own: clock, enable, numbers in, numbers out.

All paths through it have the same number of registers. As a stage of a network it takes a beat in
every cycle. Not here: the streams around it (`stream`), and pipelines that never wait
(`stages.credits`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import hw, seq
from xdsl.dialects.builtin import IntegerType, i1
from xdsl.ir import Block, SSAValue, TypeAttribute

from .arithmetic import end_of, packed, plain, unpacked
from .circuit import Circuit, Search
from .modules import hw_module
from .pacing import Pacing
from .signals import Signal
from .stages.body import ModuleBody, StageBody
from .stages.stage import Layout, Stage


@dataclass(frozen=True)
class Core:
    """A finished pipeline.

    Attributes:
        module: with the ports `clock` and `enable`, then what comes in; and what goes out.
        outputs: what each output carries, by name.
        latency: cycles from what comes in to what goes out.
    """

    module: hw.HWModuleOp
    outputs: Mapping[str, Layout]
    latency: int

    def instance(
        self, body: ModuleBody, enable: SSAValue, inputs: Mapping[str, int], data: SSAValue
    ) -> dict[str, SSAValue]:
        """What it gives in another module, whose inputs, of so many bits, stand side by side."""
        given, place = {"clock": body.clock, "enable": enable}, 0
        for port, width in inputs.items():
            given[port] = body.extract(data, place, width)
            place += width
        return body.instance(self.module, "core", given)

    def steps(
        self, body: ModuleBody, ready: SSAValue, valid: SSAValue
    ) -> tuple[SSAValue, SSAValue]:
        """Whether all its registers take a step, and whether there is a result.

        They do where the receiver is ready or there is none, so that none is lost.
        """
        if not self.latency:
            return ready, valid
        chain = [body.state(1, f"valid_{step}", 0) for step in range(1, self.latency + 1)]
        advance = body.any_of(ready, body.inverse(chain[-1]), name="advance")
        for register, before in zip(chain, [valid, *chain], strict=False):
            body.drive(register, before, advance)
        return advance, chain[-1]

    def stage(self, name: str, input: Layout) -> Stage:
        """The stage around a pipeline of one input `x` and one output `y`."""
        body = StageBody(input)
        advance, valid = self.steps(body, body.out_ready[0], body.in_valid[0])
        given = {"clock": body.clock, "enable": advance, "x": body.in_data[0]}
        y = body.instance(self.module, "core", given)["y"]
        symbol = self.module.sym_name.data
        comment = f"Handshake around {symbol}: a beat every cycle, its result {self.latency} later"
        return body.stage(name, comment, self.outputs["y"], (advance, y, valid), [self.module])


class Pipeline:
    """A pipeline while its module is being written.

    Args:
        stage: of a network; none where it is all there is.

    Attributes:
        circuit: where the ops go; `circuit.begin` starts a layer.
        elements: of each input.
    """

    def __init__(
        self,
        name: str,
        inputs: Mapping[str, Layout],
        pacing: Pacing,
        search: Search,
        stage: str = "",
    ) -> None:
        self.name, self.stage = name, stage
        self._ports: list[tuple[str, TypeAttribute]] = [("clock", seq.clock), ("enable", i1)]
        self._ports += [(port, IntegerType(layout.width)) for port, layout in inputs.items()]
        block = Block(arg_types=[type for _, type in self._ports])
        clock, enable, *buses = block.args
        self.circuit = Circuit(block, clock, enable, pacing, search)
        self.elements: list[list[Signal]] = []
        for (port, layout), bus in zip(inputs.items(), buses, strict=True):
            self.circuit.begin(port, self._end("input", port))
            self.elements.append(unpacked(self.circuit, bus, layout.bounds, port, layout.level))

    def _end(self, side: str, port: str) -> str:
        return f"{side} of {self.stage}" if self.stage else f"{side} {port}"

    def finish(self, outputs: Mapping[str, Sequence[Signal]], beats: int = 1) -> Core:
        """The module that gives those numbers, so many beats a frame."""
        circuit = self.circuit
        flat: dict[str, list[Signal]] = {}
        for port, signals in outputs.items():
            circuit.begin(port, self._end("output", port))
            flat[port] = [plain(circuit, signal) for signal in signals]
        wires = [s.wire for signals in flat.values() for s in signals if s.wire is not None]
        latency = end_of(circuit, wires)
        level = 0 if latency else max((wire.level for wire in wires), default=0)
        layouts = {
            port: Layout(tuple(signal.bounds for signal in signals), beats, level)
            for port, signals in flat.items()
        }
        results = [
            (port, packed(circuit, flat[port], layout.widths, latency))
            for port, layout in layouts.items()
        ]
        comment = f"Arithmetic on a beat, {latency} cycles"
        module = hw_module(self.name, comment, self._ports, results, circuit.block)
        return Core(module, layouts, latency)
