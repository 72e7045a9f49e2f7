"""Boards, and where a circuit with a serial port has its pins; the numbers are in `boards.toml`.

Not here: the tools (`bitstream`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ...ir.errors import OptionError, did_you_mean
from .estimate.devices import Device, find_device
from .estimate.families import FAMILIES, entries
from .templates import filled

BAUD = 115_200
"""Bits a second of the serial port."""

_PORTS = ("clk", "rx", "tx")
"""The pins: a clock, the line that comes in, the line that goes out."""

_LOADED = 6
"""The byte that answers a load: ACK."""


@dataclass(frozen=True)
class Board:
    """Where a device stands.

    Attributes:
        name: of the board; of the device where there is none.
        device: on it.
        clock: in MHz, of the pin `clk`.
        pins: the place of each of `clk`, `rx` and `tx`; those without one are placed by nextpnr.
    """

    name: str
    device: Device
    clock: float
    pins: Mapping[str, str]

    @property
    def ticks(self) -> int:
        """Cycles of the clock a bit of the serial port."""
        return round(self.clock * 1e6 / BAUD)

    def serial(self, name: str, *, loadable: bool) -> str:
        """Verilog of the module with a serial port around a circuit, so that three pins are enough.

        Args:
            name: of the circuit, whose streams have words of 8 bits.
            loadable: whether its weights can be loaded.
        """
        words = {"ticks": self.ticks, "loadable": loadable, "loaded": _LOADED}
        return filled("serial.v", name=name, **words)


def find_board(name: str | None, device: Device | None, pins: str | None) -> Board:
    """The board that options ask for.

    Args:
        name: of a board that is known, if one is named.
        device: that is asked for besides, if any.
        pins: as `clk=35,rx=6,tx=9`, with `MHz=12` for another clock.

    Raises:
        OptionError: there is no such board or pin, or no open route to a bitstream of the device.
    """
    if name is None and device is None:
        raise OptionError(
            f"a bitstream is made for a board ({', '.join(_BOARDS)}) or a device: give board=NAME "
            "or device=NAME"
        )
    if name is not None and name not in _BOARDS:
        hint = did_you_mean(name, list(_BOARDS)) or f"; there are {', '.join(_BOARDS)}"
        raise OptionError(f"unknown board '{name}'{hint}")
    if name is not None:
        board = _BOARDS[name]
        if device is not None and device.name != board.device.name:
            raise OptionError(
                f"board '{name}' has the device {board.device.name}: leave device out"
            )
    else:
        assert device is not None
        clock = device.built_from.clock
        if not clock:
            routed = sorted({family.name for family in FAMILIES.values() if family.clock})
            raise OptionError(
                f"there is no open route to a bitstream of {device.name}, only of devices of "
                f"{' and '.join(routed)}: use vivado.tcl of the folder"
            )
        board = Board(device.name, device, clock, {})
    return board if pins is None else _with_pins(board, pins)


def _with_pins(board: Board, pins: str) -> Board:
    places, clock = dict(board.pins), board.clock
    for entry in pins.split(","):
        match = re.fullmatch(r"\s*(clk|rx|tx|MHz)=([A-Za-z0-9.]+)\s*", entry)
        if match is None:
            raise OptionError(
                f"pins expects {', '.join(f'{port}=PLACE' for port in _PORTS)} or MHz=NUMBER, with "
                f"commas between, got '{entry}'"
            )
        key, value = match.groups()
        if key != "MHz":
            places[key] = value
            continue
        try:
            clock = float(value)
        except ValueError:
            clock = 0.0
        if not 1.0 <= clock <= 1000.0:
            raise OptionError(f"pins expects MHz from 1 to 1000, got '{value}'")
    return replace(board, pins=places, clock=clock)


_BOARDS = {
    name: Board(name, find_device(entry["device"]), entry["clock"], entry["pins"])
    for name, entry in entries("boards.toml").items()
}
