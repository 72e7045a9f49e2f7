"""Products of spikes by tables beside NumPy's, every buffer between forbidden pages."""

from collections.abc import Callable
from ctypes import c_int64, c_void_p
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, f32, f64, i32

from triton_dsl.lowering.to_native.kernels.recipes import Recipe, recipe_named
from triton_dsl.lowering.to_native.kernels.spike_tables import TableProduct, write_table_product
from triton_dsl.lowering.to_native.object_code import compile_object
from triton_dsl.runtime.native.jit import Library
from triton_dsl.runtime.native.processor import host_features

Array = NDArray[Any]
Guard = Callable[..., Any]

ELEMENTS = {"f32": f32, "f64": f64, "i32": i32, "trit": i32}
DTYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "trit": np.int32}
SHAPES = ((1, 1), (48, 64), (49, 129), (1030, 3))
"""One of everything, whole tables, odd sizes of several columns, sums of many extremes."""


@pytest.fixture(params=list(ELEMENTS))
def kind(request: pytest.FixtureRequest) -> str:
    """Each type of sums."""
    pytest.importorskip("llvmlite")
    return request.param


def compiled(recipe: Recipe, kind: str, shapes: list[tuple[int, int]]) -> list[Callable[..., Any]]:
    """Functions of spikes [rows, ins], weights [ins, outs]: all results of guarded calls."""
    products = [TableProduct(recipe, ELEMENTS[kind], *shape, kind == "trit") for shape in shapes]
    functions = [write_table_product(f"product_{n}", p) for n, p in enumerate(products)]
    library = Library(compile_object(ModuleOp(functions)))

    def caller(number: int, product: TableProduct) -> Callable[..., list[Array]]:
        function = library.function(f"product_{number}", [c_void_p] * 4 + [c_int64])

        def call(guard: Guard, x: Array, weights: Array) -> list[Array]:
            results: list[Array] = []
            for at_start in (False, True):
                y = np.full((len(x), product.outs), 77, DTYPES[kind])
                # No number, as a sum that is not begun anew would show.
                scratch = np.full(product.scratch, 0xFF, np.uint8)
                arrays = (x, product.arranged(weights), y, scratch)
                buffers = [guard(array, at_start=at_start) for array in arrays]
                function(*(buffer.address for buffer in buffers), len(x))
                results.append(buffers[2].array.copy())
            return results

        return call

    return [caller(number, product) for number, product in enumerate(products)]


def weights_of(kind: str, ins: int, outs: int) -> Array:
    """Any int8 or trits, columns of extremes; floats are eighths, so that sums are exact."""
    if kind == "trit":
        weights = np.random.default_rng(ins).integers(-1, 2, (ins, outs))
        weights[:, 0], weights[:, -1] = 1, -1
        return weights.astype(np.int8)
    weights = np.random.default_rng(ins * 1000 + outs).integers(-128, 128, (ins, outs))
    weights[:, 0], weights[:, -1] = 127, -128
    return weights.astype(np.int32) if kind == "i32" else (weights / 8).astype(DTYPES[kind])


def test_sums_are_those_of_products(width_recipe: str, kind: str, guarded_copy: Guard) -> None:
    recipe = recipe_named(width_recipe, host_features())
    calls = compiled(recipe, kind, list(SHAPES))
    for (ins, outs), call in zip(SHAPES, calls, strict=True):
        weights = weights_of(kind, ins, outs)
        for rows in (1, 2, 3, 95, 96):
            x = (np.random.default_rng(rows).random((rows, ins)) < 0.4).astype(np.uint8)
            x[0], x[-1] = 0, 1
            expected = x.astype(np.float64) @ weights.astype(np.float64)
            for found in call(guarded_copy, x, weights):
                np.testing.assert_array_equal(found, expected)


@settings(max_examples=6)
@given(
    st.integers(1, 200),
    st.integers(1, 150),
    st.sampled_from([1, 9, 100, 1024, 1025, 1130]),
    st.sampled_from(["i32", "f32", "trit"]),
)
def test_sums_of_any_shape(guarded_copy: Guard, ins: int, outs: int, rows: int, kind: str) -> None:
    pytest.importorskip("llvmlite")
    x = (np.random.default_rng(rows).random((rows, ins)) < 0.3).astype(np.uint8)
    (call,) = compiled(recipe_named("generic", host_features()), kind, [(ins, outs)])
    weights = weights_of(kind, ins, outs)
    for found in call(guarded_copy, x, weights):
        expected = x.astype(np.float64) @ weights.astype(np.float64)
        np.testing.assert_array_equal(found, expected)


def test_floats_of_any_size_are_as_near_as_their_type(
    width_recipe: str, guarded_copy: Guard
) -> None:
    pytest.importorskip("llvmlite")
    rng = np.random.default_rng(0)
    weights = (rng.normal(size=(500, 40)) * 10 ** rng.uniform(-3, 3, (500, 40))).astype("f4")
    x = (rng.random((130, 500)) < 0.5).astype(np.uint8)
    (call,) = compiled(recipe_named(width_recipe, host_features()), "f32", [(500, 40)])
    bound = 500 * np.finfo(np.float32).eps * (x.astype("f8") @ np.abs(weights).astype("f8"))
    for found in call(guarded_copy, x, weights):
        assert (np.abs(found - x.astype("f8") @ weights.astype("f8")) <= bound).all()
        # However rows are shared among calls, each is summed in the same order.
        for rows in (1, 2, 3, 95, 96):
            np.testing.assert_array_equal(call(guarded_copy, x[:rows], weights)[0], found[:rows])
