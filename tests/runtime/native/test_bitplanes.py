"""Products of trits and bits as callables: operands, packing, threads, refusals."""

from pathlib import Path

import numpy as np
import pytest

from triton_dsl.ir.errors import BackendError, OptionError, ParameterError
from triton_dsl.ir.trits import pack_trits
from triton_dsl.lowering.to_native.matmul import bitplane_kernels, native_matmul, pack_columns
from triton_dsl.runtime.native.bitplanes import PackedColumns, bitplane_matmul

pytest.importorskip("llvmlite")

RNG = np.random.default_rng(5)
B = RNG.integers(-1, 2, (70, 33)).astype(np.int8)


def test_leading_axes_and_strides() -> None:
    a = RNG.integers(-1, 2, (4, 5, 70)).astype(np.int8)
    expected = a.astype(np.int64) @ B
    packed = pack_columns(B)
    assert np.array_equal(native_matmul(a, packed), expected)
    assert np.array_equal(native_matmul(a[0, 0], packed), expected[0, 0])
    assert np.array_equal(native_matmul(a[::2, ::-1], packed), expected[::2, ::-1])
    assert np.array_equal(native_matmul(a, np.asfortranarray(B)), expected)
    assert native_matmul(a[:0], packed).shape == (0, 5, 33)


def test_types_of_operands() -> None:
    a = RNG.integers(0, 2, (9, 70))
    expected = a @ B.astype(np.int64)
    for kind in (np.bool_, np.uint8, np.int8, np.int64):
        assert np.array_equal(native_matmul(a.astype(kind), B), expected)
        assert np.array_equal(native_matmul(a.astype(kind), B, values="bits"), expected)
    assert np.array_equal(
        native_matmul(2 * a - 1, B.astype(np.int64), values="signs"),
        (2 * a - 1) @ B.astype(np.int64),
    )


def test_sums_over_nothing_are_zero() -> None:
    empty = np.zeros((3, 0), np.int8)
    assert np.array_equal(native_matmul(empty, empty.reshape(0, 3)), np.zeros((3, 3)))
    assert native_matmul(np.zeros((3, 70), np.int8), B[:, :0]).shape == (3, 0)


def test_packed_trits_give_the_same_layout() -> None:
    stored = pack_columns(pack_trits(B), B.shape)
    assert np.array_equal(stored.codes, pack_columns(B).codes)
    with pytest.raises(ParameterError, match="expected uint8"):
        pack_columns(pack_trits(B), (70, 34))
    with pytest.raises(ParameterError, match="reserved trit code"):
        pack_columns(np.array([3], np.uint8), (1, 4))


def test_threads_change_nothing() -> None:
    a = RNG.integers(-1, 2, (530, 300)).astype(np.int8)
    b = RNG.integers(-1, 2, (300, 400)).astype(np.int8)
    expected = a.astype(np.int64) @ b
    for threads in (1, 2, 3, 64):
        assert np.array_equal(native_matmul(a, b, threads=threads), expected)


@pytest.mark.parametrize(
    ("a", "values", "message"),
    [
        ([[2]], "trits", r"expected trits in \{-1, 0, 1\}, got 2 … 2"),
        ([[-1]], "bits", r"expected bits in \{0, 1\}, got -1 … -1"),
        ([[0]], "signs", r"expected signs in \{-1, 1\}, got 0 … 0"),
        ([[300]], "trits", "got 300"),
        ([[0.5]], "trits", "expected integers or bools as trits, got float64"),
    ],
)
def test_refuses_other_values(a: list[list[float]], values: str, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        native_matmul(np.array(a), np.ones((1, 1), np.int8), values=values)  # pyright: ignore[reportArgumentType]


def test_refuses_what_does_not_fit() -> None:
    with pytest.raises(BackendError, match=r"expected an operand \[\.\.\., 70\], got \[2, 71\]"):
        native_matmul(np.zeros((2, 71), np.int8), B)
    with pytest.raises(BackendError, match=r"got \[\]"):
        native_matmul(np.zeros((), np.int8), B)
    with pytest.raises(OptionError, match="threads must be at least 1"):
        native_matmul(np.zeros((2, 70), np.int8), B, threads=0)
    with pytest.raises(ParameterError, match="matrix of trits"):
        pack_columns(np.zeros((2, 2, 2), np.int8))
    with pytest.raises(ParameterError, match=r"in \{-1, 0, 1\}, got"):
        pack_columns(np.full((2, 2), 3))
    with pytest.raises(OptionError, match="scheme already"):
        native_matmul(np.zeros((2, 70), np.int8), pack_columns(B), scheme="generic")


def test_kernels_are_kept_on_disk(tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    kernels = bitplane_kernels("generic", cache_folder=folder)
    a = RNG.integers(-1, 2, (3, 70)).astype(np.int8)
    result = bitplane_matmul(a, PackedColumns(B, kernels))
    assert np.array_equal(result, a.astype(np.int64) @ B)
    assert len(list(folder.iterdir())) == 1
    bitplane_matmul(a != 0, PackedColumns(B, kernels), values="bits")
    assert len(list(folder.iterdir())) == 2


def test_lists_are_multiplied_as_arrays() -> None:
    trits = [[1, -1], [0, 1], [-1, 0]]
    assert native_matmul([[-1, 0, 1], [1, -1, 0]], trits).tolist() == [[-2, 1], [1, -2]]
    with pytest.raises(ParameterError):
        native_matmul([[0.5, 0, 1]], trits)
