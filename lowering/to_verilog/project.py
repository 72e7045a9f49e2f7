"""Files for the tools of a device: constraints of the clock, scripts, a Makefile.

The circuit is built out of context: its ports are nets inside a larger design, so constraints name
the clock and no pins. Not here: the circuit and its test bench.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .bitstream import commands
from .boards import Board
from .estimate.devices import Device
from .interface import Interface
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
    files = {"synth.ys": _yosys(project), "Makefile": _makefile(project)}
    around = _ON_BOARD if project.board else _OF_FAMILY
    templates = _WITHOUT_DEVICE if project.device is None else around[project.family]
    for name, template in templates.items():
        files[name.format(name=project.name)] = filled(template, **_words(project))
    return files


def _words(project: Project) -> dict[str, object]:
    """What the templates say of a project; `pins.v` has the streams in shift registers."""
    board = project.board
    wide, out = project.interface.input_width, project.interface.output_width
    places = board.pins.items() if board else ()
    read = [f"set_global_assignment -name VERILOG_FILE {source}" for source in project.sources]
    pin = _PIN.get(project.family, "")
    return {
        "name": project.name,
        "part": project.device.part if project.device else "",
        "macro": MACROS.get(project.family),
        "sources": " ".join(project.sources),
        "assignments": "\n".join(read),
        "period": f"{1e3 / project.frequency:.3f}",
        "clock": "clk" if board else "aclk",
        "frequency": f"{board.clock if board else project.frequency:.2f}",
        "pins": "".join(pin.format(port=port, place=place) for port, place in places),
        "data_in": wide - 1,
        "valid": wide,
        "last": wide + 1,
        "ready": wide + 2,
        "data_out": out - 1,
        "lower": out + 1,
        "given": out + 2,
    }


def _yosys(project: Project) -> str:
    family, synthesis = project.family, _SYNTHESIS[project.family]
    if project.tool == "quartus":
        family, synthesis = "Cyclone V", "synth_intel_alm -nodsp"
    macro = MACROS.get(family)
    reading = f"read_verilog -D{macro}" if macro else "read_verilog"
    reads = "\n".join(f"{reading} {source}" for source in project.sources)
    lines = [f"# yosys synth.ys: what the circuit takes on {family}", reads]
    top = project.name
    if project.board is not None:
        lines.append(f"read_verilog impl/{top}_serial.v")
        top += "_serial"
    elif project.family == "ice40" and project.device is not None:
        lines.append(f"read_verilog impl/{top}_pins.v")
        top += "_pins"
    lines.append(f"{synthesis} -top {top}")
    if project.device is not None and project.device.flags:
        lines.append(f"write_json {project.name}.json")
    return "\n".join([*lines, "stat", ""])


def _makefile(project: Project) -> str:
    name, device = project.name, project.device
    sources = " ".join(project.sources)
    parts = [
        "# make synth: size by Yosys; make test: simulation by Icarus Verilog.",
        ".PHONY: synth test clean",
        "YOSYS ?= yosys",
        f"synth: {sources}\n\t$(YOSYS) -l synth.log synth.ys",
        f"test:\n\tcd test && iverilog -o run {_up(project.sources)} {name}_tb.v && vvp run",
    ]
    outputs = "synth.log test/run"
    if device is not None:
        parts += _implementation(project, device)
        outputs += f" build {name}.json {name}_routed.json {name}.asc {name}.bit {name}.bin"
        outputs += f" {name}.config {name}_placed.json"
    return "\n\n".join([*parts, f"clean:\n\trm -rf {outputs}", ""])


def _up(sources: Sequence[str]) -> str:
    return " ".join(f"../{source}" for source in sources)


def _implementation(project: Project, device: Device) -> list[str]:
    """The rules that place and route."""
    if project.board is not None:
        return _to_bitstream(project, device)
    name, phony = project.name, ".PHONY: implement"
    kind = {"ecp5": "lpf", "ice40": "pcf"}.get(device.family)
    if kind is None:
        return [phony, "implement:\n\tvivado -mode batch -source vivado.tcl"]
    on_ice = device.family == "ice40"
    result = f"--asc {name}.asc" if on_ice else f"--out-of-context --write {name}_routed.json"
    return [
        phony,
        f"NEXTPNR ?= nextpnr-{device.family}",
        f"{name}.json: {' '.join(project.sources)} synth.ys\n\t$(YOSYS) -q synth.ys",
        f"implement: {name}.json\n\t$(NEXTPNR) {' '.join(device.flags)} --json {name}.json "
        f"--{kind} constraints/{name}.{kind} --{kind}-allow-unconstrained {result} "
        "--timing-allow-fail",
        *([f"{name}.bin: implement\n\ticepack {name}.asc {name}.bin"] if on_ice else []),
    ]


def _to_bitstream(project: Project, device: Device) -> list[str]:
    """The rules that make a bitstream: `make bitstream`."""
    sources = [*project.sources, f"impl/{project.name}_serial.v"]
    rules: list[str] = []
    for step in (steps := commands(project.name, device, sources)):
        variable = re.sub(r"-.*", "", step.tool).upper()
        rules.append(f"{variable} ?= {step.tool}" if step.tool != "yosys" else "")
        rules.append(
            f"{step.writes}: {' '.join(step.reads)}\n\t$({variable}) {' '.join(step.arguments)}"
        )
    return [".PHONY: bitstream", *filter(None, rules), f"bitstream: {steps[-1].writes}"]


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

_PIN = {
    "ecp5": '\nLOCATE COMP "{port}" SITE "{place}";\nIOBUF PORT "{port}" IO_TYPE=LVCMOS33;',
    "ice40": "\nset_io {port} {place}",
}
"""How constraints give a port its place."""
