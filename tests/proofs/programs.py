"""Small functions to rewrite, made of the ops of the dialects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.builder import Builder
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import VerifyException

from triton_dsl.dialects.shapes import DYNAMIC

Make = Callable[..., Operation]


def tensor_of(element: Attribute, shape: Sequence[int]) -> TensorType[Attribute]:
    """A tensor type; -1 stands for `?`."""
    return TensorType(element, [DYNAMIC if size == -1 else size for size in shape])


def program(types: Sequence[Attribute], body: Callable[..., Any]) -> ModuleOp:
    """A function of arguments of some types.

    Args:
        types: of the arguments.
        body: gets a function that inserts an op and gives its result, then the arguments; returns
            the result, or all of them.
    """
    function = FuncOp("forward", (list(types), []))
    builder = Builder(InsertPoint.at_end(function.body.block))

    def insert(op: Operation) -> SSAValue:
        return builder.insert(op).results[0]

    made = body(insert, *function.args)
    builder.insert(ReturnOp(*([made] if isinstance(made, SSAValue) else made)))
    function.update_function_type()
    return ModuleOp([function])


def unary(type: Attribute, *makes: Make) -> ModuleOp | None:
    """One op behind the other on an argument; `None` if they do not fit."""

    def body(insert: Any, value: SSAValue) -> SSAValue:
        for make in makes:
            value = insert(make(value))
        return value

    try:
        return program([type], body)
    except VerifyException:
        return None
