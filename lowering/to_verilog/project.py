"""Files for the tools of a device: constraints of the clock, scripts, a Makefile.

The circuit is built out of context: its ports are nets inside a larger design, so constraints name
the clock and no pins. With AXI4-Lite registers it is an IP core: IP-XACT is that of IEEE 1685-2009,
as Vivado reads it, and the scripts use commands of UG835 (Tcl) and UG1118 (packaging) alone. Not
here: the circuit and its test bench, the registers (`circuit.registers`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from .bitstream import commands
from .boards import Board
from .circuit.interface import Interface
from .circuit.registers import ADDRESS_BITS, REGISTERS, Register
from .estimate.devices import Device
from .estimate.families import Family
from .formal import Port
from .templates import filled
from .tools import ToolName


def project_files(
    interface: Interface,
    sources: Sequence[str],
    frequency: float,
    family: Family,
    device: Device | None,
    board: Board | None,
    tool: ToolName,
) -> dict[str, str]:
    """Names and texts; which ones depends on the device.

    Args:
        interface: of the circuit.
        sources: files, relative to the folder.
        frequency: of the clock, in MHz.
        family: of devices.
        device: the one to build for; without it there is synthesis, for the family, alone.
        board: where it goes with a serial port; without one the circuit is a part of a design.
        tool: whose attributes the Verilog has.
    """
    name, kind = interface.name, family.constraints
    shown, synthesis = family.name, family.synthesis
    if tool == "quartus":
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
        "name": name,
        "device": device,
        "part": device.part if device else "",
        "kind": kind if device and family.clock else None,
        "synthesis": synthesis,
        "family": shown,
        "macro": "" if tool == "quartus" else family.macro,
        "outer": outer,
        "board": board,
        "files": sources,
        "sources": " ".join(sources),
        "period": f"{1e3 / frequency:.3f}",
        "clock": "clk" if board else "aclk",
        "frequency": f"{board.clock if board else frequency:.2f}",
        "pins": board.pins.items() if board else (),
        "wide": interface.input_width,
        "out": interface.output_width,
    }
    if device and board:
        words["steps"] = commands(name, device, [*sources, f"impl/{name}_serial.v"])
    return {file: filled(template, **words) for file, template in templates.items()}


def core_files(
    name: str,
    ports: Sequence[Port],
    sources: Sequence[str],
    frequency: float,
    device: Device | None,
    registers: Sequence[Register] = REGISTERS,
) -> dict[str, str]:
    """Names and texts, relative to the folder of the whole.

    Args:
        name: of the circuit.
        ports: of the module with the registers.
        sources: files, relative to the folder.
        frequency: of the clock, in MHz.
        device: to build for, if any.
        registers: the map.
    """
    # What Vivado calls VLNV, with the name of the module.
    vendor, library, version, top = "triton-dsl", "networks", "1.0", f"{name}_axi"
    width = next(bits for port, _, bits in ports if port == "s_axis_tdata")
    words: dict[str, object] = {
        "name": name,
        "top": top,
        "ports": ports,
        "files": sources,
        "sources": " ".join(sources),
        "registers": registers,
        "vendor": vendor,
        "library": library,
        "version": version,
        "vlnv": f"{vendor}:{library}:{top}:{version}",
        "address_bits": ADDRESS_BITS,
        "part": device.part if device else "xczu3eg-sbva484-1-e",
        "device": device,
        "mhz": int(frequency),
        "width": width,
        "data_width": max(32, width),
    }
    wanted = {"component.xml": "component.xml", "ip/package.tcl": "package.tcl"}
    if device is not None and device.name.startswith(("xc7z", "xczu", "xck")):
        wanted["ip/block_design.tcl"] = "block_design.tcl"
    files = {file: filled(template, **words) for file, template in wanted.items()}
    map = [
        {
            **{key: getattr(register, key) for key in ("name", "offset", "access", "text")},
            "fields": [
                {"name": name, "bit": bit, "text": text}
                for bit, (name, text) in enumerate(register.fields)
            ],
        }
        for register in registers
    ]
    return files | {"ip/registers.json": json.dumps(map, indent=1) + "\n"}
