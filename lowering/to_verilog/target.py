"""The target `verilog`: its options, its stages, and the files of a circuit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from ...dialects.interpret import run_module
from ...ir.errors import OptionError
from ..artifact import Artifact
from ..options import TargetOptions, option
from ..stages import Stage
from ..targets import Target
from .interface import Interface, noted_interface, pack
from .printer import HardwareModule, check_printable, modules, verilog
from .report import json_text, markdown, report
from .testbench import vector_files

Array = NDArray[Any]


@dataclass(frozen=True)
class VerilogOptions(TargetOptions):
    """Options of the target `verilog`."""

    pipeline: int = option(1, "a register after so many levels of adders; 0 for none")
    input_bits: int | None = option(None, "bits of integer inputs; by default those of their type")
    cost: Literal["bits", "adders", "depth"] = option(
        "bits", "what to make small in products: bits of adders, adders, or levels"
    )
    time_budget: float = option(1.0, "about how many seconds to search adders for a layer")
    vectors: int | None = option(
        None, "frames of the test bench; by default 64, of large images fewer"
    )
    seed: int = option(0, "of those vectors")
    form: Literal["folder", "file"] | None = option(
        None, "a folder with test bench and report, or all modules in one file"
    )


_BEATS = 4096
"""Of all frames of a test bench together, unless more are asked for."""


class VerilogTarget(Target):
    """Synthesisable Verilog-2001 with AXI streams; a test bench, a report, a script."""

    name: ClassVar[str] = "verilog"
    description: ClassVar[str] = "Verilog-2001 for FPGAs, with AXI streams, test bench and report"
    Options: ClassVar[type[TargetOptions]] = VerilogOptions

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
        bits = "" if options.input_bits is None else f" input-bits={options.input_bits}"
        search = f"cost={options.cost} time-budget={options.time_budget}"
        return (
            Stage("simplify", "canonicalize,cse,dce,fold-constants,canonicalize,cse,dce"),
            Stage("integers", "expose-integers"),
            Stage("adders", f"optimize-adder-graph{{{search}}}"),
            Stage(
                "hardware",
                f"convert-ternary-to-hw{{pipeline={options.pipeline} {search} "
                f"keep-function=true{bits}}}",
            ),
        )

    def emit(self, module: ModuleOp, options: VerilogOptions) -> Artifact:
        """The files.

        Raises:
            OptionError: fewer than two vectors.
            UnsupportedError: names every op without Verilog.
        """
        if options.vectors is not None and options.vectors < 2:
            raise OptionError(f"target 'verilog' expects at least 2 vectors, got {options.vectors}")
        interface = noted_interface(module)
        vectors = options.vectors or max(4, min(64, _BEATS // interface.beats_in))
        found = modules(module)
        check_printable(found)
        texts = {m.sym_name.data: verilog(m) for m in found}
        data = report(interface)
        if options.form == "file":
            content = "/* verilator lint_off DECLFILENAME */\n" + "\n".join(texts.values())
            name = f"{interface.name}.v"
            return Artifact(interface.name, {name: content.encode()}, manifest={"report": data})
        files = {f"rtl/{name}.v": text for name, text in texts.items()}
        inputs = random_inputs(interface, vectors, options.seed)
        expected = golden(module, interface, inputs)
        test = vector_files(
            interface, pack(interface.inputs, inputs), pack(interface.outputs, expected)
        )
        files |= {f"test/{name}": text for name, text in test.items()}
        files |= {"report.json": json_text(data), "report.md": markdown(data)}
        files["synth.ys"] = _script(interface.name, found)
        contents = {name: text.encode() for name, text in files.items()}
        return Artifact(interface.name, contents, manifest={"report": data})


def random_inputs(interface: Interface, frames: int, seed: int) -> list[Array]:
    """Integers within the bounds of the inputs, int64 [frames, elements], one array a port.

    The first frame has every element at its least, the second at its largest value.
    """
    rng = np.random.default_rng(seed)
    arrays: list[Array] = []
    for port in interface.inputs:
        beats = prod(port.shape) // len(port.low)
        ends = (np.array([end] * beats, np.int64) for end in (port.low, port.high))
        low, high = (port.frames(end).reshape(-1) for end in ends)
        array = rng.integers(low, high + 1, (frames, len(low)), dtype=np.int64)
        array[0], array[1] = low, high
        arrays.append(array)
    return arrays


def golden(module: ModuleOp, interface: Interface, inputs: Sequence[Array]) -> list[Array]:
    """What the function beside the circuit computes from them, by the interpreter."""
    beats = len(inputs[0]) if inputs else 1
    shaped = [
        array.reshape(beats, *port.shape).astype(port.dtype)
        for port, array in zip(interface.inputs, inputs, strict=True)
    ]
    rows = [run_module(module, [array[beat] for array in shaped]) for beat in range(beats)]
    return [
        np.stack([row[index].astype(np.int64).reshape(-1) for row in rows])
        for index in range(len(interface.outputs))
    ]


def _script(name: str, found: Sequence[HardwareModule]) -> str:
    files = "\n".join(f"read_verilog rtl/{module.sym_name.data}.v" for module in found)
    return (
        f"# yosys synth.ys: LUTs and flip-flops on UltraScale+\n{files}\n"
        f"synth_xilinx -family xcup -flatten -noiopad -nodsp -top {name}\nstat\n"
    )
