"""Dialect conversion: one rule for each kind of op, casts at the borders, one error for all.

A value whose type changes is cast back for its users that are not converted yet, with
`builtin.unrealized_conversion_cast`; the next conversion looks through the casts, and casts that
nobody uses are removed. Every conversion leaves IR that verifies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import ModuleOp, UnrealizedConversionCastOp
from xdsl.ir import Attribute, Operation, SSAValue

from ....ir.errors import UnsupportedError
from ....ir.locations import location_text
from ....ir.walking import all_ops
from .llvm_builder import AnchoredBuilder, LlvmBuilder
from .types import NO_TYPE, llvm_type

Values = Sequence[SSAValue]
Rule = Callable[[LlvmBuilder, Any, Values], SSAValue | Values]
"""LlvmBuilder, op and its operands in `llvm` types to its results, in such types."""

Refusal = Callable[[Operation], str | None]
"""Why an op cannot be converted, `None` if it can."""


def convert_ops(
    module: ModuleOp,
    rules: Mapping[type[Operation], Rule],
    *,
    dialect: str,
    refuse: Refusal = lambda op: None,
) -> None:
    """Replace every op that has a rule.

    Args:
        module: changed in place.
        rules: what makes the results of an op.
        dialect: ops of it without a rule are refused.
        refuse: why an op cannot be converted, with a rule or without.

    Raises:
        UnsupportedError: ops that cannot be converted, all of them; the module is as it was.
    """
    ops = [op for op in all_ops(module) if type(op) in rules or in_dialect(op, dialect)]
    check(ops, lambda op: refuse(op) or (None if type(op) in rules else "no rule converts it"))
    builder = AnchoredBuilder()
    for op in ops:
        builder.at(op)
        operands = [realized(builder, operand) for operand in op.operands]
        results = rules[type(op)](builder, op, operands)
        replace_op(builder, op, [results] if isinstance(results, SSAValue) else results)
    remove_casts(module)


def in_dialect(op: Operation, dialect: str) -> bool:
    """Whether the name of `op` starts with that of the dialect."""
    return op.name.startswith(dialect) and op.name[len(dialect) : len(dialect) + 1] == "."


def check(ops: Iterable[Operation], refuse: Refusal) -> None:
    """Refuse all of `ops` that have a reason, or a type without a counterpart.

    Raises:
        UnsupportedError: there are such ops.
    """
    problems = [
        (op.name, location_text(op), reason)
        for op in ops
        if (reason := _strange_type(op) or refuse(op)) is not None
    ]
    if problems:
        raise UnsupportedError("llvm", problems)


def _strange_type(op: Operation) -> str | None:
    for value in (*op.operands, *op.results):
        if llvm_type(value.type) is None:
            return f"{value.type} {NO_TYPE}"
    return None


def realized(builder: LlvmBuilder, value: SSAValue) -> SSAValue:
    """`value` in its `llvm` type."""
    wanted = llvm_type(value.type)
    if wanted is None or wanted is value.type or wanted == value.type:
        return value
    return cast_to(builder, value, wanted)


def cast_to(builder: LlvmBuilder, value: SSAValue, type: Attribute) -> SSAValue:
    """`value` as another type: what a cast was made from, or else a new cast."""
    owner = value.owner
    if isinstance(owner, UnrealizedConversionCastOp) and owner.inputs[0].type == type:
        return owner.inputs[0]
    if value.type == type:
        return value
    return builder.insert(UnrealizedConversionCastOp.get([value], [type]))


def replace_op(builder: LlvmBuilder, op: Operation, values: Values) -> None:
    """Use `values` in the place of the results of `op`, cast back where the type is new; erase it.

    The values take over the name hints.
    """
    for result, value in zip(op.results, values, strict=True):
        if value.name_hint is None and result.name_hint is not None:
            value.name_hint = result.name_hint
        if result.first_use is not None:
            result.replace_all_uses_with(cast_to(builder, value, result.type))
    block = op.parent
    assert block is not None
    block.erase_op(op)


def remove_casts(module: ModuleOp) -> None:
    """Remove the casts that nobody uses; look through a cast of a cast."""
    casts = [op for op in all_ops(module) if isinstance(op, UnrealizedConversionCastOp)]
    for op in casts:
        source = op.inputs[0] if len(op.inputs) == 1 else None
        inner = None if source is None else source.owner
        if (
            isinstance(inner, UnrealizedConversionCastOp)
            and len(op.results) == len(inner.inputs) == 1
            and inner.inputs[0].type == op.results[0].type
        ):
            op.results[0].replace_all_uses_with(inner.inputs[0])
    for op in reversed(casts):
        if op.parent is not None and not any(result.first_use for result in op.results):
            op.parent.erase_op(op)
