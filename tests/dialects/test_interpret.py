"""Running whole functions: inputs, calls, locations and what cannot be run."""

import re

import numpy as np
import pytest

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.errors import TritonError, UnsupportedError

CALLS = """\
func.func @forward(%x: tensor<?x2xf32> {tensor.name = "image"}, %t: tensor<2x!ternary.trit>)
    -> (tensor<?x2xf32>, tensor<?xf32>) {
  %y = func.call @double(%x) : (tensor<?x2xf32>) -> tensor<?x2xf32>
  %z = func.call @double(%y) : (tensor<?x2xf32>) -> tensor<?x2xf32>
  %s = ternary.matmul %z, %t : tensor<?x2xf32>, tensor<2x!ternary.trit> -> tensor<?xf32>
  func.return %z, %s : tensor<?x2xf32>, tensor<?xf32>
}
func.func private @double(%x: tensor<?x2xf32>) -> tensor<?x2xf32> {
  %y = tensor.add %x, %x : (tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x2xf32>
  func.return %y : tensor<?x2xf32>
}
"""

X = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
T = np.array([1, -1], np.int8)


def test_functions_call_each_other() -> None:
    doubled, product = run_module(parse_module(CALLS), [X, T])
    np.testing.assert_array_equal(doubled, 4 * X)
    np.testing.assert_array_equal(product, [-4, -4, -4])


def test_another_function_can_be_run() -> None:
    (result,) = run_module(parse_module(CALLS), [X], "double")
    np.testing.assert_array_equal(result, 2 * X)


def test_results_are_the_caller_s_own() -> None:
    text = (
        "func.func @forward(%x: tensor<2xf32>) -> tensor<2xf32> { func.return %x : tensor<2xf32> }"
    )
    x = np.zeros(2, np.float32)
    (result,) = run_module(parse_module(text), [x])
    result[0] = 1
    assert x[0] == 0


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([X], "function 'forward' expects 2 input(s), got 1"),
        ([X, T, T], "function 'forward' expects 2 input(s), got 3"),
        (
            [X.astype(np.float64), T],
            "'forward' input 'image': expected tensor<?x2xf32> as float32, got float64[3, 2]",
        ),
        ([X.T.copy(), T], "input 'image': expected tensor<?x2xf32> as float32, got float32[2, 3]"),
        ([X[0], T], "input 'image': expected tensor<?x2xf32> as float32, got float32[2]"),
        ([X, T * 2], "input 't': expected trits in {-1, 0, 1}, got values from -2 to 2"),
        ([X, T.astype(np.float32)], "input 't': expected tensor<2x!ternary.trit> as int8, got"),
    ],
)
def test_inputs_that_do_not_fit(inputs: list[np.ndarray], message: str) -> None:
    with pytest.raises(TritonError, match=re.escape(message)):
        run_module(parse_module(CALLS), inputs)


def test_a_missing_function() -> None:
    with pytest.raises(TritonError, match=r"no function 'main'; it has 'forward', 'double'$"):
        run_module(parse_module(CALLS), [], "main")
    with pytest.raises(TritonError, match=r"no function 'forward'; it has none$"):
        run_module(parse_module("module {}"), [])


def test_a_function_without_a_body() -> None:
    module = parse_module("func.func private @forward() -> ()", "m.mlir")
    with pytest.raises(TritonError, match=r"^m\.mlir:1:1: .*'forward' is declared but has no body"):
        run_module(module, [])


def test_all_unsupported_ops_are_named_with_their_places() -> None:
    text = """\
func.func @forward() {
  %c = arith.constant 1 : i32
  func.call @inner() : () -> ()
  func.return
}
func.func private @inner() {
  %e = tensor.empty() : tensor<2xf32>
  func.call @outer() : () -> ()
  func.return
}
func.func private @outer()
"""
    with pytest.raises(UnsupportedError) as refused:
        run_module(parse_module(text, "m.mlir"), [])
    assert [(name, place) for name, place, _ in refused.value.problems] == [
        ("arith.constant", "m.mlir:2:3"),
        ("tensor.empty", "m.mlir:7:3"),
        ("func.func", "m.mlir:11:1"),
    ]


def test_several_blocks_are_unsupported() -> None:
    text = "func.func @forward() {\n  cf.br ^bb0\n^bb0:\n  func.return\n}"
    with pytest.raises(UnsupportedError, match="functions of one block"):
        run_module(parse_module(text), [])


def test_endless_recursion_is_one_message() -> None:
    text = """\
func.func @forward(%x: tensor<f32>) -> tensor<f32> {
  %y = func.call @forward(%x) : (tensor<f32>) -> tensor<f32>
  func.return %y : tensor<f32>
}
"""
    with pytest.raises(TritonError, match="call each other too deeply") as refused:
        run_module(parse_module(text), [np.array(1, np.float32)])
    assert "\n" not in str(refused.value)


def test_what_no_memory_holds_is_located() -> None:
    text = f"""
func.func @forward(%x: tensor<1xf32>) -> !spike.train<{2**56}x1> {{
  %s = spike.encode %x {{scheme = "regular", timesteps = {2**56} : i64}}
      : (tensor<1xf32>) -> !spike.train<{2**56}x1>
  func.return %s : !spike.train<{2**56}x1>
}}"""
    with pytest.raises(TritonError, match=r"m\.mlir:3:.* 'spike.encode' is out of memory"):
        run_module(parse_module(text, "m.mlir"), [np.ones(1, np.float32)])


def test_actual_sizes_that_disagree_are_located() -> None:
    text = """\
func.func @forward(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %z = func.call @sum(%x, %y) : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
  func.return %z : tensor<?xf32>
}
func.func private @sum(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %z = tensor.add %x, %y : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
  func.return %z : tensor<?xf32>
}
"""
    with pytest.raises(TritonError) as refused:
        run_module(parse_module(text, "m.mlir"), [np.zeros(2, np.float32), np.zeros(3, np.float32)])
    assert str(refused.value).startswith("m.mlir:6:3: error: 'tensor.add' ")
    assert "\n" not in str(refused.value)


def test_a_declared_size_that_is_not_the_actual_one() -> None:
    text = """\
func.func @forward(%x: tensor<?xf32>) -> tensor<4xf32> {
  %y = tensor.exp %x : (tensor<?xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
"""
    with pytest.raises(TritonError, match=r"expected tensor<4xf32> as float32, got float32\[3\]"):
        run_module(parse_module(text), [np.zeros(3, np.float32)])


def test_ieee_arithmetic_gives_no_warnings() -> None:
    text = """\
func.func @forward(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %r = tensor.rsqrt %x : (tensor<3xf32>) -> tensor<3xf32>
  %e = tensor.exp %x : (tensor<3xf32>) -> tensor<3xf32>
  func.return %r, %e : tensor<3xf32>, tensor<3xf32>
}
"""
    reciprocal, exponential = run_module(parse_module(text), [np.array([0, -1, 1e3], np.float32)])
    assert np.isposinf(reciprocal[0]) and np.isnan(reciprocal[1])
    assert np.isposinf(exponential[2])


def test_the_mnist_test_set_takes_seconds() -> None:
    """10,000 images through two convolutions; the time limit is loose, memory is what breaks."""
    text = """\
func.func @forward(%x: tensor<?x1x28x28xf32>, %a: tensor<8x1x3x3x!ternary.trit>,
                   %b: tensor<16x8x3x3x!ternary.trit>) -> tensor<?x16x1x1xf32> {
  %0 = ternary.conv %x, %a {activation = "relu", strides = array<i64: 2, 2>,
       padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>}
       : tensor<?x1x28x28xf32>, tensor<8x1x3x3x!ternary.trit> -> tensor<?x8x14x14xf32>
  %1 = ternary.conv %0, %b {activation = "relu", strides = array<i64: 2, 2>,
       padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>}
       : tensor<?x8x14x14xf32>, tensor<16x8x3x3x!ternary.trit> -> tensor<?x16x7x7xf32>
  %2 = tensor.global_avg_pool %1 : (tensor<?x16x7x7xf32>) -> tensor<?x16x1x1xf32>
  func.return %2 : tensor<?x16x1x1xf32>
}
"""
    rng = np.random.default_rng(0)
    x = rng.random((10_000, 1, 28, 28), np.float32)
    a = rng.integers(-1, 2, (8, 1, 3, 3)).astype(np.int8)
    b = rng.integers(-1, 2, (16, 8, 3, 3)).astype(np.int8)
    module = parse_module(text)
    (whole,) = run_module(module, [x, a, b])
    (part,) = run_module(module, [x[-10:], a, b])
    np.testing.assert_allclose(whole[-10:], part, rtol=1e-5)
