"""Batches of fixed size that become free: the same numbers for each sample."""

from collections.abc import Callable

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.inference import tensor_type
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.registry import parse_module
from triton_dsl.dialects.shapes import DYNAMIC
from triton_dsl.ir.errors import PassError
from triton_dsl.ir.interpreter import entry_function
from triton_dsl.passes.free_batch import FreeBatchPass

Filled = Callable[..., ModuleOp]


def freed(module: ModuleOp, *, strict: bool = False) -> bool:
    FreeBatchPass(strict=strict).apply(Context(), module)
    module.verify()
    (argument, *_) = entry_function(module, "forward").args
    return tensor_type(argument).get_shape()[0] == DYNAMIC


NETWORK = """
func.func @forward(%x: tensor<4x1x6x6xf32>) -> (tensor<4x3xf32>, tensor<4x2xi64>) {
  %w = tensor.parameter "conv.weight" : tensor<2x1x3x3xf32>
  %b = tensor.parameter "conv.bias" : tensor<2x1x1xf32>
  %c = tensor.conv %x, %w {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>,
       dilation = array<i64: 1, 1>}
       : (tensor<4x1x6x6xf32>, tensor<2x1x3x3xf32>) -> tensor<4x2x6x6xf32>
  %e = tensor.slice %c {starts = array<i64: 0, 0, 0, 0>, ends = array<i64: 4, 2, 6, 6>,
       steps = array<i64: 1, 1, 1, 1>} : (tensor<4x2x6x6xf32>) -> tensor<4x2x6x6xf32>
  %d = tensor.add %e, %b : (tensor<4x2x6x6xf32>, tensor<2x1x1xf32>) -> tensor<4x2x6x6xf32>
  %t = tensor.permute %d {perm = array<i64: 0, 2, 3, 1>}
       : (tensor<4x2x6x6xf32>) -> tensor<4x6x6x2xf32>
  %r = tensor.reshape_to %t {shape = array<i64: 4, 72>} : (tensor<4x6x6x2xf32>) -> tensor<4x72xf32>
  %v = tensor.parameter "fc.weight" : tensor<72x3xf32>
  %y = tensor.matmul %r, %v : (tensor<4x72xf32>, tensor<72x3xf32>) -> tensor<4x3xf32>
  %s = tensor.softmax %y {axis = -1 : i64} : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %m = tensor.reduce_max %d {axes = array<i64: 2>, keepdims = false}
       : (tensor<4x2x6x6xf32>) -> tensor<4x2x6xf32>
  %a = tensor.argmax %m {axis = 2 : i64, keepdims = false} : (tensor<4x2x6xf32>) -> tensor<4x2xi64>
  func.return %s, %a : tensor<4x3xf32>, tensor<4x2xi64>
}
"""


def test_a_network_takes_any_number_of_samples(filled: Filled) -> None:
    module = filled(NETWORK)
    x = np.random.default_rng(0).normal(size=(8, 1, 6, 6)).astype(np.float32)
    halves = [run_module(module, [part]) for part in np.split(x, 2)]
    wanted = [np.concatenate(parts) for parts in zip(*halves, strict=True)]
    assert freed(module, strict=True)
    for count in (1, 3, 8):
        found = run_module(module, [x[:count]])
        for one, all_of in zip(found, wanted, strict=True):
            assert np.allclose(one, all_of[:count], rtol=1e-6)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("tensor.flatten %x {start = 0 : i64} : (tensor<4x3xf32>) -> tensor<12xf32>", "first axis"),
        (
            "tensor.permute %x {perm = array<i64: 1, 0>} : (tensor<4x3xf32>) -> tensor<3x4xf32>",
            "fir",
        ),
        (
            "tensor.slice %x {starts = array<i64: 1, 0>, ends = array<i64: 3, 3>, "
            "steps = array<i64: 1, 1>} : (tensor<4x3xf32>) -> tensor<2x3xf32>",
            "first axis",
        ),
        ("tensor.softmax %x {axis = 0 : i64} : (tensor<4x3xf32>) -> tensor<4x3xf32>", "along"),
        ("tensor.add %x, %k : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>", "another"),
        ("tensor.matmul %k2, %x : (tensor<4x4xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>", "weight"),
    ],
)
def test_what_mixes_samples_is_refused(body: str, reason: str) -> None:
    result = body.rpartition("-> ")[2]
    text = f"""
    func.func @forward(%x: tensor<4x3xf32>) -> {result} {{
      %k = tensor.constant dense<1.5> : tensor<4x3xf32>
      %k2 = tensor.constant dense<1.5> : tensor<4x4xf32>
      %y = {body}
      func.return %y : {result}
    }}"""
    module = parse_module(text)
    assert not freed(module)
    with pytest.raises(PassError, match=reason):
        freed(module, strict=True)


def test_the_numbers_of_a_vector_are_no_samples() -> None:
    module = parse_module("""
    func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
      %z = tensor.relu %x : (tensor<4xf32>) -> tensor<4xf32>
      func.return %z : tensor<4xf32>
    }""")
    assert not freed(module)
    with pytest.raises(PassError, match="only axis of its arguments may not be a batch"):
        freed(module, strict=True)


def test_arguments_of_different_batches_are_refused() -> None:
    module = parse_module("""
    func.func @forward(%x: tensor<4x3xf32>, %y: tensor<1x3xf32>) -> tensor<4x3xf32> {
      %z = tensor.add %x, %y : (tensor<4x3xf32>, tensor<1x3xf32>) -> tensor<4x3xf32>
      func.return %z : tensor<4x3xf32>
    }""")
    with pytest.raises(PassError, match="first axes of its arguments differ"):
        freed(module, strict=True)
