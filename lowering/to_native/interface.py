"""The interface of a program, noted on the module before the passes and read after them.

The passes keep the order and the sizes of inputs and outputs, but not the names, unsigned types or
what follows from whole-tensor ops. Not here: the interface itself (`abi.interface`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import cast

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute

from ...dialects.elements import numpy_dtype
from ...dialects.registry import triton_context
from ...dialects.shapes import DYNAMIC, AnyTensor
from ...dialects.spike.types import dense_type
from ...ir.errors import LoweringError, PassError
from ...ir.value_names import argument_names, result_names
from ...passes.infer_shapes import InferShapesPass
from ...runtime.native.abi.interface import Interface, TensorInterface
from ..emission import Names, entry_function, identifier
from .header import RESERVED
from .rows import is_row_wise, work_of_row

INTERFACE_ATTRIBUTE = "native.interface"
"""Module attribute that the pass to memory writes: `inputs` and `outputs` as types, `recipe`."""

HELD_ATTRIBUTE = "native.held"
"""Another one, see `Interface.held`."""

NOTE_ATTRIBUTE = "native.program"
"""Module attribute with the interface as JSON."""

_PROBES = (7901, 7907, 7919)
"""Batch sizes, prime, that no program has as sizes of its own."""

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
        return replace(Interface.from_dict(json.loads(note.data)), held=_held(module))
    attribute = module.attributes.get(INTERFACE_ATTRIBUTE)
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
        tuple(_plain(f"y{i}" if i else "y", type) for i, type in enumerate(outputs)),
        recipe.data if isinstance(recipe, StringAttr) else "",
        any(DYNAMIC in type.get_shape() for type in inputs),
        False,
        0,
    )


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


def _result_shapes(module: ModuleOp, function: func.FuncOp) -> list[Sizes]:
    """The shapes of the results; those that are not known follow from what some batches give."""
    plain = [_shape(type) for type in _result_types(function)]
    if not any(len(size) > 1 for shape in plain for size in shape):
        return plain
    probed: list[list[tuple[int, ...]]] = []
    for batch in _PROBES:
        copy = module.clone()
        try:
            # The one free size may be the steps.
            InferShapesPass(batch=batch, timesteps=batch).apply(triton_context(), copy)
        except PassError:
            return plain
        types = _result_types(entry_function(copy, "native"))
        probed.append([type.get_shape() for type in types])
    return [
        tuple(_size(known, seen) for known, *seen in zip(shape, *shapes, strict=True))
        for shape, *shapes in zip(plain, *probed, strict=True)
    ]


def _result_types(function: func.FuncOp) -> list[AnyTensor]:
    end = function.body.block.last_op
    assert end is not None
    return [dense_type(value) for value in end.operands]


def _size(known: tuple[int, ...], seen: Sequence[int]) -> tuple[int, ...]:
    """The parabola through the sizes that the probes gave; `known` where there is none."""
    if len(known) == 1 or DYNAMIC in seen:
        return known
    (x0, x1, x2), (y0, y1, y2) = _PROBES, seen
    first, second = Fraction(y1 - y0, x1 - x0), Fraction(y2 - y1, x2 - x1)
    square = (second - first) / (x2 - x0)
    linear = first - square * (x0 + x1)
    constant = y0 - linear * x0 - square * x0 * x0
    factors = [constant, linear, square]
    while len(factors) > 1 and not factors[-1]:
        factors.pop()
    whole = all(factor.denominator == 1 for factor in factors)
    return tuple(int(factor) for factor in factors) if whole else known
