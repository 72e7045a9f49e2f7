"""A serial port around a circuit with streams of bytes, so that three pins are enough.

8 data bits, no parity, one stop bit. The line low for longer than two bytes (a break) resets
everything, so that no pin is needed for that. Nothing tells the sender to wait: a byte that comes
while the one before is not taken is lost, so results of a frame are read before the next but one is
sent. Where weights can be loaded, the first byte after a break or a load says what follows: 1 a
load, which is answered by a byte when it is whole, any other frames. Not here: the streams
(`stream`), loads (`loading`), and where pins are (`to_verilog.boards`).
"""

from __future__ import annotations

from xdsl.dialects import hw, seq
from xdsl.dialects.builtin import i1
from xdsl.ir import SSAValue

from .stages.body import ModuleBody, clog2

_BYTE = 10
"""Bits of a byte on the line: a start, eight of data, a stop."""

_BREAK = 2 * _BYTE + 2
"""Bits that the line is low for at a break."""

LOADED = 6
"""The byte that answers a load: ACK."""

PORTS = ("clk", "rx", "tx")
"""The pins: a clock, the line that comes in, the line that goes out."""


def serial_module(
    name: str, inner: hw.HWModuleOp, ticks: int, *, loadable: bool = False
) -> hw.HWModuleOp:
    """The module around a circuit whose streams have words of 8 bits.

    Args:
        name: of the module.
        inner: the circuit.
        ticks: cycles of the clock a bit.
        loadable: whether its weights can be loaded.
    """
    body = ModuleBody([("clk", seq.clock), ("rx", i1)])
    body.clock, line = body.block.args
    body.reset = line  # of registers without a first value, until it is known
    for step in ("rx_first", "line"):
        register = body.state(1, step)
        body.drive(register, line)
        line = register
    body.reset = _broken(body, line, _BREAK * ticks)
    byte, has_byte = _received(body, line, ticks)
    load = _Load(body, byte, has_byte) if loadable else None
    has_byte = load.frame_byte if load else has_byte
    waits, word = body.state(1, "waits", 0), body.register(byte, has_byte, "word")
    one, sends = body.constant(1, 1), body.state(1, "sends", 0)
    given = {
        "aclk": body.clock,
        "aresetn": body.inverse(body.reset),
        "s_axis_tdata": word,
        "s_axis_tvalid": waits,
        "s_axis_tlast": one,
        "m_axis_tready": body.inverse(sends),
        "s_axis_tkeep": one,
        **(load.operands if load else {}),
    }
    gives = body.instance(inner, "circuit", given)
    data, has_result = gives["m_axis_tdata"], gives["m_axis_tvalid"]
    if load is not None:
        ended = load.answers(gives["load_part"], sends)
        data = body.select(ended, body.constant(LOADED, 8), data)
        has_result = body.any_of(has_result, ended)
    body.drive(
        waits, body.any_of(has_byte, body.all_of(waits, body.inverse(gives["s_axis_tready"])))
    )
    tx = _sent(body, sends, data, has_result, ticks)
    comment = f"Serial port around {inner.sym_name.data}: 8N1, {ticks} cycles a bit; a break resets"
    return body.module(name, comment, [("tx", tx)])


class _Load:
    """What bytes are for where weights can be loaded.

    Args:
        body: of the module.
        byte: of the line.
        has_byte: whether there is one.

    Attributes:
        frame_byte: whether there is one of a frame.
        operands: of the circuit.
    """

    def __init__(self, body: ModuleBody, byte: SSAValue, has_byte: SSAValue) -> None:
        self.body = body
        self._loading = body.state(1, "loading", 0)
        self._frames = body.state(1, "in_frames", 0)
        chooses = body.all_of(has_byte, body.inverse(body.any_of(self._loading, self._frames)))
        is_load = body.compare(byte, "eq", 1)
        self._begins = body.all_of(chooses, is_load, name="load_begins")
        begin_frames = body.all_of(chooses, body.inverse(is_load))
        body.drive(self._frames, body.any_of(self._frames, begin_frames))
        self.frame_byte = body.all_of(has_byte, self._frames)
        self.operands = {
            "load_data": byte,
            "load_valid": body.all_of(has_byte, self._loading),
            "load_restart": self._begins,
        }

    def answers(self, part: SSAValue, sends: SSAValue) -> SSAValue:
        """Whether a load is to be answered, from a register.

        Args:
            part: whether a load has begun and is not whole.
            sends: whether a byte is on its way out.
        """
        body = self.body
        before, answer = body.state(1, "part_before", 0), body.state(1, "load_answer", 0)
        body.drive(before, part)
        over = body.all_of(before, body.inverse(part))
        body.drive(answer, body.any_of(over, body.all_of(answer, sends)))
        goes_on = body.all_of(self._loading, body.inverse(over))
        body.drive(self._loading, body.any_of(self._begins, goes_on))
        return answer


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
