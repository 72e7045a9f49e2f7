"""An IP core of a circuit with AXI4-Lite registers: IP-XACT, and scripts for Vivado.

IP-XACT is that of IEEE 1685-2009, as Vivado reads it. The scripts use commands of UG835 (Tcl) and
UG1118 (packaging) alone. Not here: the registers (`circuit.registers`), and drivers (`host_files`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from .circuit.registers import ADDRESS_BITS, REGISTERS, Register
from .estimate.devices import Device
from .templates import filled

VENDOR, LIBRARY, VERSION = "triton-dsl", "networks", "1.0"
"""Of the core, with its name what Vivado calls VLNV."""


@dataclass(frozen=True)
class Core:
    """What the files are about.

    Attributes:
        name: of the circuit.
        ports: of the module with the registers: name, whether it is an input, bits.
        sources: files, relative to the folder of the whole.
        frequency: of the clock, in MHz.
        device: to build for, if any.
        registers: the map.
    """

    name: str
    ports: Sequence[tuple[str, bool, int]]
    sources: Sequence[str]
    frequency: float
    device: Device | None
    registers: Sequence[Register] = REGISTERS

    @property
    def top(self) -> str:
        """The module with the registers."""
        return f"{self.name}_axi"

    @property
    def vlnv(self) -> str:
        """What Vivado calls the core."""
        return f"{VENDOR}:{LIBRARY}:{self.top}:{VERSION}"


def ports_of(text: str) -> list[tuple[str, bool, int]]:
    """The ports of a module by its Verilog, as `Core` has them."""
    found = re.findall(r"^  (input |output) wire (?:\[(\d+):0\] )?(\w+),?$", text, re.MULTILINE)
    return [(name, side == "input ", int(high or 0) + 1) for side, high, name in found]


def core_files(core: Core) -> dict[str, str]:
    """Names and texts, relative to the folder of the whole."""
    files = {
        "component.xml": filled(
            "component.xml",
            core=core,
            vendor=VENDOR,
            library=LIBRARY,
            version=VERSION,
            address_bits=ADDRESS_BITS,
        ),
        "ip/registers.json": json.dumps(register_map(core.registers), indent=1) + "\n",
        "ip/package.tcl": filled(
            "package.tcl",
            part=core.device.part if core.device else "xczu3eg-sbva484-1-e",
            sources=" ".join(core.sources),
            top=core.top,
            name=core.name,
        ),
    }
    if core.device is not None and core.device.name.startswith(("xc7z", "xczu", "xck")):
        files["ip/block_design.tcl"] = _block_design(core, core.device)
    return files


def register_map(registers: Sequence[Register]) -> list[dict[str, object]]:
    """The registers as JSON data."""
    return [
        {
            "name": register.name,
            "offset": register.offset,
            "access": register.access,
            "text": register.text,
            "fields": [
                {"name": name, "bit": bit, "text": text}
                for bit, (name, text) in enumerate(register.fields)
            ],
        }
        for register in registers
    ]


def _block_design(core: Core, device: Device) -> str:
    width = next(bits for name, _, bits in core.ports if name == "s_axis_tdata")
    return filled(
        "block_design.tcl",
        name=core.name,
        vlnv=core.vlnv,
        part=device.part,
        device=device,
        mhz=int(core.frequency),
        width=width,
        data_width=max(32, width),
    )
