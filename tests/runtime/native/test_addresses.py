"""Addresses of arrays against NumPy's own word for them."""

import sys
import sysconfig

import numpy as np
import pytest
from numpy.typing import NDArray

from triton_dsl.runtime.native.addresses import ARRAYS_HOLD_ADDRESSES, address_of

BASE = np.arange(100, dtype=np.float32).reshape(10, 10)


def read_only() -> NDArray[np.float32]:
    array = BASE.copy()
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "array",
    [BASE, BASE[3:], BASE[::-2, 1:], BASE.T, read_only(), np.frombuffer(b"abcd", np.int8)],
    ids=["whole", "slice", "reversed", "transposed", "read-only", "borrowed"],
)
def test_address_is_that_of_the_first_element(array: NDArray[np.generic]) -> None:
    assert address_of(array) == array.ctypes.data


@pytest.mark.skipif(
    sys.implementation.name != "cpython" or bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    reason="objects of this Python have another head",
)
def test_the_quick_way_is_used_where_it_can_be() -> None:
    assert ARRAYS_HOLD_ADDRESSES
