"""The instruction sets of this processor, and buffers between two forbidden pages."""

from __future__ import annotations

import ctypes
import mmap
import sys
from ctypes import c_void_p
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from triton_dsl.lowering.to_native.kernels.recipes import RECIPES
from triton_dsl.runtime.native.processor import host_features

Array = NDArray[Any]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`host_recipe`: each recipe that this processor can run; `width_recipe`: one of each width."""
    runnable = [recipe for recipe in RECIPES if recipe.features <= host_features()]
    if "host_recipe" in metafunc.fixturenames:
        metafunc.parametrize("host_recipe", [recipe.name for recipe in runnable])
    if "width_recipe" in metafunc.fixturenames:
        names = {recipe.width: recipe.name for recipe in reversed(runnable)}
        metafunc.parametrize("width_recipe", list(names.values()))


class Guarded:
    """A copy of an array whose memory begins, or ends, where a forbidden page ends, or begins."""

    def __init__(self, content: Array, *, at_start: bool) -> None:
        page = mmap.PAGESIZE
        whole = -(-max(content.nbytes, 1) // page) * page
        self._memory = mmap.mmap(-1, whole + 2 * page)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        if sys.platform == "linux":
            libc = ctypes.CDLL(None, use_errno=True)
            for forbidden in (start, start + page + whole):
                assert libc.mprotect(c_void_p(forbidden), page, 0) == 0
        offset = page if at_start else page + whole - content.nbytes
        self.address = start + offset
        flat = np.frombuffer(self._memory, content.dtype, content.size, offset)
        self.array = flat.reshape(content.shape)
        self.array[...] = content


@pytest.fixture(scope="session")
def guarded_copy() -> type[Guarded]:
    """Makes copies of arrays between forbidden pages."""
    return Guarded
