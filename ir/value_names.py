"""What a function calls its arguments and results: for errors, files and the keys of samples."""

from __future__ import annotations

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr
from xdsl.ir import Attribute, BlockArgument

NAME_ATTRIBUTE = "tensor.name"
"""Of an argument or result: what the source calls it."""


def argument_names(function: func.FuncOp) -> list[str]:
    """What the program calls each argument: `tensor.name`, the SSA name, or `x`, `x1`, …"""
    attributes = _dictionaries(function.arg_attrs, len(function.args))
    names: list[str] = []
    for index, (argument, attribute) in enumerate(zip(function.args, attributes, strict=True)):
        default = f"x{index}" if index else "x"
        names.append(_named(attribute) or argument.name_hint or default)
    return names


def result_names(function: func.FuncOp) -> list[str]:
    """What the program calls each result: `tensor.name`, or `y`, `y1`, …"""
    count = len(function.function_type.outputs)
    return [
        _named(attribute) or (f"y{index}" if index else "y")
        for index, attribute in enumerate(_dictionaries(function.res_attrs, count))
    ]


def added_argument(
    function: func.FuncOp, type: Attribute, name: str, attribute: str = NAME_ATTRIBUTE
) -> BlockArgument:
    """A new last argument that bears a name; the type of the function is left as it is."""
    block, known = function.body.block, function.arg_attrs
    names = [DictionaryAttr({}) for _ in block.args] if known is None else list(known)
    function.arg_attrs = ArrayAttr([*names, DictionaryAttr({attribute: StringAttr(name)})])
    return block.insert_arg(type, len(block.args))


def _dictionaries(
    attributes: ArrayAttr[DictionaryAttr] | None, count: int
) -> list[DictionaryAttr | None]:
    return [None] * count if attributes is None else list(attributes)


def _named(attribute: DictionaryAttr | None) -> str | None:
    value = None if attribute is None else attribute.data.get(NAME_ATTRIBUTE)
    return value.data if isinstance(value, StringAttr) else None
