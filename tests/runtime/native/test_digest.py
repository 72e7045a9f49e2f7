"""Digests of memory: they tell contents apart, and read no byte beyond."""

from __future__ import annotations

import ctypes
import mmap
import subprocess
import sys
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from triton_dsl.runtime.native.digest import digest_function

pytest.importorskip("llvmlite")

Bytes = NDArray[np.uint8]


def digest(content: Bytes) -> int:
    return digest_function()(content.ctypes.data, content.size)


@given(st.binary(max_size=1500), st.integers(0, 63))
def test_the_place_in_memory_does_not_count(content: bytes, offset: int) -> None:
    memory = np.zeros(len(content) + 64, np.uint8)
    place = memory[offset : offset + len(content)]
    place[...] = np.frombuffer(content, np.uint8)
    assert digest(place) == digest(np.frombuffer(content, np.uint8).copy())


@pytest.mark.parametrize("size", [1, 7, 8, 9, 255, 256, 257, 511, 700, 4096])
@pytest.mark.parametrize("fill", [0, 0x55, 0xFF])
def test_every_bit_counts(size: int, fill: int) -> None:
    content = np.full(size, fill, np.uint8)
    seen = {digest(content)}
    for place in range(size):
        for bit in range(8):
            content[place] ^= 1 << bit
            seen.add(digest(content))
            content[place] ^= 1 << bit
    assert len(seen) == 8 * size + 1
    assert digest(content) in seen


def test_changes_do_not_cancel() -> None:
    """Two changes at a time, above all those that fall in the same sum."""
    content = np.random.default_rng(0).integers(0, 256, 4096).astype(np.uint8)
    seen: dict[bytes, int] = {}
    for step in (1, 8, 64, 256):
        for first, second in combinations(step * np.arange(12), 2):
            for change in (1, 2, 0x40, 0x80, 0xFF):
                for signs in ((1, 1), (1, -1)):
                    edited = content.astype(np.int64)
                    edited[[first, second]] += np.multiply(signs, change)
                    made = (edited % 256).astype(np.uint8)
                    seen[made.tobytes()] = digest(made)
    assert len(seen) > 2000
    assert len(set(seen.values())) == len(seen)
    swapped = content.reshape(-1, 256).copy()
    for one, other in combinations(range(len(swapped)), 2):
        swapped[[one, other]] = swapped[[other, one]]
        assert digest(swapped.reshape(-1)) not in seen.values()
        swapped[[one, other]] = swapped[[other, one]]


def test_zeros_of_several_lengths_differ() -> None:
    assert len({digest(np.zeros(size, np.uint8)) for size in range(1200)}) == 1200


def test_no_byte_beyond_is_read() -> None:
    if sys.platform != "linux":
        pytest.skip("pages are forbidden by Linux's mprotect")
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 3 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    for forbidden in (start, start + 2 * page):
        assert libc.mprotect(ctypes.c_void_p(forbidden), page, 0) == 0
    for size in range(0, 600):
        digest_function()(start + page, size)
        digest_function()(start + 2 * page - size, size)


WITHOUT_LLVM = """
import sys
sys.modules["llvmlite"] = None
import torch
from triton_dsl.runtime.layers import TernaryLinear
from triton_dsl.runtime.native.held import digest_of

assert digest_of(torch.zeros(0)) == digest_of(torch.zeros(0))
assert digest_of(torch.zeros(5)) != digest_of(torch.zeros(6))
layer, x = TernaryLinear(30, 7).eval(), torch.randn(3, 30)
with torch.no_grad():
    layer(x)
    layer.weight.data.zero_()
    assert torch.equal(layer(x), layer.bias.expand(3, 7))
"""


def test_layers_without_llvm_notice_changes_too() -> None:
    pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_LLVM], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
