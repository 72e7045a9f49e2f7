"""Tables of rows times a vector: sums of float64, of floats that the package `gguf` gives."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from triton_dsl.lowering.to_native.callables import row_products
from triton_dsl.lowering.to_native.kernels.recipes import RECIPES, Recipe
from triton_dsl.runtime.native.abi.row_products import BLOCKS, RowKind
from triton_dsl.runtime.native.jit import Library
from triton_dsl.runtime.native.processor import host_features
from triton_dsl.runtime.native.row_products import RowProduct

gguf: Any = pytest.importorskip("gguf")

HERE = [recipe for recipe in RECIPES if recipe.features <= host_features()]
FLOATS: dict[RowKind, Any] = {
    "float32": np.float32,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
}


def vector(size: int) -> np.ndarray:
    """Values of very different magnitudes, and a part of zeros."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal(size) * np.exp(rng.standard_normal(size))
    x[:256] *= size > 256
    return x.astype(np.float32)


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("recipe", HERE, ids=lambda recipe: recipe.name)
def test_rows_of_floats(recipe: Recipe, kind: RowKind) -> None:
    for size in (1, 31, 32, 64, 77, 320):
        table = np.random.default_rng(0).standard_normal((5, size)).astype(FLOATS[kind])
        x = vector(size)
        product = RowProduct(Library(row_products(recipe, kind)), kind, table.view(np.uint8), size)
        floats = table.astype(np.float64)
        bound = 1e-6 * (np.abs(floats) @ np.abs(x))
        assert (np.abs(product(x) - floats @ x) <= bound).all()


@pytest.mark.parametrize("kind", BLOCKS)
@pytest.mark.parametrize("recipe", HERE, ids=lambda recipe: recipe.name)
def test_rows_of_blocks(recipe: Recipe, kind: RowKind) -> None:
    """As near as the rounding of the vector allows; codes and digits at their ends, too."""
    block, size = BLOCKS[kind], 768
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 256, (7, size // block.values, block.bytes), np.uint8)
    rows[0], rows[1], rows[2] = 0, 0xFF, 0x80
    place = 208 if kind == "Q6_K" else 0
    halves = rng.uniform(1e-3, 1e-2, rows.shape[:2]).astype(np.float16)
    rows[:, :, place : place + 2] = halves[:, :, None].view(np.uint8)
    rows = rows.reshape(7, -1)
    floats = gguf.quants.dequantize(rows, gguf.GGMLQuantizationType[kind]).astype(np.float64)
    largest = np.sign(vector(size) + 0.01) * 3
    product = RowProduct(Library(row_products(recipe, kind)), kind, rows, size)
    for x in (vector(size), largest.astype(np.float32), np.zeros(size, np.float32)):
        parts = np.abs(x).reshape(-1, block.values).max(axis=1).repeat(block.values)
        bound = np.abs(floats) @ (parts / (127 * 254) * 0.51 + 1e-6 * np.abs(x))
        assert (np.abs(product(x) - floats @ x) <= bound).all()


def test_threads_share_rows() -> None:
    table = np.random.default_rng(0).standard_normal((4097, 512)).astype(np.float32)
    code, x = Library(row_products(HERE[0], "float32")), vector(512)
    one, three = (RowProduct(code, "float32", table.view(np.uint8), 512, n)(x) for n in (1, 3))
    np.testing.assert_array_equal(one, three)
