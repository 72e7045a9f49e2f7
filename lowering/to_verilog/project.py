"""Files for the tools of a device: constraints of the clock, scripts, a Makefile.

The circuit is built out of context: its ports are nets inside a larger design, so constraints name
the clock and no pins. Not here: the circuit and its test bench.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .bitstream import commands
from .boards import Board
from .circuit.interface import Interface
from .estimate.devices import Device
from .rows import MACROS
from .templates import filled
from .tools import ToolName

_SYNTHESIS = {
    "ultrascale+": "synth_xilinx -family xcup -flatten -noiopad -nodsp",
    "7-series": "synth_xilinx -family xc7 -flatten -noiopad -nodsp",
    "ecp5": "synth_ecp5 -nodsp",
    "ice40": "synth_ice40",
}
"""What Yosys runs for a family; products with trits need no multipliers."""


@dataclass(frozen=True)
class Project:
    """What the files are about.

    Attributes:
        interface: of the circuit.
        sources: files, relative to the folder.
        frequency: of the clock, in MHz.
        family: of devices.
        device: the one to build for; without it there is synthesis, for the family, alone.
        board: where it goes with a serial port; without one the circuit is a part of a design.
        tool: whose attributes the Verilog has.
    """

    interface: Interface
    sources: Sequence[str]
    frequency: float
    family: str
    device: Device | None
    board: Board | None
    tool: ToolName

    @property
    def name(self) -> str:
        """Of the module with the streams."""
        return self.interface.name


def project_files(project: Project) -> dict[str, str]:
    """Names and texts; which ones depends on the device."""
    device, board, family = project.device, project.board, project.family
    around = _ON_BOARD if board else _OF_FAMILY
    templates = _WITHOUT_DEVICE if device is None else around[family]
    synthesis, shown = _SYNTHESIS[family], family
    if project.tool == "quartus":
        shown, synthesis = "Cyclone V", "synth_intel_alm -nodsp"
    outer = "serial" if board else "pins" if device and family == "ice40" else ""
    words: dict[str, object] = {
        "project": project,
        "name": project.name,
        "device": device,
        "part": device.part if device else "",
        "kind": {"ecp5": "lpf", "ice40": "pcf"}.get(family) if device else None,
        "synthesis": synthesis,
        "family": shown,
        "macro": MACROS.get(shown),
        "outer": outer,
        "sources": " ".join(project.sources),
        "period": f"{1e3 / project.frequency:.3f}",
        "clock": "clk" if board else "aclk",
        "frequency": f"{board.clock if board else project.frequency:.2f}",
        "pins": board.pins.items() if board else (),
        "wide": project.interface.input_width,
        "out": project.interface.output_width,
    }
    if device and board:
        sources = [*project.sources, f"impl/{project.name}_serial.v"]
        words["steps"] = commands(project.name, device, sources)
    every = {"synth.ys": "synth.ys", "Makefile": "Makefile.mk", **templates}
    return {name.format(name=project.name): filled(text, **words) for name, text in every.items()}


_XILINX = {"constraints/{name}.xdc": "clock.xdc", "vivado.tcl": "vivado.tcl"}

_OF_FAMILY = {
    "ultrascale+": _XILINX,
    "7-series": _XILINX,
    "ecp5": {"constraints/{name}.lpf": "clock.lpf"},
    "ice40": {"constraints/{name}.pcf": "clock.pcf", "impl/{name}_pins.v": "pins.v"},
}
"""What a folder for a device of a family has besides the script for Yosys and the Makefile, and the
template of each."""

_ON_BOARD = {
    "ecp5": {"constraints/{name}.lpf": "clock.lpf"},
    "ice40": {"constraints/{name}.pcf": "board.pcf"},
}
"""The same with a serial port on a board."""

_WITHOUT_DEVICE = {"constraints/{name}.sdc": "clock.sdc", "quartus.tcl": "quartus.tcl"}
