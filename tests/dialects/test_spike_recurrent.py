"""Feedback: what `spike.recurrent` computes, step by step, and what it refuses."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import TritonError, UnsupportedError

Array = NDArray[Any]

NETWORK = """
func.func @forward(%x: tensor<?x?x4xf32>, %w: tensor<4x4xf32>, %b: !spike.train<1x?x4>,
                   %v: tensor<?x4xf32>) -> (!spike.train<?x?x4>, tensor<?x4xf32>) {
  %y, %last = spike.recurrent %x, %w, %v initial(%b : !spike.train<1x?x4>)
      : (tensor<?x?x4xf32>, tensor<4x4xf32>, tensor<?x4xf32>)
      -> (!spike.train<?x?x4>, tensor<?x4xf32>) {
  ^bb0(%i: tensor<?x?x4xf32>, %r: tensor<4x4xf32>, %v0: tensor<?x4xf32>, %f: !spike.train<?x?x4>):
    %back = spike.linear %f, %r : !spike.train<?x?x4>, tensor<4x4xf32> -> tensor<?x?x4xf32>
    %sum = tensor.add %i, %back
        : (tensor<?x?x4xf32>, tensor<?x?x4xf32>) -> tensor<?x?x4xf32>
    %s, %v1 = spike.lif %sum initial(%v0 : tensor<?x4xf32>) {beta = 0.75 : f64}
        : (tensor<?x?x4xf32>) -> (!spike.train<?x?x4>, tensor<?x4xf32>)
    spike.yield %s, %v1 : !spike.train<?x?x4>, tensor<?x4xf32>
  }
  func.return %y, %last : !spike.train<?x?x4>, tensor<?x4xf32>
}
"""
MODULE = parse_module(NETWORK)


@given(st.integers(1, 12), st.integers(0, 12), st.integers(0, 2**32))
def test_a_recurrent_layer_steps_with_a_unit_delay(steps: int, cut: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    # Quarters sum exactly in any order.
    x = (rng.integers(-2, 6, (steps, 3, 4)) / 4).astype(np.float32)
    w = (rng.integers(-4, 5, (4, 4)) / 4).astype(np.float32)
    before = rng.random((1, 3, 4)) < 0.5
    v0 = (rng.integers(-4, 4, (3, 4)) / 4).astype(np.float32)

    y, last = run_module(MODULE, [x, w, before, v0])
    fed, v = before[0], v0
    for t in range(steps):
        v = np.float32(0.75) * v + (x[t] + fed.astype(np.float32) @ w)
        fed = v >= 1
        v = np.where(fed, v - 1, v).astype(np.float32)
        np.testing.assert_array_equal(y[t], fed)
    np.testing.assert_array_equal(last, v)

    cut = min(cut, steps - 1)
    if cut:
        first, state = run_module(MODULE, [x[:cut], w, before, v0])
        second, end = run_module(MODULE, [x[cut:], w, first[-1:], state])
        np.testing.assert_array_equal(np.concatenate([first, second]), y)
        np.testing.assert_array_equal(end, last)


def module_with(body: str, type: str = "tensor<6x2xf32>") -> Any:
    return parse_module(f"""
func.func @forward(%x: tensor<6x2xf32>) -> {type} {{
  %y = spike.recurrent %x : (tensor<6x2xf32>) -> {type} {{
  ^bb0(%i: tensor<6x2xf32>, %f: {type}):
    {body}
  }}
  func.return %y : {type}
}}""")


def test_feedback_of_graded_spikes_sums_up() -> None:
    module = module_with(
        """%s = tensor.add %i, %f : (tensor<6x2xf32>, tensor<6x2xf32>) -> tensor<6x2xf32>
    spike.yield %s : tensor<6x2xf32>"""
    )
    x = np.arange(12, dtype=np.float32).reshape(6, 2)
    np.testing.assert_array_equal(run_module(module, [x])[0], np.cumsum(x, axis=0))


def test_a_body_with_a_delay_and_nan() -> None:
    """y[t] = x[t] + y[t-3]: two steps of delay and the unit one; NaN comes back."""
    module = module_with(
        """%d = spike.delay %f {steps = 2 : i64} : (tensor<6x2xf32>) -> tensor<6x2xf32>
    %s = tensor.add %i, %d : (tensor<6x2xf32>, tensor<6x2xf32>) -> tensor<6x2xf32>
    spike.yield %s : tensor<6x2xf32>"""
    )
    x = np.array([[1, np.nan], [2, 0], [3, 0], [4, 1], [5, 0], [6, 0]], np.float32)
    expected = np.array([[1, np.nan], [2, 0], [3, 0], [5, np.nan], [7, 0], [9, 0]], np.float32)
    np.testing.assert_array_equal(run_module(module, [x])[0], expected)


def test_a_body_that_looks_ahead_is_refused() -> None:
    module = module_with(
        """%m = tensor.reduce_sum %f {axes = array<i64: 0>, keepdims = true}
        : (tensor<6x2xf32>) -> tensor<1x2xf32>
    %one = tensor.constant dense<1.0> : tensor<f32>
    %n = tensor.add %m, %one : (tensor<1x2xf32>, tensor<f32>) -> tensor<1x2xf32>
    %s = tensor.add %i, %n : (tensor<6x2xf32>, tensor<1x2xf32>) -> tensor<6x2xf32>
    spike.yield %s : tensor<6x2xf32>"""
    )
    with pytest.raises(TritonError, match="the body is not causal"):
        run_module(module, [np.ones((6, 2), np.float32)])


def test_unknown_ops_in_a_body_are_named() -> None:
    module = module_with(
        """%e = arith.constant dense<0.0> : tensor<6x2xf32>
    spike.yield %e : tensor<6x2xf32>"""
    )
    with pytest.raises(UnsupportedError, match=r"arith\.constant"):
        run_module(module, [np.ones((6, 2), np.float32)])
