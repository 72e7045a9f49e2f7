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
from .estimate.families import Family
from .templates import filled
from .tools import ToolName


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
    family: Family
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
    name, kind, frequency = project.name, family.constraints, project.frequency
    shown, synthesis = family.name, family.synthesis
    if project.tool == "quartus":
        shown, synthesis = "Cyclone V", "synth_intel_alm -nodsp"
    templates = {"synth.ys": "synth.ys", "Makefile": "Makefile.mk"}
    outer = "serial" if board else ""
    if device is None:
        templates |= {f"constraints/{name}.sdc": "clock.sdc", "quartus.tcl": "quartus.tcl"}
    else:
        about = "board" if board and kind == "pcf" else "clock"
        templates[f"constraints/{name}.{kind}"] = f"{about}.{kind}"
        if kind == "xdc":
            templates["vivado.tcl"] = "vivado.tcl"
        elif kind == "pcf" and not board:
            outer, templates[f"impl/{name}_pins.v"] = "pins", "pins.v"
    words: dict[str, object] = {
        "project": project,
        "name": name,
        "device": device,
        "part": device.part if device else "",
        "kind": kind if device and family.clock else None,
        "synthesis": synthesis,
        "family": shown,
        "macro": "" if project.tool == "quartus" else family.macro,
        "outer": outer,
        "sources": " ".join(project.sources),
        "period": f"{1e3 / frequency:.3f}",
        "clock": "clk" if board else "aclk",
        "frequency": f"{board.clock if board else frequency:.2f}",
        "pins": board.pins.items() if board else (),
        "wide": project.interface.input_width,
        "out": project.interface.output_width,
    }
    if device and board:
        sources = [*project.sources, f"impl/{name}_serial.v"]
        words["steps"] = commands(name, device, sources)
    return {file: filled(template, **words) for file, template in templates.items()}
