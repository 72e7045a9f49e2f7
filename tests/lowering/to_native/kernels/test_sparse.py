"""Kernels that leave out blocks of zeros, against NumPy in int64."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from triton_dsl.lowering.to_native.callables import native_linear
from triton_dsl.lowering.to_native.kernels.recipes import RECIPES
from triton_dsl.runtime.native.processor import host_features

pytest.importorskip("llvmlite")

RUNNABLE = pytest.mark.parametrize(
    "recipe", [recipe.name for recipe in RECIPES if recipe.features <= host_features()]
)
SIZES = [1, 3, 4, 5, 63, 64, 65, 200, 255, 256, 257, 300, 512, 600]
DTYPES = [np.int8, np.uint8, np.int16, np.int32]


def with_zero_blocks(
    rng: np.random.Generator, outs: int, ins: int, share: float
) -> NDArray[np.int8]:
    """Random trits, of which `share` of the blocks of 4 inputs by 256 outputs are zero."""
    trits = rng.integers(-1, 2, (outs, ins)).astype(np.int8)
    dead = rng.random((-(-outs // 256), -(-ins // 4))) < share
    return np.where(np.kron(dead, np.ones((256, 4), np.bool_))[:outs, :ins], 0, trits)


def sweep(recipe: str, count: int, seed: int) -> None:
    """Random shapes, values, types and zeros."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        rows = int(rng.choice([0, 1, 1, 2, 3, 4, 5, 6, 7, 12, 13]))
        ins, outs = int(rng.choice(SIZES)), int(rng.choice(SIZES))
        trits = with_zero_blocks(rng, outs, ins, float(rng.choice([0, 0.3, 0.5, 0.9, 1])))
        info = np.iinfo(DTYPES[number % len(DTYPES)])
        x = rng.integers(info.min, info.max + 1, (rows, ins)).astype(info.dtype)
        if number % 3 == 0:
            x = rng.choice([info.min, info.max], (rows, ins)).astype(info.dtype)
        result = native_linear(trits, recipe=recipe, layout="sparse")(x)
        expected = (x.astype(np.int64) @ trits.T.astype(np.int64)).astype(np.int32)
        assert np.array_equal(result, expected), (recipe, x.shape, x.dtype, trits.shape)


@RUNNABLE
def test_is_exact(recipe: str) -> None:
    sweep(recipe, 120, 1)


@RUNNABLE
@pytest.mark.parametrize("value", [-128, 127])
def test_sums_as_large_as_can_be(recipe: str, value: int) -> None:
    layer = native_linear(np.ones((300, 800), np.int8), recipe=recipe, layout="sparse")
    for rows in (1, 2, 3):
        assert (layer(np.full((rows, 800), value, np.int8)) == 800 * value).all()


@RUNNABLE
@pytest.mark.slow
def test_is_exact_on_ten_thousand_problems(recipe: str) -> None:
    sweep(recipe, 10_000, 2)


@RUNNABLE
@pytest.mark.parametrize("precision", ["dynamic-int8", "float32"])
def test_floats_get_the_same_bits_as_from_dense_panels(recipe: str, precision: str) -> None:
    rng = np.random.default_rng(3)
    for rows, ins, outs in [(1, 300, 600), (3, 257, 256), (8, 64, 257)]:
        trits = with_zero_blocks(rng, outs, ins, 0.5)
        x = rng.standard_normal((rows, ins)).astype(np.float32)
        bias = rng.standard_normal(outs).astype(np.float32)
        options: dict[str, Any] = {"bias": bias, "precision": precision, "recipe": recipe}
        dense = native_linear(trits, layout="panels", **options)(x)
        assert np.array_equal(native_linear(trits, layout="sparse", **options)(x), dense)


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_nothing(threads: int) -> None:
    rng = np.random.default_rng(6)
    for rows, ins, outs in [(1, 4096, 2000), (7, 1024, 1000), (40, 600, 65)]:
        trits = with_zero_blocks(rng, outs, ins, 0.4)
        x = rng.integers(-128, 128, (rows, ins)).astype(np.int8)
        layer = native_linear(trits, threads=threads, layout="sparse")
        assert np.array_equal(layer(x), x.astype(np.int64) @ trits.T.astype(np.int64))
