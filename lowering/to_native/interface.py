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
from ..emission import Names, entry_function
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
    names = Names({*RESERVED, *_TAKEN})
    interface = _interface(
        module,
        [
            _tensor(names.new(n), x)
            for n, x in zip(argument_names(function), function.args, strict=True)
        ],
        [
            _tensor(names.new(n), y)
            for n, y in zip(result_names(function), _results(function), strict=True)
        ],
        recipe,
    )
    row_wise = interface.batched and is_row_wise(function)
    interface = replace(interface, row_wise=row_wise, work=work_of_row(function))
    module.attributes[NOTE_ATTRIBUTE] = StringAttr(interface.to_json())


def interface_of(module: ModuleOp, function: FuncOp, recipe: str) -> Interface:
    """What is known of the interface of a function of a module before it is compiled."""
    note = module.attributes.get(NOTE_ATTRIBUTE)
    if isinstance(note, StringAttr):
        return Interface.from_dict(json.loads(note.data))
    inputs = [_tensor(f"x{n or ''}", x) for n, x in enumerate(function.args)]
    outputs = [_tensor(f"y{n or ''}", y) for n, y in enumerate(_results(function))]
    return _interface(module, inputs, outputs, recipe)


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


_TAKEN = ("constants", "workspace", "batch")
"""Names that the arguments of a compiled function have already."""


def _interface(
    module: ModuleOp,
    inputs: Sequence[TensorInterface],
    outputs: Sequence[TensorInterface],
    recipe: str,
) -> Interface:
    name = identifier(module.sym_name.data) if module.sym_name is not None else "model"
    batched = any(tensor.batched for tensor in inputs)
    return Interface(name, (*inputs,), (*outputs,), recipe, batched, False, 0)


def _tensor(name: str, value: SSAValue) -> TensorInterface:
    type = dense_type(value)
    shape = tuple((0, 1) if size == DYNAMIC else (size,) for size in type.get_shape())
    return TensorInterface(name, numpy_dtype(type.element_type).name, shape)


def _results(function: FuncOp) -> Sequence[SSAValue]:
    end = function.body.block.last_op
    assert end is not None
    return end.operands
