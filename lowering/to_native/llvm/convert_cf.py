"""The pass `convert-cf-to-llvm`: branches, and the arguments of the blocks that they lead to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects import cf, llvm
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from ....ir.walking import all_ops
from .blocks import convert_arguments
from .llvm_builder import AnchoredBuilder
from .walk import check, in_dialect, realized, remove_casts

_Target = tuple[Block, Sequence[SSAValue]]
_EQUAL = IntegerAttr(llvm.ICmpPredicateFlag.EQ.to_int(), i64)


@dataclass(frozen=True)
class ConvertCfToLLVMPass(ModulePass):
    """Lower `cf` to the `llvm` dialect.

    A `cf.switch` becomes a comparison for each case, in order; a `cf.assert` that fails ends the
    program with `llvm.trap`. The arguments of blocks get their `llvm` types, those of a function's
    first block excepted.

        cf.cond_br %c, ^yes(%x : i32), ^no
        // becomes
        llvm.cond_br %c, ^yes(%x : i32), ^no

    Raises:
        UnsupportedError: arguments whose types have no counterpart; all of them.
    """

    name = "convert-cf-to-llvm"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        ops = [each for each in all_ops(op) if in_dialect(each, "cf")]
        check(ops, lambda each: None)
        builder = AnchoredBuilder()
        for block in dict.fromkeys(block for each in ops for block in each.successors):
            convert_arguments(builder, block)
        for each in ops:
            builder.at(each)
            _convert(builder, each)
        remove_casts(op)


def _convert(e: AnchoredBuilder, op: Operation) -> None:
    match op:
        case cf.BranchOp():
            e.append(llvm.BrOp(op.successor, *_values(e, op.arguments)))
        case cf.ConditionalBranchOp():
            yes, no = _values(e, op.then_arguments), _values(e, op.else_arguments)
            for each in _branch(op.cond, (op.then_block, yes), (op.else_block, no)):
                e.append(each)
        case cf.SwitchOp():
            _switch(e, op)
        case _:
            _assert(e, cast(cf.AssertOp, op))
    block = op.parent
    assert block is not None
    block.erase_op(op)


def _values(e: AnchoredBuilder, values: Sequence[SSAValue]) -> list[SSAValue]:
    return [realized(e, value) for value in values]


def _branch(condition: SSAValue, yes: _Target, no: _Target) -> list[Operation]:
    """A branch; where both ways lead to one block, the values are chosen before it.

    LLVM has one value for each block that comes before, not for each branch.
    """
    if yes[0] is not no[0]:
        return [llvm.CondBrOp(condition, *yes, *no)]
    chosen = [llvm.SelectOp(condition, x, y) for x, y in zip(yes[1], no[1], strict=True)]
    return [*chosen, llvm.BrOp(yes[0], *chosen)]


def _switch(e: AnchoredBuilder, op: cf.SwitchOp) -> None:
    """The first comparison stands where the op stood, each other one in a block of its own."""
    flag = realized(e, op.flag)
    otherwise: _Target = (op.default_block, _values(e, op.default_operands))
    targets: list[_Target] = [
        (block, _values(e, values))
        for block, values in zip(op.case_blocks, op.case_operand, strict=True)
    ]
    numbers = [] if op.case_values is None else list(op.case_values.get_values())
    start = op.parent
    assert start is not None and start.parent is not None
    ops: list[Operation] = [llvm.BrOp(otherwise[0], *otherwise[1])]
    for place, (number, target) in reversed(list(enumerate(zip(numbers, targets, strict=True)))):
        equal = llvm.ICmpOp(flag, e.constant(number, flag.type), _EQUAL)
        ops = [equal, *_branch(equal.res, target, otherwise)]
        if place > 0:
            block = Block()
            start.parent.insert_block_after(block, start)
            for each in ops:
                each.location = op.location
            block.add_ops(ops)
            otherwise = (block, [])
    for each in ops:
        e.append(each)


def _assert(e: AnchoredBuilder, op: cf.AssertOp) -> None:
    """What follows moves into a block of its own, behind one that ends the program."""
    block, following_op = op.parent, op.next_op
    assert block is not None and block.parent is not None and following_op is not None
    following = block.split_before(following_op)
    failing = Block()
    block.parent.insert_block_after(failing, block)
    e.append(llvm.CondBrOp(op.arg, following, [], failing, []))
    for last in (llvm.CallIntrinsicOp("llvm.trap", [], []), llvm.UnreachableOp()):
        last.location = op.location
        failing.add_op(last)
