"""What a model takes: element types, sizes, and values that a caller gives for inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from xdsl.ir import Attribute, SSAValue

from ...dialects.elements import numpy_dtype
from ...dialects.inference import tensor_type
from ...ir.arrays import Array, Dtype
from ...ir.errors import OptionError
from ..problems import ProblemError, refuse
from .calls import Value, element_type
from .formats import Format, format_of
from .onnx_builder import Builder
from .reading import require_text
from .sizes import Free, Size, Sizes

if TYPE_CHECKING:
    from onnx import TypeProto

InputValue: TypeAlias = Array | np.generic | float | list[Array] | tuple[Array, ...] | None
"""What a caller gives for an input: an array, a sequence of them, or that it is absent."""


def type_of_proto(elem_type: int) -> tuple[Attribute, Format | None]:
    """The element type of a number of `TensorProto.DataType`, and the format of what it holds.

    Raises:
        ProblemError: there is none.
    """
    from onnx import helper

    try:
        dtype = helper.tensor_dtype_to_np_dtype(elem_type)
    except (KeyError, TypeError, ValueError):
        raise ProblemError(f"its element type {elem_type} is unknown") from None
    format = format_of(dtype)
    return (element_type(dtype) if format is None else format.element), format


def type_of_value(e: Builder, value: SSAValue) -> tuple[Attribute, Format | None]:
    """The element type and the format of a value."""
    return tensor_type(value).element_type, e.formats.get(value)


def dtype_of_value(e: Builder, value: SSAValue) -> Dtype:
    """What NumPy calls the element type that a value has in the standard."""
    element, format = type_of_value(e, value)
    return numpy_dtype(element) if format is None else format.dtype


def input_value(e: Builder, value: InputValue, name: str) -> Value:
    """A value that a caller gives for the input `name`."""
    if value is None:
        return None
    if isinstance(value, list | tuple):
        return [_named(e, part, name) for part in value]
    return _named(e, value, name)


def _named(e: Builder, array: Array | np.generic | float, name: str) -> SSAValue:
    value = e.known(np.asarray(array))
    e.names[value] = name
    return value


def sizes_of(
    name: str, type: TypeProto.Tensor, shape: Sequence[int | str] | None, where: str
) -> Sizes:
    """The sizes of an input: those that the caller gives, else those that the model states.

    Raises:
        ProblemError: nobody states them.
        OptionError: the caller's do not fit the model.
    """
    if shape is not None:
        return _checked(name, type, shape, where)
    refuse(not type.HasField("shape"), "the model does not state its shape; give it with 'shapes'")
    sizes: list[Size] = []
    for axis, dim in enumerate(type.shape.dim):
        require_text(where, dim.dim_param)
        if not dim.HasField("dim_value") or dim.dim_value == -1:
            sizes.append(Free.named(dim.dim_param or f"{name}_{axis}"))
        elif dim.dim_value < 0:
            raise ProblemError(f"its size {dim.dim_value} along axis {axis} is negative")
        else:
            sizes.append(int(dim.dim_value))
    return tuple(sizes)


def _checked(name: str, type: TypeProto.Tensor, shape: Sequence[int | str], where: str) -> Sizes:
    wanted = tuple(Free.named(size) if isinstance(size, str) else int(size) for size in shape)
    if any(isinstance(size, int) and size < 0 for size in wanted):
        raise OptionError(f"{where}: sizes of '{name}' must be at least 0")
    if type.HasField("shape") and len(type.shape.dim) != len(wanted):
        raise OptionError(
            f"{where}: input '{name}' has {len(type.shape.dim)} axes, not {len(wanted)}"
        )
    return wanted
