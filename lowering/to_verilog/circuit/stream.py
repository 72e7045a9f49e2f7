"""The two modules of a circuit: the arithmetic, and the AXI stream around it."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import comb, hw, seq
from xdsl.dialects.builtin import (
    ArrayAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    SymbolRefAttr,
    i1,
)
from xdsl.ir import Block, Operation, Region, SSAValue, TypeAttribute

from ....dialects.shapes import bit_width
from ....ir.printing import value_name
from .circuit import COMMENT, named
from .ports import stream_width

InputsAndOutputs = tuple[Sequence[tuple[str, TypeAttribute]], Sequence[tuple[str, TypeAttribute]]]


def hw_module(name: str, ports: InputsAndOutputs, block: Block) -> hw.HWModuleOp:
    """A module with those inputs and outputs, whose body is `block`."""
    inputs, outputs = ports
    described = [
        *((name, type, hw.Direction.INPUT) for name, type in inputs),
        *((name, type, hw.Direction.OUTPUT) for name, type in outputs),
    ]
    type = hw.ModuleType(
        ArrayAttr([hw.ModulePort(StringAttr(n), t, hw.DirectionAttr(d)) for n, t, d in described])
    )
    for argument, (hint, _) in zip(block.args, inputs, strict=True):
        argument.name_hint = value_name(hint)
    return hw.HWModuleOp(StringAttr(name), type, Region(block))


def stream_module(
    name: str,
    core: str,
    inputs: Sequence[tuple[str, int]],
    outputs: Sequence[tuple[str, int]],
    latency: int,
) -> hw.HWModuleOp:
    """The AXI4-Stream module around the arithmetic `core`.

    All registers take a step together, in each cycle in which the receiver takes the last result
    or there is none: no result is lost, and without waiting one vector goes in every cycle.

    Args:
        name: of the module.
        core: the module with the arithmetic.
        inputs: its inputs after clock and enable, and their widths.
        outputs: its outputs and their widths.
        latency: registers from input to output.
    """
    bits_in, bits_out = (stream_width(sum(w for _, w in side)) for side in (inputs, outputs))
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
    block = Block(arg_types=[type for _, type in ports[0]])
    clock, reset_n, data, valid, last, ready = block.args
    body = _Stream(block)
    advance = ready
    if latency:
        one, zero = body.put(hw.ConstantOp(1, 1)), body.put(hw.ConstantOp(0, 1))
        reset = body.put(comb.XorOp([reset_n, one]), "reset")
        free = comb.XorOp([one, one])
        advance = body.put(comb.OrOp([ready, body.put(free, "free")]), "advance")
        for step in range(1, latency + 1):
            valid = body.register(valid, clock, advance, f"valid_{step}", (reset, zero))
            last = body.register(last, clock, advance, f"last_{step}", None)
        free.operands[0] = valid
    results = body.instance(core, [("clock", clock), ("enable", advance)], data, inputs, outputs)
    packed = body.packed(results, bits_out)
    block.add_op(hw.OutputOp([advance, packed, valid, last]))
    module = hw_module(name, ports, block)
    module.attributes[COMMENT] = StringAttr(
        f"AXI4-Stream around {core}: one vector a beat, a result {latency} cycles later, "
        "a new vector every cycle"
    )
    return module


class _Stream:
    def __init__(self, block: Block) -> None:
        self.block = block

    def put(self, op: Operation, name: str | None = None) -> SSAValue:
        self.block.add_op(op)
        (result,) = op.results
        return result if name is None else named(result, name)

    def register(
        self,
        value: SSAValue,
        clock: SSAValue,
        enable: SSAValue,
        name: str,
        reset: tuple[SSAValue, SSAValue] | None,
    ) -> SSAValue:
        kept = comb.MuxOp(enable, value, value)
        self.put(kept)
        result = self.put(seq.CompRegOp(kept.result, clock, reset), name)
        kept.operands[2] = result
        return result

    def instance(
        self,
        core: str,
        control: Sequence[tuple[str, SSAValue]],
        data: SSAValue,
        inputs: Sequence[tuple[str, int]],
        outputs: Sequence[tuple[str, int]],
    ) -> Sequence[SSAValue]:
        operands = list(control)
        low = 0
        for name, width in inputs:
            part = comb.ExtractOp(data, IntegerAttr(low, 32), IntegerType(width))
            operands.append((name, self.put(part)))
            low += width
        op = hw.InstanceOp(
            "core",
            SymbolRefAttr(core),
            operands,
            [(name, IntegerType(width)) for name, width in outputs],
        )
        self.block.add_op(op)
        for result, (name, _) in zip(op.results, outputs, strict=True):
            result.name_hint = value_name(name)
        return op.results

    def packed(self, values: Sequence[SSAValue], bits: int) -> SSAValue:
        parts: list[SSAValue] = []
        missing = bits
        for value in values:
            missing -= bit_width(value.type) or 0
            parts.insert(0, value)
        if missing:
            parts.insert(0, self.put(hw.ConstantOp(0, missing)))
        return self.put(comb.ConcatOp(parts, IntegerType(bits)))
