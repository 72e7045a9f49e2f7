"""Values that get their `llvm` types where they are: arguments of blocks, results of loads."""

from __future__ import annotations

from xdsl.dialects.builtin import UnrealizedConversionCastOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from .llvm_builder import AnchoredBuilder
from .types import llvm_type


def convert_arguments(e: AnchoredBuilder, block: Block) -> None:
    """Give the arguments of a block their `llvm` types; users get casts to the old ones."""
    first = block.first_op
    assert first is not None
    for argument in list(block.args):
        replace_type(e, argument, first)


def replace_type(e: AnchoredBuilder, value: SSAValue, following: Operation) -> None:
    """Give a value its `llvm` type; users get a cast to the old one, put before `following`."""
    old = value.type
    new = llvm_type(old)
    if new is None or new == old:
        return
    changed = Rewriter.replace_value_with_new_type(value, new)
    if changed.first_use is None:
        return
    cast = UnrealizedConversionCastOp.get([changed], [old])
    for use in list(changed.uses):
        if use.operation is not cast:
            use.operation.operands[use.index] = cast.results[0]
    e.at(following)
    e.append(cast)
