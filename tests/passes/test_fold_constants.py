"""`fold-constants` stores what the reference interpreter computes, under stable names."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.builder import Builder
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint

from triton_dsl.dialects import tensor
from triton_dsl.dialects.inference import InferredOp
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import attach_store, parameters, store_of
from triton_dsl.ir.errors import OptionError
from triton_dsl.ir.store import ParameterStore
from triton_dsl.passes.fold_constants import FoldConstantsPass

Apply = Callable[[ModuleOp, str], str]
Filled = Callable[..., ModuleOp]
Array = NDArray[Any]

TERNARIZED = """
func.func @forward(%x: tensor<?x16xf32>) -> tensor<?x8xf32> {
  %w = tensor.parameter "fc.weight" : tensor<16x8xf32>
  %t, %s = ternary.ternarize %w {rule = "twn", scale = "channel", axis = 1 : i64}
    : (tensor<16x8xf32>) -> (tensor<16x8x!ternary.trit>, tensor<8xf32>)
  %y = ternary.linear %x, %t scale(%s : tensor<8xf32>)
    : tensor<?x16xf32>, tensor<16x8x!ternary.trit> -> tensor<?x8xf32>
  func.return %y : tensor<?x8xf32>
}
"""


def test_trits_follow_the_twn_formula(filled: Filled, apply_passes: Apply) -> None:
    module = filled(TERNARIZED)
    weight = store_of(module).read("fc.weight").astype(np.float64)
    text = apply_passes(module, "fold-constants")
    assert '%t = ternary.parameter "fc.weight.trits"' in text
    assert "ternarize" not in text and '"fc.weight"' not in text
    assert store_of(module).read("fc.weight.trits").nbytes == 16 * 8 // 4

    # Li & Liu 2016: Δ = 0.7·mean|w|, α = mean of |w| over the kept weights, for each channel.
    delta = 0.7 * np.abs(weight).mean(axis=0)
    kept = np.abs(weight) > delta
    alpha = np.where(kept, np.abs(weight), 0).sum(axis=0) / kept.sum(axis=0)
    x = np.random.default_rng(1).normal(size=(5, 16)).astype(np.float32)
    expected = x.astype(np.float64) @ (np.sign(weight) * kept * alpha)
    np.testing.assert_allclose(run_module(module, [x])[0], expected, rtol=1e-5, atol=1e-5)


def test_large_results_become_parameters(filled: Filled, apply_passes: Apply) -> None:
    module = filled(
        """
        func.func @forward() -> (tensor<20x10xf32>, tensor<20x10xf32>, tensor<100xf32>) {
          %w = tensor.parameter "a.weight" : tensor<10x20xf32>
          %p = tensor.permute %w {perm = array<i64: 1, 0>}
            : (tensor<10x20xf32>) -> tensor<20x10xf32>
          %n = tensor.neg %p : (tensor<20x10xf32>) -> tensor<20x10xf32>
          %v = tensor.parameter "running_var" buffer : tensor<100xf32>
          %r = tensor.sqrt %v : (tensor<100xf32>) -> tensor<100xf32>
          func.return %p, %n, %r : tensor<20x10xf32>, tensor<20x10xf32>, tensor<100xf32>
        }
        """
    )
    before = run_module(module, [])
    text = apply_passes(module, "fold-constants")
    for found, expected in zip(run_module(module, []), before, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert [op.key.data for op in parameters(module)] == [
        "a.weight.permute",
        "a.weight.neg",
        "running_var.sqrt",
    ]
    assert '%r = tensor.parameter "running_var.sqrt" buffer' in text
    assert apply_passes(module, "fold-constants") == text


def test_names_that_are_taken_get_a_number(filled: Filled, apply_passes: Apply) -> None:
    module = filled(TERNARIZED)
    store = store_of(module)
    store.add("fc.weight.trits", np.zeros(3, np.float32))
    assert '"fc.weight.trits.1"' in apply_passes(module, "fold-constants")
    assert store.read("fc.weight.trits").dtype == np.float32


def test_without_weights_nothing_changes(filled: Filled, apply_passes: Apply) -> None:
    from triton_dsl.dialects.registry import parse_module

    module = parse_module(TERNARIZED)
    text = str(module)
    assert apply_passes(module, "fold-constants") == text


def test_equal_modules_give_equal_text(filled: Filled, apply_passes: Apply) -> None:
    first, second = (apply_passes(filled(TERNARIZED, 7), "fold-constants") for _ in range(2))
    assert first == second


def test_a_store_may_hold_more_than_the_program_names(apply_passes: Apply, filled: Filled) -> None:
    module = filled(TERNARIZED)
    extra = ParameterStore.of({"other": np.ones(3, np.float32)})
    extra.add("fc.weight", store_of(module).read("fc.weight"))
    attach_store(module, extra)
    apply_passes(module, "fold-constants")
    assert extra.added_names == ["fc.weight", "fc.weight.trits", "other"]


def test_trits_stay_packed_on_request(filled: Filled, apply_passes: Apply) -> None:
    source = """
    func.func @forward(%x: tensor<?x16xf32>) -> tensor<?x8xf32> {
      %w = tensor.parameter "fc.weight" : tensor<16x8xf32>
      %t, %s = ternary.ternarize %w {rule = "twn", scale = "channel", axis = 1 : i64}
        : (tensor<16x8xf32>) -> (tensor<16x8x!ternary.trit>, tensor<8xf32>)
      %d = ternary.dequantize %t, %s {axis = 1 : i64}
        : (tensor<16x8x!ternary.trit>, tensor<8xf32>) -> tensor<16x8xf32>
      %y = tensor.matmul %x, %d : (tensor<?x16xf32>, tensor<16x8xf32>) -> tensor<?x8xf32>
      func.return %y : tensor<?x8xf32>
    }
    """
    assert "ternary" not in apply_passes(filled(source), "fold-constants")
    text = apply_passes(filled(source), "fold-constants{keep-packed=true}")
    assert 'ternary.parameter "fc.weight.trits"' in text
    assert "ternary.dequantize" in text and "ternarize" not in text


def test_stored_integers_stay_bytes(filled: Filled, apply_passes: Apply) -> None:
    source = """
    func.func @forward(%x: tensor<?x2xf32>) -> tensor<?x2xf32> {
      %w = tensor.constant dense<[[1, -2], [3, 4]]> : tensor<2x2xi8>
      %s = tensor.constant dense<0.5> : tensor<f32>
      %z = tensor.constant dense<0> : tensor<i8>
      %d = tensor.dequantize %w, %s, %z
        : (tensor<2x2xi8>, tensor<f32>, tensor<i8>) -> tensor<2x2xf32>
      %y = tensor.matmul %x, %d : (tensor<?x2xf32>, tensor<2x2xf32>) -> tensor<?x2xf32>
      func.return %y : tensor<?x2xf32>
    }
    """
    assert "dense<[[5.000000e-01, -1.000000e+00]" in apply_passes(filled(source), "fold-constants")
    assert "tensor.dequantize" in apply_passes(filled(source), "fold-constants{keep-bytes=true}")


def test_the_limit_is_checked() -> None:
    with pytest.raises(OptionError, match="a limit of at least 0, got -1"):
        FoldConstantsPass(limit=-1)


UNARY = [tensor.NegOp, tensor.AbsOp, tensor.SqrtOp, tensor.ExpOp, tensor.TanhOp]
BINARY = [tensor.AddOp, tensor.SubOp, tensor.MulOp, tensor.MaximumOp]


@given(st.data())
def test_folding_keeps_every_bit(apply_passes: Apply, data: st.DataObject) -> None:
    """A random graph of parameters, constants and one argument, seen through all its values."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    shape = data.draw(st.sampled_from([(3,), (9, 9)]))
    type = TensorType(f32, shape)
    function = FuncOp("forward", ([type], []))
    builder = Builder(InsertPoint.at_end(function.body.block))
    values: list[SSAValue] = [*function.args]
    arrays: dict[str, Array] = {}
    for index in range(2):
        arrays[f"p{index}"] = rng.normal(size=shape).astype(np.float32)
        values.append(builder.insert(tensor.ParameterOp(f"p{index}", type)).result)
    for _ in range(data.draw(st.integers(1, 8))):
        op: InferredOp
        if data.draw(st.booleans()):
            op = data.draw(st.sampled_from(UNARY))(data.draw(st.sampled_from(values)))
        else:
            lhs, rhs = (data.draw(st.sampled_from(values)) for _ in range(2))
            op = data.draw(st.sampled_from(BINARY))(lhs, rhs)
        values.append(builder.insert(op).results[0])
    returned = data.draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))
    builder.insert(ReturnOp(*returned))
    function.update_function_type()
    module = ModuleOp([function])
    attach_store(module, ParameterStore.of(arrays))

    x = rng.normal(size=shape).astype(np.float32)
    before = run_module(module, [x])
    text = apply_passes(module, "fold-constants")
    for found, expected in zip(run_module(module, [x]), before, strict=True):
        np.testing.assert_array_equal(found.view(np.int32), expected.view(np.int32))
    assert apply_passes(module, "fold-constants") == text
    for inner in module.walk():
        if isinstance(inner, InferredOp) and all(
            isinstance(v.owner, tensor.ParameterOp) for v in inner.operands
        ):  # only NaN keeps an op from being folded
            assert isinstance(inner, tensor.SqrtOp)
