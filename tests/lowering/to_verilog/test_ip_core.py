"""An IP core: IP-XACT as another reader sees it, Tcl for Vivado, registers on AXI models."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import OptionError
from triton_dsl.lowering.artifact import Artifact, write_artifact
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_verilog.estimate.devices import find_device
from triton_dsl.lowering.to_verilog.host import circuit_driver
from triton_dsl.lowering.to_verilog.project import core_files

from .designs import source

Program = Callable[..., ModuleOp]
RequireTool = Callable[[str, str], str]
STUB = Path(__file__).with_name("vivado_stub.tcl")


def compiled(program: Program, name: str, **options: Any) -> tuple[ModuleOp, Artifact]:
    module, given = source(program, name)
    return module, compile_to_target(module, "verilog", {**given, "ip": True, **options})


def ports(text: str) -> dict[str, tuple[str, int]]:
    """Direction and bits of the ports of a module, as they stand in its Verilog."""
    found = re.findall(r"^  (input |output) wire (?:\[(\d+):0\] )?(\w+),?$", text, re.M)
    return {name: (side.strip(), int(top or 0) + 1) for side, top, name in found}


def test_ip_xact_is_read_back(program: Program, tmp_path: Path) -> None:
    ipyxact = pytest.importorskip("ipyxact.ipyxact", reason="pip install ipyxact")
    _, artifact = compiled(program, "conv", stream_width=64)
    write_artifact(artifact, tmp_path)
    core = ipyxact.Component()
    with (tmp_path / "component.xml").open() as file:
        core.load(file)
    assert (core.vendor, core.library, core.name) == ("triton-dsl", "networks", "net_axi")
    wanted = ports(artifact.text("ip/net_axi.v"))
    sides = {"in": "input", "out": "output"}
    found = {p.name: sides[p.wire.direction] for p in core.model.ports.port}
    assert found == {name: side for name, (side, _) in wanted.items()}
    # ipyxact does not read the bits of ports of the standard of 2009.
    spirit = {"s": "http://www.spiritconsortium.org/XMLSchema/SPIRIT/1685-2009"}
    for port in ElementTree.parse(tmp_path / "component.xml").findall(".//s:port", spirit):
        left = port.findtext("s:wire/s:vector/s:left", "0", spirit)
        assert int(left) + 1 == wanted[port.findtext("s:name", "", spirit)][1]
    buses = {bus.name: bus for bus in core.busInterfaces.busInterface}
    assert {name: bus.busType.name for name, bus in buses.items()} == {
        "s_axis": "axis", "m_axis": "axis", "s_axi": "aximm", "aclk": "clock", "aresetn": "reset",
    }  # fmt: skip
    mapped = [pair.physicalPort.name for bus in buses.values() for pair in bus.portMaps.portMap]
    assert sorted(mapped) == sorted(wanted)
    axis = {p.logicalPort.name for p in buses["m_axis"].portMaps.portMap}
    assert axis == {"TDATA", "TKEEP", "TVALID", "TREADY", "TLAST"}
    (block,) = core.memoryMaps.memoryMap[0].addressBlock
    registers = {r.name: r.addressOffset for r in block.register}
    entries = json.loads(artifact.text("ip/registers.json"))
    assert registers == {entry["name"]: entry["offset"] for entry in entries}
    assert max(registers.values()) < block.range
    listed = {file.name for file in core.fileSets.fileSet[0].file}
    assert listed == {n for n in artifact.files if n.startswith(("rtl/", "ip/net_axi.v"))}


def test_the_clock_of_a_design_is_that_of_the_constraints() -> None:
    """None is a MHz lower: 1000 / (1000 / 120) is less than 120 in floats."""
    for mhz in range(1, 1000):
        ports = [("s_axis_tdata", True, 8)]
        files = core_files("net", ports, [], float(mhz), find_device("xc7z020"))
        assert f"set mhz {mhz}\n" in files["ip/block_design.tcl"]


@pytest.mark.parametrize("device", ["xczu3eg", "xc7z020"])
@pytest.mark.parametrize("script", ["ip/block_design.tcl", "ip/package.tcl", "vivado.tcl"])
def test_vivado_has_every_command(
    program: Program, require_tool: RequireTool, tmp_path: Path, device: str, script: str
) -> None:
    tclsh = require_tool("tclsh", "apt-get install tcl")
    _, artifact = compiled(program, "dense", device=device)
    write_artifact(artifact, tmp_path)
    environment = {**os.environ, "NETWORK_CORE": "net_axi"}
    command = [tclsh, str(STUB), script, "part", "board"]

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )

    done = run()
    assert done.stdout.endswith("DONE\n"), done.stderr
    for file in re.findall(r"\S+\.(?:v|xdc)\b", done.stdout):
        assert file.strip("{}") in artifact.files
    # The stub knows the commands: others are no Tcl of Vivado's.
    text = (tmp_path / script).read_text()
    for wrong in ("create_bd_block x\n", "current_project -name x\n"):
        (tmp_path / script).write_text(wrong + text)
        assert run().returncode == 1


def run_on_models(folder: Path, require_tool: RequireTool) -> str:
    pytest.importorskip("cocotbext.axi", reason="pip install cocotbext-axi")
    make = require_tool("make", "apt-get install make")
    here = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{here}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [make, "-f", "cocotb.mk"],
        cwd=folder / "test",
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


@pytest.mark.usefixtures("iverilog")
@pytest.mark.parametrize(
    ("name", "width"),
    [
        ("dense", 8),
        pytest.param("conv", 32, marks=pytest.mark.slow),
        pytest.param("rescaled", 64, marks=pytest.mark.slow),
    ],
)
def test_registers_and_packets_on_models(
    program: Program, require_tool: RequireTool, tmp_path: Path, name: str, width: int
) -> None:
    _, artifact = compiled(program, name, stream_width=width)
    write_artifact(artifact, tmp_path)
    log = run_on_models(tmp_path, require_tool)
    assert "TESTS=8 PASS=8 FAIL=0" in log, log[-4000:]


GONE = "reg gone = 0;\n  always @(posedge aclk) gone <= s_axi_rvalid && !s_axi_rready;\n  "


@pytest.mark.slow
@pytest.mark.usefixtures("iverilog")
def test_models_see_what_breaks_the_protocol(
    program: Program, require_tool: RequireTool, tmp_path: Path
) -> None:
    """A result that changes while it waits, and a read answer that goes away."""
    _, artifact = compiled(program, "dense")
    for place, (find, instead) in enumerate(
        (
            ("assign m_axis_tdata = ", "assign m_axis_tdata = {31'd0, cycles[0]} ^ "),
            ("assign s_axi_rvalid = ", f"{GONE}assign s_axi_rvalid = !gone && "),
        )
    ):
        folder = tmp_path / str(place)
        write_artifact(artifact, folder)
        file = folder / "ip" / "net_axi.v"
        assert find in file.read_text()
        file.write_text(file.read_text().replace(find, instead))
        assert "FAIL=0" not in run_on_models(folder, require_tool)


@pytest.mark.parametrize("name", ["dense", "conv", "residual", "spiking", "rescaled"])
def test_the_driver_has_the_bytes_of_the_circuit(program: Program, name: str) -> None:
    """The vectors that the test bench sends and expects, which simulations look at."""
    module, artifact = compiled(program, name)
    report = json.loads(artifact.text("report.json"))
    frames = circuit_driver.Frames(report)
    sent, expected = (
        b"".join(int(line, 16).to_bytes(4, "little") for line in text.split())
        for text in (artifact.text(f"test/net_{side}.mem") for side in ("inputs", "expected"))
    )
    (port,) = report["inputs"]
    elements = _by_shifts(port, sent, report["words_in"] * 4, report["beat_bytes_in"])
    shape = [n for axis, n in enumerate(port["shape"]) if axis != port["batch_axis"]]
    x = np.moveaxis(elements.reshape(len(elements), *shape), 0, port["batch_axis"])
    x = x.astype(port["dtype"])
    assert frames.encode(x).tobytes() == sent
    for found, wanted in zip(frames.decode(expected), run_module(module, [x]), strict=True):
        np.testing.assert_array_equal(found, wanted)
        assert found.dtype == wanted.dtype
    with pytest.raises(ValueError, match=f"expected .* to {port['high'][0]}"):
        frames.encode(np.full(x.shape, port["high"][0] + 1, np.int64))


def _by_shifts(port: Any, data: bytes, size: int, beat: int) -> NDArray[np.int64]:
    """The elements of frames in bytes, as `docs/targets/verilog.md` says where they lie."""
    shape, axes = port["shape"], port["beat_axes"]
    sizes = [n for axis, n in enumerate(shape) if axis not in axes]
    grid = [shape[axis] for axis in axes]
    frames: list[NDArray[np.int64]] = []
    for start in range(0, len(data), size):
        beats: list[list[int]] = []
        for index in range(int(np.prod(grid, dtype=int))):
            number = int.from_bytes(
                data[start + index * beat : start + (index + 1) * beat], "little"
            )
            row: list[int] = []
            for low, width in zip(port["low"], port["widths"], strict=True):
                value = number % (1 << width)
                row.append(value - (1 << width) if low < 0 and value >> (width - 1) else value)
                number >>= width
            beats.append(row)
        array = np.array(beats, np.int64).reshape(*grid, *sizes)
        frames.append(np.moveaxis(array, range(len(axes)), axes).reshape(-1))
    return np.stack(frames)


def test_ip_and_board_exclude_each_other(small: ModuleOp) -> None:
    with pytest.raises(OptionError, match="leave out one"):
        compile_to_target(small, "verilog", {"ip": True, "board": "icebreaker"})
