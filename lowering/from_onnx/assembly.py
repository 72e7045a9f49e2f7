"""The module around what a `Builder` has written: `@forward`, its names, its parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    LocationAttr,
    ModuleOp,
    StringAttr,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Region, SSAValue

from ...dialects.parameters import attach_store
from ...ir.value_names import DIMENSIONS_ATTRIBUTE, NAME_ATTRIBUTE
from ...passes.analysis.replacement import erase_unused
from .onnx_builder import Builder
from .sizes import Sizes

Port = tuple[str, SSAValue]
"""An argument or result and its name."""


def assembled(
    builder: Builder,
    name: str,
    arguments: Sequence[Port],
    results: Sequence[Port],
    location: LocationAttr,
    more: Mapping[SSAValue, Mapping[str, Attribute]] | None = None,
) -> ModuleOp:
    """The module with `func.func @forward`; ops whose results nobody uses are left out.

    Args:
        builder: what wrote the program.
        name: of the module.
        arguments: in the order of the block's.
        results: what `@forward` returns.
        location: of the function.
        more: attributes of arguments and results beside their names and dimensions.
    """
    block, values = builder.block, [value for _, value in results]
    more = more or {}

    def described(ports: Sequence[Port]) -> ArrayAttr[DictionaryAttr]:
        return ArrayAttr(
            [_described(n, builder.sizes(value), more.get(value, {})) for n, value in ports]
        )

    end = ReturnOp(*values)
    end.location = location
    block.add_op(end)
    function = FuncOp(
        "forward",
        FunctionType.from_lists([v.type for v in block.args], [v.type for v in values]),
        Region(block),
        arg_attrs=described(arguments),
        res_attrs=described(results),
    )
    module = ModuleOp([function], sym_name=StringAttr(name))
    for op in (function, module):
        op.location = location
    attach_store(module, builder.store)
    erase_unused([op for op in module.walk() if op.results])
    return module


def _described(name: str, sizes: Sizes, more: Mapping[str, Attribute]) -> DictionaryAttr:
    dimensions = ArrayAttr([StringAttr(str(size)) for size in sizes])
    return DictionaryAttr(
        {NAME_ATTRIBUTE: StringAttr(name), DIMENSIONS_ATTRIBUTE: dimensions, **more}
    )
