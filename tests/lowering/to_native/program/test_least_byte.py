"""Weights with -128, whose magnitude a byte does not hold, against PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from triton_dsl.dialects.parameters import attach_store
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.store import ParameterStore

CONV = """
func.func @forward(%x: tensor<?x32x12x12xi8>) -> tensor<?x32x12x12xi32> {
  %i = tensor.convert %x : (tensor<?x32x12x12xi8>) -> tensor<?x32x12x12xi32>
  %w = tensor.parameter "w" buffer : tensor<32x32x3x3xi32>
  %y = tensor.conv %i, %w {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>,
       dilation = array<i64: 1, 1>, groups = 1 : i64}
       : (tensor<?x32x12x12xi32>, tensor<32x32x3x3xi32>) -> tensor<?x32x12x12xi32>
  func.return %y : tensor<?x32x12x12xi32>
}
"""
MATMUL = """
func.func @forward(%x: tensor<?x23xi8>) -> tensor<?x23xi32> {
  %i = tensor.convert %x : (tensor<?x23xi8>) -> tensor<?x23xi32>
  %w = tensor.parameter "w" buffer : tensor<23x23xi32>
  %y = tensor.matmul %i, %w : (tensor<?x23xi32>, tensor<23x23xi32>) -> tensor<?x23xi32>
  func.return %y : tensor<?x23xi32>
}
"""


@pytest.mark.parametrize("others", [[-128], [-128, -1, 0, 1], [-128, 3, -4, 0]])
def test_sums(compile_module: Callable[..., Any], recipe: str, others: list[int]) -> None:
    rng = np.random.default_rng(0)
    for text, shape, size in (
        (CONV, (2, 32, 12, 12), (32, 32, 3, 3)),
        (MATMUL, (5, 23), (23, 23)),
    ):
        x = rng.integers(-128, 128, shape).astype(np.int8)
        w = rng.choice(np.array(others, np.int32), size)
        module = parse_module(text)
        attach_store(module, ParameterStore.of({"w": w}))
        (y,) = compile_module(module, recipe).check([x], len(x))
        a, b = (torch.from_numpy(v.astype(np.float64)) for v in (x, w))
        sums = torch.nn.functional.conv2d(a, b, padding=1) if x.ndim == 4 else a @ b
        np.testing.assert_array_equal(y, sums.numpy())
