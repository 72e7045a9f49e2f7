"""Verification between passes finds what a pass breaks, however it breaks it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xdsl.dialects import hw, llvm
from xdsl.dialects.builtin import IntegerType, ModuleOp, StringAttr, TensorType, f32, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.rewriter import Rewriter

from triton_dsl.dialects import tensor
from triton_dsl.dialects.fabric import BitsOp, RowOp
from triton_dsl.dialects.registry import parse_module, verify_module
from triton_dsl.dialects.shapes import ints
from triton_dsl.dialects.verification import ChangeVerifier
from triton_dsl.ir.errors import VerifyError

TEXT = """
func.func @forward(%x: tensor<2x4xf32>) -> tensor<4x2xf32> {
  %a = tensor.relu %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %b = tensor.relu %a : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %c = tensor.permute %b {perm = array<i64: 1, 0>} : (tensor<2x4xf32>) -> tensor<4x2xf32>
  func.return %c : tensor<4x2xf32>
}
"""


def parts(module: ModuleOp) -> list[Operation]:
    function = next(op for op in module.walk() if isinstance(op, FuncOp))
    return list(function.body.block.ops)


def operand(module: ModuleOp) -> None:
    ops = parts(module)
    ops[1].operands[0] = ops[2].results[0]


def operand_type(module: ModuleOp) -> None:
    ops = parts(module)
    Rewriter.replace_value_with_new_type(ops[0].results[0], TensorType(f32, [3, 4]))


def result_type(module: ModuleOp) -> None:
    Rewriter.replace_value_with_new_type(parts(module)[2].results[0], TensorType(f32, [2, 4]))


def property_(module: ModuleOp) -> None:
    parts(module)[2].properties["perm"] = StringAttr("10")


def new_op(module: ModuleOp) -> None:
    ops = parts(module)
    made = tensor.ReluOp(ops[1].results[0])
    Rewriter.replace_value_with_new_type(made.results[0], TensorType(i64, [2, 4]))
    block = ops[1].parent
    assert block is not None
    block.insert_op_after(made, ops[1])


def order(module: ModuleOp) -> None:
    ops = parts(module)
    block = ops[0].parent
    assert block is not None
    ops[0].detach()
    block.insert_op_after(ops[0], ops[1])


def stranger(module: ModuleOp) -> None:
    """An op takes a value of the same type from outside of its function."""
    other = tensor.ReluOp(parts(module)[0].results[0])
    module.body.block.add_op(other)
    other.operands[0] = other.results[0]
    parts(module)[1].operands[0] = other.results[0]


def terminator(module: ModuleOp) -> None:
    parts(module)[-1].operands[0] = parts(module)[1].results[0]


BREAKS: list[Callable[[ModuleOp], None]] = [
    operand, operand_type, result_type, property_, new_op, order, stranger, terminator,
]  # fmt: skip


@pytest.mark.parametrize("spoil", BREAKS, ids=lambda f: f.__name__)
def test_what_breaks_between_two_runs(spoil: Callable[[ModuleOp], None]) -> None:
    """The message is that of the whole verification."""
    module = parse_module(TEXT)
    verify = ChangeVerifier()
    verify(module)
    verify(module)
    spoil(module)
    with pytest.raises(VerifyError) as found:
        verify(module)
    with pytest.raises(VerifyError) as whole:
        verify_module(module)
    assert str(found.value) == str(whole.value)


def test_the_first_run_is_whole() -> None:
    module = parse_module(TEXT)
    result_type(module)
    with pytest.raises(VerifyError):
        ChangeVerifier()(module)


def test_unchanged_ops_are_not_verified_again(monkeypatch: pytest.MonkeyPatch) -> None:
    module = parse_module(TEXT)
    verify = ChangeVerifier()
    verify(module)
    seen: list[str] = []
    real = tensor.ReluOp.infer

    def infer(self: tensor.ReluOp) -> object:
        seen.append("relu")
        return real(self)

    monkeypatch.setattr(tensor.ReluOp, "infer", infer)
    verify(module)
    assert not seen
    parts(module)[1].attributes["mark"] = StringAttr("new")
    verify(module)
    assert seen == ["relu"]


GATES = """
hw.module @gates(in %a: i4, in %b: i4, in %c: i1, out y: i4) {
  %s = comb.add %a, %b : i4
  %t = comb.add %b, %s : i4
  %m = comb.mux %c, %s, %t : i4
  %p = fabric.bits %a, %b {places = array<i64: 0, 0, 0, 1, 0, 2, 0, 3, 1, 0, 1, 1>} : (i4, i4) -> i6
  %q = fabric.bits %b, %m {places = array<i64: 0, 0, 0, 1, 0, 2, 0, 3, 1, 0, 1, 1>} : (i4, i4) -> i6
  %u = fabric.row %p, %c {places = array<i64: 0, 0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 1, 0>,
       tables = array<i64: 6>, direct = array<i64: 0>, linked = array<i64: 0>} : (i6, i1) -> i3
  %v = fabric.row %q, %c {places = array<i64: 0, 0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 1, 0>,
       tables = array<i64: 6>, direct = array<i64: 0>, linked = array<i64: 0>} : (i6, i1) -> i3
  hw.output %m : i4
}
"""


def gate(module: ModuleOp) -> None:
    """A sum of other bits than its numbers have."""
    hardware = next(op for op in module.walk() if isinstance(op, hw.HWModuleOp))
    made = hardware.body.block.first_op
    assert made is not None and made.next_op is not None
    Rewriter.replace_value_with_new_type(made.next_op.results[0], IntegerType(5))


def place(module: ModuleOp) -> None:
    """A bit that its value has not."""
    op = [op for op in module.walk() if isinstance(op, BitsOp)][-1]
    op.properties["places"] = ints([0, 0, 0, 1, 0, 2, 0, 4, 1, 0, 1, 1])


def link(module: ModuleOp) -> None:
    """A first site that is linked to one before."""
    [op for op in module.walk() if isinstance(op, RowOp)][-1].properties["linked"] = ints([1])


def carry(module: ModuleOp) -> None:
    """The carry of an operand that is not there."""
    op = [op for op in module.walk() if isinstance(op, RowOp)][-1]
    op.properties["places"] = ints([0, 0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 2, 0])


def output(module: ModuleOp) -> None:
    last = next(op for op in module.walk() if isinstance(op, hw.OutputOp))
    last.operands = []


@pytest.mark.parametrize("spoil", [gate, place, link, carry, output], ids=lambda f: f.__name__)
def test_a_wrong_gate_among_many_that_are_alike(spoil: Callable[[ModuleOp], None]) -> None:
    module = parse_module(TEXT)
    verify = ChangeVerifier()
    verify(module)
    module.body.block.add_ops([op.clone() for op in parse_module(GATES).ops])
    verify(module)
    verify.finish(module)
    spoil(module)
    with pytest.raises(VerifyError) as found:
        verify(module)
    with pytest.raises(VerifyError) as whole:
        verify_module(module)
    assert str(found.value) == str(whole.value)


CODE = """
llvm.func @code(%a: i32, %b: i64) -> i32 {
  %c = llvm.add %a, %a : i32
  %d = llvm.add %b, %b : i64
  llvm.return %c : i32
}
"""


def test_an_argument_that_became_another() -> None:
    module = parse_module("func.func @f(%x: i64) { func.return }")
    verify = ChangeVerifier()
    verify(module)
    verify(module)
    (function,) = module.ops
    assert isinstance(function, FuncOp)
    Rewriter.replace_value_with_new_type(function.body.block.args[0], f32)
    with pytest.raises(VerifyError, match="entry block arguments"):
        verify(module)


def number(code: llvm.FuncOp) -> None:
    ops = list(code.body.block.ops)
    ops[0].operands[0] = ops[1].results[0]


def value_of_nobody(code: llvm.FuncOp) -> None:
    argument = code.body.block.args[0]
    other = llvm.AddOp(argument, argument)
    next(iter(code.body.block.ops)).operands[0] = other.results[0]


def end(code: llvm.FuncOp) -> None:
    last = code.body.block.last_op
    assert last is not None
    last.detach()


@pytest.mark.parametrize("spoil", [number, value_of_nobody, end], ids=lambda f: f.__name__)
def test_the_last_look_is_at_machine_code(spoil: Callable[[llvm.FuncOp], None]) -> None:
    module = parse_module(CODE)
    verify = ChangeVerifier()
    verify(module)
    verify(module)
    verify.finish(module)
    (code,) = module.body.block.ops
    assert isinstance(code, llvm.FuncOp)
    spoil(code)
    with pytest.raises(VerifyError):
        verify.finish(module)


@pytest.mark.parametrize("spoil", [*BREAKS, output], ids=lambda f: f.__name__)
def test_the_last_look_is_at_all_but_insides_of_hardware(
    spoil: Callable[[ModuleOp], None],
) -> None:
    module = parse_module(TEXT + GATES)
    verify = ChangeVerifier()
    verify(module)
    spoil(module)
    with pytest.raises(VerifyError):
        ChangeVerifier().finish(module)
    if spoil is not output:
        with pytest.raises(VerifyError):
            verify.finish(module)
