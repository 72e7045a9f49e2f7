"""Whole programs with convolutions, run as machine code, against the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import constant_value
from triton_dsl.dialects.registry import parse_module
from triton_dsl.lowering.emission import entry_function
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.lowering.to_native.callables import native_program
from triton_dsl.runtime.random_values import fill_parameters, random_inputs

pytest.importorskip("llvmlite")

Array = NDArray[Any]

RESIDUAL = """
layer Block(channels: int) {
    let conv1 = TernaryConv2d(channels, channels, kernel=3, padding=1, bias=false)
    let norm1 = BatchNorm2d(channels)
    let conv2 = TernaryConv2d(channels, channels, kernel=3, padding=1, with_scale=true)

    fn forward(x: Tensor[N, channels, H, W]) -> Tensor[N, channels, H, W] {
        return relu(conv2(relu(norm1(conv1(x)))) + x)
    }
}

layer Net {
    let stem = TernaryConv2d(3, 12, kernel=5, stride=2, padding=2)
    let block = Block(12)
    let expand = TernaryConv2d(12, 20, kernel=1, bias=false)
    let depthwise = TernaryConv2d(20, 20, kernel=3, stride=2, padding=1, groups=20)
    let grouped = TernaryConv2d(20, 8, kernel=3, dilation=2, padding=2, groups=4)
    let head = TernaryLinear(128, 10)

    fn forward(image: Tensor[N, 3, 15, 15]) -> Tensor[N, 10] {
        let h = block(stem(image))
        h = grouped(relu(depthwise(relu(expand(h)))))
        return head(flatten(h))
    }
}
"""

INTEGERS = """
func.func @forward(%x: tensor<?x6x9x10xi8>, %b: tensor<?x4x12xi32>, %t: tensor<2x3x7x!ternary.trit>,
                   %s: tensor<?x2x5x5xi16>)
    -> (tensor<?x6x5x10xi8>, tensor<?x5x5xi8>, tensor<2x4x6xi32>, tensor<?x2x5x5xi32>) {
  %w = ternary.parameter "w" : tensor<10x6x3x3x!ternary.trit>
  %bias = tensor.parameter "bias" : tensor<10xi32>
  %h = ternary.conv %x, %w bias(%bias : tensor<10xi32>) {strides = array<i64: 2, 1>,
       padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64,
       activation = "relu"} : tensor<?x6x9x10xi8>, tensor<10x6x3x3x!ternary.trit>
       -> tensor<?x10x5x10xi32>
  %multiplier = tensor.constant dense<1103515245> : tensor<i32>
  %shift = tensor.constant dense<36> : tensor<i32>
  %zero = tensor.constant dense<-3> : tensor<i8>
  %q = tensor.requantize %h, %multiplier, %shift, %zero {axis = 1 : i64, low = -128 : i64,
       high = 127 : i64} : (tensor<?x10x5x10xi32>, tensor<i32>, tensor<i32>, tensor<i8>)
       -> tensor<?x10x5x10xi8>
  %w2 = ternary.parameter "w2" : tensor<6x5x1x1x!ternary.trit>
  %thresholds = tensor.constant dense<[[-9, 0, 40]]> : tensor<1x3xi32>
  %y = ternary.conv %q, %w2 thresholds(%thresholds : tensor<1x3xi32>) {strides = array<i64: 1, 1>,
       padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 2 : i64}
       : tensor<?x10x5x10xi8>, tensor<6x5x1x1x!ternary.trit> -> tensor<?x6x5x10xi8>
  %w3 = ternary.parameter "w3" : tensor<5x4x3x!ternary.trit>
  %steps = tensor.constant dense<[[0], [1], [2], [3], [-2]]> : tensor<5x1xi32>
  %z = ternary.conv %b, %w3 thresholds(%steps : tensor<5x1xi32>) {strides = array<i64: 3>,
       padding = array<i64: 1, 2>, dilation = array<i64: 1>, groups = 1 : i64}
       : tensor<?x4x12xi32>, tensor<5x4x3x!ternary.trit> -> tensor<?x5x5xi8>
  %w4 = ternary.parameter "w4" : tensor<4x3x2x!ternary.trit>
  %u = ternary.conv %t, %w4 {strides = array<i64: 1>, padding = array<i64: 0, 0>,
       dilation = array<i64: 1>, groups = 1 : i64} : tensor<2x3x7x!ternary.trit>,
       tensor<4x3x2x!ternary.trit> -> tensor<2x4x6xi32>
  %w5 = ternary.parameter "w5" : tensor<2x1x3x3x!ternary.trit>
  %v = ternary.conv %s, %w5 {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>,
       dilation = array<i64: 1, 1>, groups = 2 : i64} : tensor<?x2x5x5xi16>,
       tensor<2x1x3x3x!ternary.trit> -> tensor<?x2x5x5xi32>
  func.return %y, %z, %u, %v : tensor<?x6x5x10xi8>, tensor<?x5x5xi8>, tensor<2x4x6xi32>,
      tensor<?x2x5x5xi32>
}
"""


def inputs_of(module: ModuleOp, batch: int) -> list[Array]:
    type = entry_function(module, "native").function_type
    return random_inputs(type, np.random.default_rng(batch), [batch] * 4, 16)


@pytest.mark.parametrize("precision", ["float32", "dynamic-int8"])
def test_a_network_of_all_sorts_of_convolutions(precision: str) -> None:
    module = fill_parameters(import_tri(RESIDUAL, layer="Net"), 0)
    program = native_program(module, {"precision": precision})
    for batch in (0, 1, 4):
        inputs = inputs_of(module, batch)
        (expected,) = run_module(module, inputs)
        (result,) = program.run(inputs)
        assert result.dtype == expected.dtype and result.shape == expected.shape
        largest = np.abs(expected).max(initial=1)
        tolerance = 2e-6 if precision == "float32" else 0.1
        assert np.abs(result - expected).max(initial=0) <= tolerance * largest


def test_a_network_for_one_size_of_the_batch() -> None:
    text = RESIDUAL.replace("image: Tensor[N", "image: Tensor[3").replace(
        "Tensor[N, 10]", "Tensor[3, 10]"
    )
    module = fill_parameters(import_tri(text, layer="Net"), 1)
    inputs = inputs_of(module, 3)
    (expected,) = run_module(module, inputs)
    (result,) = native_program(module).run(inputs)
    assert np.abs(result - expected).max() <= 2e-6 * np.abs(expected).max()


@pytest.mark.parametrize("recipe", [None, "generic"])
def test_integer_programs_are_exact(recipe: str | None) -> None:
    module = fill_parameters(parse_module(INTEGERS), 2)
    program = native_program(module, {} if recipe is None else {"recipe": recipe})
    for batch in (1, 2):
        inputs = inputs_of(module, batch)
        for result, expected in zip(program.run(inputs), run_module(module, inputs), strict=True):
            assert result.dtype == expected.dtype
            assert np.array_equal(result, expected)


def test_float_images_are_rounded_one_by_one() -> None:
    """Bytes are round(x·127 / max|x|), their sums exact; two convolutions share an image."""
    text = """
    func.func @forward(%x : tensor<?x6x9x8xf32>) -> (tensor<?x10x9x8xf32>, tensor<?x10x4x3xf32>) {
      %w = ternary.parameter "w" : tensor<10x6x3x3x!ternary.trit>
      %y = ternary.conv %x, %w {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>,
           dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<?x6x9x8xf32>,
           tensor<10x6x3x3x!ternary.trit> -> tensor<?x10x9x8xf32>
      %z = ternary.conv %x, %w {strides = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>,
           dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<?x6x9x8xf32>,
           tensor<10x6x3x3x!ternary.trit> -> tensor<?x10x4x3xf32>
      func.return %y, %z : tensor<?x10x9x8xf32>, tensor<?x10x4x3xf32>
    }"""
    module = fill_parameters(parse_module(text), 3)
    (trits,) = (constant_value(op) for op in module.walk() if op.name == "ternary.parameter")
    weights = torch.from_numpy(np.asarray(trits, np.float64))
    rng = np.random.default_rng(0)
    x = rng.normal(size=(5, 6, 9, 8)).astype(np.float32)
    x[1] *= 1e30
    x[2] *= 1e-37
    x[3], x[4, 2, 3, 4] = 0, np.inf
    most = np.abs(x).max(axis=(1, 2, 3), keepdims=True)
    small = most < 2.0**-118
    with np.errstate(all="ignore"):
        digits = np.where(small, 0, np.rint(x * (np.float32(127) / most)))
    scale = np.where(small, 0, most / np.float32(127))
    results = native_program(module, {"precision": "dynamic-int8"}).run([x])
    for result, (stride, padding) in zip(results, ((1, 1), (2, 0)), strict=True):
        image = torch.from_numpy(digits[:4].astype(np.float64))
        sums = torch.nn.functional.conv2d(image, weights, stride=stride, padding=padding)
        expected = sums.numpy().astype(np.float32) * scale[:4]
        np.testing.assert_array_equal(result[:4], expected)
        assert np.isnan(result[4]).all()


def test_images_are_rounded_for_computed_weights_too() -> None:
    text = """
    func.func @forward(%x : tensor<?x2x9xf32>, %w : tensor<3x2x2xf32>) -> tensor<?x3x8xf32> {
      %t = ternary.ternarize %w {mode = "deterministic"} : (tensor<3x2x2xf32>)
           -> tensor<3x2x2x!ternary.trit>
      %y = ternary.conv %x, %t {strides = array<i64: 1>, padding = array<i64: 0, 0>,
           dilation = array<i64: 1>, groups = 1 : i64} : tensor<?x2x9xf32>,
           tensor<3x2x2x!ternary.trit> -> tensor<?x3x8xf32>
      func.return %y : tensor<?x3x8xf32>
    }
    """
    rng = np.random.default_rng(0)
    x = rng.integers(-127, 128, (2, 2, 9)).astype(np.float32)
    x[:, 0, 0] = 127  # the scale is 1
    weights = rng.choice([-1.0, 0.0, 1.0], (3, 2, 2)).astype(np.float32)
    (result,) = native_program(parse_module(text), {"precision": "dynamic-int8"}).run([x, weights])
    expected = torch.nn.functional.conv1d(torch.from_numpy(x), torch.from_numpy(weights))
    np.testing.assert_array_equal(result, expected.numpy())
