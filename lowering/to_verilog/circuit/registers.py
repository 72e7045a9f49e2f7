"""Registers on AXI4-Lite around a circuit with streams: start, status, counters.

A small slave: one transfer at a time, all outputs from registers, an error response for addresses
without a register. Not here: files that describe the registers (`to_verilog.ip_core`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from xdsl.dialects import hw, seq
from xdsl.dialects.builtin import IntegerType, i1
from xdsl.ir import SSAValue

from ....dialects.shapes import bit_width
from .loading import LOAD_OUTPUTS
from .stages.body import ModuleBody

ADDRESS_BITS = 6
"""Of an address of a byte."""

VERSION = 0x5452_0001
"""What the first register holds: the first version of this map."""


@dataclass(frozen=True)
class Register:
    """A word of 32 bits.

    Attributes:
        name: of the register.
        offset: its address.
        writable: whether it can be written.
        text: what it holds.
        fields: of its bits, from the lowest on: name and meaning; none where it is a number.
        first: what it holds after reset.
    """

    name: str
    offset: int
    writable: bool
    text: str
    fields: Sequence[tuple[str, str]] = field(default=())
    first: int = 0


REGISTERS: tuple[Register, ...] = (
    Register("version", 0x00, False, "of this map", first=VERSION),
    Register(
        "control",
        0x04,
        True,
        "what the circuit does",
        (
            ("run", "words are taken from the input stream; 1 after reset"),
            ("clear", "counters and the error become 0; reads as 0"),
            ("reset", "everything but these registers is reset while 1"),
        ),
        first=1,
    ),
    Register(
        "status",
        0x08,
        False,
        "what the circuit is doing",
        (
            ("busy", "a frame has begun to come in whose result has not left"),
            ("misplaced", "tlast came before the end of a frame: the sender is out of step"),
        ),
    ),
    Register("cycles", 0x0C, False, "cycles in which the circuit was busy"),
    Register("frames_in", 0x10, False, "frames that came in whole"),
    Register("frames_out", 0x14, False, "frames of results that left"),
    Register("words_in", 0x18, False, "words of a frame that comes in"),
    Register("words_out", 0x1C, False, "words of a frame of results"),
)
"""The map; the last two hold what the circuit is made for."""

_LOADING: tuple[Register, ...] = (
    Register("load", 0x20, True, "pieces taken of a load; a write of any number begins one"),
    Register("load_data", 0x24, True, "the next piece of a load; refused while a frame is inside"),
    Register("load_pieces", 0x28, False, "pieces of a load"),
    Register("layout", 0x2C, False, "what a load must be made for: of `weights.json`"),
)
"""Registers of circuits whose weights can be loaded."""

_PART = ("loading", "a load has begun and is not whole: no words are taken")
"""The status of those."""


def registers(*, loadable: bool) -> tuple[Register, ...]:
    """The map of a circuit."""
    if not loadable:
        return REGISTERS
    return (
        tuple(replace(r, fields=(*r.fields, _PART)) if r.name == "status" else r for r in REGISTERS)
        + _LOADING
    )


@dataclass(frozen=True)
class Loadable:
    """How the weights of a circuit are loaded.

    Attributes:
        bits: of a piece, at most 32.
        pieces: of a load.
        layout: a number of 32 bits that is the same for circuits that take the same loads.
    """

    bits: int
    pieces: int
    layout: int


_LITE_INPUTS = (
    *(("awaddr", ADDRESS_BITS), ("awprot", 3), ("awvalid", 1)),
    *(("wdata", 32), ("wstrb", 4), ("wvalid", 1), ("bready", 1)),
    *(("araddr", ADDRESS_BITS), ("arprot", 3), ("arvalid", 1), ("rready", 1)),
)
_ERROR = 2
"""SLVERR: the slave was reached, and there is no such register."""


def register_module(
    name: str,
    inner: hw.HWModuleOp,
    width: int,
    words: tuple[int, int],
    loads: Loadable | None = None,
) -> hw.HWModuleOp:
    """The module with registers and streams around a circuit.

    Args:
        name: of the module.
        inner: the circuit.
        width: bits of the words of its streams.
        words: of a frame, coming in and going out.
        loads: how its weights are loaded, if they can be.
    """
    streams_in = (("tdata", width), ("tkeep", width // 8), ("tvalid", 1), ("tlast", 1))
    inputs = [
        *((f"s_axis_{port}", bits) for port, bits in streams_in),
        ("m_axis_tready", 1),
        *((f"s_axi_{port}", bits) for port, bits in _LITE_INPUTS),
    ]
    clocked = [("aclk", seq.clock), ("aresetn", i1)]
    body = ModuleBody([*clocked, *((n, IntegerType(b)) for n, b in inputs)])
    body.clock, reset_n, *arguments = body.block.args
    have: dict[str, SSAValue] = dict(zip((n for n, _ in inputs), arguments, strict=True))
    body.reset = body.inverse(reset_n, "reset")
    run, again = body.state(1, "run", 1), body.state(1, "again", 0)
    lite = _Slave(body, have, registers(loadable=loads is not None))
    given = have | {
        "aclk": body.clock,
        "aresetn": body.all_of(reset_n, body.inverse(again)),
        "s_axis_tvalid": body.all_of(have["s_axis_tvalid"], run),
    }
    pieces = restarts = lite.nothing
    if loads is not None:
        whole = body.compare(lite.strobes, "eq", 15)
        pieces, restarts = body.all_of(lite.writes("load_data"), whole), lite.writes("load")
        data = body.extract(lite.data, 0, loads.bits)
        given |= {"load_data": data, "load_valid": pieces, "load_restart": restarts}
    order = ["s_axis_tready", *(f"m_axis_{port}" for port, _ in streams_in)]
    order += [port for port, _ in LOAD_OUTPUTS] if loads else []
    gives = body.instance(inner, "circuit", given, order)
    gives["s_axis_tready"] = body.all_of(gives["s_axis_tready"], run)
    takes = body.all_of(have["s_axis_tvalid"], gives["s_axis_tready"], name="takes")
    leaves = body.all_of(gives["m_axis_tvalid"], have["m_axis_tready"], name="leaves")
    clear = _control(body, lite, run, again)
    values = _counted(body, have["s_axis_tlast"], takes, leaves, words, clear)
    values["control"] = body.joined([run, body.constant(0, 1), again])
    refused = None
    if loads is not None:
        ready, part = gives.pop("load_ready"), gives.pop("load_part")
        moved = body.all_of(pieces, ready), body.all_of(restarts, ready)
        values |= _loaded(body, loads, moved, again)
        values["status"] = body.joined([values["status"], part])
        asked = body.any_of(*(lite.is_written(name) for name in ("load_data", "load")))
        refused = body.all_of(asked, body.inverse(body.any_of(*moved)))
    gives |= lite.finish(values, refused)
    comment = f"AXI4-Lite registers and AXI4-Streams around {inner.sym_name.data}"
    return body.module(name, comment, list(gives.items()))


def _control(body: ModuleBody, lite: _Slave, run: SSAValue, again: SSAValue) -> SSAValue:
    """What a write of the control register does; whether it clears counters."""
    writes = lite.writes("control")
    data = [body.extract(lite.data, bit, 1) for bit in range(3)]
    body.drive(run, data[0], writes)
    body.drive(again, data[2], writes)
    return body.any_of(body.all_of(writes, data[1]), again)


def _loaded(
    body: ModuleBody, loads: Loadable, moved: tuple[SSAValue, SSAValue], again: SSAValue
) -> dict[str, SSAValue]:
    """What the registers of a load hold, by whether a piece or a beginning is taken."""
    body_reset, body.reset = body.reset, body.any_of(body.reset, again, moved[1])
    taken = body.state(32, "load_taken", 0)
    body.drive(taken, body.add(taken, 1), moved[0])
    body.reset = body_reset
    return {
        "load": taken,
        "load_data": body.constant(0, 32),
        "load_pieces": body.constant(loads.pieces, 32),
        "layout": body.constant(loads.layout, 32),
    }


def _counted(
    body: ModuleBody,
    mark: SSAValue,
    takes: SSAValue,
    leaves: SSAValue,
    words: tuple[int, int],
    clear: SSAValue,
) -> dict[str, SSAValue]:
    """What the registers hold that the circuit writes.

    Args:
        body: of the module.
        mark: `s_axis_tlast`.
        takes: whether a word comes in.
        leaves: whether a word goes out.
        words: of a frame, coming in and going out.
        clear: whether everything becomes 0.
    """
    body_reset, body.reset = body.reset, body.any_of(body.reset, clear, name="cleared")
    word, last_in = body.counter(words[0], takes, "word_in")
    at_first = body.compare(word, "eq", 0)
    _, last_out = body.counter(words[1], leaves, "word_out")
    came, left = body.all_of(takes, last_in), body.all_of(leaves, last_out)
    frames_in, frames_out = (body.state(32, n, 0) for n in ("frames_in", "frames_out"))
    cycles, misplaced = body.state(32, "cycles", 0), body.state(1, "misplaced", 0)
    body.drive(frames_in, body.add(frames_in, 1), came)
    body.drive(frames_out, body.add(frames_out, 1), left)
    waits = body.compare(frames_in, "ne", frames_out)
    busy = body.state(1, "busy", 0)
    body.drive(busy, body.any_of(body.inverse(at_first), waits))
    body.drive(cycles, body.add(cycles, 1), busy)
    early = body.all_of(takes, mark, body.inverse(last_in))
    body.drive(misplaced, body.any_of(misplaced, early))
    body.reset = body_reset
    return {
        "version": body.constant(VERSION, 32),
        "status": body.joined([busy, misplaced]),
        "cycles": cycles,
        "frames_in": frames_in,
        "frames_out": frames_out,
        "words_in": body.constant(words[0], 32),
        "words_out": body.constant(words[1], 32),
    }


class _Slave:
    """The handshakes of an AXI4-Lite slave.

    Args:
        body: of the module.
        have: the inputs by name.
        map: the registers.
    """

    def __init__(
        self, body: ModuleBody, have: dict[str, SSAValue], map: Sequence[Register]
    ) -> None:
        self.body, self.map = body, map
        self.have = {port: have[f"s_axi_{port}"] for port, _ in _LITE_INPUTS}
        self.data, self.strobes = self.have["wdata"], self.have["wstrb"]
        self.nothing = body.constant(0, 1)
        self._writes = body.state(1, "writes", 0)
        self._reads = body.state(1, "reads", 0)

    def _is(self, channel: str, register: Register) -> SSAValue:
        """Whether a channel's address is that of a register; the lowest two bits are of bytes."""
        place = self.body.extract(self.have[f"{channel}addr"], 2, ADDRESS_BITS - 2)
        return self.body.compare(place, "eq", register.offset >> 2)

    def is_written(self, name: str) -> SSAValue:
        """Whether a register's address is written, whatever bytes of it."""
        (register,) = (r for r in self.map if r.name == name)
        return self.body.all_of(self._writes, self._is("aw", register))

    def writes(self, name: str) -> SSAValue:
        """Whether the lowest byte of a register is written."""
        (register,) = (r for r in self.map if r.name == name)
        low = self.body.extract(self.strobes, 0, 1)
        return self.body.all_of(self._writes, low, self._is("aw", register), name=f"writes_{name}")

    def finish(self, values: dict[str, SSAValue], refused: SSAValue | None) -> dict[str, SSAValue]:
        """The outputs, with the registers' values, and whether what is written is not taken."""
        body, have = self.body, self.have
        write_resp = self._answer("w", self._writes, [have["awvalid"], have["wvalid"]], "b")
        read_resp = self._answer("r", self._reads, [have["arvalid"]], "r")
        data = body.constant(0, 32)
        for register in self.map:
            value = values[register.name]
            bits = bit_width(value.type) or 32
            if bits < 32:
                value = body.joined([value, body.constant(0, 32 - bits)])
            data = body.select(self._is("ar", register), value, data)
        known_write = body.any_of(*(self._is("aw", r) for r in self.map if r.writable))
        if refused is not None:
            known_write = body.all_of(known_write, body.inverse(refused))
        known_read = body.any_of(*(self._is("ar", r) for r in self.map))
        written = self._response(known_write, self._writes, "bresp")
        read = self._response(known_read, self._reads, "rresp")
        return {
            "s_axi_awready": self._writes,
            "s_axi_wready": self._writes,
            "s_axi_bresp": written,
            "s_axi_bvalid": write_resp,
            "s_axi_arready": self._reads,
            "s_axi_rdata": body.register(data, self._reads, "rdata"),
            "s_axi_rresp": read,
            "s_axi_rvalid": read_resp,
        }

    def _answer(
        self, name: str, moves: SSAValue, asks: Sequence[SSAValue], response: str
    ) -> SSAValue:
        """A register that says that there is an answer; drives the one that takes the question."""
        body = self.body
        valid = body.state(1, f"{name}_answers", 0)
        free = [body.inverse(moves), body.inverse(valid)]
        body.drive(moves, body.all_of(*asks, *free))
        stays = body.all_of(valid, body.inverse(self.have[f"{response}ready"]))
        body.drive(valid, body.any_of(moves, stays))
        return valid

    def _response(self, known: SSAValue, moves: SSAValue, name: str) -> SSAValue:
        body = self.body
        code = body.select(known, body.constant(0, 2), body.constant(_ERROR, 2))
        return body.register(code, moves, name)
