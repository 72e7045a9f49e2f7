"""The interface of a program, noted on the module before the passes and read after them.

The passes keep the order and the sizes of inputs and outputs, but not the names, unsigned types or
what follows from whole-tensor ops. Not here: the interface itself (`abi.interface`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from xdsl.dialects import func
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    StringAttr,
)
from xdsl.ir import Attribute

from ...dialects.elements import numpy_dtype
from ...dialects.shapes import DYNAMIC, AnyTensor
from ...dialects.spike.types import dense_type
from ...ir.errors import LoweringError
from ...ir.identifiers import identifier
from ...ir.value_names import argument_names, result_names
from ...runtime.native.abi.interface import Interface, TensorInterface
from ..emission import Names, entry_function
from .header import RESERVED
from .rows import is_row_wise, work_of_row

INTERFACE_ATTRIBUTE = "native.interface"
"""Module attribute that the pass to memory writes: `inputs` and `outputs` as types, `sizes` of the
outputs as polynomials in the batch where one is free, `recipe`; numbers of `Interface` that are
not 0."""

HELD_ATTRIBUTE = "native.held"
"""Another one, see `Interface.held`."""

NOTE_ATTRIBUTE = "native.program"
"""Module attribute with the interface as JSON."""

Sizes = tuple[tuple[int, ...], ...]


def note_interface(module: ModuleOp, recipe: str) -> None:
    """Note the interface of a module of whole tensors; a module that has one already keeps it.

    Raises:
        LoweringError: no `@forward`.
    """
    if NOTE_ATTRIBUTE in module.attributes or INTERFACE_ATTRIBUTE in module.attributes:
        return
    function = entry_function(module, "native")
    types = [dense_type(argument) for argument in function.args]
    results = _result_types(function)
    batched = any(DYNAMIC in type.get_shape() for type in types)
    names = Names({*RESERVED, *_TAKEN})
    interface = Interface(
        _model_name(module),
        tuple(
            TensorInterface(names.new(name), numpy_dtype(type.element_type).name, _shape(type))
            for name, type in zip(argument_names(function), types, strict=True)
        ),
        tuple(
            TensorInterface(names.new(name), numpy_dtype(type.element_type).name, _shape(type))
            for name, type in zip(result_names(function), results, strict=True)
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
    note, attribute = map(module.attributes.get, (NOTE_ATTRIBUTE, INTERFACE_ATTRIBUTE))
    if isinstance(note, StringAttr):
        noted = replace(Interface.from_dict(json.loads(note.data)), held=_held(module))
        outputs = _sized(noted.outputs, attribute)
        return replace(
            noted,
            outputs=outputs,
            shared=_shared(attribute),
            phases=_phases(attribute),
            apart=_number(attribute, "apart"),
            kept=_number(attribute, "kept"),
            least=_number(attribute, "least"),
        )
    if not isinstance(attribute, DictionaryAttr):
        raise LoweringError(
            f"the module has no '{INTERFACE_ATTRIBUTE}': it did not go through the stages of the "
            "target 'native'"
        )
    inputs, outputs = (_types(attribute, key) for key in ("inputs", "outputs"))
    recipe = attribute.data.get("recipe")
    return Interface(
        _model_name(module),
        tuple(_plain(f"x{i}" if i else "x", type) for i, type in enumerate(inputs)),
        _sized([_plain(f"y{i}" if i else "y", t) for i, t in enumerate(outputs)], attribute),
        recipe.data if isinstance(recipe, StringAttr) else "",
        any(DYNAMIC in type.get_shape() for type in inputs),
        False,
        0,
        least=_number(attribute, "least"),
    )


def _sized(
    outputs: Sequence[TensorInterface], attribute: Attribute | None
) -> tuple[TensorInterface, ...]:
    """Outputs with the sizes that compiling found, where a `?` of theirs is not the batch."""
    sizes = attribute.data.get("sizes") if isinstance(attribute, DictionaryAttr) else None
    if not isinstance(sizes, ArrayAttr):
        return tuple(outputs)
    shapes = cast("ArrayAttr[ArrayAttr[DenseArrayBase[IntegerType]]]", sizes)
    return tuple(
        replace(output, shape=tuple(tuple(map(int, size.get_values())) for size in shape))
        for output, shape in zip(outputs, shapes, strict=True)
    )


def _shared(attribute: Attribute | None) -> tuple[tuple[int, int], ...]:
    pairs = attribute.data.get("shared") if isinstance(attribute, DictionaryAttr) else None
    if not isinstance(pairs, ArrayAttr):
        return ()
    known = cast("ArrayAttr[DenseArrayBase[IntegerType]]", pairs)
    return tuple((int(output), int(source)) for output, source in map(_numbers, known))


def _phases(attribute: Attribute | None) -> tuple[int, ...]:
    """Things of each phase."""
    phases = attribute.data.get("phases") if isinstance(attribute, DictionaryAttr) else None
    if not isinstance(phases, DenseArrayBase):
        return ()
    return tuple(_numbers(cast("DenseArrayBase[IntegerType]", phases)))


def _number(attribute: Attribute | None, key: str) -> int:
    """A number that stands there where it is not 0."""
    found = attribute.data.get(key) if isinstance(attribute, DictionaryAttr) else None
    return found.value.data if isinstance(found, IntegerAttr) else 0


def _numbers(pair: DenseArrayBase[IntegerType]) -> Sequence[int]:
    return [int(number) for number in pair.get_values()]


def _held(module: ModuleOp) -> tuple[tuple[str, int], ...]:
    attribute = module.attributes.get(HELD_ATTRIBUTE)
    if not isinstance(attribute, DictionaryAttr):
        return ()
    offsets = cast("Mapping[str, IntegerAttr]", attribute.data)
    return tuple((name, offset.value.data) for name, offset in offsets.items())


_TAKEN = ("constants", "workspace", "batch")
"""Names that the arguments of a compiled function have already."""


def _model_name(module: ModuleOp) -> str:
    return identifier(module.sym_name.data) if module.sym_name is not None else "model"


def _shape(type: AnyTensor) -> Sizes:
    return tuple((0, 1) if size == DYNAMIC else (size,) for size in type.get_shape())


def _plain(name: str, type: AnyTensor) -> TensorInterface:
    return TensorInterface(name, numpy_dtype(type.element_type).name, _shape(type))


def _types(attribute: DictionaryAttr, key: str) -> list[AnyTensor]:
    value = attribute.data.get(key)
    if not isinstance(value, ArrayAttr):
        raise LoweringError(f"'{INTERFACE_ATTRIBUTE}' has no {key}")
    return [cast("AnyTensor", type) for type in cast("ArrayAttr[Attribute]", value)]


def _result_types(function: func.FuncOp) -> list[AnyTensor]:
    end = function.body.block.last_op
    assert end is not None
    return [dense_type(value) for value in end.operands]
