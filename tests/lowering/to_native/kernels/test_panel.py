"""Tiles called on their own, against NumPy in int64."""

from ctypes import c_int64, c_void_p

import numpy as np
import pytest
from numpy.typing import NDArray

from triton_dsl.ir.arrays import Array
from triton_dsl.lowering.to_native.callables import kernel_provider
from triton_dsl.lowering.to_native.kernels.narrow_block import BLOCK_ARGUMENTS, NARROW_BLOCK
from triton_dsl.lowering.to_native.kernels.panel import TILE_ARGUMENTS
from triton_dsl.lowering.to_native.kernels.recipes import RECIPES, Recipe
from triton_dsl.runtime.native.abi.linear import KINDS, STEP
from triton_dsl.runtime.native.jit import Library
from triton_dsl.runtime.native.packed import PackedWeights
from triton_dsl.runtime.native.processor import host_features

pytest.importorskip("llvmlite")

POINTERS = {"weights", "x", "raw"}
SIGNATURE = [c_void_p if name in POINTERS else c_int64 for name in TILE_ARGUMENTS]


@pytest.mark.parametrize(
    "recipe", [r for r in RECIPES if r.features <= host_features()], ids=lambda r: r.name
)
def test_rows_that_overlap(recipe: Recipe) -> None:
    """Rows read the same bytes, and steps are padded by weights of code 0."""
    library = kernel_provider(recipe.name)("panels", KINDS[0])
    rng = np.random.default_rng(11)
    for panels, steps, used in [(1, 1, 3), (2, 2, 7), (1, 9, 33), (3, 14, 55), (2, 145, 580)]:
        stride, outs = 7, 64 * panels
        for rows in range(1, recipe.tile_rows + 1):
            x = rng.integers(-128, 128, (rows - 1) * stride + STEP * steps).astype(np.int8)
            trits = np.full((outs, STEP * steps), -1, np.int8)
            trits[:, :used] = rng.integers(-1, 2, (outs, used))
            raw = _raw(library, rows, trits, x, stride)
            read = np.array([x[m * stride : m * stride + used] for m in range(rows)], np.int64)
            codes = trits[:, :used].astype(np.int64) + 1
            assert np.array_equal(raw[:, :outs], read @ codes.T)
            assert not raw[:, outs:].any()


@pytest.mark.parametrize(
    "recipe", [r for r in RECIPES if r.features <= host_features()], ids=lambda r: r.name
)
@pytest.mark.parametrize("value", [-128, 127])
def test_sums_as_large_as_can_be(recipe: Recipe, value: int) -> None:
    """The largest codes with the largest activations, in every field and for every step."""
    library = kernel_provider(recipe.name)("panels", KINDS[0])
    trits = np.ones((64, STEP * 200), np.int8)
    x = np.full(STEP * 200 + recipe.tile_rows, value, np.int8)
    for rows in range(1, recipe.tile_rows + 1):
        raw = _raw(library, rows, trits, x, 1)
        assert (raw[:, :64] == 2 * value * STEP * 200).all()


@pytest.mark.parametrize("extreme", [False, True])
def test_blocks_of_many_rows(extreme: bool) -> None:
    """Codes cut out once for all rows: short sums, several chunks, few wanted outputs."""
    recipes = [r for r in RECIPES if r.pairs is not None and r.features <= host_features()]
    if not recipes:
        pytest.skip("no recipe of this processor adds products of pairs")
    library = kernel_provider(recipes[0].name)("panels", KINDS[0])
    block = library.function(
        NARROW_BLOCK, [c_void_p if name in POINTERS else c_int64 for name in BLOCK_ARGUMENTS]
    )
    rng = np.random.default_rng(5)
    for steps, rows, outs in [(1, 1, 64), (9, 13, 5), (64, 7, 33), (200, 48, 64), (130, 6, 33)]:
        stride = 8
        x = rng.integers(-128, 128, (rows - 1) * stride + STEP * steps).astype(np.int8)
        trits = rng.integers(-1, 2, (64, steps * STEP)).astype(np.int8)
        if extreme:
            x[:], trits[:] = -128, 1
        weights = PackedWeights.of(trits).layout("panels")
        raw = np.full((rows, 64), 9, np.int32)
        addresses = [array.ctypes.data for array in (weights, x, raw)]
        block(*addresses[:2], stride, addresses[2], raw.shape[1], steps, rows, outs)
        read = np.array([x[m * stride : m * stride + STEP * steps] for m in range(rows)], np.int64)
        expected = read @ (trits.astype(np.int64) + 1).T
        assert np.array_equal(raw[:, :outs], expected[:, :outs])


def _raw(library: Library, rows: int, trits: NDArray[np.int8], x: Array, stride: int) -> Array:
    """What a tile makes of trits [outs, values], with three columns beside that stay."""
    outs, values = trits.shape
    weights = PackedWeights.of(trits).layout("panels")
    # What stood there before does not count.
    raw = np.full((rows, outs + 3), 9, np.int32)
    raw[:, outs:] = 0
    addresses = [array.ctypes.data for array in (weights, x, raw)]
    tile = library.function(f"tile_{rows}", SIGNATURE)
    tile(*addresses[:2], stride, addresses[2], raw.shape[1], values // STEP, outs // 64)
    return raw
