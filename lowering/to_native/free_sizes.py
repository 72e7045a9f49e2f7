"""The free sizes of a program: which axes of its arguments have which.

Sizes of the same name are one. Not here: sizes that follow from them (`abi.sizes`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from ...dialects.shapes import DYNAMIC
from ...dialects.spike.types import dense_type, is_train
from ...ir.value_names import DIMENSIONS_ATTRIBUTE, argument_names
from ...runtime.native.abi.sizes import Size

_STEPS, _BATCH = "steps", "batch"


@dataclass(frozen=True)
class FreeSizes:
    """Those of one function.

    Attributes:
        names: of the free sizes, in the order of the arguments.
        shapes: the sizes of each argument.
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[Size, ...], ...]


def free_sizes(function: FuncOp) -> FreeSizes:
    """The free sizes of a function.

    Axes without a name are called after their place: steps of trains and traces, the batch behind
    them or in front, and else the axis. Where an axis in the place of a batch has a name, those
    without are the same.
    """
    spiking = any(op.dialect_name() == "spike" for op in function.walk())
    arguments = argument_names(function)
    places: list[list[tuple[str, str] | int]] = []
    for number, argument in enumerate(function.args):
        given = _dimensions(function, number)
        shape = dense_type(argument).get_shape()
        # Time comes first in trains and traces, then the batch, which comes first elsewhere.
        timed = is_train(argument) or (spiking and DYNAMIC in shape[1:2])
        plain = (_STEPS, _BATCH) if timed else (_BATCH,)
        others = (f"axis {axis} of {arguments[number]}" for axis in range(len(plain), len(shape)))
        places.append(
            [
                (given[axis] if given else "", place) if size == DYNAMIC else size
                for axis, (size, place) in enumerate(zip(shape, (*plain, *others), strict=False))
            ]
        )
    flat = [axis for shape in places for axis in shape if not isinstance(axis, int)]
    batch = next((name for name, place in flat if name and place == _BATCH), _BATCH)
    numbers: dict[str, int] = {}

    def size(axis: tuple[str, str] | int) -> Size:
        if isinstance(axis, int):
            return Size.of(axis)
        name, place = axis
        name = name or (batch if place == _BATCH else place)
        return Size.free(numbers.setdefault(name, len(numbers)))

    shapes = tuple(tuple(map(size, shape)) for shape in places)
    return FreeSizes(tuple(numbers), shapes)


def _dimensions(function: FuncOp, number: int) -> list[str]:
    """The names of the axes of an argument, empty where the source gave none."""
    attributes = () if function.arg_attrs is None else function.arg_attrs.data
    known = attributes[number].data.get(DIMENSIONS_ATTRIBUTE) if number < len(attributes) else None
    if not isinstance(known, ArrayAttr):
        return []
    words = cast("ArrayAttr[Attribute]", known).data
    names = [word.data if isinstance(word, StringAttr) else str(word) for word in words]
    return ["" if name == "?" else name for name in names]
