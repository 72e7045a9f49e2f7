"""Packing of trits against its definition, bit by bit."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triton_dsl.ir.errors import ParameterError
from triton_dsl.ir.trits import pack_trits, packed_size, unpack_trits

SHAPES = st.lists(st.integers(0, 6), max_size=4).map(tuple)

CODES = {0: 0b00, 1: 0b01, -1: 0b10}


@given(SHAPES, st.integers(0, 2**32), st.sampled_from(["int8", "int64", "float32"]))
def test_round_trip(shape: tuple[int, ...], seed: int, dtype: str) -> None:
    trits = np.random.default_rng(seed).integers(-1, 2, shape).astype(dtype)
    packed = pack_trits(trits)
    number = sum(CODES[int(t)] << (2 * i) for i, t in enumerate(trits.reshape(-1)))
    assert packed.dtype == np.uint8
    assert packed.tobytes() == number.to_bytes(packed_size(shape), "little")
    unpacked = unpack_trits(packed, shape)
    assert unpacked.dtype == np.int8 and unpacked.shape == shape
    np.testing.assert_array_equal(unpacked, trits)


@pytest.mark.parametrize(
    ("shape", "size"), [((784, 10), 1960), ((), 1), ((0, 5), 0), ((1,), 1), ((4,), 1), ((5,), 2)]
)
def test_sizes(shape: tuple[int, ...], size: int) -> None:
    assert packed_size(shape) == size
    assert pack_trits(np.zeros(shape, np.int8)).size == size


def test_arrays_that_are_not_contiguous_pack_row_major() -> None:
    trits = np.array([[1, 0, -1], [0, 1, 1]], np.int8)
    np.testing.assert_array_equal(pack_trits(trits.T), pack_trits(trits.T.copy()))


@pytest.mark.parametrize("shape", [(700, 1024), (1, 600_004), (600_000, 1), (0, 8), (300, 999)])
@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_large_matrices_pack_row_major_in_either_order(shape: tuple[int, int], dtype: str) -> None:
    trits = np.random.default_rng(1).integers(-1, 2, shape).astype(dtype)
    codes = (trits.reshape(-1).astype(np.int64) + 3) % 3  # 2 is 0b10, which stands for -1
    quads = np.append(codes, np.zeros(-codes.size % 4, np.int64)).reshape(-1, 4)
    expected = (quads << np.arange(0, 8, 2)).sum(axis=1)
    for order in (trits, np.asfortranarray(trits)):
        np.testing.assert_array_equal(pack_trits(order), expected)


def test_the_first_value_that_is_no_trit_is_named_row_major() -> None:
    trits = np.zeros((4, 8), np.int8, order="F")
    trits[3, 0], trits[1, 5] = 3, 4
    with pytest.raises(ParameterError, match="got 4 at element 13;"):
        pack_trits(trits)


@pytest.mark.parametrize("value", [2, -2, 0.5, float("nan"), 255])
def test_other_values_are_refused(value: float) -> None:
    with pytest.raises(ParameterError, match=re.escape("expected trits in {-1, 0, 1}, got")):
        pack_trits(np.array([0, 1, value]))


@given(st.integers(1, 30), st.data())
def test_the_reserved_code_is_refused_where_it_stands(count: int, data: st.DataObject) -> None:
    packed = pack_trits(np.zeros(count, np.int8))
    index = data.draw(st.integers(0, count - 1))
    packed[index // 4] |= 0b11 << (2 * (index % 4))
    with pytest.raises(ParameterError, match=f"reserved trit code 0b11 at element {index};"):
        unpack_trits(packed, (count,))


def test_padding_must_be_zero() -> None:
    with pytest.raises(ParameterError, match="padding bits of the last byte are not zero"):
        unpack_trits(np.array([0b01000000], np.uint8), (3,))


@pytest.mark.parametrize(
    "packed", [np.zeros(1, np.uint8), np.zeros(3, np.uint8), np.zeros(2, np.int8)]
)
def test_wrong_byte_counts_and_types_are_refused(packed: np.ndarray) -> None:
    with pytest.raises(
        ParameterError, match=re.escape("expected uint8[2] for 8 packed trits, got")
    ):
        unpack_trits(packed, (8,))
