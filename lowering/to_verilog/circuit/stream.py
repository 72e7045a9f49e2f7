"""The modules with AXI4-Streams around a circuit: around arithmetic, or a network of stages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects import hw, seq
from xdsl.dialects.builtin import IntegerType, i1
from xdsl.ir import SSAValue

from ....ir.printing import value_name
from .framing import Framing
from .loading import LOAD_OUTPUTS, Loader, Loads
from .pipeline import Core
from .ports import Port, stream_width
from .stages.body import ModuleBody
from .stages.schedule import Schedule
from .stages.stage import Stage


class _StreamBody(ModuleBody):
    """The inside of a module with streams.

    Args:
        bits: that come in and go out.
        keep: whether the streams say which bytes there are.
        loads: what can be loaded, if anything.
    """

    def __init__(
        self, bits: tuple[int, int], *, keep: bool = False, loads: Loads | None = None
    ) -> None:
        self.bits_in, self.bits_out = map(stream_width, bits)
        super().__init__(
            [
                ("aclk", seq.clock),
                ("aresetn", i1),
                ("s_axis_tdata", IntegerType(self.bits_in)),
                ("s_axis_tvalid", i1),
                ("s_axis_tlast", i1),
                ("m_axis_tready", i1),
                *([("s_axis_tkeep", IntegerType(self.bits_in // 8))] if keep else []),
                *(loads.inputs if loads else []),
            ]
        )
        self._outputs = ["s_axis_tready", "m_axis_tdata", "m_axis_tvalid", "m_axis_tlast"]
        self._outputs += ["m_axis_tkeep"] if keep else []
        self._outputs += [port for port, _ in LOAD_OUTPUTS] if loads else []
        self.clock, self.reset_n, self.data, self.valid, self.last, self.ready = self.block.args[:6]

    def stages(
        self, module: hw.HWModuleOp, data: SSAValue, comes: SSAValue, **more: SSAValue
    ) -> Iterable[SSAValue]:
        """A network inside: its `in_ready`, `out_data` and `out_valid`."""
        own = {"clock": self.clock, "reset": self.reset, "out_ready": self.ready}
        given = {"in_data": data, "in_valid": comes, **own, **more}
        return self.instance(module, "stages", given).values()

    def finish(self, name: str, comment: str, outputs: Sequence[SSAValue]) -> hw.HWModuleOp:
        """The module, with the values of its outputs."""
        given = list(zip(self._outputs, outputs, strict=True))
        return self.module(name, f"AXI4-Stream{comment}", given)


def stream_module(name: str, core: Core, inputs: Sequence[Port]) -> hw.HWModuleOp:
    """The AXI4-Stream module around a pipeline: without waiting a vector goes in every cycle."""
    widths = {port.name: sum(port.widths) for port in inputs}
    bits_out, latency = sum(layout.width for layout in core.outputs.values()), core.latency
    body = _StreamBody((sum(widths.values()), bits_out))
    if latency:
        body.reset = body.inverse(body.reset_n, "reset")
    (advance, valid), last = core.steps(body, body.ready, body.valid), body.last
    for step in range(1, latency + 1):
        last = body.register(last, advance, f"last_{step}")
    results = core.instance(body, advance, widths, body.data)
    for port, result in results.items():
        result.name_hint = value_name(port)
    packed = body.joined([*results.values()], bits=body.bits_out)
    return body.finish(
        name,
        f" around {core.module.sym_name.data}: one vector a beat, a result {latency} cycles later, "
        "a new vector every cycle",
        [advance, packed, valid, last],
    )


def frame_stream_module(
    name: str, network: Stage, schedule: Schedule, order: Sequence[int]
) -> hw.HWModuleOp:
    """The AXI4-Stream module around a network of stages.

    `m_axis_tlast` marks the last beat of each frame; `s_axis_tlast` is not looked at, as the
    network counts.

    Args:
        order: the elements of a result in the order in which they go out, some of them twice.
    """
    (input,), (output,) = network.inputs, network.outputs
    body = _StreamBody((input.width, sum(output.widths[index] for index in order)))
    body.reset = body.inverse(body.reset_n, "reset")
    data = body.extract(body.data, 0, input.width)
    ready, out, valid = body.stages(network.module, data, body.valid)
    parts = [body.element(out, output, index) for index in order]
    moved = body.all_of(valid, body.ready, name="moved")
    last = body.counter(output.beats, moved, "beat").last
    return body.finish(
        name,
        f": {input.beats} beats a frame in, {output.beats} out; a result after "
        f"{schedule.latency} cycles, a frame every {schedule.interval}",
        [ready, body.joined(parts, bits=body.bits_out), valid, last],
    )


def word_stream_module(
    name: str,
    stages: hw.HWModuleOp,
    framings: Sequence[Framing],
    schedule: Schedule,
    loads: Loads | None = None,
) -> hw.HWModuleOp:
    """The AXI4-Stream module around a network whose stages take and give words.

    `m_axis_tlast` marks the last word of a frame whose own last word `s_axis_tlast` marked, and
    `m_axis_tkeep` its bytes there; elsewhere words are whole, as DMAs want packets to be.
    `s_axis_tkeep` is not looked at, as the network counts.

    Args:
        framings: of what comes in and goes out.
        loads: the network's memories whose words can be loaded, if any.
    """
    given, taken = framings
    width, lanes = given.width, given.width // 8
    body = _StreamBody((width, width), keep=True, loads=loads)
    # The first stage is ready by a register that is 0 at reset, so that nothing comes too early.
    body.reset = body.inverse(body.reset_n)
    body.reset = body.register(body.reset, None, "reset")
    loader = None if loads is None else Loader(body, loads, body.block.args[7:])
    comes = body.valid
    if loader is not None:
        comes = body.all_of(comes, body.inverse(loader.blocks))
    word = body.joined([body.data, body.last])
    ready, out, valid = body.stages(stages, word, comes, **(loader.operands if loader else {}))
    data, last = body.extract(out, 0, width), body.extract(out, width, 1)
    keep = body.constant(-1, taken.last_bytes)
    if missing := lanes - taken.last_bytes:
        keep = body.joined([keep, body.repeated(body.inverse(last), missing)])
    outputs: list[SSAValue] = []
    if loader is not None:
        ready = body.all_of(ready, body.inverse(loader.blocks))
        moves = body.all_of(body.valid, ready), body.all_of(valid, body.ready)
        outputs = [loader.ready((given.words, taken.words), *moves), loader.part]
    return body.finish(
        name,
        f" of {width} bits: {given.words} words a frame in, {taken.words} out; a result after "
        f"{schedule.latency} cycles, a frame every {schedule.interval}",
        [ready, data, valid, last, keep, *outputs],
    )
