"""Properties of ports hold of circuits, by Yosys and ABC, and fail where a circuit is wrong."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.lowering.artifact import Artifact
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_verilog.layer_circuits import LayerCircuit, LayerCircuits
from triton_dsl.lowering.to_verilog.options import VerilogOptions
from triton_dsl.runtime.verilog import run_tool
from triton_dsl.runtime.verilog_properties import Outcome, prove_assertions
from triton_dsl.tools.layer_proofs import prove_layer

Program = Callable[..., ModuleOp]
RequireTool = Callable[[str, str], str]

SOURCE = """builtin.module @net {
func.func @forward(%x: tensor<?x6xui8>) -> tensor<?x4xi8> {
  %w = ternary.parameter "fc1.weight" : tensor<6x4x!ternary.trit>
  %t = tensor.parameter "fc1.thresholds" : tensor<4x3xi32>
  %y = ternary.linear %x, %w thresholds(%t : tensor<4x3xi32>)
       : tensor<?x6xui8>, tensor<6x4x!ternary.trit> -> tensor<?x4xi8>
  func.return %y : tensor<?x4xi8>
}
}"""

FOLDED = {"input_bits": 2, "folding": "fc1:pe=2,simd=3"}


@pytest.fixture
def layer(program: Program) -> ModuleOp:
    rng = np.random.default_rng(5)
    values = {
        "fc1.weight": rng.integers(-1, 2, (6, 4)),
        "fc1.thresholds": np.sort(rng.integers(-4, 5, (4, 3)), axis=1),
    }
    return program(SOURCE, values)


def compiled(module: ModuleOp, **options: Any) -> Artifact:
    common = {"vectors": 4, "time_budget": 0.02, "formal": True}
    return compile_to_target(module, "verilog", common | options)


def proved(
    artifact: Artifact,
    harness: str,
    folder: Path,
    fault: tuple[str, str, str] = ("", "", ""),
    cycles: int | None = None,
) -> Outcome:
    """What is found of a harness; a fault is a text in place of another in a file."""
    files = {
        Path(name).name: artifact.text(name)
        for name in artifact.files
        if name.endswith(".v") and name.split("/")[0] in ("rtl", "formal", "ip")
    }
    file, old, new = fault
    if file:
        assert old in files[file]
        files[file] = files[file].replace(old, new)
    return prove_assertions(files, harness, folder, seconds=300, cycles=cycles)


def test_streams_keep_to_axi_for_all_time(
    layer: ModuleOp, require_tool: RequireTool, tmp_path: Path
) -> None:
    require_tool("yosys", "apt-get install yosys")
    assert proved(compiled(layer, **FOLDED), "net_streams_harness", tmp_path).holds


@pytest.mark.slow
def test_words_keep_to_axi_for_some_cycles(
    layer: ModuleOp, require_tool: RequireTool, tmp_path: Path
) -> None:
    require_tool("yosys", "apt-get install yosys")
    artifact = compiled(layer, input_bits=1, stream_width=8)
    assert proved(artifact, "net_streams_harness", tmp_path, cycles=16).holds


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(
            ("net_fc1.v", "else result_valid <= ", "else result_valid <= out_ready & "),
            marks=pytest.mark.slow,
        ),
        ("net_fc1.v", "else result_valid <= ", "else result_valid <= ~out_ready | "),
        pytest.param(
            ("net.v", "assign s_axis_tready = ", "assign s_axis_tready = 1'b1 | "),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_fault_is_found(
    fault: tuple[str, str, str], layer: ModuleOp, require_tool: RequireTool, tmp_path: Path
) -> None:
    require_tool("yosys", "apt-get install yosys")
    artifact = compiled(layer, **FOLDED)
    assert proved(artifact, "net_streams_harness", tmp_path, fault).holds is False


@pytest.mark.slow
def test_registers_keep_to_axi(layer: ModuleOp, require_tool: RequireTool, tmp_path: Path) -> None:
    require_tool("yosys", "apt-get install yosys")
    artifact = compiled(layer, input_bits=1, ip=True)
    harness = "net_axi_registers_harness"
    assert proved(artifact, harness, tmp_path).holds
    fault = "net_axi.v", "assign s_axi_bvalid = ", "assign s_axi_bvalid = ~s_axi_awprot[0] & "
    assert proved(artifact, harness, tmp_path, fault).holds is False


@pytest.mark.usefixtures("iverilog")
def test_simulators_read_the_properties(layer: ModuleOp, tmp_path: Path) -> None:
    artifact = compiled(layer, **FOLDED)
    script = artifact.text("formal/net_streams.sby")
    assert "prep -top net_streams_harness" in script
    paths = script.partition("[files]\n")[2].split()
    for path in paths:
        name = Path(path).name
        source = f"rtl/{name}" if path.startswith("../rtl/") else f"formal/{name}"
        (tmp_path / name).write_text(artifact.text(source))
    names = [Path(path).name for path in paths]
    run_tool(["iverilog", "-g2005", "-s", "net_streams_harness", "-o", "x", *names], tmp_path)


def circuit_of(module: ModuleOp, **options: Any) -> LayerCircuit:
    (circuit,) = LayerCircuits(module, VerilogOptions(time_budget=0.02, **options))
    return circuit


def test_a_folded_layer_is_proved(layer: ModuleOp, require_tool: RequireTool) -> None:
    require_tool("yosys", "apt-get install yosys")
    circuit = circuit_of(layer, **FOLDED)
    proof = prove_layer(circuit, 200)
    assert proof.equal and "handshake for all time, results for" in str(proof)
    words = next(n for n, text in circuit.rtl.items() if "case (address)" in text)
    text = circuit.rtl[words]
    assert "default: data <= " in text
    wrong = {**circuit.rtl, words: text.replace("default: data <= ", "default: data <= ~")}
    circuit = LayerCircuit(circuit.layer, circuit.interface, wrong, circuit.hardware)
    assert prove_layer(circuit, 200).equal is False
