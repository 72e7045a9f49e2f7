"""The target `verilog`: its options, its stages, and the files of a circuit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from xdsl.dialects import hw
from xdsl.dialects.builtin import ModuleOp

from ...ir.beside import Beside
from ...ir.errors import OptionError, expect_from
from ...passes.expose_logits import left_out
from ...passes.streamline.streamline import undecided_sums
from ..artifact import Artifact
from ..options import TargetOptions
from ..stages import Stage, run_stages
from ..target import Target
from .bitstream import find_tools, make_bitstream
from .circuit.interface import Interface, Record, noted_interface
from .circuit.modules import AnyModule
from .circuit.pacing import DEVICE
from .circuit.registers import register_module, registers
from .circuit.structure import check_structure
from .estimate.devices import Device, check_fits, needs
from .estimate.estimate import Estimate, estimate
from .estimate.families import family_of
from .formal import formal_files, ports_of, register_properties, stream_properties
from .host_files import driver_files, noted_weights
from .options import VerilogOptions, board_of, device_of, is_reloadable, tool_for
from .printer import check_printable, modules, verilog
from .project import core_files, project_files
from .report import folding_text, json_text, markdown, noted_folding, report
from .stages import circuit_stage, has_goal, integer_stages
from .testbench import cocotb_files, golden, random_inputs, vector_files

_BEATS = 4096
"""Of all frames of a test bench together, unless more are asked for."""

_FREQUENCY = 100.0
"""In MHz: what constraints ask for where no path limits the clock."""

_MANY = 1_000
"""Ops whose estimate takes longer than it does to begin another process."""

_TRIES = 4
"""Budgets of LUTs with which a folding is looked for that fits on a device."""

_MARGIN = 0.9
"""Of a budget, where the circuit takes too much of something else."""


class VerilogTarget(Target[VerilogOptions]):
    """Synthesisable Verilog-2001 with AXI streams; a test bench, a report, a script."""

    name: ClassVar[str] = "verilog"
    holds_graded: ClassVar[bool] = False
    description: ClassVar[str] = "Verilog-2001 for FPGAs, with AXI streams, test bench and report"
    Options: ClassVar[type[TargetOptions]] = VerilogOptions
    engine = f"{__package__}.simulation:VerilogEngine"

    def __init__(self) -> None:
        self._program: ModuleOp | None = None

    def options_for(self, options: VerilogOptions, output: Path) -> VerilogOptions:
        """One file for a name that ends in `.v`.

        Raises:
            OptionError: the form given is another.
        """
        form = "file" if output.suffix == ".v" else "folder"
        if options.form not in (None, form):
            raise OptionError(f"'{output}' is a {form}, and form={options.form} is given")
        return replace(options, form=form)

    def stages(self, options: VerilogOptions) -> Sequence[Stage]:
        """From tensors to `hw`, `comb` and `seq`."""
        # The circuit that a goal is compared with is the one that is wanted.
        built = has_goal(options)
        after = [] if built else [circuit_stage(options)]
        return [*integer_stages(options, build=built), *after]

    def prepare(self, module: ModuleOp, options: VerilogOptions) -> None:
        """Refuse options before anything is compiled; keep the program for a device.

        Raises:
            OptionError: a number is out of range, a device not known, or options contradict.
            BackendError: tools for a bitstream are missing.
        """
        for name, number, least in (("vectors", options.vectors, 2), ("seed", options.seed, 0)):
            expect_from(f"target 'verilog' expects {name}", number, least)
        device, board = device_of(options), board_of(options)
        if board is not None and options.ip:
            raise OptionError("ip=true has a bus and a board's serial port has none: leave out one")
        needs = {"board": board is not None, "ip": options.ip, "formal": options.formal}
        wanted = [name for name, is_asked in needs.items() if is_asked]
        wanted += ["reloadable"] if is_reloadable(options) else []
        if wanted and options.form == "file":
            shown = " and ".join(wanted)
            raise OptionError(f"{shown} wants a folder: leave out form=file and the '.v'")
        if options.bitstream:
            assert device is not None
            find_tools(device)
        if device is not None:
            self._program = module.clone()

    def emit(self, module: ModuleOp, options: VerilogOptions) -> Artifact:
        """The files.

        Raises:
            UnsupportedError: names every op without Verilog.
            VerifyError: the hardware modules are no circuit.
            LoweringError: the device has no room for the circuit.
            BackendError: a tool fails that makes a bitstream.
        """
        interface, device = noted_interface(module), device_of(options)
        hardware = modules(module)
        count = sum(len(m.body.block.ops) for m in hardware if isinstance(m, hw.HWModuleOp))
        with Beside(lambda: _size(module, interface, device), pays=count > _MANY) as estimated:
            return self._files(module, options, interface, device, hardware, estimated)

    def _files(
        self,
        module: ModuleOp,
        options: VerilogOptions,
        interface: Interface,
        device: Device | None,
        hardware: Sequence[AnyModule],
        estimated: Beside[Estimate],
    ) -> Artifact:
        check_printable(hardware)
        check_structure(module, interface.name, interface.streams)
        family, tool = family_of(_grade(device)), tool_for(options)
        in_tables = family.distributed_bits > 0
        texts = {m.sym_name.data: verilog(m, tool, memory_in_tables=in_tables) for m in hardware}
        test = {} if options.form == "file" else _test(module, interface, options)
        size = estimated.result()
        if device is not None:
            where = f"circuit '{interface.name}'"
            check_fits(size, device, where, lambda: self._advice(options, device))
        data = report(interface, hardware, size, device, options.clock)
        data |= {"folding": noted_folding(module), "left_out": left_out(module)}
        data |= {"undecided": undecided_sums(module)}
        if options.form == "file":
            content = "/* verilator lint_off DECLFILENAME */\n" + "\n".join(texts.values())
            name = f"{interface.name}.v"
            return Artifact(interface.name, {name: content.encode()}, manifest={"report": data})
        files = {f"rtl/{name}.v": text for name, text in texts.items()} | test | _reports(data)
        board = board_of(options)
        sources = [f"rtl/{name}.v" for name in texts]
        frequency = _frequency(size)
        files |= project_files(interface, sources, frequency, family, device, board, tool)
        weights = noted_weights(module, texts, interface.loads, interface.name)
        if options.formal:
            about = stream_properties(interface, ports_of(texts[interface.name]))
            files |= formal_files(about, sources)
        if board is not None:
            text = board.serial(interface.name, loadable=bool(interface.loads))
            files |= {f"impl/{interface.name}_serial.v": text} | driver_files()
        if options.ip:
            words = interface.words_in, interface.words_out
            loads, layout = (weights.loads, weights.layout[:8]) if weights else (None, "")
            core = register_module(interface.name, interface.word, words, loads, layout)
            made = {f"ip/{interface.name}_axi.v": core}
            map = registers(loadable=weights is not None)
            every, ports = [*sources, *made], ports_of(core)
            files |= made | driver_files()
            files |= core_files(interface.name, ports, every, frequency, device, map)
            if options.formal:
                properties = register_properties(f"{interface.name}_axi", ports)
                files |= formal_files(properties, every)
        contents = {name: text.encode() for name, text in files.items()}
        contents |= weights.files() if weights else {}
        if board is not None and options.bitstream:
            top = f"{interface.name}_serial"
            made, data["placed"] = make_bitstream(
                interface.name, board.device, top, contents, board.clock
            )
            contents |= made | {name: text.encode() for name, text in _reports(data).items()}
        return Artifact(interface.name, contents, manifest={"report": data})

    def _advice(self, options: VerilogOptions, device: Device) -> str:
        """A folding with which the program fits, built to know that, or that there is none."""
        budget = device.luts
        for _ in range(_TRIES if self._program else 0):
            assert self._program is not None
            module = self._program.clone()
            goal = replace(options, lut_budget=budget, fold=None)
            try:
                run_stages(module, self.stages(goal))
            except OptionError:
                return "no folding of it fits either; narrow the numbers, or take another one"
            taken = needs(_size(module, noted_interface(module), device).total, device)
            folding = noted_folding(module)
            if folding is not None and all(need.fits for need in taken):
                text = folding_text(folding["layers"])
                shown = ", ".join(f"{need.needs:,} {need.name}" for need in taken)
                cycles = folding.get("interval", 0)
                return f'it fits with folding="{text}": {shown}, {cycles:,} cycles a frame'
            budget = int(budget * _MARGIN / max(1.0, *(need.share for need in taken)))
        return ""


def _grade(device: Device | None) -> str:
    """Of devices: UltraScale+ where none is given."""
    return device.grade if device else DEVICE


def _size(module: ModuleOp, interface: Interface, device: Device | None) -> Estimate:
    return estimate(module, _grade(device), interface.name)


def _test(module: ModuleOp, interface: Interface, options: VerilogOptions) -> dict[str, str]:
    """Test benches, with what goes in and comes out."""
    vectors = options.vectors or max(4, min(64, _BEATS // interface.beats_in))
    inputs = random_inputs(interface, vectors, options.seed)
    expected = golden(module, interface, inputs)
    files = vector_files(interface, interface.sent(inputs), interface.given(expected))
    files |= cocotb_files(interface, registers=options.ip)
    return {f"test/{name}": text for name, text in files.items()}


def _reports(data: Record) -> dict[str, str]:
    """The report, for programs and for people."""
    return {"report.json": json_text(data), "report.md": markdown(data)}


def _frequency(size: Estimate) -> float:
    """The clock in MHz that constraints ask for: the estimated one, rounded down."""
    frequency = size.frequency or _FREQUENCY
    step = 10 ** max(0, len(str(int(frequency))) - 2)
    return max(1, frequency // step * step)
