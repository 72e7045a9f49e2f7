"""`expose-state`: a run that is cut anywhere and handed its states gives the bits of one run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, TensorType

from triton_dsl.dialects.elements import numpy_dtype
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.registry import parse_module, triton_context, verify_module
from triton_dsl.ir.errors import PassError
from triton_dsl.ir.interpreter import entry_function
from triton_dsl.passes.expose_state import ExposeStatePass, state_count
from triton_dsl.passes.infer_shapes import InferShapesPass

Array = NDArray[Any]

BATCH = 2

NEURONS = """
func.func @forward(%x: tensor<?x?x4xf32>, %v: tensor<?x4xf32>) -> (!spike.train<?x?x4>,
    !spike.train<?x?x4>, tensor<?x?x4xf32>, tensor<?x?x4xf32>, tensor<?x?x4xf32>,
    !spike.train<?x?x4>, !spike.train<?x?x4>) {
  %half = tensor.constant dense<0.375> : tensor<1x4xf32>
  %k = tensor.constant dense<[0, 2, 3, 1]> : tensor<4xi64>
  %a, %last = spike.lif %x initial(%v : tensor<?x4xf32>) {beta = 0.75 : f64}
      : (tensor<?x?x4xf32>) -> (!spike.train<?x?x4>, tensor<?x4xf32>)
  %b = spike.cuba_lif %x {alpha = 0.5 : f64, beta = 0.875 : f64, threshold = 0.5 : f64}
      : (tensor<?x?x4xf32>) -> !spike.train<?x?x4>
  %c = spike.leaky_integrator %x initial(%half : tensor<1x4xf32>) {beta = 0.75 : f64}
      : (tensor<?x?x4xf32>) -> tensor<?x?x4xf32>
  %d = spike.delay %c {steps = 2 : i64} : (tensor<?x?x4xf32>) -> tensor<?x?x4xf32>
  %e = spike.sigma_delta %x {threshold = 0.25 : f64, cumulative = true}
      : (tensor<?x?x4xf32>) -> tensor<?x?x4xf32>
  %f = spike.delay %b delays(%k : tensor<4xi64>) {steps = 3 : i64}
      : (!spike.train<?x?x4>) -> !spike.train<?x?x4>
  %g = spike.encode %x {scheme = "delta", threshold = 0.5 : f64}
      : (tensor<?x?x4xf32>) -> !spike.train<?x?x4>
  %h = spike.adaptive_lif %x {beta = 0.75 : f64, rho = 0.5 : f64, kappa = 0.5 : f64}
      : (tensor<?x?x4xf32>) -> !spike.train<?x?x4>
  func.return %a, %f, %d, %e, %c, %g, %h : !spike.train<?x?x4>, !spike.train<?x?x4>,
      tensor<?x?x4xf32>, tensor<?x?x4xf32>, tensor<?x?x4xf32>, !spike.train<?x?x4>,
      !spike.train<?x?x4>
}
"""

FEEDBACK = """
func.func @forward(%x: tensor<?x?x4xf32>) -> !spike.train<?x?x4> {
  %w = tensor.constant dense<[[0.5, 0.0, 0.25, 0.0], [0.0, -0.5, 0.0, 1.0],
      [0.25, 0.25, 0.25, 0.25], [-1.0, 0.5, 0.0, 0.0]]> : tensor<4x4xf32>
  %v = tensor.constant dense<0.5> : tensor<1x4xf32>
  %before = tensor.constant dense<true> : tensor<1x1x4xi1>
  %first = spike.from_tensor %before : (tensor<1x1x4xi1>) -> !spike.train<1x1x4>
  %y = spike.recurrent %x, %w, %v
      : (tensor<?x?x4xf32>, tensor<4x4xf32>, tensor<1x4xf32>) -> !spike.train<?x?x4> {
  ^bb0(%i: tensor<?x?x4xf32>, %r: tensor<4x4xf32>, %v0: tensor<1x4xf32>, %f: !spike.train<?x?x4>):
    %late = spike.delay %f {steps = 2 : i64} : (!spike.train<?x?x4>) -> !spike.train<?x?x4>
    %back = spike.linear %late, %r : !spike.train<?x?x4>, tensor<4x4xf32> -> tensor<?x?x4xf32>
    %sum = tensor.add %i, %back
        : (tensor<?x?x4xf32>, tensor<?x?x4xf32>) -> tensor<?x?x4xf32>
    %l = spike.layer %f, %r
        : (!spike.train<?x?x4>, tensor<4x4xf32>) -> !spike.train<?x?x4> {
    ^bb0(%p: !spike.train<?x?x4>, %q: tensor<4x4xf32>):
      %m = spike.linear %p, %q : !spike.train<?x?x4>, tensor<4x4xf32> -> tensor<?x?x4xf32>
      %n = spike.integrate_fire %m : (tensor<?x?x4xf32>) -> !spike.train<?x?x4>
      spike.yield %n : !spike.train<?x?x4>
    }
    %more = spike.linear %l, %r : !spike.train<?x?x4>, tensor<4x4xf32> -> tensor<?x?x4xf32>
    %all = tensor.add %sum, %more
        : (tensor<?x?x4xf32>, tensor<?x?x4xf32>) -> tensor<?x?x4xf32>
    %s = spike.lif %all initial(%v0 : tensor<1x4xf32>) {beta = 0.75 : f64}
        : (tensor<?x?x4xf32>) -> !spike.train<?x?x4>
    spike.yield %s : !spike.train<?x?x4>
  }
  %z = spike.recurrent %y initial(%first : !spike.train<1x1x4>)
      : (!spike.train<?x?x4>) -> !spike.train<?x?x4> {
  ^bb0(%i: !spike.train<?x?x4>, %f: !spike.train<?x?x4>):
    %p = spike.to_tensor %i : (!spike.train<?x?x4>) -> tensor<?x?x4xi32>
    %q = spike.to_tensor %f : (!spike.train<?x?x4>) -> tensor<?x?x4xi32>
    %r = tensor.sub %p, %q
        : (tensor<?x?x4xi32>, tensor<?x?x4xi32>) -> tensor<?x?x4xi32>
    %s = spike.from_tensor %r : (tensor<?x?x4xi32>) -> !spike.train<?x?x4>
    spike.yield %s : !spike.train<?x?x4>
  }
  func.return %z : !spike.train<?x?x4>
}
"""

LAYER = """
func.func @forward(%x: tensor<?x?x4xf32>) -> !spike.train<?x?x3> {
  %w = tensor.constant dense<0.25> : tensor<4x3xf32>
  %v = tensor.constant dense<0.5> : tensor<1x3xf32>
  %s = spike.layer %x, %w, %v
      : (tensor<?x?x4xf32>, tensor<4x3xf32>, tensor<1x3xf32>) -> !spike.train<?x?x3> {
  ^bb0(%a: tensor<?x?x4xf32>, %b: tensor<4x3xf32>, %c: tensor<1x3xf32>):
    %i = spike.linear %a, %b : tensor<?x?x4xf32>, tensor<4x3xf32> -> tensor<?x?x3xf32>
    %o = spike.lif %i initial(%c : tensor<1x3xf32>) {beta = 0.75 : f64}
        : (tensor<?x?x3xf32>) -> !spike.train<?x?x3>
    spike.yield %o : !spike.train<?x?x3>
  }
  func.return %s : !spike.train<?x?x3>
}
"""


def exposed(text: str) -> ModuleOp:
    module = parse_module(text)
    ExposeStatePass().apply(triton_context(), module)
    verify_module(module)
    return module


def zero_states(module: ModuleOp, batch: int = BATCH) -> list[Array]:
    function = entry_function(module, "forward")
    types = list(function.function_type.inputs)[len(function.args) - state_count(function) :]
    return [
        np.zeros([batch if n < 0 else n for n in t.get_shape()], numpy_dtype(t.element_type))
        for t in types
        if isinstance(t, TensorType)
    ]


def in_slices(
    module_of: Callable[[int], ModuleOp], inputs_of: Callable[[int, int], list[Array]], ends: Any
) -> list[Array]:
    """The results of slices that end at `ends`, one after the other, each put together."""
    states, begin = zero_states(module_of(1)), 0
    parts: list[list[Array]] = []
    for end in ends:
        module = module_of(end - begin)
        results = list(run_module(module, [*inputs_of(begin, end), *states]))
        cut = len(results) - len(states)
        parts.append(results[:cut])
        states, begin = results[cut:], end
    return [np.concatenate(part) for part in zip(*parts, strict=True)]


@pytest.mark.parametrize("text", [NEURONS, FEEDBACK, LAYER], ids=["neurons", "feedback", "layer"])
@given(cuts=st.sets(st.integers(1, 11)), seed=st.integers(0, 2**32))
@settings(max_examples=15)
def test_slices_give_the_bits_of_one_run(text: str, cuts: set[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    # Eighths sum exactly in any order.
    x = (rng.integers(-8, 14, (12, BATCH, 4)) / 8).astype(np.float32)
    start = (rng.integers(-4, 5, (BATCH, 4)) / 4).astype(np.float32)
    more = [start] if text is NEURONS else []
    expected = run_module(parse_module(text), [x, *more])
    module = exposed(text)
    found = in_slices(
        lambda steps: module, lambda begin, end: [x[begin:end], *more], [*sorted(cuts), 12]
    )
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("scheme", ["rate", "regular", "latency", "phase", "direct"])
def test_encoders_go_on_counting(scheme: str) -> None:
    properties = {
        "rate": ", seed = 5 : i64",
        "latency": ", period = 12 : i64",
        "phase": ", period = 5 : i64",
    }

    more = properties.get(scheme, "")

    def text(steps: int) -> str:
        kind = f"tensor<{steps}x?x4xf32>" if scheme == "direct" else f"!spike.train<{steps}x?x4>"
        return f"""
func.func @forward(%x: tensor<?x4xf32>) -> {kind} {{
  %s = spike.encode %x {{scheme = "{scheme}", timesteps = {steps} : i64{more}}}
      : (tensor<?x4xf32>) -> {kind}
  func.return %s : {kind}
}}"""

    x = np.random.default_rng(3).random((BATCH, 4), np.float32)
    (expected,) = run_module(parse_module(text(12)), [x])
    (found,) = in_slices(lambda steps: exposed(text(steps)), lambda begin, end: [x], [3, 4, 12])
    np.testing.assert_array_equal(found, expected)


def test_attention_keeps_its_potential() -> None:
    q = "!spike.train<?x?x3x4>"
    text = f"""
func.func @forward(%q: {q}, %k: {q}, %v: {q}) -> ({q}, {q}) {{
  %a = spike.attention %q, %k, %v {{heads = 2 : i64}} : ({q}, {q}, {q}) -> {q}
  %b = spike.attention %q, %k, %v {{kind = "sdsa"}} : ({q}, {q}, {q}) -> {q}
  func.return %a, %b : {q}, {q}
}}"""
    rng = np.random.default_rng(4)
    inputs = [rng.random((9, BATCH, 3, 4)) < 0.4 for _ in range(3)]
    module = exposed(text)
    found = in_slices(lambda _: module, lambda b, e: [x[b:e] for x in inputs], [2, 5, 9])
    for a, b in zip(found, run_module(parse_module(text), inputs), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_fixed_batch_reaches_the_states() -> None:
    other = "func.func @other(%x: tensor<?xf32>) -> tensor<?xf32> {func.return %x : tensor<?xf32>}"
    module = exposed(NEURONS + other)
    InferShapesPass(batch=3).apply(triton_context(), module)
    verify_module(module)
    assert "@other(%x: tensor<3xf32>) -> tensor<3xf32>" in str(module)
    function = entry_function(module, "forward")
    states = list(function.function_type.inputs)[-state_count(function) :]
    shapes = [t.get_shape() for t in states if isinstance(t, TensorType)]
    assert (3, 3, 4) in shapes and (2, 3, 4) in shapes and () in shapes
    assert all(n >= 0 for shape in shapes for n in shape)


def test_a_second_time_changes_nothing() -> None:
    module = exposed(FEEDBACK)
    text = str(module)
    ExposeStatePass().apply(triton_context(), module)
    assert str(module) == text


def test_programs_without_state_stay() -> None:
    text = "func.func @forward(%x: tensor<?xf32>) -> tensor<?xf32> {func.return %x : tensor<?xf32>}"
    module = exposed(text)
    assert state_count(entry_function(module, "forward")) == 0


def test_a_state_that_is_the_feedback_is_carried_by_it() -> None:
    """The potential after each step: all steps side by side, each from the one before."""
    text = """
func.func @forward(%x: tensor<?x?x4xf32>) -> tensor<?x?x4xf32> {
  %v = spike.recurrent %x : (tensor<?x?x4xf32>) -> tensor<?x?x4xf32> {
  ^bb0(%i: tensor<?x?x4xf32>, %f: tensor<?x?x4xf32>):
    %j = tensor.reshape_to %i {shape = array<i64: 1, -1, 4>}
        : (tensor<?x?x4xf32>) -> tensor<1x?x4xf32>
    %b = tensor.reshape_to %f {shape = array<i64: -1, 4>} : (tensor<?x?x4xf32>) -> tensor<?x4xf32>
    %s, %e = spike.lif %j initial(%b : tensor<?x4xf32>) {beta = 0.75 : f64}
        : (tensor<1x?x4xf32>) -> (!spike.train<1x?x4>, tensor<?x4xf32>)
    %y = tensor.reshape_to %e {shape = array<i64: -1, 2, 4>}
        : (tensor<?x4xf32>) -> tensor<?x?x4xf32>
    spike.yield %y : tensor<?x?x4xf32>
  }
  func.return %v : tensor<?x?x4xf32>
}"""
    x = (np.random.default_rng(6).integers(-8, 14, (9, BATCH, 4)) / 8).astype(np.float32)
    module = exposed(text)
    assert state_count(entry_function(module, "forward")) == 1
    (found,) = in_slices(lambda _: module, lambda b, e: [x[b:e]], [4, 9])
    np.testing.assert_array_equal(found, run_module(parse_module(text), [x])[0])
    v = np.zeros((BATCH, 4), np.float32)
    for t in range(9):
        v = np.float32(0.75) * v + x[t]
        v = np.where(v >= 1, v - 1, v)
        np.testing.assert_array_equal(found[t], v)


def test_calls_of_functions_with_states_are_refused() -> None:
    text = (
        LAYER.replace("@forward", "@part")
        + """
func.func @forward(%x: tensor<?x?x4xf32>) -> !spike.train<?x?x3> {
  %y = func.call @part(%x) : (tensor<?x?x4xf32>) -> !spike.train<?x?x3>
  func.return %y : !spike.train<?x?x3>
}"""
    )
    with pytest.raises(PassError, match="@part, which has states; inline it first"):
        exposed(text)
