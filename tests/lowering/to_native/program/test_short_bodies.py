"""Rescaling in 32 bits, against Python's integers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects import llvm
from xdsl.dialects.builtin import VectorType, i64

from triton_dsl.dialects.parameters import attach_store
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.store import ParameterStore

MOST = (1 << 31) - 1
RESCALE = """
func.func @forward(%x: tensor<?x6x37x{kind}>) -> tensor<?x6x37xi32> {{
  %a = tensor.convert %x : (tensor<?x6x37x{kind}>) -> tensor<?x6x37xi32>
  %m = tensor.parameter "m" buffer : tensor<6xi32>
  %s = tensor.parameter "s" buffer : tensor<6xi32>
  %z = tensor.constant dense<0> : tensor<i32>
  %y = tensor.requantize %a, %m, %s, %z
       {{axis = 1 : i64, low = -2147483647 : i64, high = 2147483647 : i64}}
       : (tensor<?x6x37xi32>, tensor<6xi32>, tensor<6xi32>, tensor<i32>) -> tensor<?x6x37xi32>
  func.return %y : tensor<?x6x37xi32>
}}
"""
SUMS = """
func.func @forward(%x: tensor<?x2048xi8>) -> tensor<?x32xi32> {
  %a = tensor.convert %x : (tensor<?x2048xi8>) -> tensor<?x2048xi32>
  %w = tensor.parameter "w" buffer : tensor<2048x32xi32>
  %b = tensor.matmul %a, %w : (tensor<?x2048xi32>, tensor<2048x32xi32>) -> tensor<?x32xi32>
  %m = tensor.constant dense<1431655765> : tensor<i32>
  %s = tensor.constant dense<19> : tensor<i32>
  %z = tensor.constant dense<0> : tensor<i32>
  %y = tensor.requantize %b, %m, %s, %z {low = -2147483647 : i64, high = 2147483647 : i64}
       : (tensor<?x32xi32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<?x32xi32>
  func.return %y : tensor<?x32xi32>
}
"""


def wide_products(program: Any) -> int:
    """Products of vectors of 64 bits in what a program became."""
    return sum(
        isinstance(op, llvm.MulOp)
        and isinstance(t := op.res.type, VectorType)
        and t.element_type == i64
        for op in program.lowered.walk()
    )


def rescaled(x: Any, multiplier: Any, shift: Any) -> Any:
    """⌊(x·m + 2ⁿ⁻¹) / 2ⁿ⌋ on Python's integers, cut to 32 bits."""
    x, multiplier, shift = (np.asarray(v).astype(object) for v in (x, multiplier, shift))
    half = 2 ** (shift - 1)
    return np.clip((x * multiplier + half) // (2 * half), -MOST, MOST)


def one_rescaling(
    compile_module: Callable[..., Any], recipe: str, kind: str, m: Any, s: Any
) -> int:
    """Check a program that rescales bytes or words; how many wide products it has."""
    module = parse_module(RESCALE.format(kind=kind))
    known = {"m": np.array(m, np.int32), "s": np.array(s, np.int32)}
    attach_store(module, ParameterStore.of(known))
    program = compile_module(module, recipe)
    numbers = np.iinfo(kind.replace("i", "int"))
    rng = np.random.default_rng(0)
    x = rng.integers(numbers.min, numbers.max, (3, 6, 37), numbers.dtype, endpoint=True)
    x[..., :5] = numbers.min, numbers.max, -1, 0, 1
    (y,) = program.check([x], 3)
    expected = rescaled(x, np.array(m)[:, None], np.array(s)[:, None])
    np.testing.assert_array_equal(y.astype(object), expected)
    return wide_products(program)


@pytest.mark.parametrize(
    ("kind", "multipliers", "shifts"),
    [
        ("i8", [529481337] * 6, [13] * 6),
        ("i8", [MOST - (1 << 12), 1, 0, -MOST, -1, 1 << 30], [13] * 6),
        ("i16", [736230291, 718291665, 1556534605, 165935937, 1, -1390000000], [19] * 6),
        ("i16", [MOST - (1 << 15), -MOST, 0, 1, -1, 1 << 30], [22, 21, 22, 20, 22, 18]),
        ("i16", [MOST - (1 << 15), -MOST, 0, 1, -1, 1 << 30], [31, 38, 31, 40, 33, 36]),
    ],
)
def test_two_products_of_32_bits_rescale_small_integers(
    compile_module: Callable[..., Any], recipe: str, kind: str, multipliers: Any, shifts: Any
) -> None:
    assert not one_rescaling(compile_module, recipe, kind, multipliers, shifts)


@pytest.mark.parametrize("seed", range(6))
def test_any_rescaling(compile_module: Callable[..., Any], recipe: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    bits = rng.integers(1, 32, 6)
    multipliers = rng.integers(-(1 << bits), 1 << bits)
    multipliers[:2] = rng.choice([MOST, -MOST - 1, 1 << 30], 2)
    shifts = rng.integers(1, 62, 6) if seed % 2 else np.full(6, rng.integers(1, 62))
    one_rescaling(compile_module, recipe, ("i8", "i16", "i32")[seed % 3], multipliers, shifts)


@pytest.mark.parametrize("shift", [1, 2, 32])
def test_the_largest_integer_is_halved(
    compile_module: Callable[..., Any], recipe: str, shift: int
) -> None:
    one_rescaling(compile_module, recipe, "i32", [1] * 6, [shift] * 6)


def test_sums_are_as_large_as_known_weights_make_them(
    compile_module: Callable[..., Any], recipe: str
) -> None:
    rng = np.random.default_rng(0)
    w = np.zeros((2048, 32), np.int32)
    w[rng.permutation(2048)[:200]] = rng.integers(-1, 2, (200, 32))
    module = parse_module(SUMS)
    attach_store(module, ParameterStore.of({"w": w}))
    program = compile_module(module, recipe)
    x = rng.integers(-128, 128, (5, 2048), np.int8)
    x[0] = np.where(w[:, 0] > 0, 127, -128)
    x[1] = np.where(w[:, 1] > 0, -128, 127)
    (y,) = program.check([x], 5)
    expected = rescaled(x.astype(np.int64) @ w, 1431655765, 19)
    np.testing.assert_array_equal(y.astype(object), expected)
    assert not wide_products(program)
