"""`fuse-spike` computes the same: bit for bit where it says so, else near float64."""

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

Array = NDArray[Any]
Filled = Callable[..., ModuleOp]
ApplyPasses = Callable[[ModuleOp, str], str]

PARAMETERS = """
  %scale = tensor.parameter "bn.scale" : tensor<4xf32>
  %shift = tensor.parameter "bn.bias" : tensor<4xf32>
  %mean = tensor.parameter "bn.mean" : tensor<4xf32>
  %var = tensor.parameter "bn.var" : tensor<4xf32>
"""


def network(conv: bool, weights: str, tdbn: bool, middle: str = "") -> str:
    """A synapse, its bias, batch normalisation and an integrator, whose trace shows the current."""
    shape = "4x2x3x3" if conv else "6x4"
    x = "?x?x2x5x5" if conv else "?x?x6"
    y = "?x?x4x3x3" if conv else "?x?x4"
    window = (
        "{strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, "
        "dilation = array<i64: 1, 1>, groups = 1 : i64} "
        if conv
        else ""
    )
    kind = {"f32": "f32", "i8": "i8", "trits": "!ternary.trit"}[weights]
    holder = "ternary" if weights == "trits" else "tensor"
    sums = "f32" if weights == "f32" else "i32"
    norm = 'kind = "tdbn", threshold = 0.5 : f64, alpha = 2.5 : f64, ' if tdbn else ""
    convert = f"%c = tensor.convert %i : (tensor<{y}xi32>) -> tensor<{y}xf32>"
    current = "%i" if weights == "f32" else "%c"
    axis = 2 if conv else -1
    return f"""
func.func @forward(%x: !spike.train<{x}>) -> tensor<{y}xf32> {{
  %w = {holder}.parameter "weight" : tensor<{shape}x{kind}>
  {PARAMETERS}
  %i = spike.{"conv" if conv else "linear"} %x, %w {window}: !spike.train<{x}>,
      tensor<{shape}x{kind}> -> tensor<{y}x{sums}>
  {"" if weights == "f32" else convert}
  {middle}
  %n = spike.batch_norm {current}, %scale, %shift, %mean, %var {{{norm}axis = {axis} : i64}}
      : (tensor<{y}xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
      -> tensor<{y}xf32>
  %s = spike.leaky_integrator %n {{beta = 0.5 : f64}} : (tensor<{y}xf32>) -> tensor<{y}xf32>
  func.return %s : tensor<{y}xf32>
}}"""


@pytest.mark.parametrize("tdbn", [False, True])
@pytest.mark.parametrize("weights", ["f32", "i8", "trits"])
@pytest.mark.parametrize("conv", [False, True])
def test_batch_normalisation_goes_into_the_synapse(
    filled: Filled, apply_passes: ApplyPasses, conv: bool, weights: str, tdbn: bool
) -> None:
    module = filled(network(conv, weights, tdbn))
    rng = np.random.default_rng(1)
    x = rng.random((5, 2, 2, 5, 5) if conv else (5, 2, 6)) < 0.5
    (expected,) = run_module(module, [x])
    text = apply_passes(module, "fuse-spike,fold-constants")
    assert "spike.layer" in text
    for gone in ("batch_norm", "tensor.convert", "tensor.sqrt", "tensor.mul"):
        assert gone not in text
    (found,) = run_module(module, [x])
    # Sums of i8 weights go to some thousands here.
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5 * np.abs(expected).max())


EXACT = """
func.func @forward(%x: !spike.train<?x?x6>, %v: tensor<?x4xf32>)
    -> (!spike.train<?x?x4>, tensor<?x4xf32>, !spike.train<?x?x4>) {
  %w = tensor.parameter "weight" : tensor<6x4xf32>
  %t = ternary.parameter "trits" : tensor<4x4x!ternary.trit>
  %b = tensor.parameter "bias" : tensor<4xf32>
  %g = tensor.parameter "gain" : tensor<4xf32>
  %i = spike.linear %x, %w : !spike.train<?x?x6>, tensor<6x4xf32> -> tensor<?x?x4xf32>
  %j = tensor.mul %i, %g : (tensor<?x?x4xf32>, tensor<4xf32>) -> tensor<?x?x4xf32>
  %k = tensor.add %b, %j : (tensor<4xf32>, tensor<?x?x4xf32>) -> tensor<?x?x4xf32>
  %s, %e = spike.lif %k initial(%v : tensor<?x4xf32>) threshold(%g : tensor<4xf32>)
      {beta = 0.75 : f64} : (tensor<?x?x4xf32>) -> (!spike.train<?x?x4>, tensor<?x4xf32>)
  %l = spike.linear %s, %t : !spike.train<?x?x4>, tensor<4x4x!ternary.trit> -> tensor<?x?x4xi32>
  %m = tensor.convert %l : (tensor<?x?x4xi32>) -> tensor<?x?x4xf32>
  %n = tensor.add %m, %b : (tensor<?x?x4xf32>, tensor<4xf32>) -> tensor<?x?x4xf32>
  %u = spike.lif %n {beta = 0.5 : f64} : (tensor<?x?x4xf32>) -> !spike.train<?x?x4>
  func.return %s, %e, %u : !spike.train<?x?x4>, tensor<?x4xf32>, !spike.train<?x?x4>
}"""


@given(st.integers(0, 2**32))
@settings(max_examples=10)
def test_exact_fusion_and_inlining_keep_every_bit(
    filled: Filled, apply_passes: ApplyPasses, seed: int
) -> None:
    module = filled(EXACT, seed)
    rng = np.random.default_rng(seed)
    inputs = [rng.random((7, 2, 6)) < 0.5, rng.normal(size=(2, 4)).astype(np.float32)]
    expected = run_module(module, inputs)
    text = apply_passes(module, "fuse-spike{exact=true}")
    assert text.count("spike.layer") == 2 and "tensor.add" not in text
    layers = run_module(module, inputs)
    text = apply_passes(module, "inline-spike-layers")
    assert "spike.layer" not in text and text.count("spike.lif") == 2
    for found in (layers, run_module(module, inputs)):
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a, b)


def test_what_others_see_stays(filled: Filled, apply_passes: ApplyPasses) -> None:
    """A current that is a result too, a bias that is an argument, and a sum over two synapses."""
    text = """
func.func @forward(%x: !spike.train<?x?x4>, %b: tensor<4xf32>)
    -> (tensor<?x?x4xf32>, !spike.train<?x?x4>, !spike.train<?x?x4>) {
  %w = tensor.parameter "weight" : tensor<4x4xf32>
  %i = spike.linear %x, %w : !spike.train<?x?x4>, tensor<4x4xf32> -> tensor<?x?x4xf32>
  %s = spike.lif %i {beta = 0.5 : f64} : (tensor<?x?x4xf32>) -> !spike.train<?x?x4>
  %j = spike.linear %s, %w : !spike.train<?x?x4>, tensor<4x4xf32> -> tensor<?x?x4xf32>
  %k = tensor.add %j, %b : (tensor<?x?x4xf32>, tensor<4xf32>) -> tensor<?x?x4xf32>
  %m = tensor.add %i, %k : (tensor<?x?x4xf32>, tensor<?x?x4xf32>) -> tensor<?x?x4xf32>
  %t = spike.lif %m {beta = 0.5 : f64} : (tensor<?x?x4xf32>) -> !spike.train<?x?x4>
  func.return %i, %s, %t : tensor<?x?x4xf32>, !spike.train<?x?x4>, !spike.train<?x?x4>
}"""
    module = filled(text)
    before = str(module)
    assert apply_passes(module, "fuse-spike") == before


def test_layers_inside_feedback(filled: Filled, apply_passes: ApplyPasses) -> None:
    text = """
func.func @forward(%x: !spike.train<?x?x4>) -> !spike.train<?x?x4> {
  %y = spike.recurrent %x : (!spike.train<?x?x4>) -> !spike.train<?x?x4> {
  ^bb0(%a: !spike.train<?x?x4>, %f: !spike.train<?x?x4>):
    %w = ternary.parameter "weight" : tensor<4x4x!ternary.trit>
    %p = spike.to_tensor %a : (!spike.train<?x?x4>) -> tensor<?x?x4xi8>
    %q = spike.to_tensor %f : (!spike.train<?x?x4>) -> tensor<?x?x4xi8>
    %r = tensor.add %p, %q
        : (tensor<?x?x4xi8>, tensor<?x?x4xi8>) -> tensor<?x?x4xi8>
    %i = spike.linear %r, %w
        : tensor<?x?x4xi8>, tensor<4x4x!ternary.trit> -> tensor<?x?x4xi32>
    %s = spike.integrate_fire %i : (tensor<?x?x4xi32>) -> !spike.train<?x?x4>
    spike.yield %s : !spike.train<?x?x4>
  }
  func.return %y : !spike.train<?x?x4>
}"""
    module = filled(text)
    x = np.random.default_rng(0).random((6, 2, 4)) < 0.5
    expected = run_module(module, [x])
    assert "spike.layer" in apply_passes(module, "fuse-spike")
    np.testing.assert_array_equal(run_module(module, [x])[0], expected[0])
    layer = next(op for op in module.walk() if isinstance(op, spike.LayerOp))
    assert isinstance(layer.synapse(), spike.LinearOp)
    assert isinstance(layer.neuron(), spike.IntegrateFireOp)
