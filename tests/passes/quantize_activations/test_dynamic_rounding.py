"""Activations rounded in each run as floats again: what is left is the error of that rounding."""

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects import tensor
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.registry import parse_module
from triton_dsl.passes.expose_logits import ExposeLogitsPass, left_out
from triton_dsl.passes.quantize_activations.drop_dynamic_rounding import DropDynamicRoundingPass

SYMMETRIC = """
  %a = tensor.abs %x : (tensor<?x6xf32>) -> tensor<?x6xf32>
  %m = tensor.reduce_max %a {axes = array<i64: 1>, keepdims = true}
       : (tensor<?x6xf32>) -> tensor<?x1xf32>
  %i = tensor.compare %m, %zero {predicate = "eq"}
       : (tensor<?x1xf32>, tensor<f32>) -> tensor<?x1xi1>
  %g = tensor.where %i, %one, %m
       : (tensor<?x1xi1>, tensor<f32>, tensor<?x1xf32>) -> tensor<?x1xf32>
  %v = tensor.div %most, %g : (tensor<f32>, tensor<?x1xf32>) -> tensor<?x1xf32>
  %p = tensor.mul %x, %v : (tensor<?x6xf32>, tensor<?x1xf32>) -> tensor<?x6xf32>
  %b = tensor.abs %p : (tensor<?x6xf32>) -> tensor<?x6xf32>
  %d = tensor.add %b, %half : (tensor<?x6xf32>, tensor<f32>) -> tensor<?x6xf32>
  %f = tensor.floor %d : (tensor<?x6xf32>) -> tensor<?x6xf32>
  %s = tensor.sign %p : (tensor<?x6xf32>) -> tensor<?x6xf32>
  %r = tensor.mul %f, %s : (tensor<?x6xf32>, tensor<?x6xf32>) -> tensor<?x6xf32>
  %q = tensor.convert %r : (tensor<?x6xf32>) -> tensor<?x6xi32>
  %step = tensor.div %g, %most : (tensor<?x1xf32>, tensor<f32>) -> tensor<?x1xf32>
"""

SHIFTED = """
  %lo = tensor.reduce_min %x {axes = array<i64: 1>, keepdims = true}
       : (tensor<?x6xf32>) -> tensor<?x1xf32>
  %hi = tensor.reduce_max %x {axes = array<i64: 1>, keepdims = true}
       : (tensor<?x6xf32>) -> tensor<?x1xf32>
  %range = tensor.sub %hi, %lo : (tensor<?x1xf32>, tensor<?x1xf32>) -> tensor<?x1xf32>
  %step = tensor.div %range, %most : (tensor<?x1xf32>, tensor<f32>) -> tensor<?x1xf32>
  %e = tensor.div %lo, %step : (tensor<?x1xf32>, tensor<?x1xf32>) -> tensor<?x1xf32>
  %n = tensor.neg %e : (tensor<?x1xf32>) -> tensor<?x1xf32>
  %z = tensor.round %n : (tensor<?x1xf32>) -> tensor<?x1xf32>
  %p = tensor.div %x, %step : (tensor<?x6xf32>, tensor<?x1xf32>) -> tensor<?x6xf32>
  %r = tensor.round %p : (tensor<?x6xf32>) -> tensor<?x6xf32>
  %t = tensor.add %r, %z : (tensor<?x6xf32>, tensor<?x1xf32>) -> tensor<?x6xf32>
  %c = tensor.maximum %t, %zero : (tensor<?x6xf32>, tensor<f32>) -> tensor<?x6xf32>
  %w8 = tensor.sub %c, %z : (tensor<?x6xf32>, tensor<?x1xf32>) -> tensor<?x6xf32>
  %q = tensor.convert %w8 : (tensor<?x6xf32>) -> tensor<?x6xi32>
"""

PROGRAM = """
func.func @forward(%x: tensor<?x6xf32>) -> tensor<?x2xf32> {{
  %zero = tensor.constant dense<0.0> : tensor<f32>
  %one = tensor.constant dense<1.0> : tensor<f32>
  %half = tensor.constant dense<0.5> : tensor<f32>
  %most = tensor.constant dense<127.0> : tensor<f32>
  %scale = tensor.constant dense<[0.25, 0.5]> : tensor<2xf32>
  %w = tensor.constant dense<[[1, -3], [2, 0], [5, 7], [-9, 4], [11, 2], [0, 6]]> : tensor<6x2xi32>
  {rounding}
  %sum = tensor.matmul %q, %w : (tensor<?x6xi32>, tensor<6x2xi32>) -> tensor<?x2xi32>
  %real = tensor.convert %sum : (tensor<?x2xi32>) -> tensor<?x2xf32>
  %both = tensor.mul %step, %scale : (tensor<?x1xf32>, tensor<2xf32>) -> tensor<?x2xf32>
  %y = tensor.mul %real, {factor} : (tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x2xf32>
  func.return %y : tensor<?x2xf32>
}}"""

WEIGHT = np.array([[1, -3], [2, 0], [5, 7], [-9, 4], [11, 2], [0, 6]]) * [0.25, 0.5]


def dropped(module: ModuleOp) -> bool:
    DropDynamicRoundingPass().apply(Context(), module)
    module.verify()
    return not any(isinstance(op, tensor.ReduceMaxOp) for op in module.walk())


@pytest.mark.parametrize("rounding", [SYMMETRIC, SHIFTED])
def test_products_are_of_floats_again(rounding: str) -> None:
    module = parse_module(PROGRAM.format(rounding=rounding, factor="%both"))
    x = np.random.default_rng(0).normal(size=(50, 6)).astype(np.float32)
    (before,) = run_module(module, [x])
    assert dropped(module)
    (after,) = run_module(module, [x])
    assert np.allclose(after, x @ WEIGHT, rtol=1e-5, atol=1e-5)
    assert 0 < np.abs(after - before).max() < 0.3


def test_scales_that_do_not_cancel_stay() -> None:
    text = PROGRAM.format(rounding=SYMMETRIC, factor="%both2")
    text = text.replace(
        "  %y =",
        "  %both2 = tensor.mul %both, %g : (tensor<?x2xf32>, tensor<?x1xf32>) -> tensor<?x2xf32>\n"
        "  %y =",
    )
    module = parse_module(text)
    x = np.random.default_rng(0).normal(size=(5, 6)).astype(np.float32)
    (before,) = run_module(module, [x])
    assert not dropped(module)
    assert np.array_equal(run_module(module, [x])[0], before)


@pytest.mark.parametrize(
    ("end", "names"),
    [
        ("tensor.softmax %x {axis = 1 : i64} : (tensor<?x6xf32>) -> tensor<?x6xf32>", ["softmax"]),
        ("tensor.sigmoid %x : (tensor<?x6xf32>) -> tensor<?x6xf32>", ["sigmoid"]),
        ("tensor.softmax %x {axis = 0 : i64} : (tensor<?x6xf32>) -> tensor<?x6xf32>", []),
        ("tensor.relu %x : (tensor<?x6xf32>) -> tensor<?x6xf32>", []),
    ],
)
def test_ends_that_keep_the_class_are_left_out(end: str, names: list[str]) -> None:
    module = parse_module(f"""
    func.func @forward(%x: tensor<?x6xf32>) -> tensor<?x6xf32> {{
      %y = {end}
      func.return %y : tensor<?x6xf32>
    }}""")
    x = np.random.default_rng(0).normal(size=(20, 6)).astype(np.float32)
    (before,) = run_module(module, [x])
    ExposeLogitsPass().apply(Context(), module)
    module.verify()
    (after,) = run_module(module, [x])
    steps = left_out(module)
    assert [step["op"] for step in (steps[0] if steps else [])] == [f"tensor.{n}" for n in names]
    assert np.array_equal(before.argmax(1), after.argmax(1))
