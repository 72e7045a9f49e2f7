"""Nothing is read or written past the end of a buffer: each ends where a forbidden page begins."""

import ctypes
import mmap
import sys
from ctypes import c_int64, c_void_p
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from triton_dsl.lowering.to_native.callables import kernel_provider
from triton_dsl.lowering.to_native.kernels.recipes import RECIPES
from triton_dsl.runtime.native.abi.linear import KINDS, LAYOUTS, Kind, Layout, scratch_bytes
from triton_dsl.runtime.native.abi.tables import trit_sums
from triton_dsl.runtime.native.packed import PackedWeights
from triton_dsl.runtime.native.processor import host_features

pytest.importorskip("llvmlite")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="mprotect through libc of Linux")

ELEMENTS: dict[str, type[np.generic]] = {
    "i8": np.int8,
    "u8": np.uint8,
    "i16": np.int16,
    "i32": np.int32,
    "f32": np.float32,
    "f32x3": np.float32,
}
SHAPES = [(1, 1, 1), (1, 257, 5), (1, 512, 64), (2, 15, 65), (7, 256, 3), (13, 33, 130)]


class Guarded:
    """A copy of an array whose last byte is the last of a page that a forbidden page follows."""

    def __init__(self, content: NDArray[Any]) -> None:
        page = mmap.PAGESIZE
        whole = -(-max(content.nbytes, 1) // page) * page
        self._memory = mmap.mmap(-1, whole + page)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.mprotect(c_void_p(start + whole), page, 0) == 0
        self.address = start + whole - content.nbytes
        offset = whole - content.nbytes
        flat = np.frombuffer(self._memory, content.dtype, content.size, offset)
        self.array = flat.reshape(content.shape)
        self.array[...] = content


RECIPE_NAMES = [recipe.name for recipe in RECIPES if recipe.features <= host_features()]
CASES = [
    (recipe, layout, kind)
    for recipe in RECIPE_NAMES
    for layout in LAYOUTS
    for kind in KINDS
    if recipe in (RECIPE_NAMES[0], RECIPE_NAMES[-1])
    or (layout, kind.activations) in (("panels", "f32"), ("sparse", "i16"), ("rows", "u8"))
]


@pytest.mark.parametrize(
    ("recipe", "layout", "kind"), CASES, ids=lambda value: getattr(value, "activations", value)
)
def test_stays_inside_its_buffers(recipe: str, layout: Layout, kind: Kind) -> None:
    library = kernel_provider(recipe)(layout, kind)
    linear = library.function("linear", [c_void_p] * 8 + [c_int64] * 3)
    rng = np.random.default_rng(7)
    for rows, ins, outs in SHAPES:
        if layout == "stored" and ins % 256:
            continue
        trits = rng.integers(-1, 2, (outs, ins)).astype(np.int8)
        codes = rng.integers(0 if kind.activations == "u8" else -127, 128, (rows, ins))
        codes[:, 0] = 127
        expected = codes @ trits.T.astype(np.int64)
        x = Guarded(codes.astype(ELEMENTS[kind.activations]))
        weights = Guarded(PackedWeights.of(trits).layout(layout))
        y = Guarded(np.zeros((rows, outs), np.float32 if kind.floating else np.int32))
        scratch = Guarded(np.zeros(scratch_bytes(rows, ins, outs, kind.digits), np.uint8))
        scale = Guarded(np.ones(outs, np.float32))
        correction = kind.offset * trit_sums(trits)
        bias = Guarded(np.zeros(outs, np.float32) if kind.floating else correction)
        buffers = (x, weights, y, scratch, scale, bias)
        linear(*(buffer.address for buffer in buffers), 0, 0, rows, ins, outs)
        assert np.allclose(y.array, expected, rtol=1e-6, atol=1e-3)
