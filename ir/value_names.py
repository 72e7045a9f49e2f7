"""What a function calls its arguments and results: for errors, files and the keys of samples."""

from __future__ import annotations

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr
from xdsl.ir import Attribute, BlockArgument

NAME_ATTRIBUTE = "tensor.name"
"""Of an argument or result: what the source calls it."""

DIMENSIONS_ATTRIBUTE = "tensor.dimensions"
"""Of an argument or result: the dimensions as the source writes them (`["N", "784"]`)."""


def argument_names(function: func.FuncOp) -> list[str]:
    """What the program calls each argument: `tensor.name`, the SSA name, or `x`, `x1`, …"""
    return [
        given_name(function.arg_attrs, index)
        or argument.name_hint
        or (f"x{index}" if index else "x")
        for index, argument in enumerate(function.args)
    ]


def result_names(function: func.FuncOp) -> list[str]:
    """What the program calls each result: `tensor.name`, or `y`, `y1`, …"""
    return [
        given_name(function.res_attrs, index) or (f"y{index}" if index else "y")
        for index in range(len(function.function_type.outputs))
    ]


def given_name(attributes: ArrayAttr[DictionaryAttr] | None, index: int) -> str | None:
    """The `tensor.name` of an argument or a result."""
    if attributes is None or index >= len(attributes.data):
        return None
    value = attributes.data[index].data.get(NAME_ATTRIBUTE)
    return value.data if isinstance(value, StringAttr) else None


def added_argument(
    function: func.FuncOp, type: Attribute, name: str, attribute: str = NAME_ATTRIBUTE
) -> BlockArgument:
    """A new last argument that bears a name; the type of the function is left as it is."""
    block, known = function.body.block, function.arg_attrs
    names = [DictionaryAttr({}) for _ in block.args] if known is None else list(known)
    function.arg_attrs = ArrayAttr([*names, DictionaryAttr({attribute: StringAttr(name)})])
    return block.insert_arg(type, len(block.args))
