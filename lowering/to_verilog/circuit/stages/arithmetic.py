"""The stage that computes: a pipelined circuit on the elements of one beat.

The circuit is a module of its own with a clock, an enable, and the beat; the stage puts
the handshake around it. A beat goes in every cycle.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import hw, seq
from xdsl.dialects.builtin import IntegerType, StringAttr, i1
from xdsl.ir import Block, SSAValue

from ..arithmetic import end_of, packed, plain, unpacked
from ..circuit import COMMENT, Circuit, LayerCount
from ..modules import hw_module
from ..pacing import Pacing
from ..signals import Signal
from .body import StageBody
from .credits import credit_stage, enough_credits
from .stage import AnyModule, Layout, Stage


class ArithmeticStage:
    """A stage while its circuit is being written.

    Args:
        name: of the stage.
        core: of the module with the circuit.
        input: what comes in.
        pacing: where registers are wanted.

    Attributes:
        circuit: where the ops go; `circuit.begin` starts a layer.
        elements: the elements of the beat.
    """

    def __init__(self, name: str, core: str, input: Layout, pacing: Pacing) -> None:
        self.name = name
        self.core = core
        self.input = input
        self.block = Block(arg_types=[seq.clock, i1, IntegerType(input.width)])
        clock, enable, x = self.block.args
        for argument, hint in zip(self.block.args, ("clock", "enable", "x"), strict=True):
            argument.name_hint = hint
        self.circuit = Circuit(self.block, clock, enable, pacing)
        self.circuit.begin("x", f"input of {name}")
        self.elements = unpacked(self.circuit, x, input.bounds, "x", input.level)
        self.circuit.layers.clear()

    def finish(self, results: Sequence[Signal], beats: int, interval: int = 0) -> Stage:
        """The stage that gives those elements a beat, so many beats a frame.

        With an interval from beat to beat its registers never wait.
        """
        circuit = self.circuit
        circuit.begin("y", f"output of {self.name}")
        flat = [plain(circuit, signal) for signal in results]
        wires = [signal.wire for signal in flat if signal.wire is not None]
        latency = end_of(circuit, wires)
        level = 0 if latency else max((wire.level for wire in wires), default=0)
        layout = Layout(tuple(signal.bounds for signal in flat), beats, level)
        y = packed(circuit, flat, layout.widths, latency)
        self.block.add_op(hw.OutputOp([y]))
        module = hw_module(
            self.core,
            (
                [
                    ("clock", seq.clock),
                    ("enable", i1),
                    ("x", IntegerType(self.input.width)),
                ],
                [("y", IntegerType(layout.width))],
            ),
            self.block,
        )
        module.attributes[COMMENT] = StringAttr(f"Arithmetic on a beat, {latency} cycles")
        layers = [
            layer
            for layer in self.circuit.layers
            if layer.name != "y" or layer.adders or layer.register_bits
        ]
        if interval and latency:
            channels, credits = (self.input, layout), enough_credits(latency, interval)
            return credit_stage(self.name, module, channels, latency, credits, layers)
        return self._stage(module, layout, latency, layers)

    def _stage(
        self, core: AnyModule, layout: Layout, latency: int, layers: Sequence[LayerCount]
    ) -> Stage:
        body = StageBody([self.input.width], [layout.width])
        advance = body.out_ready[0]
        valid = body.in_valid[0]
        if latency:
            chain = [body.state(1, f"valid_{step}", 0) for step in range(1, latency + 1)]
            advance = body.any_of(advance, body.inverse(chain[-1]), name="advance")
            for register, before in zip(chain, [valid, *chain], strict=False):
                body.drive(register, before, advance)
            valid = chain[-1]
        operands: list[tuple[str, SSAValue]] = [
            ("clock", body.clock),
            ("enable", advance),
            ("x", body.in_data[0]),
        ]
        (y,) = body.instance(self.core, "core", operands, [("y", layout.width)])
        comment = f"Handshake around {self.core}: a beat every cycle, its result {latency} later"
        channels, handshake = (self.input, layout), (advance, y, valid)
        return body.stage(self.name, comment, channels, handshake, layers, [core])
