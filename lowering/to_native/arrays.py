"""The entry of a compiled program for Python: `abi.interface.ARRAYS`.

One argument costs a call from Python far less than five, and the code finds where the data of an
array stands in no time. Not here: the program, entries for C (`export`).
"""

from __future__ import annotations

from xdsl.dialects import llvm
from xdsl.dialects.builtin import i64

from ...runtime.native.abi.interface import ARRAYS, FORWARD
from ...runtime.native.abi.linear import ARRAY_DATA
from .kernels.code import POINTER, Code


def arrays_entry(tensors: int, sizes: int) -> llvm.FuncOp:
    """The function, to be put beside `forward`.

    Args:
        tensors, sizes: how many inputs and outputs, and free sizes the program takes.
    """
    code = Code(ARRAYS, [POINTER])
    places = [code.at(code.arguments[0], 8 * n) for n in range(tensors + 2 + sizes)]
    arrays = [code.load(place, POINTER) for place in places[:tensors]]
    data = [code.load(code.at(array, ARRAY_DATA), POINTER) for array in arrays]
    constants, workspace, *free = places[tensors:]
    rest = [code.load(place, POINTER) for place in (constants, workspace)]
    code.call(FORWARD, *data, *rest, *(code.load(place, i64) for place in free))
    return code.finish()
