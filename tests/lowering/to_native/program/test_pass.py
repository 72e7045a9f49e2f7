"""The pass as a whole: what it refuses, calls of functions, what it says of the program."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.llvm import FuncOp

from triton_dsl.dialects.parameters import attach_store
from triton_dsl.dialects.registry import parse_module, triton_context, verify_module
from triton_dsl.ir.errors import OptionError, UnsupportedError
from triton_dsl.ir.store import ParameterStore
from triton_dsl.lowering.to_native.interface import noted_interface
from triton_dsl.lowering.to_native.linalg import ConvertTensorToLinalgPass
from triton_dsl.lowering.to_native.program import ConvertTernaryToLLVMPass


def converted(text: str, recipe: str = "generic") -> ModuleOp:
    module = parse_module(text)
    ConvertTensorToLinalgPass(keep="ternary").apply(triton_context(), module)
    ConvertTernaryToLLVMPass(recipe=recipe).apply(triton_context(), module)
    verify_module(module)
    return module


def refusal(text: str) -> str:
    module = parse_module(text)
    ConvertTensorToLinalgPass(keep="ternary").apply(triton_context(), module)
    before = str(module)
    with pytest.raises(UnsupportedError) as caught:
        ConvertTernaryToLLVMPass(recipe="generic").apply(triton_context(), module)
    assert str(module) == before
    return str(caught.value)


ADD = """
func.func @forward(%x: tensor<?x4xf32>, %y: tensor<4xf32>) -> tensor<?x4xf32> {
  %z = tensor.add %x, %y : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
  func.return %z : tensor<?x4xf32>
}
"""


def test_interface_is_noted() -> None:
    module = converted(ADD)
    noted = noted_interface(module)
    assert [x.shown(noted.names) for x in noted.inputs] == ["[batch, 4]", "[4]"]
    assert [y.shown(noted.names) for y in noted.outputs] == ["[batch, 4]"]
    assert noted.recipe == "generic"
    names = [op.sym_name.data for op in module.ops if isinstance(op, FuncOp)]
    assert names == ["loops_0", "forward", "forward_workspace_bytes"]


def test_the_same_program_gives_the_same_text() -> None:
    assert str(converted(ADD)) == str(converted(ADD))


def test_unknown_options_are_refused() -> None:
    with pytest.raises(OptionError, match="precision=float32 or precision=dynamic-int8"):
        ConvertTernaryToLLVMPass(precision="half")
    with pytest.raises(OptionError, match="no SIMD recipe is named 'mmx'"):
        converted(ADD, "mmx")


def test_free_sizes_have_the_names_of_the_source() -> None:
    text = """
func.func @forward(%x: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %y = tensor.relu %x : (tensor<?x?xf32>) -> tensor<?x?xf32>
  func.return %y : tensor<?x?xf32>
}
"""

    def shown(text: str) -> tuple[tuple[str, ...], str]:
        noted = noted_interface(converted(text))
        return noted.free, noted.outputs[0].shown(noted.names)

    assert shown(text) == (("batch", "axis_1_of_x"), "[batch, axis_1_of_x]")
    for names, wanted in (
        ('"N", "N"', ("batch",)),
        ('"N", "int"', ("N", "int_1")),
        ('"?", "?"', ("batch", "axis_1_of_x")),
    ):
        named = f"tensor<?x?xf32> {{tensor.dimensions = [{names}]}})"
        assert shown(text.replace("tensor<?x?xf32>)", named, 1))[0] == wanted


def test_functions_that_call_themselves_are_refused() -> None:
    message = refusal(
        """
func.func private @again(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = func.call @again(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = func.call @again(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
"""
    )
    assert "calls itself, through forward → again → again" in message


def test_a_module_without_forward_is_refused() -> None:
    assert "has no function @forward" in refusal(ADD.replace("@forward", "@other"))


CALLS = """
func.func private @twice(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %y = tensor.add %x, %x : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  func.return %y : tensor<?x4xf32>
}
func.func private @both(%x: tensor<?x4xf32>) -> (tensor<?x4xf32>, tensor<?x4xf32>) {
  %y = func.call @twice(%x) : (tensor<?x4xf32>) -> tensor<?x4xf32>
  func.return %x, %y : tensor<?x4xf32>, tensor<?x4xf32>
}
func.func @forward(%x: tensor<?x4xf32>)
    -> (tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<2xf32>) {
  %a, %b = func.call @both(%x) : (tensor<?x4xf32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
  %c = func.call @twice(%b) : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %d = tensor.constant dense<[1.0, 2.0]> : tensor<2xf32>
  func.return %a, %c, %c, %x, %d
      : tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<2xf32>
}
"""


def test_calls_and_results_that_are_no_new_tensors(
    compile_module: Callable[..., Any], recipe: str
) -> None:
    program = compile_module(parse_module(CALLS), recipe)
    for batch in (0, 3):
        x = np.arange(4 * batch, dtype=np.float32).reshape(batch, 4)
        a, c, again, same, constant = program.check([x], batch)
        assert np.array_equal(a, x) and np.array_equal(same, x)
        assert np.array_equal(c, 4 * x) and np.array_equal(again, c)
        assert constant.tolist() == [1, 2]


def test_memory_is_shared_by_what_is_not_needed_at_once() -> None:
    """A chain of layers needs the two largest neighbours, not all."""
    sizes = [64, 512, 512, 512, 512, 8]
    lines = [
        f'%w{i} = tensor.parameter "w{i}" : tensor<{a}x{b}xf32>\n'
        f"  %h{i + 1} = tensor.linear %h{i}, %w{i} : (tensor<?x{a}xf32>, tensor<{a}x{b}xf32>)"
        f" -> tensor<?x{b}xf32>"
        for i, (a, b) in enumerate(pairwise(sizes))
    ]
    text = (
        "func.func @forward(%h0: tensor<?x64xf32>) -> tensor<?x8xf32> {\n  "
        + "\n  ".join(lines)
        + "\n  func.return %h5 : tensor<?x8xf32>\n}"
    )
    module = parse_module(text)
    arrays: dict[str, Any] = {
        f"w{i}": np.full((a, b), i + 1, np.float32) for i, (a, b) in enumerate(pairwise(sizes))
    }
    attach_store(module, ParameterStore.of(arrays))
    ConvertTensorToLinalgPass(keep="ternary").apply(triton_context(), module)
    ConvertTernaryToLLVMPass(recipe="generic").apply(triton_context(), module)
    size = next(
        op
        for op in module.ops
        if isinstance(op, FuncOp) and op.sym_name.data == "forward_workspace_bytes"
    )
    assert f"constant({2 * 512 * 4})" in str(size)
