"""The interface of a program, noted on the module before the passes and read after them.

The passes keep the order and the sizes of inputs and outputs, but not the names, unsigned types or
what follows from whole-tensor ops. Not here: the interface itself (`abi.interface`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from ...dialects.elements import numpy_dtype
from ...dialects.shapes import DYNAMIC
from ...dialects.spike.types import dense_type
from ...ir.errors import LoweringError
from ...ir.identifiers import identifier
from ...ir.value_names import argument_names, result_names
from ...runtime.native.abi.interface import Interface, TensorInterface
from ...runtime.native.abi.sizes import BATCH, Size
from ..emission import Names, entry_function
from .free_sizes import free_sizes
from .header import RESERVED
from .rows import is_row_wise, work_of_row

INTERFACE_ATTRIBUTE = "native.interface"
"""Module attribute of a program in memory: its `Interface` as JSON."""

NOTE_ATTRIBUTE = "native.program"
"""Module attribute with what is known of that before, of whole tensors."""


def note_interface(module: ModuleOp, recipe: str) -> None:
    """Note the interface of a module of whole tensors; a module that has one already keeps it.

    Raises:
        LoweringError: no `@forward`.
    """
    if NOTE_ATTRIBUTE in module.attributes or INTERFACE_ATTRIBUTE in module.attributes:
        return
    function = entry_function(module, "native")
    interface = _interface(
        module, function, argument_names(function), result_names(function), recipe
    )
    row_wise = len(interface.free) == 1 and is_row_wise(function)
    interface = replace(interface, row_wise=row_wise, work=work_of_row(function))
    module.attributes[NOTE_ATTRIBUTE] = StringAttr(interface.to_json())


def interface_of(module: ModuleOp, function: FuncOp, recipe: str) -> Interface:
    """What is known of the interface of a function of a module before it is compiled."""
    note = module.attributes.get(NOTE_ATTRIBUTE)
    if isinstance(note, StringAttr):
        return Interface.from_dict(json.loads(note.data))
    arguments, results = (
        [f"{letter}{n or ''}" for n in range(len(types))]
        for letter, types in (("x", function.args), ("y", function.function_type.outputs))
    )
    return _interface(module, function, arguments, results, recipe)


def noted_interface(module: ModuleOp) -> Interface:
    """The interface of a module that went through the passes.

    Raises:
        LoweringError: the module has none.
    """
    note = module.attributes.get(INTERFACE_ATTRIBUTE, module.attributes.get(NOTE_ATTRIBUTE))
    if not isinstance(note, StringAttr):
        raise LoweringError(
            f"the module has no '{INTERFACE_ATTRIBUTE}': it did not go through the stages of the "
            "target 'native'"
        )
    return Interface.from_dict(json.loads(note.data))


_TAKEN = ("constants", "workspace")
"""Names that the arguments of a compiled function have already."""


def _interface(
    module: ModuleOp,
    function: FuncOp,
    arguments: Sequence[str],
    results: Sequence[str],
    recipe: str,
) -> Interface:
    """The interface of a function; the sizes of its results are known once it is compiled."""
    name = identifier(module.sym_name.data) if module.sym_name is not None else "model"
    names, sizes = Names({*RESERVED, *_TAKEN}), free_sizes(function)
    alone = names.new("batch")
    free = sizes.names if len(sizes.names) > 1 else (alone,) * len(sizes.names)
    free = tuple(alone if n == alone else names.new(n) for n in free)
    inputs = tuple(
        TensorInterface(names.new(n), _dtype(x), shape)
        for n, x, shape in zip(arguments, function.args, sizes.shapes, strict=True)
    )
    end = function.body.block.last_op
    assert end is not None
    outputs = tuple(
        TensorInterface(
            names.new(n),
            _dtype(y),
            tuple(BATCH if n == DYNAMIC else Size.of(n) for n in dense_type(y).get_shape()),
        )
        for n, y in zip(results, end.operands, strict=True)
    )
    return Interface(name, inputs, outputs, recipe, free, False, 0)


def _dtype(value: SSAValue) -> str:
    return numpy_dtype(dense_type(value).element_type).name
