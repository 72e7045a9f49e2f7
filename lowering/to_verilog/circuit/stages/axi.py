"""The AXI4-Stream module around a network of stages."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import hw, seq
from xdsl.dialects.builtin import IntegerType, StringAttr, i1
from xdsl.ir import SSAValue

from ..circuit import COMMENT
from ..ports import stream_width
from ..stream import InputsAndOutputs, hw_module
from .body import ModuleBody
from .network import BuiltNetwork


def frame_stream_module(name: str, network: BuiltNetwork, order: Sequence[int]) -> hw.HWModuleOp:
    """The module with the streams.

    `m_axis_tlast` marks the last beat of each frame; `s_axis_tlast` is not looked at, as the
    network counts.

    Args:
        name: of the module.
        network: what is inside.
        order: the elements of a result in the order in which they go out.
    """
    bits_in, bits_out = (stream_width(side.width) for side in (network.input, network.output))
    ports: InputsAndOutputs = (
        [
            ("aclk", seq.clock),
            ("aresetn", i1),
            ("s_axis_tdata", IntegerType(bits_in)),
            ("s_axis_tvalid", i1),
            ("s_axis_tlast", i1),
            ("m_axis_tready", i1),
        ],
        [
            ("s_axis_tready", i1),
            ("m_axis_tdata", IntegerType(bits_out)),
            ("m_axis_tvalid", i1),
            ("m_axis_tlast", i1),
        ],
    )
    body = ModuleBody([type for _, type in ports[0]])
    clock, reset_n, data, valid, _, ready = body.block.args
    body.clock = clock
    body.reset = body.inverse(reset_n, "reset")
    inner = network.modules[-1].sym_name
    operands: list[tuple[str, SSAValue]] = [
        ("clock", clock),
        ("reset", body.reset),
        ("in_data", body.extract(data, 0, network.input.width)),
        ("in_valid", valid),
        ("out_ready", ready),
    ]
    results = [("in_ready", 1), ("out_data", network.output.width), ("out_valid", 1)]
    taken, out, out_valid = body.instance(inner.data, "stages", operands, results)
    starts = [sum(network.output.widths[:i]) for i in range(len(network.output.bounds))]
    parts = [body.extract(out, starts[i], network.output.widths[i]) for i in order]
    missing = bits_out - sum(network.output.widths[i] for i in order)
    if missing:
        parts.append(body.constant(0, missing))
    moved = body.all_of(out_valid, ready, name="moved")
    _, last = body.counter(network.output.beats, moved, "beat")
    body.block.add_op(hw.OutputOp([taken, body.joined(parts), out_valid, last]))
    module = hw_module(name, ports, body.block)
    module.attributes[COMMENT] = StringAttr(
        f"AXI4-Stream: {network.input.beats} beats a frame in, {network.output.beats} out; "
        f"a result after {network.schedule.latency} cycles, "
        f"a frame every {network.schedule.interval}"
    )
    return module
