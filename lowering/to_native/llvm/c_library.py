"""Calls of the C library's functions of floats, a vector's lane by lane."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import llvm, math
from xdsl.dialects.builtin import ModuleOp, f64, i64
from xdsl.ir import Operation, SSAValue

from ....ir.walking import all_ops
from .llvm_builder import LlvmBuilder
from .types import element, lanes

_FUNCTIONS = {
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "atan2", "cbrt", "cos", "cosh", "erf"),
    *("exp", "exp2", "expm1", "log", "log10", "log1p", "log2", "sin", "sinh", "tan", "tanh"),
}
C_NAMES: dict[type[Operation], str] = {
    **{
        kind: name
        for kind in math.Math.operations
        if (name := kind.name.removeprefix("math.")) in _FUNCTIONS
    },
    math.PowFOp: "pow",
}
"""The function of f64 for each op; that of f32 has an f behind."""


def call_c(name: str) -> Callable[..., SSAValue]:
    """The builder that calls `name` on f64, or its sister on f32."""

    def build(e: LlvmBuilder, *x: SSAValue) -> SSAValue:
        kind = x[0].type
        scalar = element(kind)
        full = name if scalar == f64 else f"{name}f"
        count = lanes(kind)
        if count is None:
            return e.insert(llvm.CallOp(full, *x, return_type=scalar))
        result = e.insert(llvm.UndefOp(kind))
        for place in range(count):
            numbers = [e.lane(value, place) for value in x]
            one = e.insert(llvm.CallOp(full, *numbers, return_type=scalar))
            result = e.insert(llvm.InsertElementOp(result, one, e.constant(place, i64)))
        return result

    return build


def declare(module: ModuleOp) -> None:
    """Add declarations of the C functions that are called and not there yet."""
    known = {name for base in C_NAMES.values() for name in (base, f"{base}f")}
    there = {op.sym_name.data for op in module.ops if isinstance(op, llvm.FuncOp)}
    for op in all_ops(module):
        if not isinstance(op, llvm.CallOp) or op.callee is None:
            continue
        name = op.callee.string_value()
        if name in known and name not in there:
            there.add(name)
            kind = llvm.LLVMFunctionType([value.type for value in op.args], op.results[0].type)
            function = llvm.FuncOp(name, kind, llvm.LinkageAttr("external"))
            function.location = op.location
            module.body.block.add_op(function)
