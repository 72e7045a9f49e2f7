"""Canonicalisation keeps every bit, for any weights, gains and spikes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, f32, f64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.rewriter import InsertPoint
from xdsl.transforms.canonicalize import CanonicalizePass

from triton_dsl.dialects import spike, tensor, ternary
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import dense_constant
from triton_dsl.dialects.registry import parse_module, verify_module

Array = NDArray[Any]

SCALES = st.one_of(
    st.sampled_from([1.0, 2.0, 0.5, -4.0, 2.0**-30, 2.0**90, 0.7, 0.1, -3.0]),
    st.floats(-1e3, 1e3, width=32),
)


@settings(max_examples=60)
@given(st.data())
def test_gains_and_scales_move_without_a_trace(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    element, dtype = data.draw(st.sampled_from([(f32, np.float32), (f64, np.float64)]))
    size = data.draw(st.sampled_from([1.0, 1e-35, 1e30]))
    weight = (rng.standard_normal((6, 3)) * size).astype(dtype)
    constant = data.draw(st.booleans())
    function = FuncOp("forward", ([spike.train(9, 2, 6), TensorType(element, [6, 3])], []))
    s, w = function.args
    builder = Builder(InsertPoint.at_end(function.body.block))

    def scalar(value: float) -> Any:
        return builder.insert(dense_constant(np.asarray(value, dtype), element)).result

    matrix = builder.insert(dense_constant(weight, element)).result if constant else w
    exact = data.draw(st.booleans())
    if exact:
        trits = rng.integers(-1, 2, 18).tolist()
        matrix = builder.insert(ternary.ConstantOp(trits, (6, 3))).result
    options: dict[str, Any] = {}
    if exact or data.draw(st.booleans()):
        options["scale"] = scalar(data.draw(SCALES))
    if data.draw(st.booleans()):
        bias = (rng.standard_normal(3) * size).astype(dtype)
        options["bias"] = builder.insert(dense_constant(bias, element)).result
    current: Any = builder.insert(spike.LinearOp(s, matrix, **options)).result
    if data.draw(st.booleans()):
        current = builder.insert(tensor.MulOp(scalar(data.draw(SCALES)), current)).result
    gain = data.draw(st.none() | SCALES)
    kind: Any = data.draw(st.sampled_from([spike.LifOp, spike.LeakyIntegratorOp]))
    neuron = builder.insert(kind(current, 0.9, gain=gain))
    builder.insert(ReturnOp(neuron.output))
    function.update_function_type()
    module = ModuleOp([function])

    spikes = rng.random((9, 2, 6)) < 0.5
    before = run_module(module, [spikes, weight])
    CanonicalizePass().apply(Context(), module)
    module.verify()
    np.testing.assert_array_equal(run_module(module, [spikes, weight])[0], before[0])


def canonicalized(text: str, inputs: list[Array]) -> str:
    """The canonical text of a program that gives the same bits before and after."""
    module = parse_module(text)
    before = run_module(module, inputs)
    CanonicalizePass().apply(Context(), module)
    verify_module(module)
    for found, expected in zip(run_module(module, inputs), before, strict=True):
        np.testing.assert_array_equal(found, expected)
    return str(module)


NEURONS = {
    "lif {beta = 1.0 : f64, v_leak = 0.5 : f64, gain = 0.3 : f64}": "spike.integrate_fire",
    'lif {beta = 1.0 : f64, threshold = 0.7 : f64, compare = "gt", reset = "to_value", '
    "v_reset = 0.25 : f64}": "spike.integrate_fire",
    "cuba_lif {alpha = 0.0 : f64, beta = 0.75 : f64, gain = 0.5 : f64}": "spike.lif",
    "cuba_lif {alpha = 0.0 : f64, beta = 1.0 : f64}": "spike.integrate_fire",
    "adaptive_lif {beta = 0.9 : f64, rho = 0.5 : f64, kappa = 0.0 : f64, "
    "v_leak = 0.1 : f64}": "spike.lif",
    "lif {beta = 0.99 : f64}": "spike.lif",
    "cuba_lif {alpha = 0.0 : f64, beta = 0.75 : f64, w_in = 0.5 : f64}": "spike.cuba_lif",
}


@pytest.mark.parametrize("neuron", NEURONS)
def test_neurons_become_the_simplest_that_they_are(neuron: str) -> None:
    kind, _, properties = neuron.partition(" ")
    text = f"""
func.func @forward(%x: tensor<?x?x4xf32>, %v: tensor<?x4xf32>) -> !spike.train<?x?x4> {{
  %s = spike.{kind} %x {properties} : (tensor<?x?x4xf32>) -> !spike.train<?x?x4>
  func.return %s : !spike.train<?x?x4>
}}"""
    x = np.random.default_rng(0).normal(size=(30, 3, 4)).astype(np.float32)
    found = canonicalized(text, [x, x[0]])
    assert f"{NEURONS[neuron]} %x" in found


def test_states_go_with_the_neuron_or_keep_it() -> None:
    text = """
func.func @forward(%x: tensor<?x?x4xf32>, %v: tensor<?x4xf32>)
    -> (tensor<?x4xf32>, tensor<?x4xf32>) {
  %s, %a = spike.lif %x initial(%v : tensor<?x4xf32>) {beta = 1.0 : f64}
      : (tensor<?x?x4xf32>) -> (!spike.train<?x?x4>, tensor<?x4xf32>)
  %t, %c, %b = spike.cuba_lif %x {alpha = 0.0 : f64, beta = 0.5 : f64}
      : (tensor<?x?x4xf32>) -> (!spike.train<?x?x4>, tensor<?x4xf32>, tensor<?x4xf32>)
  func.return %a, %c : tensor<?x4xf32>, tensor<?x4xf32>
}"""
    x = np.random.default_rng(1).normal(size=(9, 3, 4)).astype(np.float32)
    found = canonicalized(text, [x, x[0]])
    assert "spike.integrate_fire %x initial(%v" in found and "spike.cuba_lif" in found


@pytest.mark.parametrize("conv", [False, True])
@pytest.mark.parametrize("exact", [False, True])
def test_gains_of_channels_become_scales_and_weights(conv: bool, exact: bool) -> None:
    """Powers of two go on into constant weights."""
    gains = "2.0, -0.5, 4.0" if exact else "2.0, 0.3, 4.0"
    rng = np.random.default_rng(2)
    weights = rng.integers(-8, 9, 6) / 8
    shape = "3x2x1x1" if conv else "2x3"
    y, each = ("?x?x3x4x4", "3x1x1") if conv else ("?x?x3", "3")
    x = "?x?x2x4x4" if conv else "?x?x2"
    window = (
        "{strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, "
        "dilation = array<i64: 1, 1>, groups = 1 : i64}"
        if conv
        else ""
    )
    matrix = weights.reshape([int(n) for n in shape.split("x")]).tolist()
    gain = f"[{', '.join(f'[[{g}]]' for g in gains.split(', '))}]" if conv else f"[{gains}]"
    text = f"""
func.func @forward(%x: !spike.train<{x}>) -> !spike.train<{y}> {{
  %w = tensor.constant dense<{matrix}> : tensor<{shape}xf32>
  %g = tensor.constant dense<{gain}> : tensor<{each}xf32>
  %i = spike.{"conv" if conv else "linear"} %x, %w {window}
      : !spike.train<{x}>, tensor<{shape}xf32> -> tensor<{y}xf32>
  %s = spike.lif %i gain(%g : tensor<{each}xf32>) {{beta = 0.75 : f64}}
      : (tensor<{y}xf32>) -> !spike.train<{y}>
  func.return %s : !spike.train<{y}>
}}"""
    spikes = rng.random((9, 2, 2, 4, 4) if conv else (9, 2, 2)) < 0.5
    found = canonicalized(text, [spikes])
    assert "gain" not in found
    if not conv:  # the vector of a convolution is reshaped first
        assert ("scale(" in found) == (not exact)


def test_constant_currents_that_are_read_out_are_what_they_were() -> None:
    text = """
func.func @forward(%x: tensor<?x4xf32>, %b: tensor<?x4xi1>)
    -> (tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>) {
  %e = spike.encode %x {scheme = "direct", timesteps = 7 : i64}
      : (tensor<?x4xf32>) -> tensor<7x?x4xf32>
  %l = spike.decode %e {scheme = "membrane", readout = "last"}
      : (tensor<7x?x4xf32>) -> tensor<?x4xf32>
  %m = spike.decode %e {scheme = "membrane", readout = "max"}
      : (tensor<7x?x4xf32>) -> tensor<?x4xf32>
  %n = spike.decode %e {scheme = "membrane", readout = "mean"}
      : (tensor<7x?x4xf32>) -> tensor<?x4xf32>
  %f = spike.encode %b {scheme = "direct", timesteps = 7 : i64}
      : (tensor<?x4xi1>) -> !spike.train<7x?x4>
  %r = spike.decode %f {scheme = "rate"} : (!spike.train<7x?x4>) -> tensor<?x4xf32>
  func.return %l, %m, %n, %r
      : tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>
}"""
    x = np.random.default_rng(3).normal(size=(2, 4)).astype(np.float32)
    found = canonicalized(text, [x, x > 0])
    assert found.count("spike.decode") == 1 and 'readout = "mean"' in found
    assert found.count("spike.encode") == 1 and "tensor.convert %b" in found


def test_nothing_is_added_to_layers() -> None:
    text = """
func.func @forward(%x: !spike.train<?x?x4>, %w: tensor<4x3xf32>) -> !spike.train<?x?x3> {
  %s = spike.layer %x, %w : (!spike.train<?x?x4>, tensor<4x3xf32>) -> !spike.train<?x?x3> {
  ^bb0(%a: !spike.train<?x?x4>, %b: tensor<4x3xf32>):
    %i = spike.linear %a, %b : !spike.train<?x?x4>, tensor<4x3xf32> -> tensor<?x?x3xf32>
    %o = spike.lif %i {beta = 1.0 : f64, gain = 0.5 : f64}
        : (tensor<?x?x3xf32>) -> !spike.train<?x?x3>
    spike.yield %o : !spike.train<?x?x3>
  }
  func.return %s : !spike.train<?x?x3>
}"""
    rng = np.random.default_rng(4)
    inputs = [rng.random((5, 2, 4)) < 0.5, rng.normal(size=(4, 3)).astype(np.float32)]
    found = canonicalized(text, inputs)
    assert "spike.integrate_fire" in found and "gain = 5.000000e-01" in found
