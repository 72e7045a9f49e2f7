"""Layouts of packed weights, each read back trit by trit from its definition."""

import numpy as np
import pytest
from numpy.typing import NDArray

from triton_dsl.ir.errors import ParameterError
from triton_dsl.ir.trits import pack_trits
from triton_dsl.runtime.native.abi.linear import MAX_INS, row_bytes, weight_bytes
from triton_dsl.runtime.native.packed import PackedWeights

SHAPES = [(1, 1), (3, 4), (64, 16), (65, 17), (5, 256), (2, 300), (130, 33)]


def matrix(outs: int, ins: int) -> NDArray[np.int8]:
    return np.random.default_rng(outs * 1000 + ins).integers(-1, 2, (outs, ins)).astype(np.int8)


@pytest.mark.parametrize(("outs", "ins"), SHAPES)
def test_rows(outs: int, ins: int) -> None:
    trits = matrix(outs, ins)
    content = PackedWeights.of(trits).layout("rows")
    assert content.size == weight_bytes("rows", ins, outs)
    for n in range(outs):
        for k in range(ins):
            byte = int(content[n * row_bytes(ins) + k // 4])
            assert (byte >> 2 * (k % 4) & 3) - 1 == trits[n, k]


@pytest.mark.parametrize(("outs", "ins"), SHAPES)
def test_panels(outs: int, ins: int) -> None:
    trits = matrix(outs, ins)
    content = PackedWeights.of(trits).layout("panels")
    assert content.size == weight_bytes("panels", ins, outs)
    steps = -(-ins // 4)
    for n in range(outs):
        for k in range(ins):
            step = (n // 64 * steps + k // 4) * 64
            p, r = divmod(n % 64, 16)
            byte = int(content[step + 4 * r + k % 4])
            assert (byte >> 2 * p & 3) - 1 == trits[n, k]


def test_storage_is_read_in_place() -> None:
    packed = pack_trits(matrix(7, 512))
    weights = PackedWeights(packed, 7, 512)
    assert weights.in_place
    assert np.shares_memory(weights.layout("stored"), packed)
    assert weights.bytes_held == packed.nbytes
    assert not PackedWeights.of(matrix(7, 255)).in_place


def test_layouts_are_made_once() -> None:
    weights = PackedWeights.of(matrix(9, 100))
    assert weights.bytes_held == 0
    assert weights.layout("panels") is weights.layout("panels")
    assert weights.bytes_held == weight_bytes("panels", 100, 9)


def test_gives_the_trits_back() -> None:
    trits = matrix(9, 101)
    assert np.array_equal(PackedWeights.of(trits).trits(), trits)


def test_refuses_what_is_no_matrix_of_trits() -> None:
    with pytest.raises(ParameterError, match=r"\{-1, 0, 1\}"):
        PackedWeights.of(np.array([[2]]))
    with pytest.raises(ParameterError, match="got 1 axes"):
        PackedWeights.of(np.zeros(3, np.int8))
    with pytest.raises(ParameterError, match="reserved"):
        PackedWeights(np.array([0x0C], np.uint8), 1, 4)
    with pytest.raises(ParameterError, match=r"expected uint8\[2\]"):
        PackedWeights(np.array([0], np.uint8), 1, 5)
    with pytest.raises(ParameterError, match="longer than a kernel takes"):
        PackedWeights.of(np.zeros((1, MAX_INS + 1), np.int8))
