"""Float weights as integers: their grids, and whole products against float64."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects import tensor
from triton_dsl.dialects.inference import tensor_type
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.shapes import is_float
from triton_dsl.ir.errors import OptionError, PassError
from triton_dsl.passes.analysis.layers import is_layer
from triton_dsl.passes.quantize_activations.quantize_activations import (
    QuantizeActivationsPass,
    calibrate,
    quantize,
)
from triton_dsl.passes.requantize.integer_weights import integer_weight

Array = NDArray[Any]
Filled = Callable[..., ModuleOp]
ApplyPasses = Callable[[ModuleOp, str], str]


@settings(max_examples=40)
@given(
    bits=st.integers(2, 8),
    channels=st.integers(1, 4),
    scale=st.floats(1e-4, 1e3),
    seed=st.integers(0, 1000),
)
def test_weights_on_a_grid_stay(bits: int, channels: int, scale: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    most = (1 << bits - 1) - 1
    given_ = rng.integers(-most, most + 1, (6, channels))
    given_[0] = most
    found = integer_weight((given_ * scale).astype(np.float32), 1, bits, shared=False)
    restored = found.integers * found.scale
    assert np.allclose(restored, given_ * scale, rtol=1e-5)
    assert (np.abs(found.integers) <= np.abs(given_)).all()


@settings(max_examples=40)
@given(
    bits=st.integers(2, 8),
    shared=st.booleans(),
    channel=st.integers(0, 2),
    seed=st.integers(0, 1000),
)
def test_the_error_is_no_more_than_rounding_makes(
    bits: int, shared: bool, channel: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    weight = rng.normal(size=(3, 4, 5)).astype(np.float32)
    found = integer_weight(weight, channel, bits, shared=shared)
    most = (1 << bits - 1) - 1
    assert np.abs(found.integers).max() <= most
    rows = np.moveaxis(weight, channel, 0).astype(np.float64)
    peak = np.abs(rows).reshape(len(rows), -1).max(1) if not shared else np.abs(rows).max()
    shape = (-1, 1, 1) if not shared else ()
    plain = np.reshape(peak / most, shape) if not shared else peak / most
    simple = np.rint(rows / plain) * plain
    step = found.scale if shared else found.scale[:, None, None]
    mine = np.moveaxis(found.integers, channel, 0) * step
    assert ((mine - rows) ** 2).sum() <= ((simple - rows) ** 2).sum() * (1 + 1e-9)


NETWORK = """
func.func @forward(%x: tensor<?x3x6x5xf32>) -> tensor<?x4xf32> {
  %w1 = tensor.parameter "conv.weight" : tensor<6x3x3x3xf32>
  %b1 = tensor.parameter "conv.bias" : tensor<6xf32>
  %c = tensor.conv %x, %w1, %b1 {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>,
       dilation = array<i64: 1, 1>}
       : (tensor<?x3x6x5xf32>, tensor<6x3x3x3xf32>, tensor<6xf32>) -> tensor<?x6x6x5xf32>
  %r = tensor.relu %c : (tensor<?x6x6x5xf32>) -> tensor<?x6x6x5xf32>
  %p = tensor.max_pool %r {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>,
       padding = array<i64: 0, 0, 0, 0>} : (tensor<?x6x6x5xf32>) -> tensor<?x6x3x2xf32>
  %wd = tensor.parameter "depthwise.weight" : tensor<6x1x2x2xf32>
  %d = tensor.conv %p, %wd {strides = array<i64: 1, 1>, padding = array<i64: 0, 1, 1, 0>,
       dilation = array<i64: 1, 1>, groups = 6 : i64}
       : (tensor<?x6x3x2xf32>, tensor<6x1x2x2xf32>) -> tensor<?x6x3x2xf32>
  %f = tensor.flatten %d : (tensor<?x6x3x2xf32>) -> tensor<?x36xf32>
  %w2 = tensor.parameter "fc.weight" : tensor<36x4xf32>
  %b2 = tensor.parameter "fc.bias" : tensor<4xf32>
  %y = tensor.linear %f, %w2, %b2
       : (tensor<?x36xf32>, tensor<36x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
  func.return %y : tensor<?x4xf32>
}
"""


@pytest.mark.parametrize("signed", [True, False])
def test_a_network_becomes_integer(filled: Filled, apply_passes: ApplyPasses, signed: bool) -> None:
    module = filled(NETWORK)
    rng = np.random.default_rng(5)
    x = rng.uniform(0, 1, (64, 3, 6, 5)).astype(np.float32)
    (wanted,) = run_module(module, [x])
    options = QuantizeActivationsPass(weights=8, signed=signed)
    quantize(module, calibrate(module, [(x,)], options), options)
    apply_passes(module, "requantize")
    layers = [op for op in module.walk() if is_layer(op)]
    assert len(layers) == 3 and not any(is_float(tensor_type(op.results[0])) for op in layers)
    floats = {op.name for op in module.walk() if any(
        is_float(tensor_type(r)) for r in op.results
    )} - {"tensor.constant", "tensor.parameter"}  # fmt: skip
    assert floats == {"tensor.dequantize"}
    (found,) = run_module(module, [x])
    assert np.abs(found - wanted).max() < 0.03 * np.abs(wanted).max()
    (last,) = [op for op in module.walk() if isinstance(op, tensor.DequantizeOp)]
    assert not tensor_type(last.scale).get_shape()


def test_sums_that_do_not_fit_are_refused(filled: Filled) -> None:
    text = """
    func.func @forward(%x: tensor<?x200000xf32>) -> tensor<?x1xf32> {
      %w = tensor.parameter "fc.weight" : tensor<200000x1xf32>
      %y = tensor.matmul %x, %w : (tensor<?x200000xf32>, tensor<200000x1xf32>) -> tensor<?x1xf32>
      func.return %y : tensor<?x1xf32>
    }"""
    module = filled(
        text, values={"fc.weight": np.linspace(0.5, 1, 200000, dtype=np.float32)[:, None]}
    )
    x = np.ones((1, 200000), np.float32)
    options = QuantizeActivationsPass(weights=8)
    with pytest.raises(PassError, match="do not fit an i32"):
        quantize(module, calibrate(module, [(x,)], options), options)


def test_bits_of_weights_have_bounds() -> None:
    with pytest.raises(OptionError, match="weights from 2 to 8"):
        QuantizeActivationsPass(weights=9)
