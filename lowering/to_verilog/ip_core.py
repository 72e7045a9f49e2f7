"""An IP core of a circuit with AXI4-Lite registers: IP-XACT, and scripts for Vivado.

IP-XACT is that of IEEE 1685-2009, as Vivado reads it. The scripts use commands of UG835 (Tcl) and
UG1118 (packaging) alone. Not here: the registers (`circuit.registers`), and drivers (`host_files`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from xml.etree import ElementTree

from xdsl.dialects import hw

from ...dialects.shapes import bit_width
from .circuit.registers import ADDRESS_BITS, REGISTERS, Register
from .estimate.devices import Device
from .templates import filled

VENDOR, LIBRARY, VERSION = "triton-dsl", "networks", "1.0"
"""Of the core, with its name what Vivado calls VLNV."""

_SPIRIT = "http://www.spiritconsortium.org/XMLSchema/SPIRIT/1685-2009"
_XILINX = "xilinx.com"

_Parts = dict[str, Any]
"""Of an element of XML: text or further parts by tag, a list of several; `@` before attributes."""


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


def ports_of(module: hw.HWModuleOp) -> list[tuple[str, bool, int]]:
    """The ports of a module, as `Core` has them."""
    return [
        (port.port_name.data, port.dir.data == hw.Direction.INPUT, bit_width(port.type) or 1)
        for port in module.module_type.ports.data
    ]


def core_files(core: Core) -> dict[str, str]:
    """Names and texts, relative to the folder of the whole."""
    files = {
        "component.xml": component(core),
        "ip/registers.json": json.dumps(register_map(core.registers), indent=1) + "\n",
        "ip/package.tcl": _package(core),
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
            "access": "read-write" if register.writable else "read-only",
            "text": register.text,
            "fields": [
                {"name": name, "bit": bit, "text": text}
                for bit, (name, text) in enumerate(register.fields)
            ],
        }
        for register in registers
    ]


def component(core: Core) -> str:
    """IP-XACT of the core."""
    reached = {"memoryMapRef": {"@memoryMapRef": "s_axi"}}
    buses = [
        _bus("s_axis", "interface", "axis", {"slave": {}}, _channels(core, "s_axis")),
        _bus("m_axis", "interface", "axis", {"master": {}}, _channels(core, "m_axis")),
        _bus("s_axi", "interface", "aximm", {"slave": reached}, _channels(core, "s_axi")),
    ]
    clocked = {"ASSOCIATED_BUSIF": "s_axis:m_axis:s_axi", "ASSOCIATED_RESET": "aresetn"}
    for port, kind, logical, parameters in (
        ("aclk", "clock", "CLK", clocked),
        ("aresetn", "reset", "RST", {"POLARITY": "ACTIVE_LOW"}),
    ):
        listed = [{"name": name, "value": value} for name, value in parameters.items()]
        bus = _bus(port, "signal", kind, {"slave": {}}, {logical: port})
        buses.append(bus | {"parameters": {"parameter": listed}})
    view = {
        "name": "xilinx_anylanguagesynthesis",
        "envIdentifier": ":vivado.xilinx.com:synthesis",
        "language": "Verilog",
        "modelName": core.top,
        "fileSetRef": {"localName": "sources"},
    }
    block = {
        "name": "registers",
        "baseAddress": "0",
        "range": str(1 << ADDRESS_BITS),
        "width": "32",
        "usage": "register",
        "register": list(map(_register, core.registers)),
    }
    files = [{"name": source, "fileType": "verilogSource"} for source in core.sources]
    return _xml(
        "component",
        {
            "vendor": VENDOR,
            "library": LIBRARY,
            "name": core.top,
            "version": VERSION,
            "busInterfaces": {"busInterface": buses},
            "memoryMaps": {"memoryMap": {"name": "s_axi", "addressBlock": block}},
            "model": {
                "views": {"view": view},
                "ports": {"port": [_port(*port) for port in core.ports]},
            },
            "fileSets": {"fileSet": {"name": "sources", "file": files}},
            "description": f"The network {core.name} with AXI4-Streams and AXI4-Lite registers",
        },
    )


def _channels(core: Core, bus: str) -> dict[str, str]:
    """The ports of a bus, by what the bus calls them."""
    names = [name for name, _, _ in core.ports if name.startswith(f"{bus}_")]
    return {name.removeprefix(f"{bus}_").upper(): name for name in names}


def _bus(name: str, library: str, kind: str, role: _Parts, ports: Mapping[str, str]) -> _Parts:
    types = {"busType": kind, "abstractionType": f"{kind}_rtl"}
    maps = [
        {"logicalPort": {"name": logical}, "physicalPort": {"name": physical}}
        for logical, physical in ports.items()
    ]
    return {
        "name": name,
        **{
            tag: {"@vendor": _XILINX, "@library": library, "@name": type, "@version": "1.0"}
            for tag, type in types.items()
        },
        **role,
        "portMaps": {"portMap": maps},
    }


def _register(register: Register) -> _Parts:
    access = "read-write" if register.writable else "read-only"
    fields = [
        {
            "name": name,
            "description": text,
            "bitOffset": str(bit),
            "bitWidth": "1",
            "access": access,
        }
        for bit, (name, text) in enumerate(register.fields)
    ]
    return {
        "name": register.name,
        "description": register.text,
        "addressOffset": f"0x{register.offset:02x}",
        "size": "32",
        "access": access,
        "reset": {"value": str(register.first)},
        "field": fields,
    }


def _port(name: str, is_input: bool, bits: int) -> _Parts:
    wire: _Parts = {"direction": "in" if is_input else "out"}
    if bits > 1:
        wire |= {"vector": {"left": str(bits - 1), "right": "0"}}
    return {"name": name, "wire": wire}


def _xml(tag: str, parts: _Parts) -> str:
    """An element of IP-XACT as a file."""
    ElementTree.register_namespace("spirit", _SPIRIT)
    root = ElementTree.Element(f"{{{_SPIRIT}}}{tag}")
    _add(root, parts)
    ElementTree.indent(root, " ")
    body = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _add(element: ElementTree.Element, parts: _Parts) -> None:
    """Give an element its parts."""
    for tag, value in parts.items():
        if tag.startswith("@"):
            element.set(f"{{{_SPIRIT}}}{tag[1:]}", value)
            continue
        for each in cast("list[Any]", value if isinstance(value, list) else [value]):
            part = ElementTree.SubElement(element, f"{{{_SPIRIT}}}{tag}")
            if isinstance(each, str):
                part.text = each
            else:
                _add(part, each)


def _package(core: Core) -> str:
    return filled(
        "package.tcl",
        part=core.device.part if core.device else "xczu3eg-sbva484-1-e",
        sources=" ".join(core.sources),
        top=core.top,
        name=core.name,
    )


_ZYNQ = {
    "system": "processing_system7",
    "rule": '-config {make_external "FIXED_IO, DDR" apply_board_preset "1"}',
    "properties": "CONFIG.PCW_USE_S_AXI_HP0 1 CONFIG.PCW_FPGA0_PERIPHERAL_FREQMHZ $mhz",
    "clock": "FCLK_CLK0",
    "reset": "FCLK_RESET0_N",
    "control": "M_AXI_GP0",
    "control_clock": "M_AXI_GP0_ACLK",
    "memory": "S_AXI_HP0",
    "memory_clock": "S_AXI_HP0_ACLK",
}
"""What the processor of a Zynq-7000 calls its ports and settings."""

_ZYNQ_PLUS = {
    "system": "zynq_ultra_ps_e",
    "rule": '-config {apply_board_preset "1"}',
    "properties": "CONFIG.PSU__USE__S_AXI_GP2 1 CONFIG.PSU__USE__M_AXI_GP0 1 "
    "CONFIG.PSU__USE__M_AXI_GP1 0 CONFIG.PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ $mhz",
    "clock": "pl_clk0",
    "reset": "pl_resetn0",
    "control": "M_AXI_HPM0_FPD",
    "control_clock": "maxihpm0_fpd_aclk",
    "memory": "S_AXI_HP0_FPD",
    "memory_clock": "saxihp0_fpd_aclk",
}
"""The same of a Zynq UltraScale+."""


def _block_design(core: Core, device: Device) -> str:
    width = next(bits for name, _, bits in core.ports if name == "s_axis_tdata")
    return filled(
        "block_design.tcl",
        name=core.name,
        vlnv=core.vlnv,
        part=device.part,
        mhz=int(core.frequency),
        width=width,
        data_width=max(32, width),
        **(_ZYNQ if device.family == "7-series" else _ZYNQ_PLUS),
    )
