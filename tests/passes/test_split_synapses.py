"""`split-synapses` computes the same, and leaves what it cannot split."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module

Filled = Callable[..., ModuleOp]
ApplyPasses = Callable[[ModuleOp, str], str]

LINEAR = """
func.func @forward(%a: !spike.train<3x?x{a}x2>, %b: !spike.train<3x?x{b}x2>) -> tensor<3x?x4xf32> {{
  %w = tensor.parameter "w" : tensor<{rows}x4xf32>
  %c = tensor.parameter "c" : tensor<4xf32>
  %s = tensor.parameter "s" : tensor<4xf32>
  %0 = spike.to_tensor %a : (!spike.train<3x?x{a}x2>) -> tensor<3x?x{a}x2xi1>
  %1 = spike.to_tensor %b : (!spike.train<3x?x{b}x2>) -> tensor<3x?x{b}x2xi1>
  %2 = tensor.concatenate %0, %1, %0 {{axis = 2 : i64}} : (tensor<3x?x{a}x2xi1>,
      tensor<3x?x{b}x2xi1>, tensor<3x?x{a}x2xi1>) -> tensor<3x?x{all}x2xi1>
  %3 = tensor.reshape_to %2 {{shape = array<i64: -2, -3, {rows}>}} : (tensor<3x?x{all}x2xi1>)
      -> tensor<3x?x{rows}xi1>
  %4 = spike.from_tensor %3 : (tensor<3x?x{rows}xi1>) -> !spike.train<3x?x{rows}>
  %y = spike.linear %4, %w scale(%s : tensor<4xf32>) bias(%c : tensor<4xf32>)
      : !spike.train<3x?x{rows}>, tensor<{rows}x4xf32> -> tensor<3x?x4xf32>
  func.return %y : tensor<3x?x4xf32>
}}"""
CONV = """
func.func @forward(%a: !spike.train<3x?x{a}x6>, %b: !spike.train<3x?x{b}x6>)
    -> tensor<3x?x4x3xf32> {{
  %w = tensor.parameter "w" : tensor<4x{in}x2xf32>
  %0 = spike.to_tensor %a : (!spike.train<3x?x{a}x6>) -> tensor<3x?x{a}x6xi1>
  %1 = spike.to_tensor %b : (!spike.train<3x?x{b}x6>) -> tensor<3x?x{b}x6xi1>
  %2 = tensor.concatenate %0, %1, %0 {{axis = 2 : i64}} : (tensor<3x?x{a}x6xi1>,
      tensor<3x?x{b}x6xi1>, tensor<3x?x{a}x6xi1>) -> tensor<3x?x{all}x6xi1>
  %4 = spike.from_tensor %2 : (tensor<3x?x{all}x6xi1>) -> !spike.train<3x?x{all}x6>
  %y = spike.conv %4, %w {{strides = array<i64: 2>, padding = array<i64: 1, 0>,
      dilation = array<i64: 1>, groups = {groups} : i64}}
      : !spike.train<3x?x{all}x6>, tensor<4x{in}x2xf32> -> tensor<3x?x4x3xf32>
  func.return %y : tensor<3x?x4x3xf32>
}}"""


def trains(sizes: tuple[int, int], places: int, seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.random((3, 2, size, places)) < 0.4 for size in sizes]


@settings(max_examples=20)
@given(st.tuples(st.integers(1, 4), st.integers(1, 4)), st.booleans(), st.integers(0, 99))
def test_each_train_has_its_product(
    filled: Filled, apply_passes: ApplyPasses, sizes: tuple[int, int], conv: bool, seed: int
) -> None:
    a, b = sizes
    each = {"a": a, "b": b, "all": 2 * a + b, "rows": 2 * (2 * a + b), "in": 2 * a + b}
    module = filled((CONV if conv else LINEAR).format(**each, groups=1))
    x = trains(sizes, 6 if conv else 2, seed)
    (expected,) = run_module(module, x)
    text = apply_passes(module, "split-synapses")
    (found,) = run_module(module, x)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())
    assert "concatenate" not in text and text.count("spike.conv" if conv else "spike.linear") == 3


def test_groups_stay(filled: Filled, apply_passes: ApplyPasses) -> None:
    module = filled(CONV.format(a=1, b=2, all=4, groups=2, **{"in": 2}))
    assert "concatenate" in apply_passes(module, "split-synapses")
