"""`convert-cf-to-llvm` and `convert-func-to-llvm`: what the compiled branches and calls compute."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from triton_dsl.dialects.registry import parse_module, triton_context, verify_module
from triton_dsl.ir.errors import UnsupportedError
from triton_dsl.lowering.to_native.llvm.convert_cf import ConvertCfToLLVMPass
from triton_dsl.lowering.to_native.llvm.convert_func import ConvertFuncToLLVMPass

Array = NDArray[Any]
Native = Callable[..., Callable[..., Array]]


def test_switch(native: Native) -> None:
    run = native("""
func.func private @f(%x: i32, %y: i32) -> i32 {
  cf.switch %x : i32, [
    default: ^end(%y : i32),
    3: ^double,
    -4: ^end(%x : i32),
    7: ^double
  ]
^double:
  %t = arith.addi %y, %y : i32
  cf.br ^end(%t : i32)
^end(%r: i32):
  func.return %r : i32
}""")
    x = np.array([3, -4, 7, 0, 4, -3], "i4")
    y = np.arange(10, 16, dtype="i4")
    assert run(x, y).tolist() == [20, -4, 24, 13, 14, 15]


def test_switch_with_a_default_alone(native: Native) -> None:
    run = native("""
func.func private @f(%x: i32) -> i32 {
  cf.switch %x : i32, [
    default: ^end(%x : i32)
  ]
^end(%r: i32):
  func.return %r : i32
}""")
    assert run(np.array([5, -6], "i4")).tolist() == [5, -6]


def test_both_ways_lead_to_one_block(native: Native) -> None:
    run = native("""
func.func private @f(%x: i32, %y: i32) -> i32 {
  %c = arith.cmpi slt, %x, %y : i32
  cf.cond_br %c, ^end(%x, %y : i32, i32), ^end(%y, %x : i32, i32)
^end(%low: i32, %high: i32):
  %r = arith.subi %high, %low : i32
  func.return %r : i32
}""")
    assert run(np.array([1, 9], "i4"), np.array([5, 2], "i4")).tolist() == [4, 7]


def test_loop_over_sizes(native: Native) -> None:
    run = native("""
func.func private @f(%n: index) -> index {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  cf.br ^head(%zero, %zero : index, index)
^head(%i: index, %total: index):
  %more = arith.cmpi slt, %i, %n : index
  cf.cond_br %more, ^body, ^end
^body:
  %next = arith.addi %i, %one : index
  %sum = arith.addi %total, %next : index
  cf.br ^head(%next, %sum : index, index)
^end:
  func.return %total : index
}""")
    n = np.arange(6)
    np.testing.assert_array_equal(run(n), n * (n + 1) // 2)


def test_an_assertion_that_holds_goes_on(native: Native) -> None:
    run = native("""
func.func private @f(%x: i32) -> i32 {
  %zero = arith.constant 0 : i32
  %c = arith.cmpi sge, %x, %zero : i32
  cf.assert %c, "not negative"
  %r = arith.addi %x, %x : i32
  cf.assert %c, "still not"
  func.return %r : i32
}""")
    assert run(np.array([0, 4], "i4")).tolist() == [0, 8]


def test_calls_with_several_results(native: Native) -> None:
    run = native("""
func.func private @parts(%x: i64, %y: f32) -> (f32, i64, bf16) {
  %b = arith.truncf %y : f32 to bf16
  func.return %y, %x, %b : f32, i64, bf16
}
func.func private @f(%x: i64, %y: f32) -> f32 {
  %a, %n, %b = func.call @parts(%x, %y) : (i64, f32) -> (f32, i64, bf16)
  %m = arith.sitofp %n : i64 to f32
  %w = arith.extf %b : bf16 to f32
  %s = arith.subf %a, %w : f32
  %r = arith.addf %m, %s : f32
  func.return %r : f32
}""")
    # 1.00390625 is 2^-8 above 1: half-way in bf16, to even.
    got = run(np.array([3, -7]), np.array([1.00390625, 2.0], "f4"))
    assert got.tolist() == [3.00390625, -7.0]


def test_locations_and_names_stay() -> None:
    module = parse_module(
        "func.func @f(%c: i1) {\n  cf.cond_br %c, ^a, ^b\n^a:\n  cf.br ^b\n^b:\n  func.return\n}",
        name="x.mlir",
    )
    before = {str(op.location) for op in module.walk() if op is not module}
    ConvertCfToLLVMPass().apply(triton_context(), module)
    ConvertFuncToLLVMPass().apply(triton_context(), module)
    verify_module(module)
    assert {str(op.location) for op in module.walk() if op is not module} == before
    assert len(before) == 4


def test_a_refused_module_is_as_it_was() -> None:
    text = "func.func @f(%x: tensor<2xi8>) {\n  func.return\n}\nfunc.func @g() {\n  func.return\n}"
    module = parse_module(text)
    before = str(module)
    with pytest.raises(UnsupportedError, match="tensor<2xi8> has no counterpart"):
        ConvertFuncToLLVMPass().apply(triton_context(), module)
    assert str(module) == before
