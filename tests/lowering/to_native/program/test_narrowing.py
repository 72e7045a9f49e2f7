"""Small integers in wide types take the bytes that they need, and give what NumPy gives."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from triton_dsl.dialects.parameters import attach_store
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.store import ParameterStore
from triton_dsl.lowering.to_native.export import program_constants

PRODUCT = """
func.func @forward(%x: tensor<?x19x37xi32>) -> tensor<?x19x64x{kind}> {{
  %w = tensor.parameter "w" : tensor<37x64x{kind}>
  {cast}
  %y = tensor.matmul %v, %w
       : (tensor<?x19x37x{kind}>, tensor<37x64x{kind}>) -> tensor<?x19x64x{kind}>
  func.return %y : tensor<?x19x64x{kind}>
}}
"""
CASTS = {
    "i32": "%v = tensor.abs %x : (tensor<?x19x37xi32>) -> tensor<?x19x37xi32>",
    "i64": "%v = tensor.convert %x : (tensor<?x19x37xi32>) -> tensor<?x19x37xi64>",
}


@pytest.mark.parametrize(
    ("kind", "low", "high", "width"),
    [
        ("i32", -128, 127, 1),
        ("i32", -129, 127, 2),
        ("i32", -128, 128, 2),
        ("i32", 0, 32768, 4),
        ("i64", -32769, 0, 4),
        ("i64", 0, 1 << 31, 8),
    ],
)
def test_weights_take_the_bytes_of_their_values(
    compile_module: Callable[..., Any], recipe: str, kind: str, low: int, high: int, width: int
) -> None:
    rng = np.random.default_rng(0)
    weights = rng.integers(low, high + 1, (37, 64)).astype(kind.replace("i", "int"))
    weights.flat[[3, 1000]] = low, high
    module = parse_module(PRODUCT.format(kind=kind, cast=CASTS[kind]))
    attach_store(module, ParameterStore.of({"w": weights}))
    program = compile_module(module, recipe)
    assert program_constants(program.lowered).size - weights.size * width in range(64)
    x = rng.integers(0, 999, (3, 19, 37)).astype(np.int32)
    (y,) = program.check([x], 3)
    expected = np.einsum("bik,kj->bij", x.astype(object), weights.astype(object))
    np.testing.assert_array_equal(y.astype(object), expected)


TABLE = """
func.func @forward(%i: tensor<?x5xi64>) -> (tensor<?x5x33xi32>, tensor<33x40xi32>) {
  %t = tensor.parameter "t" : tensor<40x33xi32>
  %y = tensor.gather_rows %t, %i
       : (tensor<40x33xi32>, tensor<?x5xi64>) -> tensor<?x5x33xi32>
  %z = tensor.permute %t {perm = array<i64: 1, 0>}
       : (tensor<40x33xi32>) -> tensor<33x40xi32>
  func.return %y, %z : tensor<?x5x33xi32>, tensor<33x40xi32>
}
"""


def test_tables_of_small_numbers(compile_module: Callable[..., Any], recipe: str) -> None:
    rng = np.random.default_rng(0)
    table = rng.integers(-300, 300, (40, 33)).astype(np.int32)
    module = parse_module(TABLE)
    attach_store(module, ParameterStore.of({"t": table}))
    program = compile_module(module, recipe)
    places = rng.integers(0, 40, (3, 5))
    y, z = program.check([places], 3)
    np.testing.assert_array_equal(y, table[places])
    np.testing.assert_array_equal(z, table.T)
    assert program_constants(program.lowered).size < 2.2 * 2 * table.size
