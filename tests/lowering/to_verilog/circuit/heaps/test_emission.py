"""Rows in a circuit: the product at every pace, by the meaning of the ops and by Icarus Verilog."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from triton_dsl.dialects.fabric import RowOp
from triton_dsl.dialects.parameters import attach_store
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.store import ParameterStore
from triton_dsl.ir.trits import pack_trits
from triton_dsl.lowering.artifact import write_artifact
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_verilog.circuit.heaps import plan
from triton_dsl.lowering.to_verilog.circuit.pacing import Pacing
from triton_dsl.lowering.to_verilog.circuit.products import graph_row
from triton_dsl.lowering.to_verilog.circuit.signals import Signal
from triton_dsl.passes.adder_graph import InputRange, optimize_matrix
from triton_dsl.passes.adder_graph.integers import optimize_integers

Bench = Callable[..., Any]
RequireTool = Callable[[str, str], str]

CELLS = Path("/usr/share/yosys/xilinx/cells_sim.v")
"""Models of AMD's primitives, which come with Yosys."""

PACINGS = [Pacing(0), Pacing(1), Pacing(2), Pacing(clock=250.0), Pacing(1, device="7-series")]


@pytest.fixture(autouse=True)
def small_products_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small products become rows, so that they are quick to test."""
    monkeypatch.setattr(plan, "FEWEST_BITS", 100)


@pytest.mark.parametrize("pacing", PACINGS, ids=str)
@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(("bits", "weights"), [(1, 1), (3, 1), (4, 3)])
def test_the_product_at_every_pace(
    bench: Bench, pacing: Pacing, exact: bool, bits: int, weights: int
) -> None:
    rng = np.random.default_rng(bits)
    shape = (48, 18) if bits == 1 else (24, 12)
    matrix = rng.integers(-weights, weights + 1, shape).astype(np.int8)
    matrix[:, -1], matrix[:, -2] = 0, matrix[:, 0]
    inputs = InputRange.of_bits(bits, signed=bits > 1)
    if weights == 1:
        graph = optimize_matrix(matrix, inputs=inputs, time_budget=0.001)
    else:
        graph, shifts = optimize_integers(matrix.astype(np.int64), inputs=inputs, time_budget=0.001)
        matrix >>= np.array(shifts, np.int8)
    under = bench([(inputs.low, inputs.high)] * len(matrix), pacing)
    row = [Signal(w, -1 if i % 3 else 1, i % 2) for i, w in enumerate(under.wires)]
    signals = graph_row(under.circuit, graph, row, exact=exact)
    assert any(isinstance(op, RowOp) for op in under.block.ops)
    drawn = rng.integers(inputs.low, inputs.high + 1, (6, len(matrix)))
    for x in (*drawn, np.full(len(matrix), inputs.low), np.full(len(matrix), inputs.high)):
        signed = [(-v if i % 3 else v) + i % 2 for i, v in enumerate(x.tolist())]
        found = [under.number(signal, x.tolist()) for signal in signals]
        assert found == (np.array(signed) @ matrix.astype(np.int64)).tolist()


@pytest.mark.parametrize("device", ["ecp5", "ice40-hx"])
def test_fabrics_without_such_rows_get_none(bench: Bench, device: str) -> None:
    matrix = np.random.default_rng(0).integers(-1, 2, (24, 12)).astype(np.int8)
    graph = optimize_matrix(matrix, time_budget=0.001)
    under = bench([(-8, 7)] * 24, Pacing(1, device=device))
    graph_row(under.circuit, graph, [Signal(wire) for wire in under.wires], exact=True)
    assert not any(isinstance(op, RowOp) for op in under.block.ops)


@pytest.mark.parametrize("macro", [None, "TRITON_CARRY8", "TRITON_CARRY4"])
def test_plain_verilog_and_primitives_are_the_product(
    require_tool: RequireTool, iverilog: str, tmp_path: Path, macro: str | None
) -> None:
    """The artefact's own test bench, whose results the interpreter gave."""
    require_tool("yosys", "apt-get install yosys")
    matrix = np.random.default_rng(3).integers(-1, 2, (30, 10)).astype(np.int8)
    module = parse_module("""builtin.module @net {
func.func @forward(%x: tensor<?x30xi8>) -> tensor<?x10xi32> {
  %w = ternary.parameter "weight" : tensor<30x10x!ternary.trit>
  %y = ternary.matmul %x, %w
     : tensor<?x30xi8>, tensor<30x10x!ternary.trit> -> tensor<?x10xi32>
  func.return %y : tensor<?x10xi32>
}
}""")
    attach_store(module, ParameterStore.of({"weight": pack_trits(matrix)}))
    artifact = compile_to_target(module, "verilog", {"input_bits": 4})
    # The one of the stream's valid bit: none of inputs and sums that wait.
    report: Any = artifact.manifest["report"]
    assert report["estimate"]["shift_luts"] == 1
    write_artifact(artifact, tmp_path)
    sources = sorted(map(str, tmp_path.glob("rtl/*.v")))
    assert any("_row #(" in Path(source).read_text() for source in sources)
    command = [iverilog, "-g2012", "-s", "net_tb", "-o", "run", str(tmp_path / "test/net_tb.v")]
    command += sources if macro is None else [f"-D{macro}", *sources, "-l", str(CELLS)]
    subprocess.run(command, cwd=tmp_path / "test", check=True)
    shown = subprocess.run(["vvp", "-N", "run"], cwd=tmp_path / "test", capture_output=True)
    assert b"PASS" in shown.stdout
