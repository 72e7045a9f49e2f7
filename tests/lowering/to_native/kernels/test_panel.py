"""Tiles called on their own: segments of the reduction, against NumPy in int64."""

from ctypes import c_int64, c_void_p

import numpy as np
import pytest

from triton_dsl.lowering.to_native.callables import kernel_provider
from triton_dsl.lowering.to_native.kernels.panel import TILE_ARGUMENTS
from triton_dsl.lowering.to_native.kernels.recipes import RECIPES, Recipe
from triton_dsl.runtime.native.abi.linear import KINDS, STEP
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
    for panels, segments, steps, used in shapes:
        used = min(used, STEP * steps)
        pitch, stride, outs = 96, 7, 64 * panels
        for rows in range(1, recipe.tile_rows + 1):
            size = (rows - 1) * stride + (segments - 1) * pitch + STEP * steps
            x = rng.integers(-128, 128, size).astype(np.int8)
            trits = np.full((outs, segments, STEP * steps), -1, np.int8)
            trits[..., :used] = rng.integers(-1, 2, (outs, segments, used))
            weights = PackedWeights.of(trits.reshape(outs, -1)).layout("panels")
            raw = np.zeros((rows, outs + 3), np.int32)
            tile = library.function(f"tile_{rows}", SIGNATURE)
            addresses = [array.ctypes.data for array in (weights, x, raw)]
            tile(
                *addresses[:2],
                stride,
                addresses[2],
                raw.shape[1],
                steps,
                panels,
                segments,
                pitch,
            )
            starts = [[m * stride + s * pitch for s in range(segments)] for m in range(rows)]
            read = np.array([[x[at : at + used] for at in line] for line in starts], np.int64)
            codes = trits[..., :used].astype(np.int64) + 1
            assert np.array_equal(raw[:, :outs], np.einsum("msk,nsk->mn", read, codes))
            assert not raw[:, outs:].any()
