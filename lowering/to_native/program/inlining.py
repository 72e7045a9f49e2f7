"""Calls of functions of the same module, replaced by what those do."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from ....ir.errors import UnsupportedError
from ....ir.locations import location_text
from ....passes.analysis.replacement import erase


def inline_calls(module: ModuleOp, function: FuncOp) -> None:
    """Put the bodies of the functions that `function` calls in the place of the calls.

    Raises:
        UnsupportedError: a function that calls itself.
    """
    defined = {
        f.sym_name.data: f for f in module.walk() if isinstance(f, FuncOp) and not f.is_declaration
    }
    _refuse_cycles(function, defined, [])
    while calls := [op for op in function.body.block.ops if _called(op, defined) is not None]:
        for call in calls:
            _inline(call, defined)


def _called(op: Operation, defined: dict[str, FuncOp]) -> FuncOp | None:
    return defined.get(op.callee.string_value()) if isinstance(op, CallOp) else None


def _refuse_cycles(function: FuncOp, defined: dict[str, FuncOp], path: list[str]) -> None:
    name = function.sym_name.data
    if name in path:
        reason = f"calls itself, through {' → '.join([*path, name])}"
        raise UnsupportedError("native", [(function.name, location_text(function), reason)])
    for op in function.walk():
        callee = _called(op, defined)
        if callee is not None:
            _refuse_cycles(callee, defined, [*path, name])


def _inline(call: Operation, defined: dict[str, FuncOp]) -> None:
    callee = _called(call, defined)
    assert callee is not None
    block = call.parent
    assert block is not None
    values: dict[SSAValue, SSAValue] = dict(zip(callee.args, call.operands, strict=True))
    results: list[SSAValue] = []
    for op in callee.body.block.ops:
        if isinstance(op, ReturnOp):
            results = [values[operand] for operand in op.operands]
            continue
        clone = op.clone(values)
        block.insert_op_before(clone, call)
    for result, value in zip(call.results, results, strict=True):
        result.replace_all_uses_with(value)
    erase(call)
