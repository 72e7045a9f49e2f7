"""Biases after quantisation: mean results are the float ones."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.ir.errors import PassError
from triton_dsl.passes.quantize_activations.quantize_activations import (
    QuantizeActivationsPass,
    calibrate,
    quantize,
)

Apply = Callable[[ModuleOp, str], str]
Filled = Callable[..., ModuleOp]
Array = NDArray[Any]

NET = """
func.func @forward(%x: tensor<?x3x6x6xf32>) -> tensor<?x5xf32> {
  %w1 = ternary.parameter "conv.weight" : tensor<8x3x3x3x!ternary.trit>
  %b1 = tensor.parameter "conv.bias" : tensor<8xf32>
  %h = ternary.conv %x, %w1 bias(%b1 : tensor<8xf32>) {activation = "relu",
      strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>,
      dilation = array<i64: 1, 1>, groups = 1 : i64}
      : tensor<?x3x6x6xf32>, tensor<8x3x3x3x!ternary.trit> -> tensor<?x8x6x6xf32>
  %f = tensor.flatten %h : (tensor<?x8x6x6xf32>) -> tensor<?x288xf32>
  %w2 = ternary.parameter "fc.weight" : tensor<288x5x!ternary.trit>
  %y = ternary.matmul %f, %w2 : tensor<?x288xf32>, tensor<288x5x!ternary.trit> -> tensor<?x5xf32>
  func.return %y : tensor<?x5xf32>
}
"""


def inputs(count: int = 200) -> Array:
    return np.random.default_rng(4).gamma(0.5, size=(count, 3, 6, 6)).astype(np.float32)


def quantized(module: ModuleOp, x: Array, size: int = 60, **given: Any) -> ModuleOp:
    made, options = module.clone(), QuantizeActivationsPass(**given)
    batches = [(x[start : start + size],) for start in range(0, len(x), size)]
    quantize(made, calibrate(made, batches, options), options, batches)
    return made


@pytest.mark.parametrize("bits", [2, 4])
def test_means_are_kept(filled: Filled, bits: int) -> None:
    module, x = filled(NET), inputs()
    given: dict[str, Any] = {"bits": bits, "signed": False, "observer": "mse"}
    (wanted,) = run_module(module, [x])
    (plain,) = run_module(quantized(module, x, **given), [x])
    (found,) = run_module(quantized(module, x, correct_bias=True, **given), [x])
    spread = wanted.std(axis=0)
    assert (np.abs(plain.mean(axis=0) - wanted.mean(axis=0)) / spread).max() > 0.05
    np.testing.assert_allclose(found.mean(axis=0), wanted.mean(axis=0), atol=1e-3 * spread.max())
    assert np.mean((found - wanted) ** 2) < np.mean((plain - wanted) ** 2)


def test_by_pipeline(filled: Filled, apply_passes: Apply, tmp_path: Path) -> None:
    module, x = filled(NET), inputs(90)
    np.save(tmp_path / "x.npy", x)
    expected = quantized(module, x, bits=3, correct_bias=True)
    apply_passes(
        module,
        f'quantize-activations{{data="{tmp_path / "x.npy"}" batch=60 bits=3 correct-bias=true}}',
    )
    np.testing.assert_array_equal(run_module(module, [x])[0], run_module(expected, [x])[0])


def test_samples_are_needed(filled: Filled) -> None:
    module, x = filled(NET), inputs(20)
    options = QuantizeActivationsPass(correct_bias=True)
    with pytest.raises(PassError, match="bias correction needs at least one sample"):
        quantize(module, calibrate(module, [(x,)], options), options)
