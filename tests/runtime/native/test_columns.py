"""Panels made of columns, against those made of rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triton_dsl.ir.trits import pack_trits
from triton_dsl.runtime.native.columns import aligned, panels_of_columns
from triton_dsl.runtime.native.packed import PackedWeights


@given(st.integers(0, 40), st.integers(0, 200), st.integers(0, 1 << 32))
def test_panels_are_those_of_the_transposed_matrix(ins: int, outs: int, seed: int) -> None:
    trits = np.random.default_rng(seed).integers(-1, 2, (ins, outs), np.int8)
    expected = PackedWeights.of(trits.T).layout("panels")
    assert np.array_equal(panels_of_columns(pack_trits(trits), ins, outs), expected)


def test_panels_are_made_in_pieces() -> None:
    trits = np.random.default_rng(0).integers(-1, 2, (1030, 515), np.int8)
    expected = PackedWeights.of(trits.T).layout("panels")
    assert np.array_equal(panels_of_columns(pack_trits(trits), *trits.shape), expected)


@pytest.mark.parametrize("size", [1, 63, 64, 1000])
def test_memory_is_aligned(size: int) -> None:
    memory = aligned(size)
    assert memory.size == size
    assert memory.ctypes.data % 64 == 0
