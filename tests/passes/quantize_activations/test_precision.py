"""Bits by the names of layers: of integers, and how far results are from NumPy's in float64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects import tensor
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import store_of
from triton_dsl.ir.errors import OptionError
from triton_dsl.passes.analysis.compile_time import literal_value
from triton_dsl.passes.quantize_activations.quantize_activations import (
    QuantizeActivationsPass,
    calibrate,
    quantize,
)

MLP = """
func.func @forward(%x: tensor<?x20xf32>) -> tensor<?x5xf32> {
  %w1 = tensor.parameter "fc1.weight" : tensor<20x30xf32>
  %h = tensor.matmul %x, %w1 : (tensor<?x20xf32>, tensor<20x30xf32>) -> tensor<?x30xf32>
  %w2 = tensor.parameter "fc2.weight" : tensor<30x5xf32>
  %y = tensor.matmul %h, %w2 : (tensor<?x30xf32>, tensor<30x5xf32>) -> tensor<?x5xf32>
  func.return %y : tensor<?x5xf32>
}
"""


@pytest.mark.parametrize(
    "precision, bits, weights",
    [
        ("fc1:bits=4,weights=3;fc2.weight:weights=6", (4, 8), (3, 6)),
        ("fc2:bits=2", (8, 2), (8, 8)),
    ],
)
def test_layers_have_bits_of_their_own(
    filled: Callable[..., ModuleOp], precision: str, bits: tuple[int, int], weights: tuple[int, int]
) -> None:
    module = filled(MLP)
    x = np.random.default_rng(1).normal(size=(50, 20)).astype(np.float32)
    exact = x.astype(np.float64)
    for key in ("fc1.weight", "fc2.weight"):
        exact = exact @ store_of(module).read(key).astype(np.float64)
    given = QuantizeActivationsPass(weights=8, precision=precision)
    quantize(module, calibrate(module, [(x,)], given), given)
    steps = [op for op in module.walk() if isinstance(op, tensor.QuantizeOp)]
    assert [op.high.value.data for op in steps] == [2 ** (n - 1) - 1 for n in bits]
    products = (op.weight for op in module.walk() if isinstance(op, tensor.LinearOp))
    most = [np.abs(np.asarray(literal_value(weight))).max() for weight in products]
    assert most == [2 ** (n - 1) - 1 for n in weights]
    (found,) = run_module(module, [x])
    off = np.abs(found - exact).mean() / np.abs(exact).mean()
    assert 0.3 * 2.0 ** -min(*bits, *weights) < off < 4 * 2.0 ** -min(*bits, *weights)


@pytest.mark.parametrize(
    "precision, said",
    [
        ("fc3:bits=4", "no layer is called 'fc3'"),
        ("fc1:bits=9", "N from 2 to 8"),
        ("fc1", "LAYER:bits=N"),
        ("fc1:bits=4;fc1:bits=3", "twice"),
    ],
)
def test_what_is_no_precision_is_refused(
    filled: Callable[..., ModuleOp], precision: str, said: str
) -> None:
    module = filled(MLP)
    x = np.ones((2, 20), np.float32)
    with pytest.raises(OptionError, match=said):
        given = QuantizeActivationsPass(weights=8, precision=precision)
        quantize(module, calibrate(module, [(x,)], given), given)
