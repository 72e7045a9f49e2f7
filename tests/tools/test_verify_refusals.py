"""Targets that cannot express a program: left out and named; errors where they are asked for."""

from __future__ import annotations

import numpy as np
import pytest

from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import TritonError
from triton_dsl.ir.extras import install
from triton_dsl.tools.verify import verify_module

pytest.importorskip("onnxruntime", reason=install("onnx"))
pytest.importorskip("torch", reason=install("torch"))
pytest.importorskip("llvmlite", reason=install("native"))

TWO_FREE_SIZES = """
func.func @forward(%x: tensor<?x?x4xf32>) -> tensor<?x?x4xf32> {
  %y = tensor.relu %x : (tensor<?x?x4xf32>) -> tensor<?x?x4xf32>
  func.return %y : tensor<?x?x4xf32>
}"""

DOUBLES = """
func.func @forward(%x: tensor<?x4xf64>) -> tensor<?x4xf64> {
  %y = tensor.sin %x : (tensor<?x4xf64>) -> tensor<?x4xf64>
  func.return %y : tensor<?x4xf64>
}"""

OPEN_STEPS = """
func.func @forward(%x: tensor<?x?x4xf32>) -> !spike.train<?x?x4> {
  %s = spike.lif %x {beta = 0.5 : f64} : (tensor<?x?x4xf32>) -> !spike.train<?x?x4>
  func.return %s : !spike.train<?x?x4>
}"""


def test_a_default_target_that_cannot_is_left_out_and_named() -> None:
    pytest.importorskip("ai_edge_litert", reason=install("tflite"))
    refused: list[tuple[str, TritonError]] = []
    rows = verify_module(
        parse_module(DOUBLES),
        [np.ones((3, 4))],
        on_refusal=lambda target, error: refused.append((target, error)),
    )
    assert [row.target for row in rows] == ["pytorch", "onnx", "native"]
    assert all(row.agrees for row in rows)
    reasons = {target: str(error) for target, error in refused}
    assert set(reasons) == {"tflite"}
    assert "no SIN kernel for FLOAT64" in reasons["tflite"]


def test_a_target_of_known_steps_gets_those_of_the_inputs() -> None:
    rng = np.random.default_rng(0)
    first, second = (
        rng.uniform(0, 3, (steps, samples, 4)).astype(np.float32)
        for steps, samples in ((5, 3), (7, 2))
    )
    rows = verify_module(
        parse_module(OPEN_STEPS),
        [first],
        more_inputs=[[second]],
        on_refusal=lambda target, error: pytest.fail(f"{target}: {error}"),
    )
    assert {"pytorch", "onnx", "native"} <= {row.target for row in rows}
    assert all(row.bit_exact for row in rows)
    notes = {row.target: row.note for row in rows}
    assert notes["native"] == "compiled for the steps of the inputs"
    assert notes["onnx"] == ""


def test_a_target_that_is_asked_for_and_cannot_is_an_error() -> None:
    inputs = [np.ones((3, 2, 4), np.float32)]
    with pytest.raises(TritonError, match="has free sizes"):
        verify_module(parse_module(TWO_FREE_SIZES), inputs, ["c"], on_refusal=print)


def test_where_no_target_can_the_first_reason_is_raised() -> None:
    module = parse_module("""
func.func @forward(%x: tensor<4x3x4xf32>) -> tensor<4x3x4xf32> {
  %y = spike.recurrent %x : (tensor<4x3x4xf32>) -> tensor<4x3x4xf32> {
    ^bb0(%a: tensor<4x3x4xf32>, %last: tensor<4x3x4xf32>):
      %r = tensor.slice %last {starts = array<i64: 0, 0, 0>, ends = array<i64: 3, 3, 4>,
        steps = array<i64: 1, 1, 1>} : (tensor<4x3x4xf32>) -> tensor<3x3x4xf32>
      %s = tensor.pad_to %r {low = array<i64: 1, 0, 0>, high = array<i64: 0, 0, 0>,
        value = 0.0 : f64} : (tensor<3x3x4xf32>) -> tensor<4x3x4xf32>
      %c = tensor.add %a, %s : (tensor<4x3x4xf32>, tensor<4x3x4xf32>) -> tensor<4x3x4xf32>
      spike.yield %c : tensor<4x3x4xf32>
  }
  func.return %y : tensor<4x3x4xf32>
}""")
    inputs = [np.ones((4, 3, 4), np.float32)]
    with pytest.raises(TritonError, match=r"'tensor.slice' in the body cannot run"):
        verify_module(module, inputs, on_refusal=lambda target, error: None)
