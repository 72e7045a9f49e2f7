"""Quantised products against arithmetic in f64, and the ways in."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import FileLineColLoc, ModuleOp

from triton_dsl.dialects import tensor, ternary
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import store_of
from triton_dsl.dialects.registry import triton_context, verify_module
from triton_dsl.ir.errors import PassError
from triton_dsl.ir.trits import unpack_trits
from triton_dsl.passes.analysis.compile_time import literal_value
from triton_dsl.passes.calibration.ranges import Range
from triton_dsl.passes.quantize_activations.quantize_activations import (
    QuantizeActivationsPass,
    activations,
    calibrate,
    quantize,
)

Filled = Callable[..., ModuleOp]
Array = NDArray[Any]

MLP = """
func.func @forward(%x: tensor<?x20xf32>) -> tensor<?x5xf32> {
  %w1 = ternary.parameter "fc1.weight" : tensor<20x70x!ternary.trit>
  %s1 = tensor.parameter "fc1.scale" : tensor<70xf32>
  %b1 = tensor.parameter "fc1.bias" : tensor<70xf32>
  %h = ternary.linear %x, %w1 scale(%s1 : tensor<70xf32>) bias(%b1
      : tensor<70xf32>) {activation = "relu"} : tensor<?x20xf32>, tensor<20x70x!ternary.trit>
      -> tensor<?x70xf32>
  %w2 = ternary.parameter "fc2.weight" : tensor<70x5x!ternary.trit>
  %s2 = tensor.parameter "fc2.scale" : tensor<f32>
  %y = ternary.linear %h, %w2 scale(%s2 : tensor<f32>)
      : tensor<?x70xf32>, tensor<70x5x!ternary.trit> -> tensor<?x5xf32>
  func.return %y : tensor<?x5xf32>
}
"""

CONV = """
func.func @forward(%x: tensor<?x3x9x7xf32>) -> tensor<?x6x5x7xf32> {{
  %w = ternary.parameter "conv.weight" : tensor<6x{inputs}x3x2x!ternary.trit>
  %b = tensor.parameter "conv.bias" : tensor<6xf32>
  %y = ternary.conv %x, %w bias(%b
      : tensor<6xf32>) {{activation = "relu6", strides = array<i64: 2, 1>,
      padding = array<i64: 1, 0, 1, 1>, dilation = array<i64: 1, 1>,
          groups = {groups} : i64}} : tensor<?x3x9x7xf32>, tensor<6x{inputs}x3x2x!ternary.trit>
              -> tensor<?x6x5x7xf32>
  func.return %y : tensor<?x6x5x7xf32>
}}
"""


def options(**given: Any) -> QuantizeActivationsPass:
    return QuantizeActivationsPass(**given)


OPTIONS = [
    options(),
    options(symmetric=False),
    options(signed=False),
    options(bits=4, observer="mse"),
    options(bits=2, signed=False),
    options(bits=3, symmetric=False, observer="percentile", percentile=99),
]


def quantized(x: Array, scale: float, zero: int, low: int, high: int) -> Array:
    """x on the grid, in f64."""
    levels = np.rint(np.float32(x) / np.float32(scale)).astype(np.float64) + zero
    return (np.clip(levels, low, high) - zero) * float(np.float32(scale))


def grids(module: ModuleOp) -> list[tuple[float, int, int, int]]:
    """Scale, zero point and bounds of every `tensor.quantize`."""
    found: list[tuple[float, int, int, int]] = []
    for op in module.walk():
        if isinstance(op, tensor.QuantizeOp):
            scale, zero = literal_value(op.scale), literal_value(op.zero_point)
            assert scale is not None and zero is not None
            found.append((float(scale), int(zero), op.low.value.data, op.high.value.data))
    return found


def entry(module: ModuleOp, key: str, *shape: int) -> Array:
    array = store_of(module).read(key)
    return unpack_trits(array, shape) if shape else array.astype(np.float64)


@pytest.mark.parametrize("given", OPTIONS, ids=str)
def test_products_compute_on_the_grid(filled: Filled, given: QuantizeActivationsPass) -> None:
    module = filled(MLP)
    x = np.random.default_rng(1).normal(size=(50, 20)).astype(np.float32)
    quantize(module, calibrate(module, [(x[:30],), (x[30:],)], given), given)
    verify_module(module)
    products = [op for op in module.walk() if isinstance(op, ternary.FusedOp)]
    assert all("xi8>" in str(p.input.type) and "xi32>" in str(p.result.type) for p in products)
    first, second = grids(module)
    hidden = quantized(x, *first) @ entry(module, "fc1.weight", 20, 70).astype(np.float64)
    hidden = np.maximum(hidden * entry(module, "fc1.scale") + entry(module, "fc1.bias"), 0)
    (y,) = run_module(module, [x])
    # The hidden values are computed in f32: near the middle of two levels they may go either way.
    levels = hidden / second[0]
    sure = np.abs(levels - np.floor(levels) - 0.5).min(1) > 1e-3
    assert sure.mean() > 0.5
    product = quantized(hidden, *second) @ entry(module, "fc2.weight", 70, 5)
    expected = product * entry(module, "fc2.scale")
    np.testing.assert_allclose(y[sure], expected[sure], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("symmetric", [True, False])
def test_pads_of_convolutions_are_zero(filled: Filled, groups: int, symmetric: bool) -> None:
    torch = pytest.importorskip("torch")
    module = filled(CONV.format(groups=groups, inputs=3 // groups))
    x = np.random.default_rng(1).uniform(-1, 3, size=(4, 3, 9, 7)).astype(np.float32)
    given = options(symmetric=symmetric)
    quantize(module, calibrate(module, [(x,)], given), given)
    verify_module(module)
    ((scale, zero, low, high),) = grids(module)
    assert symmetric == (zero == 0)
    weight = entry(module, "conv.weight", 6, 3 // groups, 3, 2).astype(np.float64)
    image = torch.nn.functional.pad(
        torch.from_numpy(quantized(x, scale, zero, low, high)), (0, 1, 1, 1)
    )
    expected = torch.nn.functional.conv2d(
        image,
        torch.from_numpy(weight),
        torch.from_numpy(entry(module, "conv.bias")),
        stride=(2, 1),
        groups=groups,
    ).clamp(0, 6)
    (y,) = run_module(module, [x])
    np.testing.assert_allclose(y, expected.numpy(), rtol=1e-5, atol=1e-5)


def test_the_result_is_close_to_float(filled: Filled) -> None:
    module = filled(MLP)
    x = np.random.default_rng(1).normal(size=(200, 20)).astype(np.float32)
    (before,) = run_module(module, [x])
    quantize(module, calibrate(module, [(x,)]))
    (after,) = run_module(module, [x])
    assert np.abs(after - before).max() < 0.05 * np.abs(before).max()


def test_values_with_several_users_have_one_grid(filled: Filled) -> None:
    module = filled(
        """
        func.func @forward(%x: tensor<?x4xf32>) -> (tensor<?x4xf32>, tensor<?x4xf32>) {
          %v = ternary.parameter "a" : tensor<4x4x!ternary.trit>
          %w = ternary.parameter "b" : tensor<4x4x!ternary.trit>
          %y = ternary.linear %x, %v : tensor<?x4xf32>, tensor<4x4x!ternary.trit> -> tensor<?x4xf32>
          %z = ternary.matmul %x, %w : tensor<?x4xf32>, tensor<4x4x!ternary.trit> -> tensor<?x4xf32>
          %r = tensor.add %x, %y : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
          func.return %r, %z : tensor<?x4xf32>, tensor<?x4xf32>
        }
        """
    )
    assert list(activations(module)) == ["a"]
    x = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32)
    quantize(module, calibrate(module, [(x,)]))
    ((scale, *rest),) = grids(module)
    on_grid = quantized(x, scale, *rest)
    first, second = run_module(module, [x])
    np.testing.assert_allclose(second, on_grid @ entry(module, "b", 4, 4), rtol=1e-6, atol=1e-6)
    expected = on_grid + on_grid @ entry(module, "a", 4, 4)
    np.testing.assert_allclose(first, expected, rtol=1e-5, atol=1e-6)


def test_thresholds_and_other_floats(filled: Filled) -> None:
    module = filled(
        """
        func.func @forward(%x: tensor<?x4xf64>) -> (tensor<?x4xf64>, tensor<?x4xi8>) {
          %v = ternary.parameter "a" : tensor<4x4x!ternary.trit>
          %s = tensor.parameter "s" : tensor<4xf64>
          %t = tensor.constant dense<[[-1.0, 0.0, 1.0]]> : tensor<1x3xf64>
          %y = ternary.linear %x, %v scale(%s : tensor<4xf64>)
              : tensor<?x4xf64>, tensor<4x4x!ternary.trit> -> tensor<?x4xf64>
          %z = ternary.linear %x, %v thresholds(%t : tensor<1x3xf64>)
              : tensor<?x4xf64>, tensor<4x4x!ternary.trit> -> tensor<?x4xi8>
          func.return %y, %z : tensor<?x4xf64>, tensor<?x4xi8>
        }
        """
    )
    x = np.random.default_rng(0).normal(size=(9, 4))
    quantize(module, calibrate(module, [(x,)]))
    verify_module(module)
    ((scale, *rest),) = grids(module)
    product = quantized(x, scale, *rest) @ entry(module, "a", 4, 4)
    y, z = run_module(module, [x])
    np.testing.assert_allclose(y, product * entry(module, "s"), rtol=1e-5, atol=1e-6)
    sure = np.abs(product[..., None] - np.array([-1, 0, 1])).min(-1) > 1e-5
    counted = (product[..., None] >= np.array([-1, 0, 1])).sum(-1)
    np.testing.assert_array_equal(z[sure], counted[sure])


def test_means_on_the_way_are_quantised(filled: Filled) -> None:
    module = filled(
        """
        func.func @forward(%x: tensor<?x4x4x4xf32>) -> tensor<?x3xf32> {
          %a = tensor.relu %x : (tensor<?x4x4x4xf32>) -> tensor<?x4x4x4xf32>
          %b = tensor.global_avg_pool %a : (tensor<?x4x4x4xf32>) -> tensor<?x4x1x1xf32>
          %c = tensor.flatten %b : (tensor<?x4x1x1xf32>) -> tensor<?x4xf32>
          %w = ternary.parameter "fc" : tensor<4x3x!ternary.trit>
          %y = ternary.linear %c, %w : tensor<?x4xf32>, tensor<4x3x!ternary.trit> -> tensor<?x3xf32>
          func.return %y : tensor<?x3xf32>
        }
        """
    )
    assert list(activations(module)) == ["tensor.global_avg_pool", "fc"]


def test_dense_products_stay_in_float(filled: Filled) -> None:
    module = filled(
        """
        func.func @forward(%x: tensor<?x4xf32>) -> tensor<?x3xf32> {
          %w = tensor.parameter "fc" : tensor<4x3xf32>
          %y = tensor.linear %x, %w : (tensor<?x4xf32>, tensor<4x3xf32>) -> tensor<?x3xf32>
          func.return %y : tensor<?x3xf32>
        }
        """
    )
    assert not activations(module)
    given = options(dense=True)
    x = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32)
    quantize(module, calibrate(module, [(x,)], given), given)
    ((scale, *rest),) = grids(module)
    expected = quantized(x, scale, *rest) @ entry(module, "fc")
    np.testing.assert_allclose(run_module(module, [x])[0], expected, rtol=1e-5, atol=1e-6)
    assert not activations(module, given)


def test_names_places_and_repetition(filled: Filled, tmp_path: Path) -> None:
    module = filled(MLP)
    again = filled(MLP)
    x = np.random.default_rng(0).normal(size=(9, 20)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    given = options(data=str(tmp_path / "x.npz"), batch=4)
    for one in (module, again):
        given.apply(triton_context(), one)
    assert str(module) == str(again)
    for op in module.walk():
        if op.name.startswith(("tensor.", "ternary.")) and "parameter" not in op.name:
            assert isinstance(op.location, FileLineColLoc)
    text = str(module)
    options().apply(triton_context(), module)
    assert str(module) == text


def test_ranges_must_be_complete(filled: Filled) -> None:
    module = filled(MLP)
    before = str(module)
    with pytest.raises(PassError, match=r"no calibrated range for fc2\.weight"):
        quantize(module, {"fc1.weight": Range(-1, 1)})
    assert str(module) == before


def test_a_zero_point_needs_the_weights(filled: Filled) -> None:
    module = filled(
        """
        func.func @forward(%x: tensor<?x4xf32>, %w: tensor<4x3x!ternary.trit>) -> tensor<?x3xf32> {
          %y = ternary.linear %x, %w : tensor<?x4xf32>, tensor<4x3x!ternary.trit> -> tensor<?x3xf32>
          func.return %y : tensor<?x3xf32>
        }
        """
    )
    with pytest.raises(PassError, match="a grid with a zero point needs the values of the weight"):
        quantize(module, {"ternary.linear": Range(-1, 2)}, options(symmetric=False))
