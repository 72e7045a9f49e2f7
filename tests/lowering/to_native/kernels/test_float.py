"""Float activations: the rounding to int8 against NumPy, and the accuracy of float32 kept."""

import numpy as np
import pytest
from numpy.typing import NDArray

from triton_dsl.lowering.to_native.callables import native_linear
from triton_dsl.lowering.to_native.kernels.recipes import RECIPES
from triton_dsl.runtime.native.abi.linear import LAYOUTS, Layout
from triton_dsl.runtime.native.processor import host_features

pytest.importorskip("llvmlite")

RUNNABLE = pytest.mark.parametrize(
    "recipe", [recipe.name for recipe in RECIPES if recipe.features <= host_features()]
)
SHAPES = [(1, 1, 1), (1, 256, 64), (2, 257, 65), (3, 784, 40), (9, 100, 130), (8, 512, 3)]


def layouts(ins: int) -> list[Layout]:
    return [name for name in LAYOUTS if name != "stored" or ins % 256 == 0]


def quantised(x: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Rows as int8, the nearest with ties to even, and their scales; all in float32 as stated."""
    largest = np.abs(x).max(axis=-1, keepdims=True)
    factor = np.float32(127) / largest
    return np.rint(x * factor).astype(np.int64), largest / np.float32(127)


@RUNNABLE
@pytest.mark.parametrize(("rows", "ins", "outs"), SHAPES)
def test_dynamic_int8(recipe: str, rows: int, ins: int, outs: int) -> None:
    rng = np.random.default_rng(rows + ins + outs)
    x = rng.standard_normal((rows, ins)).astype(np.float32) + np.float32(0.01)
    trits = rng.integers(-1, 2, (outs, ins)).astype(np.int8)
    scale = rng.uniform(0.5, 2, outs).astype(np.float32)
    bias = rng.standard_normal(outs).astype(np.float32)
    codes, row_scale = quantised(x)
    sums = (codes @ trits.T.astype(np.int64)).astype(np.float64)
    expected = sums * row_scale * scale + bias
    for layout in layouts(ins):
        layer = native_linear(trits, scale=scale, bias=bias, recipe=recipe, layout=layout)
        result = layer(x)
        assert result.dtype == np.float32
        size = np.abs(sums * row_scale * scale) + np.abs(bias)
        assert np.all(np.abs(result - expected) <= 4e-7 * size + 1e-30)


@RUNNABLE
@pytest.mark.parametrize(("rows", "ins", "outs"), SHAPES)
def test_float32_precision(recipe: str, rows: int, ins: int, outs: int) -> None:
    rng = np.random.default_rng(rows * ins * outs)
    x = rng.standard_normal((rows, ins)).astype(np.float32)
    trits = rng.integers(-1, 2, (outs, ins)).astype(np.int8)
    expected = x.astype(np.float64) @ trits.T.astype(np.float64)
    for layout in layouts(ins):
        result = native_linear(trits, precision="float32", recipe=recipe, layout=layout)(x)
        # Half a unit of the last digit for each value, and the roundings of the result.
        bound = np.abs(x).max() * np.sqrt(ins) * 4e-7 + np.abs(expected) * 4e-7
        assert np.all(np.abs(result - expected) <= bound)


@RUNNABLE
def test_float32_precision_is_no_worse_than_that_of_torch(recipe: str) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(5)
    x = rng.standard_normal((4, 2048)).astype(np.float32)
    trits = rng.integers(-1, 2, (300, 2048)).astype(np.int8)
    expected = x.astype(np.float64) @ trits.T.astype(np.float64)
    theirs = (torch.from_numpy(x) @ torch.from_numpy(trits.astype(np.float32)).T).numpy()
    ours = native_linear(trits, precision="float32", recipe=recipe)(x)
    assert np.abs(ours - expected).max() <= np.abs(theirs - expected).max()


@RUNNABLE
@pytest.mark.parametrize("precision", ["dynamic-int8", "float32"])
@pytest.mark.parametrize("layout", ["rows", "panels"])
def test_rows_without_a_scale(recipe: str, precision: str, layout: Layout) -> None:
    x = np.zeros((6, 300), np.float32)
    x[1, 299] = np.inf
    x[2, 5] = np.nan
    x[3, 7] = 1e-45
    x[4, 7] = np.float32(2.0**-118)
    x[5, 299] = 3e38
    trits = np.ones((70, 300), np.int8)
    chosen = "float32" if precision == "float32" else "dynamic-int8"
    result = native_linear(trits, precision=chosen, recipe=recipe, layout=layout)(x)
    assert np.array_equal(result[0], np.zeros(70))
    assert np.isnan(result[1:3]).all()
    assert np.array_equal(result[3], np.zeros(70))
    assert np.allclose(result[4], 2.0**-118, rtol=1e-6, atol=0)
    assert np.allclose(result[5], 3e38, rtol=1e-6)


@RUNNABLE
def test_ties_go_to_even(recipe: str) -> None:
    x = np.array([[127, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 125.5]], np.float32)
    result = native_linear(np.eye(8), recipe=recipe)(x)
    assert result.tolist() == [[127, 0, 2, 2, 0, -2, -2, 126]]


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize(("rows", "ins", "outs"), [(1, 4096, 2000), (7, 1024, 1000), (40, 600, 65)])
def test_threads_change_nothing(threads: int, rows: int, ins: int, outs: int) -> None:
    rng = np.random.default_rng(6)
    x = rng.standard_normal((rows, ins)).astype(np.float32)
    codes = rng.integers(-128, 128, (rows, ins)).astype(np.int8)
    trits = rng.integers(-1, 2, (outs, ins)).astype(np.int8)
    one, many = native_linear(trits), native_linear(trits, threads=threads)
    for _ in range(3):
        assert np.array_equal(one(x), many(x))
        assert np.array_equal(one(codes), many(codes))
