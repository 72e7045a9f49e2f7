"""Rows of weights for event-driven kernels, read back as their layout is stated."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from triton_dsl.runtime.native.abi.events import byte_rows, trit_rows

SIZES = st.integers(1, 150)
WIDTHS = st.sampled_from([16, 32, 64])


@given(SIZES, SIZES, WIDTHS)
def test_trits_are_fields_of_bytes(ins: int, outs: int, width: int) -> None:
    trits = np.random.default_rng(outs).integers(-1, 2, (ins, outs))
    rows = trit_rows(trits, width).reshape(ins, -1)
    padded = rows.shape[1] * 4
    assert padded % (4 * width) == 0 and outs <= padded < outs + 4 * width
    for o in range(padded):
        column, place = divmod(o, 4 * width)
        field, byte = divmod(place, width)
        found = (rows[:, column * width + byte] >> (2 * field) & 3).astype(np.int64) - 1
        np.testing.assert_array_equal(found, trits[:, o] if o < outs else 0)


@given(SIZES, SIZES, WIDTHS)
def test_bytes_of_two_halves_take_turns(ins: int, outs: int, width: int) -> None:
    weights = np.random.default_rng(outs).integers(-128, 128, (ins, outs)).astype(np.int8)
    rows = byte_rows(weights, width).reshape(ins, -1)
    assert rows.shape[1] % width == 0 and outs <= rows.shape[1] < outs + width
    for o in range(rows.shape[1]):
        column, place = divmod(o, width)
        half, byte = divmod(place, width // 2)
        found = rows[:, column * width + 2 * byte + half].astype(np.int64) - 128
        np.testing.assert_array_equal(found, weights[:, o] if o < outs else 0)
