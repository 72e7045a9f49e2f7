"""Numbers and nested lists of numbers as Python text."""

from __future__ import annotations

import numpy as np


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
    shortest = repr(float(str(np.float32(number)))) if dtype == np.float32 else repr(number)
    return shortest


def nested(array: np.ndarray) -> str:  # pyright: ignore[reportMissingTypeArgument, reportUnknownParameterType]
    """The elements of an array as a list of lists."""
    if array.ndim == 0:
        return literal(array[()], array.dtype)
    return f"[{', '.join(nested(row) for row in array)}]"
