"""Layouts of bit planes made from arrays: the same as the kernels make, and readable by hand."""

import numpy as np
import pytest

from triton_dsl.runtime.native.abi.bitplanes import Sizes, column_bases, column_codes

TRITS = np.random.default_rng(0).integers(-1, 2, (70, 65)).astype(np.int8)


@pytest.mark.parametrize("group", [1, 2, 3])
def test_codes_hold_the_trits(group: int) -> None:
    sizes = Sizes(group)
    codes = column_codes(TRITS, group)
    assert codes.size == sizes.codes(70, 65)
    found = np.zeros((sizes.padded(70), 128), np.int64)
    if group == 1:
        masks = codes.reshape(2, sizes.groups(70), 2, 64).astype(np.int64) // 255
        signed = masks[:, :, 0] - 2 * masks[:, :, 1]
        found[...] = signed.transpose(1, 0, 2).reshape(-1, 128)
    else:
        bytes_ = codes.reshape(2, sizes.groups(70), 64).astype(np.int64)
        for step in range(group):
            digits = bytes_ // 3**step % 3 - 1
            found[step::group] = digits.transpose(1, 0, 2).reshape(-1, 128)
    assert np.array_equal(found[:70, :65], TRITS)
    assert not found[70:].any()
    assert not found[:, 65:].any()


def test_bases_count_what_a_kernel_counts_too_much() -> None:
    assert set(column_bases(TRITS, "trits", 3)) == {-96}
    assert np.array_equal(column_bases(TRITS, "bits", 3)[:65], -(TRITS == -1).sum(axis=0))
    assert np.array_equal(column_bases(TRITS, "signs", 3)[:65], -np.abs(TRITS).sum(axis=0))


@pytest.mark.parametrize("scheme", ["generic", None])
def test_kernels_pack_the_same(scheme: str | None) -> None:
    pytest.importorskip("llvmlite")
    from triton_dsl.lowering.to_native.matmul import pack_columns

    packed = pack_columns(TRITS, scheme=scheme)
    group = packed.kernels.sizes.group
    assert np.array_equal(packed.codes, column_codes(TRITS, group))
    for values in ("trits", "bits", "signs"):
        assert np.array_equal(packed.base(values)[:65], column_bases(TRITS, values, group)[:65])
