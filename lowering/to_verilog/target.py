"""The target `verilog`: its options, its stages, and the files of a circuit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from xdsl.dialects import hw
from xdsl.dialects.builtin import ModuleOp

from ...dialects.interpret import run_module
from ...ir.arrays import Array
from ...ir.errors import OptionError
from ...passes.expose_logits import left_out
from ...passes.quantize_activations.integer_pipeline import integer_pipeline
from ..artifact import Artifact
from ..options import TargetOptions, option
from ..stages import Stage, run_stages
from ..target import Target
from .bitstream import find_tools, make_bitstream
from .boards import Board, find_board
from .circuit.registers import register_module, registers
from .circuit.serial import serial_module
from .circuit.structure import check_structure
from .cocotb import cocotb_files
from .estimate.devices import Device, check_fits, find_device
from .estimate.estimate import Estimate, estimate
from .fitting import folding_advice
from .folding import ProductForm, folding_markdown, noted_folding
from .formal import formal_files, register_properties, stream_properties
from .host_files import Weights, driver_files, noted_weights
from .interface import Interface, Record, frames_of, noted_interface, shaped
from .ip_core import Core, core_files, ports_of
from .printer import check_printable, modules, verilog
from .project import Project, project_files
from .report import json_text, markdown, report
from .testbench import vector_files
from .tools import ToolName, tool_of


@dataclass(frozen=True)
class VerilogOptions(TargetOptions):
    """Options of the target `verilog`."""

    pipeline: int = option(1, "a register after so many levels of adders; 0 for none")
    input_bits: int | None = option(None, "bits of integer inputs; by default those of their type")
    cost: Literal["bits", "adders", "depth"] = option(
        "bits", "what to make small in products: bits of adders, adders, or levels"
    )
    max_depth: int | None = option(None, "the most levels of adders in a product")
    time_budget: float = option(1.0, "about how many seconds to search adders for a layer")
    vectors: int | None = option(
        None, "frames of the test bench; by default 64, of large images fewer"
    )
    seed: int = option(0, "of those vectors")
    fold: Literal["none", "auto"] | None = option(
        None, "choose cycles a layer; auto where target-fps or lut-budget is given"
    )
    target_fps: float | None = option(None, "frames a second that the circuit must take")
    lut_budget: int | None = option(None, "LUTs that the circuit may take, by the estimate")
    folding: str = option("", "forms of layers, as fc1:pe=8,simd=16;fc2:digit=2;fc3:unrolled")
    clock: float | None = option(
        None, "in MHz: of target-fps (100 where not given), and where registers are needed"
    )
    device: str | None = option(None, "what it must fit on, as xcvu9p; chooses the scripts")
    calibration: str | None = option(
        None,
        "samples of the inputs of a float network, which make it one of integers: .npy, .npz or "
        ".safetensors, by argument name",
    )
    bits: int | None = option(None, "of activations, with `calibration`: 2 to 8, by default 8")
    weight_bits: int | None = option(
        None, "of float weights, with `calibration`: 2 to 8, by default 8"
    )
    observer: Literal["minmax", "percentile", "entropy", "mse"] | None = option(
        None, "how ranges follow from `calibration`, by default minmax; see the pass `calibrate`"
    )
    precision: str | None = option(
        None, "other bits for layers, with `calibration`: conv1:bits=4,weights=3;fc:weights=6"
    )
    inputs: str | None = option(
        None,
        "what float inputs without a quantiser hold: NAME:TYPE*SCALE, several with `;` between; "
        "int2 to int8, uint1 to uint8 or bipolar",
    )
    timesteps: int | None = option(
        None, "steps of a sample, where a spiking program does not say how many"
    )
    stream_width: int | None = option(
        None, "bits of a word of the streams, 8 to 1024; by default a word is a beat"
    )
    tool: Literal["vivado", "quartus", "yosys", "lattice", "none"] | None = option(
        None, "whose attributes and forms of sums it has; by default that for the device"
    )
    board: str | None = option(
        None, "where it goes with a serial port: ulx3s-25, ulx3s-85, icebreaker, hx8k-breakout"
    )
    pins: str | None = option(None, "of a board: clk=PLACE,rx=PLACE,tx=PLACE,MHz=NUMBER")
    bitstream: bool = option(
        False, "make one by Yosys and nextpnr, with a serial port, for a board or a device"
    )
    reloadable: str | None = option(
        None, "folded layers whose weights can be loaded at run time: true, or fc1;fc2"
    )
    formal: bool = option(
        False, "properties of the ports for provers, as modules to bind, and SymbiYosys' scripts"
    )
    ip: bool = option(
        False, "an IP core with AXI4-Lite registers, for Vivado and PYNQ; words of 32 bits"
    )
    form: Literal["folder", "file"] | None = option(
        None, "a folder with test bench and report, or all modules in one file"
    )


_TRAINS = (
    "lower-network,inline-spike-layers,hoist-synapses,lower-recurrent,expose-trains{options},"
    "fold-constants,canonicalize,cse,dce"
)
"""What makes spiking programs ones on steps of truth values; others stay as they are."""

_BEATS = 4096
"""Of all frames of a test bench together, unless more are asked for."""

_FREQUENCY = 100.0
"""In MHz: what constraints ask for where no path limits the clock."""


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
        built = options.target_fps is not None or options.lut_budget is not None
        after = [] if built else [circuit_stage(options)]
        return [*integer_stages(options, build=built), *after]

    def prepare(self, module: ModuleOp, options: VerilogOptions) -> None:
        """Refuse a device that is not known before anything is compiled; keep the program for it.

        Raises:
            OptionError: names those that are.
            BackendError: tools for a bitstream are missing.
        """
        device, board = _device(options), _board(options)
        if board is not None and options.ip:
            raise OptionError("ip=true has a bus and a board's serial port has none: leave out one")
        needs = {"board": board is not None, "ip": options.ip, "formal": options.formal}
        wanted = [name for name, is_asked in needs.items() if is_asked]
        wanted += ["reloadable"] if _reloadable(options) else []
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
            OptionError: fewer than two vectors.
            UnsupportedError: names every op without Verilog.
            VerifyError: the hardware modules are no circuit.
            LoweringError: the device has no room for the circuit.
            BackendError: a tool fails that makes a bitstream.
        """
        if options.vectors is not None and options.vectors < 2:
            raise OptionError(f"target 'verilog' expects at least 2 vectors, got {options.vectors}")
        interface = noted_interface(module)
        vectors = options.vectors or max(4, min(64, _BEATS // interface.beats_in))
        hardware = modules(module)
        check_printable(hardware)
        check_structure(module, interface.name, interface.streams)
        device = _device(options)
        size = _size(module, interface, device)
        if device is not None:
            where = f"circuit '{interface.name}'"
            check_fits(size, device, where, lambda: self._advice(options, size, device))
        in_tables, tool = size.family.distributed_bits > 0, _tool(options)
        texts = {m.sym_name.data: verilog(m, tool, memory_in_tables=in_tables) for m in hardware}
        folding = noted_folding(module)
        data = report(interface, size, device, options.clock)
        data |= {"folding": folding, "left_out": left_out(module)}
        if options.form == "file":
            content = "/* verilator lint_off DECLFILENAME */\n" + "\n".join(texts.values())
            name = f"{interface.name}.v"
            return Artifact(interface.name, {name: content.encode()}, manifest={"report": data})
        files = {f"rtl/{name}.v": text for name, text in texts.items()}
        inputs = random_inputs(interface, vectors, options.seed)
        expected = golden(module, interface, inputs)
        test = vector_files(interface, interface.sent(inputs), interface.given(expected))
        test |= cocotb_files(interface, registers=options.ip)
        files |= {f"test/{name}": text for name, text in test.items()}
        files |= _reports(data)
        board = _board(options)
        files |= project_files(_project(interface, [*texts], size, device, board))
        weights = noted_weights(module, texts, interface.loads, interface.name)
        if options.formal:
            outermost = hardware[-1]
            assert isinstance(outermost, hw.HWModuleOp)
            about = stream_properties(interface, ports_of(outermost))
            files |= formal_files(about, [f"rtl/{name}.v" for name in texts])
        if board is not None:
            files |= self._serial(module, interface, board)
        if options.ip:
            files |= self._core(module, interface, [*texts], size, device, weights, options.formal)
        contents = {name: text.encode() for name, text in files.items()}
        contents |= weights.files() if weights else {}
        if board is not None and options.bitstream:
            top = f"{interface.name}_serial"
            made, data["placed"] = make_bitstream(
                interface.name, board.device, top, contents, board.clock
            )
            contents |= made | {name: text.encode() for name, text in _reports(data).items()}
        return Artifact(interface.name, contents, manifest={"report": data})

    @staticmethod
    def _serial(module: ModuleOp, interface: Interface, board: Board) -> dict[str, str]:
        """The serial port around a circuit."""
        name = f"{interface.name}_serial"
        whole = module.clone()
        loadable = bool(interface.loads)
        port = serial_module(name, interface.name, board.ticks, loadable=loadable)
        whole.body.block.add_op(port)
        check_structure(whole, name)
        return {f"impl/{name}.v": verilog(port)} | driver_files()

    @staticmethod
    def _core(
        module: ModuleOp,
        interface: Interface,
        sources: Sequence[str],
        size: Estimate,
        device: Device | None,
        weights: Weights | None,
        formal: bool,
    ) -> dict[str, str]:
        """The IP core around a circuit."""
        name = f"{interface.name}_axi"
        words = interface.words_in, interface.words_out
        whole = module.clone()
        loads = weights.loadable if weights else None
        core = register_module(name, interface.name, interface.word, words, loads)
        whole.body.block.add_op(core)
        check_structure(whole, name)
        text = {f"ip/{name}.v": verilog(core)}
        files = [*(f"rtl/{source}.v" for source in sources), *text]
        map = registers(loadable=loads is not None)
        if formal:
            text |= formal_files(register_properties(name, ports_of(core)), files)
        about = Core(interface.name, ports_of(core), files, 1e3 / _frequency(size), device, map)
        return text | core_files(about) | driver_files()

    def _advice(self, options: VerilogOptions, estimated: Estimate, device: Device) -> str:
        """The folding that fits, of the program as it was given; empty if it has no products."""
        if self._program is None:
            return ""
        program = self._program

        def choose(budget: int | None) -> Sequence[ProductForm]:
            module = program.clone()
            goal = replace(options, lut_budget=budget, fold=None)
            before = _before_folding(options)
            run_stages(module, [*before, Stage("folding", _choice(goal))])
            folding = noted_folding(module)
            return folding["layers"] if folding else []

        def build(folding: str) -> Estimate:
            module = program.clone()
            goal = replace(options, folding=folding, fold=None, target_fps=None, lut_budget=None)
            run_stages(module, self.stages(goal))
            return _size(module, noted_interface(module), device)

        return folding_advice(choose, build, estimated, device) if choose(None) else ""


def integer_stages(options: VerilogOptions, *, build: bool = False) -> list[Stage]:
    """The stages that make integers of a program and choose the forms of its products.

    Args:
        options: of the target.
        build: whether a circuit that is made for the choice stays.

    Raises:
        OptionError: options contradict each other, or the device is not known.
    """
    folding = _folding(options, circuit_options(options), build=build)
    return [*_before_folding(options), *([Stage("folding", folding)] if folding else [])]


def circuit_stage(options: VerilogOptions) -> Stage:
    """The stage that makes a circuit of a program of integers, or of one of its layers."""
    circuit = f"keep-function=true {circuit_options(options)}"
    return Stage("hardware", f"convert-ternary-to-hw{{{circuit}}}")


def circuit_options(options: VerilogOptions) -> str:
    """Options of `convert-ternary-to-hw`, as text."""
    bits = "" if options.input_bits is None else f" input-bits={options.input_bits}"
    clock = "" if options.clock is None else f" clock={options.clock}"
    device = _device(options)
    grade = "" if device is None else f" device={device.grade}"
    width = options.stream_width or (32 if options.ip else None)
    if _board(options) is not None:
        width = 8
    word = "" if width is None else f" stream-width={width}"
    search = f"cost={options.cost} time-budget={options.time_budget}"
    if options.max_depth is not None:
        search += f" max-depth={options.max_depth}"
    tool = _tool(options)
    plain = " plain-sums=true" if tool not in ("vivado", "yosys") else ""
    return f"pipeline={options.pipeline} {search}{bits}{clock}{grade}{word}{plain}"


def _before_folding(options: VerilogOptions) -> list[Stage]:
    steps = "" if options.timesteps is None else f"{{timesteps={options.timesteps}}}"
    stated = "" if options.inputs is None else f'{{inputs="{options.inputs}"}}'
    quantized = _quantization(options)
    return [
        Stage("simplify", "canonicalize,cse,dce,fold-constants,canonicalize,cse,dce"),
        *([Stage("quantize", quantized)] if quantized else []),
        Stage("logits", "expose-logits,merge-rescaling,canonicalize,cse,dce"),
        Stage("thresholds", f"streamline{stated},canonicalize,cse,dce"),
        Stage("trains", _TRAINS.format(options=steps)),
        Stage("integers", "expose-integers"),
    ]


def _quantization(options: VerilogOptions) -> str | None:
    """The passes that make a float network one of integers; `None` without samples.

    Raises:
        OptionError: options of the quantisation are given without samples.
    """
    values = {
        "bits": options.bits, "weight-bits": options.weight_bits, "observer": options.observer,
        "precision": options.precision,
    }  # fmt: skip
    names = [name for name, value in values.items() if value is not None]
    if options.calibration is None:
        if names:
            raise OptionError(
                f"target 'verilog': the option '{names[0]}' belongs to 'calibration', which makes "
                "a float network one of integers: give calibration=FILE"
            )
        return None
    return integer_pipeline(
        options.calibration,
        bits=options.bits or 8,
        weights=options.weight_bits or 8,
        observer=options.observer or "minmax",
        precision=options.precision or "",
    )


def _folding(options: VerilogOptions, circuit: str, *, build: bool) -> str | None:
    """The pass that chooses forms of layers of circuits made so; `None` where all stay unrolled.

    Raises:
        OptionError: options contradict each other, or say no goal.
    """
    goals = {"target-fps": options.target_fps, "lut-budget": options.lut_budget}
    goal_values = {name: value for name, value in goals.items() if value is not None}
    if options.fold == "none" and (goal_values or options.folding):
        raise OptionError(f"fold=none is given together with {', '.join(goal_values) or 'folding'}")
    if options.fold == "auto" and not goal_values:
        raise OptionError("fold=auto expects a goal: target-fps (with clock), lut-budget, or both")
    asked = goal_values or options.folding or _reloadable(options)
    return _choice(options, circuit, build=build) if asked else None


def _reloadable(options: VerilogOptions) -> bool:
    """Whether weights can be loaded."""
    return options.reloadable not in (None, "", "false")


def _choice(options: VerilogOptions, circuit: str | None = None, *, build: bool = False) -> str:
    """The pass with what the options say; by formulas alone where no circuit is made for it."""
    goals = {"target-fps": options.target_fps, "lut-budget": options.lut_budget}
    numbers = {name: value for name, value in goals.items() if value is not None}
    if options.clock is not None:
        numbers["clock"] = options.clock
    words = [f"{name}={value}" for name, value in numbers.items()]
    if options.input_bits is not None:
        words.append(f"input-bits={options.input_bits}")
    if options.folding:
        words.append(f'folding="{options.folding}"')
    if _reloadable(options):
        words.append(f'reloadable="{options.reloadable}"')
    if circuit is not None and numbers:
        words.append(f'circuit="{circuit}"')
        if build:
            words.append("build=true")
    return f"choose-folding{{{' '.join(words)}}}" if words else "choose-folding"


def random_inputs(interface: Interface, frames: int, seed: int | Sequence[int]) -> list[Array]:
    """Integers within the bounds of the inputs, int64 [frames, elements], one array a port.

    The first frame has every element at its least, the second at its largest value.
    """
    rng = np.random.default_rng(seed)
    arrays: list[Array] = []
    for port in interface.inputs:
        low, high = port.frame_bounds()
        array = rng.integers(low, high, (frames, len(low)), np.int64, endpoint=True)
        array[0], array[1] = low, high
        arrays.append(array)
    return arrays


def golden(module: ModuleOp, interface: Interface, inputs: Sequence[Array]) -> list[Array]:
    """What the interpreter gives for a program: int64 [frames, elements], one array a result.

    Args:
        module: with the function; beside the circuit, or without one.
        interface: of the circuit.
        inputs: of the same form, one array an input.
    """
    together = all(port.free for port in (*interface.inputs, *interface.outputs))
    count = len(inputs[0]) if inputs else 1
    parts = [slice(None)] if together else [slice(n, n + 1) for n in range(count)]
    rows: list[list[Array]] = []
    for part in parts:
        arrays = [
            shaped(port, x[part]).astype(port.dtype)
            for port, x in zip(interface.inputs, inputs, strict=True)
        ]
        results = run_module(module, arrays)
        rows.append([frames_of(p, y) for p, y in zip(interface.outputs, results, strict=True)])
    return [np.concatenate(column) for column in zip(*rows, strict=True)]


def _device(options: VerilogOptions) -> Device | None:
    board = _board(options)
    if board is not None:
        return board.device
    return None if options.device is None else find_device(options.device)


def _tool(options: VerilogOptions) -> ToolName:
    """Whose attributes and forms of sums the Verilog has."""
    device = _device(options)
    return tool_of(options.tool, device.family if device else None)


def _board(options: VerilogOptions) -> Board | None:
    """The board that a circuit goes on with a serial port, if any.

    Raises:
        OptionError: there is no such board, or other options contradict it.
    """
    if options.board is None and not options.bitstream:
        if options.pins is not None:
            raise OptionError("pins are those of a board: give bitstream=true or board=NAME too")
        return None
    if options.stream_width not in (None, 8):
        raise OptionError(
            f"a serial port has words of 8 bits, and stream-width={options.stream_width} is given"
        )
    device = None if options.device is None else find_device(options.device)
    return find_board(options.board, device, options.pins)


def _size(module: ModuleOp, interface: Interface, device: Device | None) -> Estimate:
    """The estimate of the circuit, for UltraScale+ where no device is given."""
    if device is None:
        return estimate(module, top=interface.name)
    return estimate(module, device.family, interface.name, device.grade)


def _reports(data: Record) -> dict[str, str]:
    """The report, for programs and for people."""
    text = markdown(data) + folding_markdown(data["folding"])
    return {"report.json": json_text(data), "report.md": text}


def _project(
    interface: Interface,
    sources: Sequence[str],
    size: Estimate,
    device: Device | None,
    board: Board | None,
) -> Project:
    """What the scripts are about; constraints ask for the estimated clock, rounded down."""
    return Project(
        name=interface.name,
        sources=[f"rtl/{name}.v" for name in sources],
        frequency=_frequency(size),
        family=size.family.name,
        device=device,
        input_bits=interface.input_width,
        output_bits=interface.output_width,
        board=board,
    )


def _frequency(size: Estimate) -> float:
    """The clock in MHz that constraints ask for: the estimated one, rounded down."""
    frequency = size.frequency or _FREQUENCY
    step = 10 ** max(0, len(str(int(frequency))) - 2)
    return max(1, frequency // step * step)
