"""Numbers and nested lists of numbers as Python text."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import f64
from xdsl.ir import Attribute

from ...dialects.elements import nearest, numpy_dtype

_MOST = float(np.finfo(np.float32).max)


def literal(value: object, dtype: np.dtype[np.generic]) -> str:
    """A Python number that gives `value` when it is rounded to `dtype`."""
    if dtype.kind == "b":
        return str(bool(value))
    if dtype.kind in "iu":
        return str(int(value))  # pyright: ignore[reportArgumentType, reportCallIssue, reportUnknownArgumentType]
    number = float(value)  # pyright: ignore[reportArgumentType]
    if np.isnan(number):
        return 'float("nan")'
    if np.isinf(number):
        return 'float("inf")' if number > 0 else '-float("inf")'
    if dtype == np.float32:
        # Short where double precision rounds to the same number, and to one that PyTorch accepts:
        # it refuses 3.4028235e+38, which lies above the largest float32 in double precision.
        short = float(str(np.float32(number)))
        if abs(short) <= _MOST and np.float32(short) == number:
            return repr(short)
    return repr(number)


def number(value: int | float, type: Attribute = f64) -> str:
    """An attribute as a Python number: a float rounded to the type, a whole one as it is."""
    if isinstance(value, int):
        return repr(value)
    dtype = numpy_dtype(type)
    return literal(nearest(value, dtype)[()], dtype)


def nested(array: np.ndarray) -> str:  # pyright: ignore[reportMissingTypeArgument, reportUnknownParameterType]
    """The elements of an array that has some as a list of lists."""
    if array.ndim == 0:
        return literal(array[()], array.dtype)
    return f"[{', '.join(nested(row) for row in array)}]"
