"""Where the elements of an array stand in memory, at little cost a call."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_void_p

import numpy as np

from ...ir.arrays import Array
from .abi.linear import ARRAY_DATA

_at = c_void_p.from_address


def _from_interface(array: Array) -> int:
    return array.__array_interface__["data"][0]


def _from_object(array: Array) -> int:
    # NumPy's C interface shows arrays as structures whose first field is this address.
    return _at(id(array) + ARRAY_DATA).value or 0


def _agree() -> bool:
    if object.__basicsize__ != ARRAY_DATA:
        return False
    samples = [np.ones(3, np.int8), np.ones((2, 5), np.float32)[1:], np.zeros(0)]
    return all(_from_object(sample) == _from_interface(sample) for sample in samples)


ARRAYS_HOLD_ADDRESSES = _agree()
"""Whether array objects hold the address of their data, `ARRAY_DATA` bytes from `id(array)`."""

address_of: Callable[[Array], int] = _from_object if ARRAYS_HOLD_ADDRESSES else _from_interface
"""The address of the first element of an array; valid while the array lives.

NumPy's own ways to ask (`ctypes.data`, `__array_interface__`) take longer than the product of a
small layer. The quick way is used only where it gave the same as those when this was imported.
"""
