"""The first op of a program after which something is wrong: beginnings of `@forward`, and a search.

A beginning is a program of its own, whose results are all values that the rest needs; what is wrong
with it is asked of the caller. Not here: engines and what is compared (`verify`).
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from ..ir.interpreter import entry_function
from ..passes.analysis.replacement import erase_unused

Judge = Callable[[int], bool | None]
"""Whether a beginning of so many ops is wrong; `None` where nobody can tell."""


def body_ops(module: ModuleOp) -> list[Operation]:
    """The ops of `@forward` without the one that returns."""
    return list(entry_function(module, "forward").body.block.ops)[:-1]


def beginning(module: ModuleOp, count: int) -> ModuleOp:
    """A copy of a module whose `@forward` ends after its first `count` ops.

    Its results are the values of these ops that the rest uses, in their order; those that depend on
    constants and parameters alone are left out. With all ops it is the program itself.
    """
    copy = module.clone()
    function = entry_function(copy, "forward")
    block = function.body.block
    ops = body_ops(copy)
    if count >= len(ops):
        return copy
    prefix, rest = ops[:count], ops[count:]
    results = live_values(copy, count)
    end = block.last_op
    assert isinstance(end, ReturnOp)
    for op in (end, *reversed(rest)):
        op.detach()
        op.erase(safe_erase=False)
    block.add_op(ReturnOp(*results))
    erase_unused([op for op in prefix if op.results])
    function.function_type = FunctionType.from_lists(
        [argument.type for argument in block.args], [value.type for value in results]
    )
    function.res_attrs = None
    return copy


def live_values(module: ModuleOp, count: int) -> list[SSAValue]:
    """The values of the first `count` ops of `@forward` that depend on its arguments and that a
    later op uses."""
    block = entry_function(module, "forward").body.block
    ops = list(block.ops)
    depending: set[SSAValue] = set(block.args)
    later = set(ops[count:])
    live: list[SSAValue] = []
    for op in ops[:count]:
        if not any(value in depending for value in _used(op)):
            continue
        depending.update(op.results)
        live += [v for v in op.results if any(_at_top(u.operation) in later for u in v.uses)]
    return live


def first_wrong(count: int, is_wrong: Judge) -> int:
    """How many ops the least beginning has that is wrong while the one before it is not.

    Args:
        count: ops of the whole program, which is wrong; the empty beginning is right.
        is_wrong: asked about log2(count) beginnings, and neighbours of those that it cannot judge.
    """
    right, wrong = 0, count
    while wrong - right > 1:
        middle = (right + wrong) // 2
        between = sorted(range(right + 1, wrong), key=lambda n: abs(n - middle))
        for place in between:
            if (verdict := is_wrong(place)) is not None:
                right, wrong = (right, place) if verdict else (place, wrong)
                break
        else:
            break
    return wrong


def _used(op: Operation) -> list[SSAValue]:
    """The operands of an op and of those in its regions."""
    return [operand for inner in op.walk() for operand in inner.operands]


def _at_top(op: Operation) -> Operation:
    """The op of the function that `op` stands in."""
    while (parent := op.parent_op()) is not None and not isinstance(parent, FuncOp):
        op = parent
    return op
