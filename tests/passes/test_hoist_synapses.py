"""`hoist-synapses` moves what does not depend on feedback, and changes no bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects import spike
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.registry import parse_module

Array = NDArray[Any]
Filled = Callable[..., ModuleOp]
ApplyPasses = Callable[[ModuleOp, str], str]

BODY = """
func.func @forward(%x: !spike.train<STEPSx?x4>, %v: tensor<?x3xf32>)
    -> (!spike.train<STEPSx?x3>, !spike.train<STEPSx?x3>, tensor<?x3xf32>) {
  %k = tensor.parameter "outer" : tensor<3x3xf32>
  %y, %z, %e = spike.recurrent %x, %k, %v
      : (!spike.train<STEPSx?x4>, tensor<3x3xf32>, tensor<?x3xf32>)
      -> (!spike.train<STEPSx?x3>, !spike.train<STEPSx?x3>, tensor<?x3xf32>) {
  ^bb0(%a: !spike.train<STEPSx?x4>, %b: tensor<3x3xf32>, %v0: tensor<?x3xf32>,
       %f: !spike.train<STEPSx?x3>):
    %t = ternary.parameter "inner" : tensor<4x3x!ternary.trit>
    %w = ternary.dequantize %t : (tensor<4x3x!ternary.trit>) -> tensor<4x3xf32>
    %i = spike.linear %a, %w : !spike.train<STEPSx?x4>, tensor<4x3xf32> -> tensor<STEPSx?x3xf32>
    %s, %end = spike.lif %i initial(%v0 : tensor<?x3xf32>) {beta = 0.5 : f64}
        : (tensor<STEPSx?x3xf32>) -> (!spike.train<STEPSx?x3>, tensor<?x3xf32>)
    %j = spike.linear %s, %b : !spike.train<STEPSx?x3>, tensor<3x3xf32> -> tensor<STEPSx?x3xf32>
    %l = spike.linear %f, %b : !spike.train<STEPSx?x3>, tensor<3x3xf32> -> tensor<STEPSx?x3xf32>
    %m = tensor.add %j, %l
        : (tensor<STEPSx?x3xf32>, tensor<STEPSx?x3xf32>) -> tensor<STEPSx?x3xf32>
    %o = spike.lif %m {beta = 0.5 : f64} : (tensor<STEPSx?x3xf32>) -> !spike.train<STEPSx?x3>
    spike.yield %o, %s, %end
        : !spike.train<STEPSx?x3>, !spike.train<STEPSx?x3>, tensor<?x3xf32>
  }
  func.return %y, %z, %e
      : !spike.train<STEPSx?x3>, !spike.train<STEPSx?x3>, tensor<?x3xf32>
}"""


def check_same(module: ModuleOp, inputs: list[Array], apply_passes: ApplyPasses) -> str:
    expected = run_module(module, inputs)
    text = apply_passes(module, "hoist-synapses")
    for a, b in zip(run_module(module, inputs), expected, strict=True):
        np.testing.assert_array_equal(a, b)
    return text


@pytest.mark.parametrize("steps", ["?", "7"])
@settings(max_examples=10)
@given(seed=st.integers(0, 2**32))
def test_the_part_without_feedback_leaves(
    filled: Filled, apply_passes: ApplyPasses, steps: str, seed: int
) -> None:
    module = filled(BODY.replace("STEPS", steps), seed)
    rng = np.random.default_rng(seed)
    x = rng.random((7, 2, 4)) < 0.5
    text = check_same(module, [x, rng.normal(size=(2, 3)).astype(np.float32)], apply_passes)
    (run,) = (op for op in module.walk() if isinstance(op, spike.RecurrentOp))
    inside = [op.name for op in run.body.walk()]
    assert inside == ["spike.linear", "tensor.add", "spike.lif", "spike.yield"]
    # The current has the axes of the input that it comes from, so that is no longer needed.
    assert len(run.inputs) == 2 and len(run.results) == 1
    assert apply_passes(module, "hoist-synapses") == text


def test_an_input_that_tells_the_sizes_stays(apply_passes: ApplyPasses) -> None:
    """The number of steps is that of the input, which is used in no other way."""
    text = """
func.func @forward(%x: tensor<?x?x2xf32>) -> tensor<?x?x4xf32> {
  %y = spike.recurrent %x : (tensor<?x?x2xf32>) -> tensor<?x?x4xf32> {
  ^bb0(%a: tensor<?x?x2xf32>, %f: tensor<?x?x4xf32>):
    %m = tensor.reduce_sum %a {axes = array<i64: 0, 1, 2>, keepdims = false}
        : (tensor<?x?x2xf32>) -> tensor<f32>
    %s = tensor.add %f, %m : (tensor<?x?x4xf32>, tensor<f32>) -> tensor<?x?x4xf32>
    spike.yield %s : tensor<?x?x4xf32>
  }
  func.return %y : tensor<?x?x4xf32>
}"""
    module = parse_module(text)
    x = np.ones((3, 2, 2), np.float32)
    found = check_same(module, [x], apply_passes)
    (run,) = (op for op in module.walk() if isinstance(op, spike.RecurrentOp))
    assert len(run.inputs) == 2 and "tensor.reduce_sum" in found


@pytest.mark.parametrize("initial", [False, True])
def test_feedback_that_nothing_depends_on_is_a_delay(
    apply_passes: ApplyPasses, initial: bool
) -> None:
    given_before = "initial(%b : !spike.train<1x?x4>)" if initial else ""
    text = f"""
func.func @forward(%x: !spike.train<?x?x4>, %b: !spike.train<1x?x4>)
    -> (!spike.train<?x?x4>, tensor<?x?x4xf32>) {{
  %y, %z = spike.recurrent %x {given_before}
      : (!spike.train<?x?x4>) -> (!spike.train<?x?x4>, tensor<?x?x4xf32>) {{
  ^bb0(%a: !spike.train<?x?x4>, %f: !spike.train<?x?x4>):
    %d = spike.delay %a {{steps = 2 : i64}} : (!spike.train<?x?x4>) -> !spike.train<?x?x4>
    %t = spike.to_tensor %f : (!spike.train<?x?x4>) -> tensor<?x?x4xf32>
    spike.yield %d, %t : !spike.train<?x?x4>, tensor<?x?x4xf32>
  }}
  func.return %y, %z : !spike.train<?x?x4>, tensor<?x?x4xf32>
}}"""
    rng = np.random.default_rng(0)
    inputs: list[Array] = [rng.random((6, 2, 4)) < 0.5, rng.random((1, 2, 4)) < 0.5]
    found = check_same(parse_module(text), inputs, apply_passes)
    assert "spike.recurrent" not in found and found.count("spike.delay") == 2


@pytest.mark.parametrize("spikes", [False, True])
def test_constant_inputs_are_weighted_once(
    filled: Filled, apply_passes: ApplyPasses, spikes: bool
) -> None:
    element, run = ("i1", "!spike.train<9x?x") if spikes else ("f32", "tensor<9x?x")
    end = ">" if spikes else "xf32>"
    pool = "max_pool" if spikes else "avg_pool"
    text = f"""
func.func @forward(%x: tensor<?x2x6x6x{element}>) -> !spike.train<9x?x3x3x3> {{
  %w = tensor.parameter "w" : tensor<3x2x1x1xf32>
  %e = spike.encode %x {{scheme = "direct", timesteps = 9 : i64}}
      : (tensor<?x2x6x6x{element}>) -> {run}2x6x6{end}
  %p = spike.{pool} %e {{kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>,
      padding = array<i64: 0, 0, 0, 0>}} : ({run}2x6x6{end}) -> {run}2x3x3{end}
  %i = spike.conv %p, %w {{strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>,
      dilation = array<i64: 1, 1>, groups = 1 : i64}}
      : {run}2x3x3{end}, tensor<3x2x1x1xf32> -> tensor<9x?x3x3x3xf32>
  %s = spike.lif %i {{beta = 0.75 : f64}}
      : (tensor<9x?x3x3x3xf32>) -> !spike.train<9x?x3x3x3>
  func.return %s : !spike.train<9x?x3x3x3>
}}"""
    rng = np.random.default_rng(5)
    x: Array = rng.random((2, 2, 6, 6)).astype(np.float32)
    module = filled(text)
    found = check_same(module, [x > 0.5 if spikes else x], apply_passes)
    assert "tensor<1x?x2x3x3" in found or "!spike.train<1x?x2x3x3" in found
    convolutions = [op for op in module.walk() if isinstance(op, spike.ConvOp)]
    assert [str(op.result.type) for op in convolutions] == ["tensor<1x?x3x3x3xf32>"]
    assert apply_passes(module, "hoist-synapses") == found
