"""The comparison behind `triton verify`: it must find what differs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import OptionError, UnsupportedError
from triton_dsl.lowering import targets
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.lowering.targets import register_target
from triton_dsl.lowering.to_mlir import MlirTarget
from triton_dsl.runtime.random_values import fill_parameters
from triton_dsl.tools.verify import (
    compare,
    default_targets,
    is_integer_program,
    verify_module,
)

RNG = np.random.default_rng(11)
Y = RNG.standard_normal((8, 4)).astype(np.float32)


def judge(actual: Any, *, exact: bool = False, expected: Any = Y) -> Any:
    return compare("t", "e", [expected], [actual], exact, 1)


def test_equal_outputs_agree_exactly() -> None:
    row = judge(Y.copy(), exact=True)
    assert row.agrees and row.bit_exact and row.argmax_agreement == 1.0
    assert row.max_abs == row.max_rel == 0.0


def test_rounding_differences_agree_only_in_float_programs() -> None:
    near = np.nextafter(Y, np.float32(np.inf))
    assert judge(near).agrees and not judge(near).bit_exact
    assert not judge(near, exact=True).agrees


def test_a_wrong_value_is_found_and_measured() -> None:
    wrong = Y.copy()
    wrong[3, 2] += 0.5
    row = judge(wrong)
    assert not row.agrees
    assert row.max_abs == pytest.approx(0.5, rel=1e-5)
    assert row.max_rel == pytest.approx(0.5 / abs(float(Y[3, 2])), rel=1e-5)


def test_a_value_that_cancels_may_differ_by_the_rounding_of_large_ones() -> None:
    expected = np.array([[1e4, 0.25]], np.float32)
    near = np.array([[1e4, 0.251]], np.float32)
    assert judge(near, expected=expected).agrees
    assert not judge(near + np.float32(2), expected=expected).agrees


def test_argmax_agreement_counts_rows() -> None:
    expected = np.eye(4, dtype=np.float32)
    actual = np.roll(expected, 1, axis=1)
    actual[0] = expected[0]
    assert judge(actual, expected=expected).argmax_agreement == 0.25


@pytest.mark.parametrize(
    "actual",
    [
        Y[:4],
        Y.astype(np.float64),
        np.full_like(Y, np.nan),
        np.where(Y > 1, np.inf, Y).astype(np.float32),
    ],
)
def test_other_shapes_dtypes_and_nan_disagree(actual: Any) -> None:
    assert not judge(actual).agrees


def test_the_same_nan_and_infinity_agree() -> None:
    expected = np.array([[np.nan, np.inf, 1.0]], np.float32)
    row = judge(expected.copy(), expected=expected)
    assert row.agrees and row.max_abs == 0.0


INTEGER = """
func.func @forward(%x: tensor<?x6xf32>) -> tensor<?x3xf32> {
  %w = ternary.constant [1, 0, -1, 1, 1, 0, -1, -1, 0, 1, 0, 0, 1, -1, 1, 0, 0, 1]
       : tensor<6x3x!ternary.trit>
  %s = tensor.constant dense<0.05> : tensor<f32>
  %z = tensor.constant dense<3> : tensor<i8>
  %z2 = tensor.constant dense<0> : tensor<i32>
  %q = tensor.quantize %x, %s, %z : (tensor<?x6xf32>, tensor<f32>, tensor<i8>) -> tensor<?x6xi8>
  %y = ternary.linear %q, %w {activation = "relu"}
       : tensor<?x6xi8>, tensor<6x3x!ternary.trit> -> tensor<?x3xi32>
  %r = tensor.dequantize %y, %s, %z2
       : (tensor<?x3xi32>, tensor<f32>, tensor<i32>) -> tensor<?x3xf32>
  func.return %r : tensor<?x3xf32>
}
"""


def test_an_integer_program_is_bit_exact_on_every_engine() -> None:
    module = parse_module(INTEGER)
    assert is_integer_program(module)
    rows = verify_module(module, [RNG.standard_normal((50, 6)).astype(np.float32) * 4])
    assert [row.target for row in rows] == ["pytorch", "onnx", "native", "tflite"]
    assert all(row.exact_required and row.bit_exact and row.agrees for row in rows)


def test_a_float_program_is_not_held_to_bits() -> None:
    module = import_tri("""layer L {
        param w: TernaryTensor[64, 5]
        fn forward(x: Tensor[N, 64]) -> Tensor[N, 5] { return softmax(x @ w) }
    }""", weights={"w": RNG.integers(-1, 2, (64, 5))})  # fmt: skip
    assert not is_integer_program(module)
    rows = verify_module(module, [RNG.standard_normal((9, 64)).astype(np.float32)])
    assert all(row.agrees and row.argmax_agreement == 1.0 for row in rows)


def test_a_target_without_an_engine_is_refused() -> None:
    from triton_dsl.lowering.artifact import Artifact
    from triton_dsl.lowering.engine import run_artifact

    with pytest.raises(OptionError, match="no engine"):
        run_artifact("nir", Artifact("a", {"a.nir": b""}), [])


def test_bfloat16_goes_in_and_out_of_torch() -> None:
    import ml_dtypes
    import torch

    from triton_dsl.runtime.engines import run_torch

    x = np.array([1.5, -2.0, 3.0], ml_dtypes.bfloat16)
    (y,) = run_torch(torch.nn.ReLU(), [x])
    assert y.dtype == x.dtype and y.tolist() == [1.5, 0.0, 3.0]


def test_weights_beside_the_model_are_found() -> None:
    source = """
    layer Wide {
        param w: TernaryTensor[64, 64]
        fn forward(x: Tensor[N, 64]) -> Tensor[N, 64] { return x @ w }
    }
    """
    module = fill_parameters(import_tri(source), 0)
    x = RNG.standard_normal((3, 64)).astype(np.float32)
    (row,) = verify_module(module, [x], ["onnx{external-data=always}"])
    assert row.agrees and row.bytes is not None and row.bytes > 1024


def test_the_targets_of_installed_engines_are_verified_by_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(targets, "_registered", {})
    assert default_targets() == ("pytorch", "onnx", "native", "tflite")

    class Plugin(MlirTarget):
        engine_package = "json"

    register_target("plugin", Plugin)
    register_target("absent", type("Absent", (Plugin,), {"engine_package": "no_such_package"}))
    assert default_targets() == ("pytorch", "onnx", "native", "tflite", "plugin")


def test_litert_is_verified_where_it_expresses_the_program() -> None:
    pytest.importorskip("ai_edge_litert")
    text = """
func.func @forward(%x: tensor<2xf64>) -> tensor<2xf64> {
  %y = tensor.relu %x : (tensor<2xf64>) -> tensor<2xf64>
  func.return %y : tensor<2xf64>
}"""
    module, x = parse_module(text, "model.mlir"), np.array([-1.0, 2.0])
    assert "tflite" in default_targets()
    refused: list[str] = []
    rows = verify_module(module, [x], on_refusal=lambda target, _: refused.append(target))
    assert rows and "tflite" not in {row.target for row in rows}
    assert "tflite" in refused
    with pytest.raises(UnsupportedError, match="tflite"):
        verify_module(module, [x], ["tflite"])
