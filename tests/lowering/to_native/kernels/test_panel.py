"""Tiles called on their own: segments of the reduction, against NumPy in int64."""

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
def test_segments_of_overlapping_activations(recipe: Recipe) -> None:
    """Rows and segments read the same bytes, and steps are padded by weights of code 0."""
    library = kernel_provider(recipe.name)("panels", KINDS[0])
    rng = np.random.default_rng(11)
    shapes = [(1, 1, 1, 3), (2, 3, 2, 7), (1, 5, 1, 4), (1, 7, 9, 33), (3, 2, 14, 55)]
    for panels, segments, steps, used in [*shapes, (1, 2, 17, 66), (2, 1, 145, 580)]:
        pitch, stride, outs = 96, 7, 64 * panels
        for rows in range(1, recipe.tile_rows + 1):
            size = (rows - 1) * stride + (segments - 1) * pitch + STEP * steps
            x = rng.integers(-128, 128, size).astype(np.int8)
            trits = np.full((outs, segments, STEP * steps), -1, np.int8)
            trits[..., :used] = rng.integers(-1, 2, (outs, segments, used))
            raw = _raw(library, rows, trits, x, stride, pitch)
            starts = [[m * stride + s * pitch for s in range(segments)] for m in range(rows)]
            read = np.array([[x[at : at + used] for at in line] for line in starts], np.int64)
            codes = trits[..., :used].astype(np.int64) + 1
            assert np.array_equal(raw[:, :outs], np.einsum("msk,nsk->mn", read, codes))
            assert not raw[:, outs:].any()


@pytest.mark.parametrize(
    "recipe", [r for r in RECIPES if r.features <= host_features()], ids=lambda r: r.name
)
@pytest.mark.parametrize("value", [-128, 127])
def test_sums_as_large_as_can_be(recipe: Recipe, value: int) -> None:
    """The largest codes with the largest activations, in every field and for every step."""
    library = kernel_provider(recipe.name)("panels", KINDS[0])
    trits = np.ones((64, 1, STEP * 200), np.int8)
    x = np.full(STEP * 200 + recipe.tile_rows, value, np.int8)
    for rows in range(1, recipe.tile_rows + 1):
        raw = _raw(library, rows, trits, x, 1, 0)
        assert (raw[:, :64] == 2 * value * STEP * 200).all()


@pytest.mark.parametrize("extreme", [False, True])
def test_blocks_of_many_rows(extreme: bool) -> None:
    """Codes cut out once for all rows: short windows, several chunks, few wanted outputs."""
    recipes = [r for r in RECIPES if r.pairs is not None and r.features <= host_features()]
    if not recipes:
        pytest.skip("no recipe of this processor adds products of pairs")
    library = kernel_provider(recipes[0].name)("panels", KINDS[0])
    block = library.function(
        NARROW_BLOCK, [c_void_p if name in POINTERS else c_int64 for name in BLOCK_ARGUMENTS]
    )
    rng = np.random.default_rng(5)
    shapes = [(1, 1, 1, 1, 64), (1, 3, 3, 13, 5), (2, 4, 16, 7, 97), (1, 3, 48, 32, 64)]
    for panels, segments, steps, rows, outs in [*shapes, (2, 1, 200, 48, 128), (1, 2, 65, 6, 33)]:
        stride, pitch = 8, 4 * steps + 4
        size = (rows - 1) * stride + (segments - 1) * pitch + STEP * steps
        x = rng.integers(-128, 128, size).astype(np.int8)
        trits = rng.integers(-1, 2, (64 * panels, segments * steps * STEP)).astype(np.int8)
        if extreme:
            x[:], trits[:] = -128, 1
        weights = PackedWeights.of(trits).layout("panels")
        raw = np.full((rows, 64 * panels), 9, np.int32)
        addresses = [array.ctypes.data for array in (weights, x, raw)]
        sizes = (raw.shape[1], steps, panels, segments, pitch, rows, outs)
        block(*addresses[:2], stride, addresses[2], *sizes)
        starts = [[m * stride + s * pitch for s in range(segments)] for m in range(rows)]
        read = np.array([[x[at : at + STEP * steps] for at in line] for line in starts], np.int64)
        expected = read.reshape(rows, -1) @ (trits.astype(np.int64) + 1).T
        assert np.array_equal(raw[:, :outs], expected[:, :outs])


def _raw(
    library: Library, rows: int, trits: NDArray[np.int8], x: Array, stride: int, pitch: int
) -> Array:
    """What a tile makes of trits [outs, segments, values], with three columns beside that stay."""
    outs, segments, values = trits.shape
    weights = PackedWeights.of(trits.reshape(outs, -1)).layout("panels")
    # What stood there before does not count.
    raw = np.full((rows, outs + 3), 9, np.int32)
    raw[:, outs:] = 0
    addresses = [array.ctypes.data for array in (weights, x, raw)]
    sizes = (raw.shape[1], values // STEP, outs // 64, segments, pitch)
    tile = library.function(f"tile_{rows}", SIGNATURE)
    tile(*addresses[:2], stride, addresses[2], *sizes)
    return raw
