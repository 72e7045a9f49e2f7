"""`expose-integers`: the program between quantisation and dequantisation, computed as before."""

from collections.abc import Callable

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.registry import parse_module

Apply = Callable[[ModuleOp, str], str]

PROGRAM = """
func.func @forward(%x: tensor<?x2x3xf32> {tensor.name = "image"}) -> tensor<?x6xf32> {
  %s = tensor.constant dense<SCALE> : TYPE
  %z = tensor.constant dense<2> : tensor<i8>
  %f = tensor.flatten %x {start = 1 : i64, end = 2 : i64} : (tensor<?x2x3xf32>) -> tensor<?x6xf32>
  %q = tensor.quantize %f, %s, %z {low = -8 : i64, high = 7 : i64}
       : (tensor<?x6xf32>, TYPE, tensor<i8>) -> tensor<?x6xi8>
  %n = tensor.relu %q : (tensor<?x6xi8>) -> tensor<?x6xi8>
  %y = tensor.dequantize %n, %s, %z : (tensor<?x6xi8>, TYPE, tensor<i8>) -> tensor<?x6xf32>
  func.return %y : tensor<?x6xf32>
}"""


def program(scale: str = "0.5", type: str = "tensor<f32>") -> ModuleOp:
    return parse_module(PROGRAM.replace("SCALE", scale).replace("TYPE", type))


def test_the_caller_does_the_rest(apply_passes: Apply) -> None:
    module = program()
    x = np.random.default_rng(0).normal(0, 3, (5, 2, 3)).astype(np.float32)
    (expected,) = run_module(module, [x])
    text = apply_passes(module, "expose-integers")
    assert "quantize %" not in text and 'tensor.name = "image"' in text
    assert "low = -8" in text and text.count("tensor.quantized") == 2
    q = np.clip(np.rint(x / np.float32(0.5)) + 2, -8, 7).astype(np.int8)
    (integers,) = run_module(module, [q])
    assert np.array_equal((integers.astype(np.int64) - 2) * np.float32(0.5), expected)


def test_signs_that_the_caller_quantises(apply_passes: Apply) -> None:
    sign = "%g = tensor.sign %f : (tensor<?x6xf32>) -> tensor<?x6xf32>\n  %q = tensor.quantize %g"
    text = PROGRAM.replace("%q = tensor.quantize %f", sign).replace("SCALE", "0.25")
    module = parse_module(text.replace("TYPE", "tensor<f32>"))
    x = np.array([-1e-45, -3.0, -0.0, 0.0, 1e-45, 7.0], np.float32).reshape(1, 2, 3)
    (expected,) = run_module(module, [x])
    after = apply_passes(module, "expose-integers")
    assert "tensor.sign" not in after and "of_sign = 1" in after
    q = np.clip(np.sign(x) * 4 + 2, -8, 7).astype(np.int8)
    (integers,) = run_module(module, [q])
    assert np.array_equal((integers.astype(np.int64) - 2) * np.float32(0.25), expected)


def test_scales_of_channels_stay_behind_moves(apply_passes: Apply) -> None:
    module = program("[0.5, 1.0, 2.0, 0.5, 1.0, 2.0]", "tensor<6xf32>")
    text = apply_passes(module, "expose-integers")
    assert "tensor.quantize %" in text and text.count("tensor.quantized") == 1


@pytest.mark.parametrize(
    "old, new",
    [
        ("%s = tensor.constant dense<SCALE> : TYPE", "%s = tensor.exp %e : (TYPE) -> TYPE"),
        ("func.return %y", "func.return %y"),
    ],
)
def test_unknown_scales_stay(apply_passes: Apply, old: str, new: str) -> None:
    text = PROGRAM.replace(old, new).replace('"image"}', '"image"}, %e: TYPE')
    module = parse_module(text.replace("SCALE", "0.5").replace("TYPE", "tensor<f32>"))
    after = apply_passes(module, "expose-integers")
    assert after.count("tensor.quantized") == (0 if "exp" in new else 2)


def test_a_second_use_keeps_the_float(apply_passes: Apply) -> None:
    module = parse_module(
        """func.func @forward(%x: tensor<?x2xf32>) -> (tensor<?x2xi8>, tensor<?x2xf32>) {
  %s = tensor.constant dense<0.5> : tensor<f32>
  %z = tensor.constant dense<0> : tensor<i8>
  %q = tensor.quantize %x, %s, %z : (tensor<?x2xf32>, tensor<f32>, tensor<i8>) -> tensor<?x2xi8>
  func.return %q, %x : tensor<?x2xi8>, tensor<?x2xf32>
}"""
    )
    before = str(module)
    assert apply_passes(module, "expose-integers") == before


AFFINE = """func.func @forward(%x: tensor<?x3xi32>) -> tensor<?x3xf32> {
  %s = tensor.constant dense<0.5> : tensor<f32>
  %z = tensor.constant dense<3> : tensor<i32>
  %a = tensor.constant dense<32768> : tensor<i32>
  %b = tensor.constant dense<[-5, 0, 70000]> : tensor<3xi32>
  %two = tensor.constant dense<2> : tensor<i32>
  %m = tensor.mul %x, %a : (tensor<?x3xi32>, tensor<i32>) -> tensor<?x3xi32>
  %n = tensor.add %b, %m : (tensor<3xi32>, tensor<?x3xi32>) -> tensor<?x3xi32>
  %t = tensor.mul %n, %two : (tensor<?x3xi32>, tensor<i32>) -> tensor<?x3xi32>
  %y = tensor.dequantize %t, %s, %z : (tensor<?x3xi32>, tensor<f32>, tensor<i32>) -> tensor<?x3xf32>
  func.return %y : tensor<?x3xf32>
}"""


def test_factors_and_addends_of_a_result(apply_passes: Apply) -> None:
    """Also where the program's integers wrap around."""
    module = parse_module(AFFINE)
    x = np.array([[1, -2, 3], [100_000, -70_000, 65_535]], np.int32)
    (expected,) = run_module(module, [x])
    text = apply_passes(module, "expose-integers")
    assert "tensor.mul" not in text and "tensor.add" not in text
    (found,) = run_module(module, [x])
    np.testing.assert_array_equal(found, x)
    whole = (x.astype(np.int64) * 65536 + np.array([-10, 0, 140000])).astype(np.int32)
    np.testing.assert_array_equal((whole.astype(np.int64) - 3).astype(np.float32) / 2, expected)
    assert "factor = dense<65536>" in text and "addend = dense<[-10, 0, 140000]>" in text


def test_factors_that_are_read_elsewhere_stay(apply_passes: Apply) -> None:
    text = AFFINE.replace("-> tensor<?x3xf32> {", "-> (tensor<?x3xf32>, tensor<?x3xi32>) {")
    text = text.replace(
        "func.return %y : tensor<?x3xf32>", "func.return %y, %n : tensor<?x3xf32>, tensor<?x3xi32>"
    )
    after = apply_passes(parse_module(text), "expose-integers")
    assert after.count("tensor.mul") == 1 and after.count("tensor.add") == 1
    assert "factor = dense<2>" in after
