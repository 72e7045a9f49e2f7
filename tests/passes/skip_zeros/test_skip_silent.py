"""`skip-silent` removes the neurons that cannot matter, those alone, and changes no bit."""

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
from triton_dsl.dialects.inference import tensor_type
from triton_dsl.dialects.interpret import run_module

Array = NDArray[Any]
Filled = Callable[..., ModuleOp]
ApplyPasses = Callable[[ModuleOp, str], str]


def chain(neuron: str, kind: str = "f32", element: str = "f32", threshold: bool = True) -> str:
    """Two layers of neurons and a synapse that reads the second."""
    holder, weight = ("ternary", "!ternary.trit") if kind == "trits" else ("tensor", kind)
    each = f"threshold(%t : tensor<6x{element}>) " if threshold else ""
    return f"""
func.func @forward(%x: !spike.train<?x?x5>) -> tensor<?x?x3x{element}> {{
  %w = {holder}.parameter "w" : tensor<5x6x{weight}>
  %b = tensor.parameter "b" : tensor<6x{element}>
  %t = tensor.parameter "t" : tensor<6x{element}>
  %v = {holder}.parameter "v" : tensor<6x4x{weight}>
  %u = {holder}.parameter "u" : tensor<4x3x{weight}>
  %i = spike.linear %x, %w bias(%b : tensor<6x{element}>)
      : !spike.train<?x?x5>, tensor<5x6x{weight}> -> tensor<?x?x6x{element}>
  %s = spike.{neuron.partition(" ")[0]} %i {each}{neuron.partition(" ")[2]}
      : (tensor<?x?x6x{element}>) -> !spike.train<?x?x6>
  %d = spike.delay %s {{steps = 1 : i64}} : (!spike.train<?x?x6>) -> !spike.train<?x?x6>
  %j = spike.linear %d, %v : !spike.train<?x?x6>, tensor<6x4x{weight}> -> tensor<?x?x4x{element}>
  %r = spike.integrate_fire %j : (tensor<?x?x4x{element}>) -> !spike.train<?x?x4>
  %o = spike.linear %r, %u : !spike.train<?x?x4>, tensor<4x3x{weight}> -> tensor<?x?x3x{element}>
  func.return %o : tensor<?x?x3x{element}>
}}"""


def widths(module: ModuleOp) -> list[int]:
    """How many neurons each firing op has."""
    return [
        tensor_type(op.input).get_shape()[2]
        for op in module.walk()
        if isinstance(op, spike.FiringOp)
    ]


NEURONS = [
    "lif {beta = 0.75 : f64}",
    'lif {beta = 0.5 : f64, v_leak = 0.5 : f64, compare = "gt", reset = "none"}',
    "lif {beta = 0.75 : f64, gain = -0.5 : f64}",
    "integrate_fire {gain = 0.5 : f64}",
    "cuba_lif {alpha = 0.5 : f64, beta = 0.75 : f64, w_in = -1.0 : f64, gain = 0.25 : f64}",
    "adaptive_lif {beta = 0.75 : f64, rho = 0.5 : f64, kappa = 0.25 : f64}",
]


@pytest.mark.parametrize("neuron", NEURONS, ids=range(len(NEURONS)))
@settings(max_examples=8)
@given(seed=st.integers(0, 2**32), bias=st.integers(-4, 2))
def test_results_stay_to_the_bit(
    filled: Filled, apply_passes: ApplyPasses, neuron: str, seed: int, bias: int
) -> None:
    rng = np.random.default_rng(seed)
    values = {
        "w": (rng.integers(-6, 4, (5, 6)) / 4).astype(np.float32),
        "b": (rng.integers(bias, bias + 3, 6) / 4).astype(np.float32),
        "t": (rng.integers(1, 12, 6) / 2).astype(np.float32),
        "v": (rng.integers(-3, 4, (6, 4)) * rng.integers(0, 2, (6, 1)) / 4).astype(np.float32),
        "u": (rng.integers(-3, 4, (4, 3)) * rng.integers(0, 2, (4, 1))).astype(np.float32),
    }
    module = filled(chain(neuron), values=values)
    x = rng.random((20, 2, 5)) < rng.choice([0.3, 0.9])
    (expected,) = run_module(module, [x])
    apply_passes(module, "skip-silent")
    (found,) = run_module(module, [x])
    np.testing.assert_array_equal(found, expected)
    # All neurons of the first layer that are left fire when they are driven for long, or they are
    # the last one; the drive has every pattern of inputs.
    patterns = np.array([[p >> k & 1 for k in range(5)] for p in range(32)], np.bool_)
    driven = np.repeat(patterns[None], 100, axis=0)
    (trains,) = run_module(without_end(module), [driven])
    silent = ~trains.any(axis=(0, 1))
    assert not silent.any() or trains.shape[-1] == 1


def without_end(module: ModuleOp) -> ModuleOp:
    """A module that gives the spikes of the first neurons."""
    copy = module.clone()
    (function,) = copy.ops
    block = function.regions[0].block
    neurons = next(op for op in block.ops if isinstance(op, spike.FiringOp))
    end = block.last_op
    assert end is not None
    end.operands = [neurons.output]
    function.update_function_type()  # pyright: ignore[reportAttributeAccessIssue]
    return copy


def test_what_is_silent_what_is_unheard_and_what_always_fires(
    filled: Filled, apply_passes: ApplyPasses
) -> None:
    w = np.zeros((5, 6), np.float32)
    w[:, 0] = -1  # no positive weight
    w[:, 1] = 0.2  # reaches 1, less a rounding: kept
    w[:, 2] = 0.5  # fires
    w[:, 3] = 0.5  # fires, unheard
    w[:, 4] = 0.5  # never reaches its threshold of 100
    # 5: no weight at all, a bias that fires at every step
    v = np.ones((6, 4), np.float32)
    v[3] = 0
    values = {
        "w": w,
        "b": np.array([0, 0, 0, 0, 0, 2], np.float32),
        "t": np.array([1, 1, 1, 1, 100, 1], np.float32),
        "v": v,
        "u": np.ones((4, 3), np.float32),
    }
    text = chain('lif {beta = 0.0 : f64, reset = "none"}')
    module = filled(text, values=values)
    found = apply_passes(module, "skip-silent")
    assert widths(module) == [3, 4]
    assert "w.pruned" not in found and "tensor<5x3xf32>" in found and "tensor<3x4xf32>" in found
    assert apply_passes(module, "skip-silent") == found
    x = np.ones((4, 1, 5), np.bool_)
    expected = run_module(filled(text, values=values), [x])
    np.testing.assert_array_equal(run_module(module, [x])[0], expected[0])
    assert expected[0].any()


def test_silence_spreads(filled: Filled, apply_passes: ApplyPasses) -> None:
    """Without the neurons that drove it, a neuron of the next layer is silent too."""
    values = {
        "w": np.array([[1, 1, -1, -1, -1, -1]] * 5, np.int8),
        "b": np.zeros(6, np.int32),
        "v": np.array([[1, 0, 0, -1]] * 2 + [[0, 1, 1, 1]] * 4, np.int8),
        "u": np.ones((4, 3), np.int8),
    }
    text = chain("lif {beta = 0.5 : f64}", "i8", "i32", False)
    text = text.replace("spike.lif %i {beta = 0.5 : f64}", "spike.integrate_fire %i")
    text = text.replace("<?x?x", "<9x?x")
    module = filled(text, values=values)
    x = np.random.default_rng(0).random((9, 2, 5)) < 0.5
    (expected,) = run_module(module, [x])
    apply_passes(module, "skip-silent")
    assert widths(module) == [2, 1]
    np.testing.assert_array_equal(run_module(module, [x])[0], expected)


def test_integers_may_wrap_around(filled: Filled, apply_passes: ApplyPasses) -> None:
    """A potential that falls for ever turns positive: without a number of steps it is kept."""
    values = {"w": -np.ones((5, 6), np.int8), "b": np.zeros(6, np.int32)}
    text = chain("integrate_fire", "i8", "i32", False).replace(
        "tensor<?x?x6xi32>) -> !spike.train<?x?x6>", "tensor<?x?x6xi32>) -> !spike.train<?x?x6>"
    )
    module = filled(text, values=values)
    apply_passes(module, "skip-silent")
    assert widths(module)[0] == 6


CONV = """
func.func @forward(%x: !spike.train<?x?x2x6x6>) -> tensor<?x3xf32> {
  %w = tensor.parameter "w" : tensor<4x2x3x3xf32>
  %t = tensor.parameter "t" : tensor<4x1x1xf32>
  %v = tensor.parameter "v" : tensor<36x3xf32>
  %i = spike.conv %x, %w {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>,
      dilation = array<i64: 1, 1>, groups = 1 : i64}
      : !spike.train<?x?x2x6x6>, tensor<4x2x3x3xf32> -> tensor<?x?x4x6x6xf32>
  %s = spike.lif %i threshold(%t : tensor<4x1x1xf32>) {beta = 0.5 : f64}
      : (tensor<?x?x4x6x6xf32>) -> !spike.train<?x?x4x6x6>
  %p = spike.max_pool %s {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>,
      padding = array<i64: 0, 0, 0, 0>} : (!spike.train<?x?x4x6x6>) -> !spike.train<?x?x4x3x3>
  %d = spike.to_tensor %p : (!spike.train<?x?x4x3x3>) -> tensor<?x?x4x3x3xf32>
  %f = tensor.flatten %d {start = 2 : i64, end = 4 : i64}
      : (tensor<?x?x4x3x3xf32>) -> tensor<?x?x36xf32>
  %g = spike.from_tensor %f : (tensor<?x?x36xf32>) -> !spike.train<?x?x36>
  %r = spike.decode %g {scheme = "rate"} : (!spike.train<?x?x36>) -> tensor<?x36xf32>
  %y = tensor.matmul %r, %v : (tensor<?x36xf32>, tensor<36x3xf32>) -> tensor<?x3xf32>
  func.return %y : tensor<?x3xf32>
}"""


def test_channels_of_convolutions_go_through_pools_to_the_readout(
    filled: Filled, apply_passes: ApplyPasses
) -> None:
    rng = np.random.default_rng(1)
    w = (rng.integers(-1, 3, (4, 2, 3, 3)) / 4).astype(np.float32)
    w[1] = -np.abs(w[1])
    v = (rng.integers(-3, 4, (36, 3)) / 4).astype(np.float32)
    v[27:] = 0
    values = {"w": w, "t": np.ones((4, 1, 1), np.float32), "v": v}
    module = filled(CONV, values=values)
    x = rng.random((8, 2, 2, 6, 6)) < 0.3
    (expected,) = run_module(module, [x])
    text = apply_passes(module, "skip-silent")
    assert widths(module) == [2] and "tensor<18x3xf32>" in text and "tensor<2x1x1xf32>" in text
    np.testing.assert_allclose(run_module(module, [x])[0], expected, rtol=1e-6)
    assert expected.any()


def test_synapses_of_zeros_leave_sums(filled: Filled, apply_passes: ApplyPasses) -> None:
    text = """
func.func @forward(%x: !spike.train<?x?x4>) -> tensor<?x?x3xf32> {
  %w = tensor.parameter "w" : tensor<4x3xf32>
  %z = tensor.constant dense<0.0> : tensor<4x3xf32>
  %i = spike.linear %x, %w : !spike.train<?x?x4>, tensor<4x3xf32> -> tensor<?x?x3xf32>
  %j = spike.linear %x, %z : !spike.train<?x?x4>, tensor<4x3xf32> -> tensor<?x?x3xf32>
  %k = tensor.add %j, %i : (tensor<?x?x3xf32>, tensor<?x?x3xf32>) -> tensor<?x?x3xf32>
  func.return %k : tensor<?x?x3xf32>
}"""
    module = filled(text)
    x = np.random.default_rng(1).random((3, 2, 4)) < 0.5
    (expected,) = run_module(module, [x])
    found = apply_passes(module, "skip-silent")
    assert found.count("spike.linear") == 1 and "tensor.add" not in found and "%z" not in found
    np.testing.assert_array_equal(run_module(module, [x])[0], expected)


def test_what_others_see_stays(filled: Filled, apply_passes: ApplyPasses) -> None:
    """A train that is a result, unknown weights, states and parameters from outside."""
    text = """
func.func @forward(%x: !spike.train<?x?x4>, %g: tensor<?x?x4xf32>, %v: tensor<?x3xf32>)
    -> (!spike.train<?x?x3>, tensor<?x?x3xf32>, tensor<?x?x3xf32>) {
  %w = tensor.constant dense<-1.0> : tensor<4x3xf32>
  %u = tensor.constant dense<1.0> : tensor<3x3xf32>
  %i = spike.linear %x, %w : !spike.train<?x?x4>, tensor<4x3xf32> -> tensor<?x?x3xf32>
  %a = spike.lif %i {beta = 0.5 : f64} : (tensor<?x?x3xf32>) -> !spike.train<?x?x3>
  %j = spike.linear %x, %w : !spike.train<?x?x4>, tensor<4x3xf32> -> tensor<?x?x3xf32>
  %b = spike.lif %j initial(%v : tensor<?x3xf32>) {beta = 0.5 : f64}
      : (tensor<?x?x3xf32>) -> !spike.train<?x?x3>
  %k = spike.linear %b, %u : !spike.train<?x?x3>, tensor<3x3xf32> -> tensor<?x?x3xf32>
  %l = spike.linear %g, %w : tensor<?x?x4xf32>, tensor<4x3xf32> -> tensor<?x?x3xf32>
  %c = spike.lif %l {beta = 0.5 : f64} : (tensor<?x?x3xf32>) -> !spike.train<?x?x3>
  %m = spike.linear %c, %u : !spike.train<?x?x3>, tensor<3x3xf32> -> tensor<?x?x3xf32>
  func.return %a, %k, %m
      : !spike.train<?x?x3>, tensor<?x?x3xf32>, tensor<?x?x3xf32>
}"""
    module = filled(text)
    before = str(module)
    assert apply_passes(module, "skip-silent") == before


def test_initial_states_count(filled: Filled, apply_passes: ApplyPasses) -> None:
    """A neuron may fire from where it begins; the states of those that go are cut out."""
    text = """
func.func @forward(%x: !spike.train<5x?x2>) -> tensor<5x?x2xi32> {
  %w = tensor.constant dense<[[1, -1, 3], [1, -2, 0]]> : tensor<2x3xi8>
  %v0 = tensor.constant dense<[[5, 5, 9]]> : tensor<1x3xi32>
  %u = tensor.constant dense<[[1, 1], [1, 1], [1, 2]]> : tensor<3x2xi8>
  %i = spike.linear %x, %w : !spike.train<5x?x2>, tensor<2x3xi8> -> tensor<5x?x3xi32>
  %f = tensor.constant dense<0.5> : tensor<f32>
  %c = spike.linear %x, %w scale(%f : tensor<f32>)
      : !spike.train<5x?x2>, tensor<2x3xi8> -> tensor<5x?x3xf32>
  %h = tensor.constant dense<[[4.0, 1.0, 0.5]]> : tensor<1x3xf32>
  %s = spike.lif %c initial(%h : tensor<1x3xf32>) {beta = 0.5 : f64, threshold = 2.0 : f64}
      : (tensor<5x?x3xf32>) -> !spike.train<5x?x3>
  %j = spike.linear %s, %u : !spike.train<5x?x3>, tensor<3x2xi8> -> tensor<5x?x2xi32>
  %t = spike.integrate_fire %i initial(%v0 : tensor<1x3xi32>) {threshold = 10.0 : f64}
      : (tensor<5x?x3xi32>) -> !spike.train<5x?x3>
  %k = spike.linear %t, %u : !spike.train<5x?x3>, tensor<3x2xi8> -> tensor<5x?x2xi32>
  %y = tensor.add %j, %k : (tensor<5x?x2xi32>, tensor<5x?x2xi32>) -> tensor<5x?x2xi32>
  func.return %y : tensor<5x?x2xi32>
}"""
    module = filled(text)
    x = np.random.default_rng(2).random((5, 3, 2)) < 0.7
    (expected,) = run_module(module, [x])
    found = apply_passes(module, "skip-silent")
    np.testing.assert_array_equal(run_module(module, [x])[0], expected)
    # Of the floats neuron 0 fires at once from 4·0.5; integers with an initial state are kept.
    assert widths(module) == [2, 3] and expected.any()
    assert "dense<[[4.000000e+00, 5.000000e-01]]> : tensor<1x2xf32>" in found


READERS = {
    "attention": "%y = spike.attention %s, %s, %s : (TR, TR, TR) -> TR",
    "layer": """%y = spike.layer %s, %w : (TR, tensor<4x4xf32>) -> TR {
  ^bb0(%a: TR, %c: tensor<4x4xf32>):
    %j = spike.linear %a, %c : TR, tensor<4x4xf32> -> tensor<?x?x3x4xf32>
    %o = spike.lif %j {beta = 0.5 : f64} : (tensor<?x?x3x4xf32>) -> TR
    spike.yield %o : TR
  }""",
    "feedback": """%y = spike.recurrent %s : (TR) -> TR {
  ^bb0(%a: TR, %f: TR):
    %u = tensor.constant dense<1.0> : tensor<4x4xf32>
    %j = spike.linear %f, %u : TR, tensor<4x4xf32> -> tensor<?x?x3x4xf32>
    %k = spike.linear %a, %u : TR, tensor<4x4xf32> -> tensor<?x?x3x4xf32>
    %l = tensor.add %j, %k
        : (tensor<?x?x3x4xf32>, tensor<?x?x3x4xf32>) -> tensor<?x?x3x4xf32>
    %o = spike.lif %l {beta = 0.5 : f64} : (tensor<?x?x3x4xf32>) -> TR
    spike.yield %o : TR
  }""",
}


@pytest.mark.parametrize("reader", READERS)
def test_readers_that_need_every_channel_keep_them(
    reader: str, filled: Filled, apply_passes: ApplyPasses
) -> None:
    text = f"""
func.func @forward(%x: TR) -> TR {{
  %w = tensor.constant dense<-1.0> : tensor<4x4xf32>
  %i = spike.linear %x, %w : TR, tensor<4x4xf32> -> tensor<?x?x3x4xf32>
  %s = spike.lif %i {{beta = 0.5 : f64}} : (tensor<?x?x3x4xf32>) -> TR
  {READERS[reader]}
  func.return %y : TR
}}""".replace("TR", "!spike.train<?x?x3x4>")
    module = filled(text)
    before = str(module)
    assert apply_passes(module, "skip-silent") == before
