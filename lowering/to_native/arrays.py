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


def arrays_entry(tensors: int) -> llvm.FuncOp:
    """The function, to be put beside `forward`.

    Args:
        tensors: how many inputs and outputs the program has.
    """
    code = Code(ARRAYS, [POINTER])
    places = [code.at(code.arguments[0], 8 * n) for n in range(tensors + 3)]
    arrays = [code.load(place, POINTER) for place in places[:tensors]]
    data = [code.load(code.at(array, ARRAY_DATA), POINTER) for array in arrays]
    constants, workspace, batch = places[tensors:]
    rest = (code.load(constants, POINTER), code.load(workspace, POINTER), code.load(batch, i64))
    code.call(FORWARD, *data, *rest)
    return code.finish()
