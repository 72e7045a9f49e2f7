"""`triton verify --layers` on targets that run neurons: a row for what each layer sends."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import LoweringError
from triton_dsl.lowering.simulator import simulator
from triton_dsl.lowering.to_c.engine import CEngine
from triton_dsl.tools.cli import main
from triton_dsl.tools.verify import verify_neurons

Array = NDArray[Any]

PROGRAM = """
func.func @forward(%x: !spike.train<12x?x6>) -> (tensor<12x?x3xf32> {tensor.name = "sums"}) {
  %w = tensor.constant dense<0.4> : tensor<6x5xf32>
  %v = tensor.constant dense<0.7> : tensor<5x3xf32>
  %i = spike.linear %x, %w : !spike.train<12x?x6>, tensor<6x5xf32> -> tensor<12x?x5xf32>
  %first = spike.lif %i {beta = 0.75 : f64} : (tensor<12x?x5xf32>) -> !spike.train<12x?x5>
  %j = spike.linear %first, %v : !spike.train<12x?x5>, tensor<5x3xf32> -> tensor<12x?x3xf32>
  %second = spike.lif %j {beta = 0.5 : f64} : (tensor<12x?x3xf32>) -> !spike.train<12x?x3>
  %k = spike.to_tensor %second : (!spike.train<12x?x3>) -> tensor<12x?x3xf32>
  func.return %k : tensor<12x?x3xf32>
}
"""
ROWS = ["first (1)", "second (2)"]


def trains() -> Array:
    return np.random.default_rng(0).random((12, 4, 6)) < 0.3


@pytest.mark.parametrize("target", ["c{batch=4}", "native"])
def test_each_layer_has_a_row(target: str) -> None:
    rows = verify_neurons(parse_module(PROGRAM), [trains()], target)
    assert [row.target for row in rows] == [*ROWS, "sums"]
    assert all(row.agrees and row.bit_exact for row in rows)


def test_the_neurons_of_a_chip_are_those_in_fixed_point(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triton_dsl.lowering.to_loihi2.engine.lava_python", lambda: None)
    program = PROGRAM.replace(
        "tensor<12x?x3xf32> {tensor.name", "!spike.train<12x?x3> {tensor.name"
    )
    program = program.replace(
        "return %k : tensor<12x?x3xf32>", "return %second : !spike.train<12x?x3>"
    )
    rows = verify_neurons(parse_module(program), [trains()], "loihi2")
    assert [row.target for row in rows] == ["first (1)", "sums"]
    assert all(row.exact_required and row.agrees for row in rows)
    assert rows[0].engine == "Triton DSL's simulator of Loihi 2"


def test_the_layer_that_is_wrong_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = CEngine.run

    def run(self: CEngine, inputs: Sequence[Array]) -> list[Array]:
        outputs = whole(self, inputs)
        outputs[2] = ~outputs[2]
        return outputs

    monkeypatch.setattr(CEngine, "run", run)
    rows = verify_neurons(parse_module(PROGRAM), [trains()], "c{batch=4}")
    assert [row.agrees for row in rows] == [True, False, True]


def test_a_program_without_neurons_has_no_layers() -> None:
    module = parse_module(
        "func.func @forward(%x: tensor<2xf32>) -> tensor<2xf32> { func.return %x : tensor<2xf32> }"
    )
    with pytest.raises(LoweringError, match="no layers of neurons"):
        verify_neurons(module, [np.zeros(2, np.float32)], "c")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "net.mlir"
    path.write_text(PROGRAM)
    words = ["verify", str(path), "-t", "c", "--layers", "--samples", "4"]
    assert main(words) == 0
    assert "layer by layer on c" in capsys.readouterr().out
    assert main([*words, "--json"]) == 0
    assert [row["target"] for row in json.loads(capsys.readouterr().out)] == [*ROWS, "sums"]
    assert main([*words, "--prove", "3"]) == 2
    assert "--prove is of circuits" in capsys.readouterr().err


def test_the_simulator_takes_the_batch_by_the_name_of_an_input() -> None:
    """Converted networks name their batch, and their states have one without a name."""
    module = parse_module("""
    func.func @forward(%x: tensor<?x4xi32> {tensor.dimensions = ["N", "4"]}) -> tensor<?x4xi32> {
      %e = spike.encode %x {scheme = "direct", timesteps = 5 : i64}
          : (tensor<?x4xi32>) -> tensor<5x?x4xi32>
      %d = spike.delay %e {steps = 1 : i64} : (tensor<5x?x4xi32>) -> tensor<5x?x4xi32>
      %w = tensor.constant dense<3> : tensor<4x4xi8>
      %i = spike.linear %d, %w : tensor<5x?x4xi32>, tensor<4x4xi8> -> tensor<5x?x4xi32>
      %s, %u, %v = spike.loihi_lif %i {du = 4095.0 : f64, dv = 0.0 : f64, threshold = 100.0 : f64}
          : (tensor<5x?x4xi32>) -> (!spike.train<5x?x4>, tensor<?x4xi32>, tensor<?x4xi32>)
      func.return %v : tensor<?x4xi32>
    }""")
    x = np.arange(12, dtype=np.int32).reshape(3, 4)
    (found,) = simulator(module).run([x])
    # A constant current of 64·3·Σx arrives in four of five steps.
    current = 3 * x.sum(1, keepdims=True)
    potential = np.zeros((3, 1))
    for _ in range(4):
        potential = potential + current
        potential = np.where(potential > 100, 0, potential)
    np.testing.assert_array_equal(found, np.broadcast_to(64 * potential, (3, 4)))
