"""Kernels on bit planes stay inside their buffers: each ends where a forbidden page begins."""

import ctypes
import mmap
import sys
from ctypes import c_int64, c_void_p
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from triton_dsl.lowering.to_native.kernels.bitplanes_schemes import SCHEMES
from triton_dsl.lowering.to_native.matmul import bitplane_kernels
from triton_dsl.runtime.native.abi.bitplanes import (
    OCTET,
    OPERANDS,
    Operand,
    Sizes,
    multiply_scratch,
)
from triton_dsl.runtime.native.abi.linear import PANEL, round_up
from triton_dsl.runtime.native.jit import Library
from triton_dsl.runtime.native.processor import host_features

pytest.importorskip("llvmlite")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="mprotect through libc of Linux")

SHAPES = [
    (1, 1, 1),
    (75, 20, 66),
    (3, 47, 63),
    (8, 48, 64),
    (9, 65, 129),
    (17, 192, 70),
    (40, 400, 5),
]


class Guarded:
    """A copy of an array with a forbidden page before its page and after its last byte."""

    def __init__(self, content: NDArray[Any]) -> None:
        page = mmap.PAGESIZE
        whole = round_up(max(content.nbytes, 1), page)
        self._memory = mmap.mmap(-1, whole + 2 * page)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        libc = ctypes.CDLL(None, use_errno=True)
        for forbidden in (start, start + page + whole):
            assert libc.mprotect(c_void_p(forbidden), page, 0) == 0
        offset = page + whole - content.nbytes
        self.address = start + offset
        flat = np.frombuffer(self._memory, content.dtype, content.size, offset)
        self.array = flat.reshape(content.shape)
        self.array[...] = content


def product(
    library: Library, sizes: Sizes, operand: Operand, a: NDArray[np.int8], b: NDArray[np.int8]
) -> NDArray[np.int32]:
    """Counts of one product, with every buffer guarded."""
    (rows, ins), outs = a.shape, b.shape[1]
    octets, panels = -(-rows // OCTET), -(-outs // PANEL)
    pack = [c_void_p] * 2 + [c_int64] * 4
    x, y = Guarded(a), Guarded(np.zeros((rows, outs), np.int32))
    weights = Guarded(b)
    planes = Guarded(np.zeros(sizes.planes(operand, rows, ins), np.uint8))
    codes = Guarded(np.zeros(sizes.codes(ins, outs), np.uint8))
    base = Guarded(np.zeros(round_up(outs, PANEL), np.int32))
    scratch = Guarded(np.zeros(multiply_scratch(outs), np.uint8))
    call = f"bitplanes_{operand}"
    library.function(f"{call}_pack_rows", pack)(x.address, planes.address, rows, ins, 0, octets)
    library.function(f"{call}_pack_columns", pack)(
        weights.address, codes.address, ins, outs, 0, panels
    )
    buffers = (planes, codes, base, y, scratch)
    multiply = library.function(f"{call}_multiply", [c_void_p] * 5 + [c_int64] * 6)
    multiply(*(buffer.address for buffer in buffers), 1, rows, ins, outs, 0, octets)
    counts = y.array.copy()
    y.array[...] = -1
    whole = Guarded(np.zeros(sizes.product_scratch(operand, ins, outs), np.uint8))
    together = library.function(f"{call}_product", [c_void_p] * 5 + [c_int64] * 6)
    buffers = (x, codes, base, y, whole)
    together(*(buffer.address for buffer in buffers), 1, rows, ins, outs, 0, octets)
    assert np.array_equal(y.array, counts)
    return counts


@pytest.mark.parametrize("scheme", [s.name for s in SCHEMES if s.features <= host_features()])
@pytest.mark.parametrize("operand", OPERANDS)
def test_stays_inside_its_buffers(scheme: str, operand: Operand) -> None:
    group = next(one.group for one in SCHEMES if one.name == scheme)
    library, sizes = bitplane_kernels(scheme).provider(operand), Sizes(group)
    rng = np.random.default_rng(7)
    for rows, ins, outs in SHAPES:
        b = rng.integers(-1, 2, (ins, outs)).astype(np.int8)
        if operand == "trits":
            a = rng.integers(-1, 2, (rows, ins)).astype(np.int8)
            offset: Any = sizes.padded(ins)
        else:
            a = rng.integers(0, 2, (rows, ins)).astype(np.int8)
            offset = (b < 0).sum(axis=0)
        counts = product(library, sizes, operand, a, b)
        assert np.array_equal(counts - offset, a.astype(np.int64) @ b.astype(np.int64))
