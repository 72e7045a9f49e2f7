"""`infer-shapes` finds back what was forgotten, and changes no result."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.builder import Builder
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import VerifyException

from triton_dsl.dialects import tensor
from triton_dsl.dialects.inference import InferredOp
from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.registry import parse_module
from triton_dsl.dialects.shapes import DYNAMIC
from triton_dsl.ir.errors import OptionError, PassError, TritonError
from triton_dsl.ir.store import ParameterStore
from triton_dsl.passes.infer_shapes import InferShapesPass

Apply = Callable[[ModuleOp, str], str]

STEPS: list[Callable[[SSAValue], InferredOp]] = [
    tensor.ReluOp,
    lambda v: tensor.AddOp(v, v),
    lambda v: tensor.MaxPoolOp(v, [2, 1]),
    lambda v: tensor.PermuteOp(v, [0, 1, 3, 2]),
    lambda v: tensor.PadToOp(v, [0, 0, 1, 0], [0, 0, 0, 2]),
    lambda v: tensor.ConcatenateOp([v, v], 1),
    lambda v: tensor.SliceOp(v, [0, 0, 0, 1], [2**63 - 1] * 4, [1, 1, 1, 1]),
    lambda v: tensor.ReduceSumOp(v, [2], keepdims=True),
]


def build(steps: list[int], shape: tuple[int, ...]) -> ModuleOp:
    function = FuncOp("forward", ([TensorType(f32, shape)], []))
    builder = Builder(InsertPoint.at_end(function.body.block))
    value: SSAValue = function.args[0]
    for step in steps:
        (value,) = builder.insert(STEPS[step](value)).results
    builder.insert(ReturnOp(value))
    function.update_function_type()
    return ModuleOp([function])


@given(st.lists(st.integers(0, len(STEPS) - 1), max_size=6), st.integers(1, 3))
def test_forgotten_sizes_are_found(apply_passes: Apply, steps: list[int], batch: int) -> None:
    try:
        module = build(steps, (DYNAMIC, 2, 6, 5))
    except VerifyException:  # a window larger than what is left
        return
    expected = str(build(steps, (batch, 2, 6, 5)))
    for op in module.walk():
        if isinstance(op, InferredOp):
            for result in op.results:
                assert isinstance(result.type, TensorType)
                forgotten = TensorType(f32, [DYNAMIC] * result.type.get_num_dims())
                Rewriter.replace_value_with_new_type(result, forgotten)
    first = next(iter(module.ops))
    assert isinstance(first, FuncOp)
    first.update_function_type()
    x = np.random.default_rng(0).normal(size=(batch, 2, 6, 5)).astype(np.float32)
    before = run_module(module, [x])[0]
    assert apply_passes(module, f"infer-shapes{{batch={batch}}}") == expected
    np.testing.assert_array_equal(run_module(module, [x])[0], before)
    assert apply_passes(module, "infer-shapes") == expected


def test_the_parameter_file_is_not_opened(
    apply_passes: Apply, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        pytest.fail("the parameter file was opened")

    monkeypatch.setattr(ParameterStore, "_stored_names", refuse)
    module = parse_module(
        "module attributes {tensor.parameters ="
        ' #tensor.store<"absent.safetensors", sha256 = "0">} {'
        " func.func @forward(%x: tensor<?x4xf32>) -> tensor<?x2xf32> {"
        ' %w = tensor.parameter "w" : tensor<4x2xf32>'
        " %y = tensor.linear %x, %w : (tensor<?x4xf32>, tensor<4x2xf32>) -> tensor<?x2xf32>"
        " func.return %y : tensor<?x2xf32> } }"
    )
    assert "tensor<7x2xf32>" in apply_passes(module, "infer-shapes{batch=7}")


def test_steps_and_batch_of_what_has_time_first(apply_passes: Apply) -> None:
    text = (
        "func.func @forward(%x: tensor<?x?x4xf32>, %w: tensor<?x4xf32>) -> !spike.train<?x?x4> {"
        " %s = spike.lif %x {beta = 0.5 : f64} : (tensor<?x?x4xf32>) -> !spike.train<?x?x4>"
        " func.return %s : !spike.train<?x?x4> }"
    )
    fixed = apply_passes(parse_module(text), "infer-shapes{timesteps=16}")
    assert "(%x: tensor<16x?x4xf32>, %w: tensor<?x4xf32>) -> !spike.train<16x?x4>" in fixed
    fixed = apply_passes(parse_module(text), "infer-shapes{batch=2}")
    assert "(%x: tensor<?x2x4xf32>, %w: tensor<2x4xf32>) -> !spike.train<?x2x4>" in fixed
    fixed = apply_passes(parse_module(text), "infer-shapes{timesteps=16 batch=2}")
    assert "-> !spike.train<16x2x4>" in fixed
    with pytest.raises(OptionError, match="timesteps of at least 1, got 0"):
        apply_passes(parse_module(text), "infer-shapes{timesteps=0}")


def test_a_call_that_no_longer_fits_is_refused(apply_passes: Apply) -> None:
    type = TensorType(f32, [DYNAMIC, 2])
    callee = FuncOp("inner", ([type], [type]))
    inner = Builder(InsertPoint.at_end(callee.body.block))
    inner.insert(ReturnOp(*inner.insert(tensor.ReluOp(callee.args[0])).results))
    caller = FuncOp("forward", ([type], [type]))
    outer = Builder(InsertPoint.at_end(caller.body.block))
    outer.insert(ReturnOp(*outer.insert(CallOp("inner", caller.args, [type])).results))
    with pytest.raises(PassError, match="no longer fits '@inner'; inline the function first"):
        apply_passes(ModuleOp([callee, caller]), "infer-shapes{batch=2}")


@pytest.mark.parametrize("batch", [0, -3])
def test_a_batch_is_positive(batch: int) -> None:
    with pytest.raises(OptionError, match=f"a batch of at least 1, got {batch}"):
        InferShapesPass(batch=batch)
    assert issubclass(OptionError, TritonError)
