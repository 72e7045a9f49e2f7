"""Scripts and constraints: the open tools really run, Tcl is whole, devices choose the files."""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.ir.errors import LoweringError, OptionError
from triton_dsl.lowering.artifact import Artifact, write_artifact
from triton_dsl.lowering.compile_model import CompiledModel, compile_model
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_verilog.estimate.devices import DEVICES

Program = Callable[[str, dict[str, NDArray[Any]]], ModuleOp]
RequireTool = Callable[[str, str], str]

FILES = {
    "ultrascale+": {"constraints/net.xdc", "vivado.tcl"},
    "7-series": {"constraints/net.xdc", "vivado.tcl"},
    "ecp5": {"constraints/net.lpf"},
    "ice40": {"constraints/net.pcf", "impl/net_pins.v"},
    None: {"constraints/net.sdc", "quartus.tcl"},
}


def compiled(module: ModuleOp, device: str | None) -> Artifact:
    options = {} if device is None else {"device": device}
    return compile_to_target(module, "verilog", {"vectors": 2, "time_budget": 0.02, **options})


def run(command: list[str], folder: Path) -> str:
    result = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    return result.stdout + result.stderr


@pytest.mark.parametrize("device", [*DEVICES, None], ids=lambda d: d.name if d else "none")
def test_a_device_chooses_the_files(small: ModuleOp, device: object) -> None:
    known = next((d for d in DEVICES if d is device), None)
    artifact = compiled(small, known.name if known else None)
    files = {name for name in artifact.files if not name.startswith(("rtl/", "test/"))}
    common = {"report.json", "report.md", "synth.ys", "Makefile"}
    assert files == common | FILES[known.family if known else None]
    report = json.loads(artifact.text("report.json"))
    assert report["estimate"]["clock_mhz"] > 0
    if known is None:
        assert report["device"] is None
        return
    assert report["device"]["part"] == known.part
    assert all(0 <= r["needs"] <= r["has"] for r in report["device"]["resources"])
    assert f"| {known.part} | needs | has | share |" in artifact.text("report.md")


def test_the_constraint_is_the_estimated_clock(small: ModuleOp) -> None:
    artifact = compiled(small, "xc7a35t")
    clock = json.loads(artifact.text("report.json"))["estimate"]["clock_mhz"]
    period = re.search(r"-period ([\d.]+)", artifact.text("constraints/net.xdc"))
    assert period is not None
    assert 0.8 * clock <= 1e3 / float(period.group(1)) <= 1.001 * clock


def test_tcl_of_quartus_is_whole(
    require_tool: RequireTool, small: ModuleOp, tmp_path: Path
) -> None:
    tclsh = require_tool("tclsh", "apt-get install tcl")
    artifact = compiled(small, None)
    write_artifact(artifact, tmp_path)
    # Every command is told what it is called with, instead of being run.
    check = tmp_path / "check.tcl"
    check.write_text(
        "set f [open quartus.tcl]; set text [read $f]; close $f\n"
        "if {![info complete $text]} {exit 1}\n"
        "set argc 0; set argv {}; array set quartus {args {}}\n"
        "rename package {}; proc package args {}\n"
        "proc unknown {name args} {puts \"$name $args\"; return 0.5}\n"
        "eval $text\n"
    )  # fmt: skip
    log = run([tclsh, "check.tcl"], tmp_path)
    sources = [name for name in artifact.files if name.startswith("rtl/")]
    assert sources
    assert all(source in log for source in sources)
    named = re.findall(r"constraints/\S+", log)
    assert named
    assert all(name in artifact.files for name in named)


@pytest.mark.slow
@pytest.mark.parametrize("device", ["xcvu9p", "xc7z020", "ecp5-25", "up5k", None])
def test_the_script_for_yosys_runs(
    require_tool: RequireTool, small: ModuleOp, tmp_path: Path, device: str | None
) -> None:
    yosys = require_tool("yosys", "apt-get install yosys")
    write_artifact(compiled(small, device), tmp_path)
    log = run([yosys, "synth.ys"], tmp_path)
    assert "Warning" not in log.replace("ABC: Warning", "")
    assert (tmp_path / "net.json").exists() == (device in ("ecp5-25", "up5k"))


@pytest.mark.slow
def test_ice40_is_placed_and_routed(
    require_tool: RequireTool, small: ModuleOp, tmp_path: Path
) -> None:
    require_tool("yosys", "apt-get install yosys")
    require_tool("nextpnr-ice40", "apt-get install nextpnr-ice40")
    require_tool("make", "apt-get install make")
    artifact = compiled(small, "hx8k")
    write_artifact(artifact, tmp_path)
    log = run(["make", "implement"], tmp_path)
    assert (tmp_path / "net.asc").exists()
    found = float(re.findall(r"Max frequency for clock .*: ([\d.]+) MHz", log)[-1])
    size = json.loads(artifact.text("report.json"))["estimate"]
    assert 0.5 * size["clock_mhz"] < found < 2 * size["clock_mhz"]
    cells = int(re.findall(r"ICESTORM_LC:\s+(\d+)/", log)[-1])
    ports = sum(
        json.loads(artifact.text("report.json"))[f"{side}_axis_tdata_bits"] + 3 for side in "sm"
    )
    # The shift registers of the pins stand beside the circuit.
    assert size["cells"] == pytest.approx(cells - ports, rel=0.1)


LARGE = """builtin.module @net {
func.func @forward(%x: tensor<?x32xi8>) -> tensor<?x40xi32> {
  %w = ternary.parameter "fc.weight" : tensor<32x40x!ternary.trit>
  %y = ternary.matmul %x, %w
       : tensor<?x32xi8>, tensor<32x40x!ternary.trit> -> tensor<?x40xi32>
  func.return %y : tensor<?x40xi32>
}
}"""


def test_what_does_not_fit_is_refused(program: Program, small: ModuleOp) -> None:
    with pytest.raises(OptionError, match="unknown device 'xcvu9'; did you mean 'xcvu9p'"):
        compile_to_target(small, "verilog{device=xcvu9}")
    weight = np.random.default_rng(0).integers(-1, 2, (32, 40))
    module = program(LARGE, {"fc.weight": weight})
    options = {"device": "up5k", "time_budget": 0.02, "vectors": 2}
    with pytest.raises(LoweringError) as error:
        compile_to_target(module, "verilog", options)
    message = str(error.value)
    found = re.search(r"logic cells: needs ([\d,]+), has 5,280 \(([\d.]+) times\)", message)
    assert found is not None
    assert float(found.group(2)) == pytest.approx(
        int(found.group(1).replace(",", "")) / 5280, abs=0.06
    )
    assert "circuit 'net' does not fit on ice40-up5k (iCE40UP5K-SG48)" in message
    assert "the largest layers are fc (" in message
    # The folding that is advised fits, with the numbers that are told.
    advice = re.search(
        r'it fits with folding="(.*)": ([\d,]+) logic cells, .* (\d+) cycles', message
    )
    assert advice is not None
    artifact = compile_to_target(module, "verilog", options | {"folding": advice.group(1)})
    report = json.loads(artifact.text("report.json"))
    assert f"{report['estimate']['cells']:,}" == advice.group(2)
    assert report["initiation_interval"] == int(advice.group(3))


def test_other_names(tmp_path: Path) -> None:
    """`backend='fpga'` with a target device is the target `verilog` with a device."""
    source = tmp_path / "model.tri"
    source.write_text("""
layer Net {
    param weights: TernaryTensor[8, 3]

    fn forward(x: Tensor<int8>[N, 8]) -> Tensor<int32>[N, 3] {
        return x @ weights
    }
}
""")
    weights = {"weights": np.random.default_rng(0).integers(-1, 2, (8, 3)).astype(np.int8)}
    options = {"target_device": "xcvu9p"}
    model = compile_model(source, backend="fpga", backend_options=options, weights=weights)
    assert isinstance(model, CompiledModel)
    assert (model.target, model.options) == ("verilog", {"device": "xcvu9p"})
    assert "xcvu9p-" in model.artifact.text("vivado.tcl")
    with pytest.raises(OptionError, match="unknown device 'virtex'"):
        compile_model(
            source, backend="fpga", backend_options={"target_device": "virtex"}, weights=weights
        )
