"""An IP core of a circuit with AXI4-Lite registers: IP-XACT, and scripts for Vivado.

IP-XACT is that of IEEE 1685-2009, as Vivado reads it. The scripts use commands of UG835 (Tcl) and
UG1118 (packaging) alone. Not here: the registers (`circuit.registers`), and drivers (`host_files`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from xdsl.dialects import hw

from ...dialects.shapes import bit_width
from .circuit.registers import ADDRESS_BITS, REGISTERS, Register
from .estimate.devices import Device

VENDOR, LIBRARY, VERSION = "triton-dsl", "networks", "1.0"
"""Of the core, with its name what Vivado calls VLNV."""

_SPIRIT = "http://www.spiritconsortium.org/XMLSchema/SPIRIT/1685-2009"
_XILINX = "xilinx.com"


@dataclass(frozen=True)
class Core:
    """What the files are about.

    Attributes:
        name: of the circuit.
        ports: of the module with the registers: name, whether it is an input, bits.
        sources: files, relative to the folder of the whole.
        period: of the clock, in nanoseconds.
        device: to build for, if any.
        registers: the map.
    """

    name: str
    ports: Sequence[tuple[str, bool, int]]
    sources: Sequence[str]
    period: float
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
    root = _Node("component", None)
    root.texts(vendor=VENDOR, library=LIBRARY, name=core.top, version=VERSION)
    buses = root.node("busInterfaces")
    names = [name for name, _, _ in core.ports]
    for bus, kind, side in (
        ("s_axis", "axis", "slave"),
        ("m_axis", "axis", "master"),
        ("s_axi", "aximm", "slave"),
    ):
        _bus(buses, bus, ("interface", kind), side, [n for n in names if n.startswith(f"{bus}_")])
    _signal_bus(buses, "aclk", "clock", "CLK", {
        "ASSOCIATED_BUSIF": "s_axis:m_axis:s_axi", "ASSOCIATED_RESET": "aresetn",
    })  # fmt: skip
    _signal_bus(buses, "aresetn", "reset", "RST", {"POLARITY": "ACTIVE_LOW"})
    _memory_map(root.node("memoryMaps").node("memoryMap"), core.registers)
    model = root.node("model")
    view = model.node("views").node("view")
    view.texts(
        name="xilinx_anylanguagesynthesis",
        envIdentifier=":vivado.xilinx.com:synthesis",
        language="Verilog",
        modelName=core.top,
    )
    view.node("fileSetRef").texts(localName="sources")
    _ports(model.node("ports"), core.ports)
    files = root.node("fileSets").node("fileSet")
    files.texts(name="sources")
    for source in core.sources:
        files.node("file").texts(name=source, fileType="verilogSource")
    root.texts(description=f"The network {core.name} with AXI4-Streams and AXI4-Lite registers")
    return root.text()


class _Node:
    """An element of IP-XACT."""

    def __init__(self, tag: str, parent: ElementTree.Element | None) -> None:
        name = f"{{{_SPIRIT}}}{tag}"
        self._element = (
            ElementTree.Element(name) if parent is None else ElementTree.SubElement(parent, name)
        )

    def node(self, tag: str, **attributes: str) -> _Node:
        """A part of it."""
        part = _Node(tag, self._element)
        for key, value in attributes.items():
            part._element.set(f"{{{_SPIRIT}}}{key}", value)
        return part

    def texts(self, **entries: str) -> None:
        """Parts that are text alone."""
        for tag, text in entries.items():
            self.node(tag)._element.text = text

    def text(self) -> str:
        """The whole, as a file."""
        ElementTree.register_namespace("spirit", _SPIRIT)
        ElementTree.indent(self._element, " ")
        body = ElementTree.tostring(self._element, encoding="unicode")
        return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _types(bus: _Node, library: str, kind: str) -> None:
    for tag, name in (("busType", kind), ("abstractionType", f"{kind}_rtl")):
        bus.node(tag, vendor=_XILINX, library=library, name=name, version="1.0")


def _bus(buses: _Node, name: str, kind: tuple[str, str], side: str, ports: Sequence[str]) -> None:
    bus = buses.node("busInterface")
    bus.texts(name=name)
    _types(bus, *kind)
    role = bus.node(side)
    if kind[1] == "aximm":
        role.node("memoryMapRef", memoryMapRef=name)
    _maps(bus, ((port.removeprefix(f"{name}_").upper(), port) for port in ports))


def _signal_bus(
    buses: _Node, port: str, kind: str, logical: str, parameters: dict[str, str]
) -> None:
    bus = buses.node("busInterface")
    bus.texts(name=port)
    _types(bus, "signal", kind)
    bus.node("slave")
    _maps(bus, [(logical, port)])
    listed = bus.node("parameters")
    for name, value in parameters.items():
        listed.node("parameter").texts(name=name, value=value)


def _maps(bus: _Node, pairs: Iterable[tuple[str, str]]) -> None:
    listed = bus.node("portMaps")
    for logical, physical in pairs:
        pair = listed.node("portMap")
        pair.node("logicalPort").texts(name=logical)
        pair.node("physicalPort").texts(name=physical)


def _memory_map(memory: _Node, registers: Sequence[Register]) -> None:
    memory.texts(name="s_axi")
    block = memory.node("addressBlock")
    block.texts(
        name="registers",
        baseAddress="0",
        range=str(1 << ADDRESS_BITS),
        width="32",
        usage="register",
    )
    for register in registers:
        _register(block.node("register"), register)


def _register(node: _Node, register: Register) -> None:
    access = "read-write" if register.writable else "read-only"
    node.texts(
        name=register.name,
        description=register.text,
        addressOffset=f"0x{register.offset:02x}",
        size="32",
        access=access,
    )
    node.node("reset").texts(value=str(register.first))
    for bit, (name, text) in enumerate(register.fields):
        node.node("field").texts(
            name=name, description=text, bitOffset=str(bit), bitWidth="1", access=access
        )


def _ports(listed: _Node, ports: Sequence[tuple[str, bool, int]]) -> None:
    for name, is_input, bits in ports:
        port = listed.node("port")
        port.texts(name=name)
        wire = port.node("wire")
        wire.texts(direction="in" if is_input else "out")
        if bits > 1:
            wire.node("vector").texts(left=str(bits - 1), right="0")


def _package(core: Core) -> str:
    part = core.device.part if core.device else "xczu3eg-sbva484-1-e"
    sources = " ".join(core.sources)
    return f"""\
# vivado -mode batch -source ip/package.tcl, in the folder of report.json: lets Vivado check and
# renew component.xml. The folder is an IP repository without that too.
create_project -in_memory -part {part}
add_files -norecurse [list {sources}]
set_property top {core.top} [current_fileset]
ipx::open_ipxact_file component.xml
set core [ipx::current_core]
set_property display_name "{core.name}" $core
set_property supported_families {{zynq Production zynquplus Production artix7 Production}} $core
ipx::update_checksums $core
ipx::check_integrity $core
ipx::save_core $core
"""


def _block_design(core: Core, device: Device) -> str:
    seven = device.family == "7-series"
    if seven:
        system = "xilinx.com:ip:processing_system7"
        rule = '-config {make_external "FIXED_IO, DDR" apply_board_preset "1"}'
        properties = "CONFIG.PCW_USE_S_AXI_HP0 1 CONFIG.PCW_FPGA0_PERIPHERAL_FREQMHZ $mhz"
        clock, reset = "FCLK_CLK0", "FCLK_RESET0_N"
        control, memory = "M_AXI_GP0", "S_AXI_HP0"
        wires = f"connect_bd_net $clock [get_bd_pins system/M_AXI_GP0_ACLK] {_PINS7}"
    else:
        system = "xilinx.com:ip:zynq_ultra_ps_e"
        rule = '-config {apply_board_preset "1"}'
        properties = (
            "CONFIG.PSU__USE__S_AXI_GP2 1 CONFIG.PSU__USE__M_AXI_GP0 1 "
            "CONFIG.PSU__USE__M_AXI_GP1 0 CONFIG.PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ $mhz"
        )
        clock, reset = "pl_clk0", "pl_resetn0"
        control, memory = "M_AXI_HPM0_FPD", "S_AXI_HP0_FPD"
        wires = "connect_bd_net $clock [get_bd_pins system/maxihpm0_fpd_aclk] " + _PINS_PLUS
    width = next(bits for name, _, bits in core.ports if name == "s_axis_tdata")
    mhz = int(1e3 / core.period)
    return f"""\
# vivado -mode batch -source ip/block_design.tcl, in the folder of report.json: a processor, a DMA
# and the network, up to a bitstream and {core.name}.hwh for PYNQ. Arguments: part, board part.
set part [expr {{$argc > 0 ? [lindex $argv 0] : "{device.part}"}}]
set mhz {mhz}
create_project {core.name}_board build/{core.name}_board -part $part -force
if {{$argc > 1}} {{ set_property board_part [lindex $argv 1] [current_project] }}
set_property ip_repo_paths [list [pwd]] [current_project]
update_ip_catalog
create_bd_design {core.name}_design
create_bd_cell -type ip -vlnv {system} system
if {{$argc > 1}} {{
  apply_bd_automation -rule {system.replace(":ip:", ":bd_rule:")} \\
    {rule} [get_bd_cells system]
}}
set_property -dict [list {properties}] [get_bd_cells system]
create_bd_cell -type ip -vlnv {core.vlnv} network
create_bd_cell -type ip -vlnv xilinx.com:ip:axi_dma dma
set_property -dict [list CONFIG.c_include_sg 0 CONFIG.c_sg_length_width 26 \\
  CONFIG.c_m_axis_mm2s_tdata_width {width} CONFIG.c_s_axis_s2mm_tdata_width {width} \\
  CONFIG.c_m_axi_mm2s_data_width {max(32, width)} \\
  CONFIG.c_m_axi_s2mm_data_width {max(32, width)}] [get_bd_cells dma]
create_bd_cell -type ip -vlnv xilinx.com:ip:proc_sys_reset resets
create_bd_cell -type ip -vlnv xilinx.com:ip:smartconnect control
set_property -dict [list CONFIG.NUM_SI 1 CONFIG.NUM_MI 2] [get_bd_cells control]
create_bd_cell -type ip -vlnv xilinx.com:ip:smartconnect memory
set_property -dict [list CONFIG.NUM_SI 2 CONFIG.NUM_MI 1] [get_bd_cells memory]

connect_bd_intf_net [get_bd_intf_pins dma/M_AXIS_MM2S] [get_bd_intf_pins network/s_axis]
connect_bd_intf_net [get_bd_intf_pins network/m_axis] [get_bd_intf_pins dma/S_AXIS_S2MM]
connect_bd_intf_net [get_bd_intf_pins system/{control}] [get_bd_intf_pins control/S00_AXI]
connect_bd_intf_net [get_bd_intf_pins control/M00_AXI] [get_bd_intf_pins dma/S_AXI_LITE]
connect_bd_intf_net [get_bd_intf_pins control/M01_AXI] [get_bd_intf_pins network/s_axi]
connect_bd_intf_net [get_bd_intf_pins dma/M_AXI_MM2S] [get_bd_intf_pins memory/S00_AXI]
connect_bd_intf_net [get_bd_intf_pins dma/M_AXI_S2MM] [get_bd_intf_pins memory/S01_AXI]
connect_bd_intf_net [get_bd_intf_pins memory/M00_AXI] [get_bd_intf_pins system/{memory}]

set clock [get_bd_pins system/{clock}]
{wires} \\
  [get_bd_pins resets/slowest_sync_clk] [get_bd_pins control/aclk] [get_bd_pins memory/aclk] \\
  [get_bd_pins network/aclk] [get_bd_pins dma/s_axi_lite_aclk] \\
  [get_bd_pins dma/m_axi_mm2s_aclk] [get_bd_pins dma/m_axi_s2mm_aclk]
connect_bd_net [get_bd_pins system/{reset}] [get_bd_pins resets/ext_reset_in]
connect_bd_net [get_bd_pins resets/peripheral_aresetn] [get_bd_pins control/aresetn] \\
  [get_bd_pins memory/aresetn] [get_bd_pins network/aresetn] [get_bd_pins dma/axi_resetn]
assign_bd_address
validate_bd_design
save_bd_design

make_wrapper -files [get_files {core.name}_design.bd] -top -import
set_property top {core.name}_design_wrapper [current_fileset]
launch_runs impl_1 -to_step write_bitstream -jobs 4
wait_on_runs impl_1
file copy -force [lindex [glob build/{core.name}_board/*.runs/impl_1/*.bit] 0] {core.name}.bit
file copy -force [lindex [glob build/{core.name}_board/*.gen/sources_1/bd/*/hw_handoff/*.hwh] 0] \\
  {core.name}.hwh
"""


_PINS7 = "[get_bd_pins system/S_AXI_HP0_ACLK]"
_PINS_PLUS = "[get_bd_pins system/saxihp0_fpd_aclk]"
