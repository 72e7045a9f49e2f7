"""The interface of a program, noted on the module before the passes and read after them.

The passes keep the order and the sizes of inputs and outputs, but not the names, unsigned types or
what follows from whole-tensor ops. Not here: the interface itself (`ir.native_interface`).
"""

from __future__ import annotations

import json
from typing import cast

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, SSAValue

from ...dialects.elements import numpy_dtype
from ...dialects.inference import tensor_type
from ...dialects.registry import triton_context
from ...dialects.shapes import DYNAMIC, AnyTensor
from ...ir.errors import LoweringError, PassError
from ...ir.native_interface import Interface, TensorInterface
from ...passes.infer_shapes import InferShapesPass
from ..emission import Names, argument_names, entry_function, identifier, result_names
from .header import RESERVED
from .rows import is_row_wise, work_of_row

INTERFACE_ATTRIBUTE = "native.interface"
"""Module attribute that the pass to memory writes: `inputs` and `outputs` as types, `recipe`."""

NOTE_ATTRIBUTE = "native.program"
"""Module attribute with the interface as JSON."""

_PROBE = 7919
"""A batch size, prime, that no shape of a program has as a factor of its own."""


def note_interface(module: ModuleOp, recipe: str) -> None:
    """Note the interface of a module of whole tensors; a module that has one already keeps it.

    Raises:
        LoweringError: no `@forward`.
    """
    if NOTE_ATTRIBUTE in module.attributes or INTERFACE_ATTRIBUTE in module.attributes:
        return
    function = entry_function(module, "native")
    types = [tensor_type(argument) for argument in function.args]
    results = [cast("AnyTensor", type) for type in function.function_type.outputs]
    batched = any(DYNAMIC in type.get_shape() for type in types)
    names = Names({*RESERVED, *_TAKEN})
    interface = Interface(
        _model_name(module),
        tuple(
            TensorInterface(names.new(name), numpy_dtype(type.element_type).name, _shape(type))
            for name, type in zip(argument_names(function), types, strict=True)
        ),
        tuple(
            TensorInterface(names.new(name), numpy_dtype(type.element_type).name, sizes)
            for name, type, sizes in zip(
                result_names(function), results, _result_shapes(module, function), strict=True
            )
        ),
        recipe,
        batched,
        batched and is_row_wise(function),
        work_of_row(function),
    )
    module.attributes[NOTE_ATTRIBUTE] = StringAttr(interface.to_json())


def noted_interface(module: ModuleOp) -> Interface:
    """The interface of a module that went through the passes.

    Raises:
        LoweringError: the module has none.
    """
    note = module.attributes.get(NOTE_ATTRIBUTE)
    if isinstance(note, StringAttr):
        return Interface.from_dict(json.loads(note.data))
    given = module.attributes.get(INTERFACE_ATTRIBUTE)
    if not isinstance(given, DictionaryAttr):
        raise LoweringError(
            f"the module has no '{INTERFACE_ATTRIBUTE}': it did not go through the stages of the "
            "target 'native'"
        )
    inputs, outputs = (_types(given, key) for key in ("inputs", "outputs"))
    recipe = given.data.get("recipe")
    return Interface(
        _model_name(module),
        tuple(_plain(f"x{i}" if i else "x", type) for i, type in enumerate(inputs)),
        tuple(_plain(f"y{i}" if i else "y", type) for i, type in enumerate(outputs)),
        recipe.data if isinstance(recipe, StringAttr) else "",
        any(DYNAMIC in type.get_shape() for type in inputs),
        False,
        0,
    )


_TAKEN = ("constants", "workspace", "batch")
"""Names that the arguments of a compiled function have already."""


def _model_name(module: ModuleOp) -> str:
    return identifier(module.sym_name.data) if module.sym_name is not None else "model"


def _shape(type: AnyTensor) -> tuple[int, ...]:
    return tuple(-1 if size == DYNAMIC else size for size in type.get_shape())


def _plain(name: str, type: AnyTensor) -> TensorInterface:
    return TensorInterface(name, numpy_dtype(type.element_type).name, _shape(type))


def _types(given: DictionaryAttr, key: str) -> list[AnyTensor]:
    value = given.data.get(key)
    if not isinstance(value, ArrayAttr):
        raise LoweringError(f"'{INTERFACE_ATTRIBUTE}' has no {key}")
    return [cast("AnyTensor", type) for type in cast("ArrayAttr[Attribute]", value)]


def _result_shapes(module: ModuleOp, function: func.FuncOp) -> list[tuple[int, ...]]:
    """The shapes of the results; a size that is not known is the batch, or a multiple of it."""
    end = function.body.block.last_op
    assert end is not None
    plain = [_shape(tensor_type(value)) for value in end.operands]
    if all(size >= 0 for shape in plain for size in shape):
        return plain
    probe = module.clone()
    try:
        InferShapesPass(batch=_PROBE).apply(triton_context(), probe)
    except PassError:
        return plain
    end = entry_function(probe, "native").body.block.last_op
    assert end is not None
    return [
        tuple(_size(known, size) for known, size in zip(shape, _sizes(value), strict=True))
        for shape, value in zip(plain, end.operands, strict=True)
    ]


def _sizes(value: SSAValue) -> tuple[int, ...]:
    return tensor_type(value).get_shape()


def _size(known: int, probed: int) -> int:
    multiple = known < 0 and probed > 0 and probed % _PROBE == 0
    return -(probed // _PROBE) if multiple else known
