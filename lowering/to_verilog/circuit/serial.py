"""A serial port around a circuit with streams of bytes, so that three pins are enough.

8 data bits, no parity, one stop bit. The line low for longer than two bytes (a break) resets
everything, so that no pin is needed for that. Nothing tells the sender to wait: a byte that comes
while the one before is not taken is lost, so results of a frame are read before the next but one is
sent. Not here: the streams (`stream`), and where pins are (`to_verilog.boards`).
"""

from __future__ import annotations

from xdsl.dialects import hw, seq
from xdsl.dialects.builtin import StringAttr, i1
from xdsl.ir import SSAValue

from .circuit import COMMENT
from .modules import Signature, hw_module
from .stages.body import ModuleBody, clog2

_BYTE = 10
"""Bits of a byte on the line: a start, eight of data, a stop."""

_BREAK = 2 * _BYTE + 2
"""Bits that the line is low for at a break."""

PORTS = ("clk", "rx", "tx")
"""The pins: a clock, the line that comes in, the line that goes out."""


def serial_module(name: str, inner: str, ticks: int) -> hw.HWModuleOp:
    """The module around a circuit whose streams have words of 8 bits.

    Args:
        name: of the module.
        inner: the circuit.
        ticks: cycles of the clock a bit.
    """
    signature: Signature = ([("clk", seq.clock), ("rx", i1)], [("tx", i1)])
    body = ModuleBody([type for _, type in signature[0]])
    body.clock, line = body.block.args
    body.reset = line  # of registers without a first value, until it is known
    for step in ("rx_first", "line"):
        register = body.state(1, step)
        body.drive(register, line)
        line = register
    body.reset = _broken(body, line, _BREAK * ticks)
    byte, has_byte = _received(body, line, ticks)
    waits, word = body.state(1, "waits", 0), body.register(byte, has_byte, "word")
    one, sends = body.constant(1, 1), body.state(1, "sends", 0)
    operands: list[tuple[str, SSAValue]] = [
        ("aclk", body.clock),
        ("aresetn", body.inverse(body.reset)),
        ("s_axis_tdata", word),
        ("s_axis_tvalid", waits),
        ("s_axis_tlast", one),
        ("m_axis_tready", body.inverse(sends)),
        ("s_axis_tkeep", one),
    ]
    results = [("s_axis_tready", 1), ("m_axis_tdata", 8), ("m_axis_tvalid", 1)]
    results += [("m_axis_tlast", 1), ("m_axis_tkeep", 1)]
    taken, data, has_result, _, _ = body.instance(inner, "circuit", operands, results)
    body.drive(waits, body.any_of(has_byte, body.all_of(waits, body.inverse(taken))))
    tx = _sent(body, sends, data, has_result, ticks)
    body.block.add_op(hw.OutputOp([tx]))
    module = hw_module(name, signature, body.block)
    module.attributes[COMMENT] = StringAttr(
        f"Serial port around {inner}: 8N1, {ticks} cycles a bit; a break resets"
    )
    return module


def _broken(body: ModuleBody, line: SSAValue, cycles: int) -> SSAValue:
    """A register that says whether the line has been low for so many cycles.

    It knows itself after one cycle in which the line is high.
    """
    bits = clog2(cycles)
    low = body.state(bits, "low")
    full = body.compare(low, "eq", cycles - 1)
    more = body.select(full, low, body.add(low, 1))
    body.drive(low, body.select(line, body.constant(0, bits), more))
    reset = body.state(1, "reset")
    body.drive(reset, full)
    return reset


def _paced(
    body: ModuleBody, name: str, begins: SSAValue, busy: SSAValue, first: int, ticks: int
) -> tuple[SSAValue, SSAValue]:
    """Whether a bit's time is over, `first` cycles after the beginning and `ticks` apart, and the
    number of that bit."""
    width = clog2(max(first, ticks))
    left = body.state(width, f"{name}_left")
    over = body.all_of(busy, body.compare(left, "eq", 0), name=f"{name}_over")
    again = body.select(over, body.constant(ticks - 1, width), body.add(left, -1))
    body.drive(left, body.select(begins, body.constant(first - 1, width), again))
    place = body.state(4, f"{name}_bit")
    body.drive(
        place,
        body.select(begins, body.constant(0, 4), body.add(place, 1)),
        body.any_of(begins, over),
    )
    return over, place


def _received(body: ModuleBody, line: SSAValue, ticks: int) -> tuple[SSAValue, SSAValue]:
    """A byte of the line, and a cycle in which it is there."""
    busy = body.state(1, "receives", 0)
    begins = body.all_of(body.inverse(busy), body.inverse(line), name="begins")
    over, place = _paced(body, "received", begins, busy, max(1, ticks // 2), ticks)
    false_start = body.all_of(body.compare(place, "eq", 0), line)
    ends = body.all_of(over, body.any_of(body.compare(place, "eq", _BYTE - 1), false_start))
    body.drive(busy, body.any_of(begins, body.all_of(busy, body.inverse(ends))))
    byte = body.state(8, "received_byte")
    shifted = body.joined([body.extract(byte, 1, 7), line])
    data = body.all_of(body.compare(place, "ne", 0), body.compare(place, "ne", _BYTE - 1))
    body.drive(byte, shifted, body.all_of(over, data))
    return byte, body.all_of(over, body.compare(place, "eq", _BYTE - 1), line, name="has_byte")


def _sent(
    body: ModuleBody, busy: SSAValue, data: SSAValue, valid: SSAValue, ticks: int
) -> SSAValue:
    """The line that goes out; `busy` is a register that says whether a byte is on its way."""
    idle = body.inverse(busy, "idle")
    begins = body.all_of(idle, valid)
    over, place = _paced(body, "sent", begins, busy, ticks, ticks)
    ends = body.all_of(over, body.compare(place, "eq", _BYTE - 1))
    body.drive(busy, body.any_of(begins, body.all_of(busy, body.inverse(ends))))
    bits = body.state(_BYTE, "sent_bits")
    one = body.constant(1, 1)
    loaded = body.joined([body.constant(0, 1), data, one])
    shifted = body.joined([body.extract(bits, 1, _BYTE - 1), one])
    body.drive(bits, body.select(begins, loaded, shifted), body.any_of(begins, over))
    tx = body.state(1, "tx_line", 1)
    body.drive(tx, body.any_of(idle, body.extract(bits, 0, 1)))
    return tx
