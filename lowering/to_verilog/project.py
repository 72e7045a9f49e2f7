"""Files for the tools of a device: constraints of the clock, scripts, a Makefile.

The circuit is built out of context: its ports are nets inside a larger design, so constraints name
the clock and no pins. Not here: the circuit and its test bench.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .bitstream import commands
from .boards import Board
from .estimate.devices import Device
from .rows import MACROS
from .templates import filled

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
        name: of the module with the streams.
        sources: files, relative to the folder.
        frequency: of the clock, in MHz.
        family: of devices.
        device: the one to build for; without it there is synthesis, for the family, alone.
        input_bits: of `s_axis_tdata`.
        output_bits: of `m_axis_tdata`.
        board: where it goes with a serial port; without one the circuit is a part of a design.
    """

    name: str
    sources: Sequence[str]
    frequency: float
    family: str
    device: Device | None
    input_bits: int
    output_bits: int
    board: Board | None = None

    @property
    def period(self) -> str:
        """Of the clock, in nanoseconds."""
        return f"{1e3 / self.frequency:.3f}"


def project_files(project: Project) -> dict[str, str]:
    """Names and texts; which ones depends on the device."""
    files = {"synth.ys": _yosys(project), "Makefile": _makefile(project)}
    if project.device is None:
        return files | {
            f"constraints/{project.name}.sdc": _sdc(project),
            "quartus.tcl": _quartus(project),
        }
    around = _ON_BOARD if project.board else _OF_FAMILY
    for name, text in around[project.family].items():
        files[name.format(name=project.name)] = text(project)
    return files


def _yosys(project: Project) -> str:
    macro = MACROS.get(project.family)
    reading = f"read_verilog -D{macro}" if macro else "read_verilog"
    reads = "\n".join(f"{reading} {source}" for source in project.sources)
    lines = [f"# yosys synth.ys: what the circuit takes on {project.family}", reads]
    top = project.name
    if project.board is not None:
        lines.append(f"read_verilog impl/{top}_serial.v")
        top += "_serial"
    elif project.family == "ice40" and project.device is not None:
        lines.append(f"read_verilog impl/{top}_pins.v")
        top += "_pins"
    lines.append(f"{_SYNTHESIS[project.family]} -top {top}")
    if project.device is not None and project.device.flags:
        lines.append(f"write_json {project.name}.json")
    return "\n".join([*lines, "stat", ""])


def _xdc(project: Project) -> str:
    return (
        "# Vivado, out of context: the clock; delays of ports are those of the design around.\n"
        f"create_clock -period {project.period} -name aclk [get_ports aclk]\n"
        "set_property HD.CLK_SRC BUFGCTRL_X0Y0 [get_ports aclk]\n"
    )


def _sdc(project: Project) -> str:
    return (
        f"create_clock -name aclk -period {project.period} [get_ports aclk]\n"
        "derive_clock_uncertainty\n"
        "set_false_path -from [get_ports {s_axis_* m_axis_tready aresetn}]\n"
        "set_false_path -to [get_ports {m_axis_t* s_axis_tready}]\n"
    )


def _lpf(project: Project) -> str:
    return f'FREQUENCY PORT "aclk" {project.frequency:.2f} MHZ;\n'


def _board_lpf(project: Project) -> str:
    assert project.board is not None
    lines = [f'FREQUENCY PORT "clk" {project.board.clock:.2f} MHZ;']
    for port, place in project.board.pins.items():
        lines.append(f'LOCATE COMP "{port}" SITE "{place}";')
        lines.append(f'IOBUF PORT "{port}" IO_TYPE=LVCMOS33;')
    return "\n".join([*lines, ""])


def _board_pcf(project: Project) -> str:
    assert project.board is not None
    lines = [f"set_io {port} {place}" for port, place in project.board.pins.items()]
    return "\n".join([f"set_frequency clk {project.board.clock:.2f}", *lines, ""])


def _pcf(project: Project) -> str:
    return (
        "# Pins are chosen by nextpnr; write 'set_io aclk 20' and so on for those of a board.\n"
        f"set_frequency aclk {project.frequency:.2f}\n"
    )


def _vivado(project: Project) -> str:
    assert project.device is not None
    return filled(
        "vivado.tcl",
        name=project.name,
        part=project.device.part,
        sources=" ".join(project.sources),
        macro=MACROS[project.family],
        period=project.period,
    )


def _quartus(project: Project) -> str:
    sources = [f"set_global_assignment -name VERILOG_FILE {source}" for source in project.sources]
    return filled("quartus.tcl", name=project.name, sources="\n".join(sources))


def _pins(project: Project) -> str:
    """Five pins instead of hundreds: the streams come and go bit by bit."""
    name, wide, out = project.name, project.input_bits, project.output_bits
    return f"""\
// {name} with few pins, to place and route it alone: its streams go through shift registers.
module {name}_pins (
  input  wire aclk,
  input  wire aresetn,
  input  wire serial_in,
  input  wire load,
  output wire serial_out
);
  reg [{wide + 2}:0] taken;
  reg [{out + 2}:0] given;
  wire [{out - 1}:0] data;
  wire ready, valid, last;
  {name} circuit (
    .aclk(aclk),
    .aresetn(aresetn),
    .s_axis_tdata(taken[{wide - 1}:0]),
    .s_axis_tvalid(taken[{wide}]),
    .s_axis_tlast(taken[{wide + 1}]),
    .m_axis_tready(taken[{wide + 2}]),
    .s_axis_tready(ready),
    .m_axis_tdata(data),
    .m_axis_tvalid(valid),
    .m_axis_tlast(last)
  );
  always @(posedge aclk) begin
    taken <= {{taken[{wide + 1}:0], serial_in}};
    given <= load ? {{ready, valid, last, data}} : {{given[{out + 1}:0], 1'b0}};
  end
  assign serial_out = given[{out + 2}];
endmodule
"""


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


_XILINX: dict[str, Callable[[Project], str]] = {
    "constraints/{name}.xdc": _xdc,
    "vivado.tcl": _vivado,
}

_OF_FAMILY: dict[str, dict[str, Callable[[Project], str]]] = {
    "ultrascale+": _XILINX,
    "7-series": _XILINX,
    "ecp5": {"constraints/{name}.lpf": _lpf},
    "ice40": {"constraints/{name}.pcf": _pcf, "impl/{name}_pins.v": _pins},
}
"""What a folder for a device of a family has besides the script for Yosys and the Makefile."""

_ON_BOARD: dict[str, dict[str, Callable[[Project], str]]] = {
    "ecp5": {"constraints/{name}.lpf": _board_lpf},
    "ice40": {"constraints/{name}.pcf": _board_pcf},
}
"""The same with a serial port on a board."""
