"""Constants of one number stand in code where all that shares it reads the same, else in memory."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from triton_dsl.dialects.parameters import attach_store
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.store import ParameterStore
from triton_dsl.lowering.to_native.export import program_constants

TWO_SUMS = """
func.func @forward(%x: tensor<?x37xi32>, %y: tensor<?x37xi32>)
    -> (tensor<?x37xi32>, tensor<?x37xi32>) {
  %a = tensor.parameter "a" : tensor<37xi32>
  %b = tensor.parameter "b" : tensor<37xi32>
  %v = tensor.mul %x, %a : (tensor<?x37xi32>, tensor<37xi32>) -> tensor<?x37xi32>
  %w = tensor.mul %y, %b : (tensor<?x37xi32>, tensor<37xi32>) -> tensor<?x37xi32>
  func.return %v, %w : tensor<?x37xi32>, tensor<?x37xi32>
}
"""
COUNTED = np.arange(37, dtype=np.int32)


@pytest.mark.parametrize(
    ("a", "b", "in_memory"),
    [
        (np.full(37, -5), np.full(37, -5), False),
        (np.full(37, -5), np.full(37, 1 << 30), True),
        (np.full(37, 7), COUNTED, True),
        (COUNTED, COUNTED, True),
    ],
)
def test_numbers_that_code_has_in_common(
    compile_module: Callable[..., Any],
    recipe: str,
    a: NDArray[Any],
    b: NDArray[Any],
    in_memory: bool,
) -> None:
    values = {"a": a.astype(np.int32), "b": b.astype(np.int32)}
    module = parse_module(TWO_SUMS)
    attach_store(module, ParameterStore.of(values))
    program = compile_module(module, recipe)
    assert bool(program_constants(program.lowered).size) == in_memory
    x, y = np.random.default_rng(0).integers(-999, 999, (2, 3, 37)).astype(np.int32)
    v, w = program.check([x, y], 3)
    np.testing.assert_array_equal(v, x * values["a"])
    np.testing.assert_array_equal(w, y * values["b"])


TWO_QUOTIENTS = """
func.func @forward(%x: tensor<?x19xf32>, %y: tensor<?x19xf32>)
    -> (tensor<?x19xf32>, tensor<?x19xf32>) {
  %a = tensor.parameter "a" : tensor<19xf32>
  %b = tensor.parameter "b" : tensor<19xf32>
  %v = tensor.div %x, %a : (tensor<?x19xf32>, tensor<19xf32>) -> tensor<?x19xf32>
  %w = tensor.div %y, %b : (tensor<?x19xf32>, tensor<19xf32>) -> tensor<?x19xf32>
  func.return %v, %w : tensor<?x19xf32>, tensor<?x19xf32>
}
"""


@pytest.mark.parametrize(
    ("a", "b"), [(-0.0, -0.0), (-0.0, 0.0), (0.0, -0.0), (-np.inf, np.inf), (1e-45, 1e-45)]
)
def test_floats_keep_their_bits(
    compile_module: Callable[..., Any], recipe: str, a: float, b: float
) -> None:
    values = {"a": np.full(19, a, np.float32), "b": np.full(19, b, np.float32)}
    module = parse_module(TWO_QUOTIENTS)
    attach_store(module, ParameterStore.of(values))
    program = compile_module(module, recipe)
    alike = values["a"].tobytes() == values["b"].tobytes()
    assert bool(program_constants(program.lowered).size) != alike
    x, y = np.random.default_rng(0).standard_normal((2, 2, 19)).astype(np.float32)
    results = program.check([x, y], 2)
    with np.errstate(divide="ignore", over="ignore"):
        for result, expected in zip(results, (x / values["a"], y / values["b"]), strict=True):
            np.testing.assert_array_equal(result, expected)
            np.testing.assert_array_equal(np.signbit(result), np.signbit(expected))
