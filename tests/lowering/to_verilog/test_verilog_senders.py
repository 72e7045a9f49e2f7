"""What the sender of a circuit does with floats, beside NumPy; the circuit is simulated."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

from triton_dsl.dialects.registry import parse_module
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_verilog.simulation import run_verilog

SIGNS = """func.func @forward(%x: tensor<?x2x2xf32>) -> tensor<?x3xf32> {
  %f = tensor.flatten %x {start = 1 : i64, end = 2 : i64}
     : (tensor<?x2x2xf32>) -> tensor<?x4xf32>
  %one = tensor.constant dense<1.0> : tensor<f32>
  %minus = tensor.constant dense<-2.0> : tensor<f32>
  %zero = tensor.constant dense<0.0> : tensor<f32>
  %c = tensor.compare %f, %zero {predicate = "PREDICATE"}
     : (tensor<?x4xf32>, tensor<f32>) -> tensor<?x4xi1>
  %s = tensor.where %c, %one, %minus
     : (tensor<?x4xi1>, tensor<f32>, tensor<f32>) -> tensor<?x4xf32>
  %w = ternary.constant [1, -1, 0, 0, 1, 1, -1, 1, 0, 1, 0, 1] : tensor<4x3x!ternary.trit>
  %y = ternary.linear %s, %w : tensor<?x4xf32>, tensor<4x3x!ternary.trit> -> tensor<?x3xf32>
  func.return %y : tensor<?x3xf32>
}"""


@pytest.mark.usefixtures("iverilog")
@pytest.mark.parametrize("predicate", ["ge", "gt"])
def test_signs_of_all_sizes_of_floats(predicate: str) -> None:
    """Without a scale that is subnormal; the levels -2 and 1 need a third of their step."""
    module = parse_module(SIGNS.replace("PREDICATE", predicate))
    artifact = compile_to_target(module, "verilog", {"time_budget": 0.01, "vectors": 4})
    (port,) = json.loads(artifact.text("report.json"))["inputs"]
    assert port["quantized"]["scale"] == 1.0
    assert port["quantized"]["of_sign"]
    info = np.finfo(np.float32)
    sizes = np.array([info.smallest_subnormal, info.tiny, 0.5, 9.0, info.max, np.inf, 0.0, 1.0])
    x = np.concatenate([sizes, -sizes]).astype(np.float32).reshape(-1, 2, 2)
    flat = x.reshape(-1, 4)
    reached = flat >= 0 if predicate == "ge" else flat > 0
    weight = np.array([1, -1, 0, 0, 1, 1, -1, 1, 0, 1, 0, 1]).reshape(4, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, (found,) = run_verilog(artifact, [x])
    np.testing.assert_array_equal(found, np.where(reached, 1, -2) @ weight)


@pytest.mark.usefixtures("iverilog")
def test_inputs_that_overflow_beside_a_small_scale() -> None:
    """They come to the ends of the range, without a warning."""
    text = SIGNS.replace('tensor.compare %f, %zero {predicate = "PREDICATE"}',
                         'tensor.compare %f, %small {predicate = "ge"}')  # fmt: skip
    small = "%small = tensor.constant dense<1.5e-30> : tensor<f32>\n  %c"
    module = parse_module(text.replace("%c =", f"{small} ="))
    artifact = compile_to_target(module, "verilog", {"time_budget": 0.01, "vectors": 4})
    x = np.array([3e38, -3e38, 1e-30, 2e-30], np.float32).reshape(1, 2, 2)
    weight = np.array([1, -1, 0, 0, 1, 1, -1, 1, 0, 1, 0, 1]).reshape(4, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, (found,) = run_verilog(artifact, [x])
    np.testing.assert_array_equal(found, np.array([[1, -2, -2, 1]]) @ weight)
