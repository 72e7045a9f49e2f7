"""Registers on AXI4-Lite around a circuit with streams: start, status, counters.

What they do is Verilog, in `templates/registers.v`. Not here: files that describe the registers
(`to_verilog.project`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ..templates import filled
from .loading import Loads

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

    @property
    def access(self) -> str:
        """What the bus may do with it, in the words of IP-XACT."""
        return "read-write" if self.writable else "read-only"


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


def register_module(
    name: str, width: int, words: tuple[int, int], loads: Loads | None, layout: str
) -> str:
    """Verilog of the module with registers and streams around a circuit.

    Args:
        width: bits of the words of its streams.
        words: of a frame, coming in and going out.
        loads: what can be loaded into it, in pieces of at most 32 bits, if anything.
        layout: 8 hexadecimal digits, the same for circuits that take the same loads.
    """
    return filled(
        "registers.v",
        name=name,
        width=width,
        words_in=words[0],
        words_out=words[1],
        loads=loads,
        layout=layout,
        address_bits=ADDRESS_BITS,
        registers=registers(loadable=loads is not None),
        version=VERSION,
    )
