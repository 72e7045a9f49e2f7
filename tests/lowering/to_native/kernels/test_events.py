"""Event-driven sums beside NumPy's products, every buffer between forbidden pages."""

from collections.abc import Callable, Sequence
from ctypes import c_int64, c_void_p
from typing import Any, Literal, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects import llvm
from xdsl.dialects.builtin import ModuleOp, f32, f64, i32

from triton_dsl.lowering.to_native.kernels.events import EventRows
from triton_dsl.lowering.to_native.kernels.float_events import (
    FloatRows,
    float_scratch,
    write_float_layer,
)
from triton_dsl.lowering.to_native.kernels.recipes import Recipe, recipe_named
from triton_dsl.lowering.to_native.kernels.spiking_layers import (
    Synapse,
    layer_scratch,
    write_layer,
)
from triton_dsl.lowering.to_native.object_code import compile_object
from triton_dsl.passes.analysis.event_products import RowKind
from triton_dsl.runtime.native.abi.events import byte_rows, trit_rows
from triton_dsl.runtime.native.jit import Library
from triton_dsl.runtime.native.processor import host_features

Array = NDArray[Any]
Guard = Callable[..., Any]

ELEMENTS = {"trit": np.int8, "i8": np.int8, "f32": np.float32, "f64": np.float64}
SHAPES = ((1, 1), (3, 17), (64, 64), (65, 257), (1030, 3), (200, 300), (1100, 2100))
"""One of everything, odd sizes, whole registers, several columns, several blocks of them."""


def weights_of(kind: str, ins: int, outs: int) -> Array:
    """Random weights; floats are eighths, so that sums are exact. A column of extremes."""
    rng = np.random.default_rng(ins * 1000 + outs)
    if kind == "trit":
        weights = rng.integers(-1, 2, (ins, outs))
        weights[:, 0] = 1
    elif kind == "i8":
        weights = rng.integers(-128, 128, (ins, outs))
        weights[:, 0], weights[:, -1] = 127, -128
    else:
        weights = rng.integers(-64, 65, (ins, outs)) / 8
    return weights.astype(ELEMENTS[kind])


def trains(ins: int) -> Array:
    """Silence, all fire, and rows of so many events that counters are about to overflow."""
    rng = np.random.default_rng(ins)
    counts = (0, ins, 1, 6, 7, 8, 125, 126, 127, 128, 252, 256, 257, 258, 514, 515)
    rows: list[Array] = []
    for count in counts:
        row = np.zeros(ins, np.uint8)
        row[rng.permutation(ins)[: min(count, ins)]] = 1
        rows.append(row)
    rows.append((rng.random(ins) < 0.5).astype(np.uint8))
    return np.stack(rows)


class Kernel:
    """A synapse, compiled."""

    def __init__(self, synapse: Synapse, name: str, library: Library) -> None:
        self.synapse = synapse
        self._function = library.function(name, [c_void_p] * 6 + [c_int64])

    def __call__(
        self, guard: Guard, x: Array, weights: Array, tables: Sequence[Array | None]
    ) -> list[Array]:
        """The results with all buffers at the start, and at the end, of what may be read."""
        results: list[Array] = []
        rows = self.synapse.rows
        dtype = {i32: np.int32, f32: np.float32, f64: np.float64}[cast("Any", self.synapse.result)]
        for at_start in (False, True):
            held = [guard(x, at_start=at_start), guard(weights, at_start=at_start)]
            given = [None if t is None else guard(t, at_start=at_start) for t in tables]
            y = guard(np.zeros((len(x), rows.outs), dtype), at_start=at_start)
            junk = np.full(_scratch(self.synapse), 0xA5, np.uint8)
            scratch = guard(junk, at_start=at_start)
            buffers = [*held, *given, y, scratch]
            self._function(*(0 if b is None else b.address for b in buffers), len(x))
            results.append(y.array.copy())
        return results


def packed(rows: EventRows, weights: Array) -> Array:
    if isinstance(rows, FloatRows):
        return rows.arranged(weights)
    make = trit_rows if rows.kind == "trit" else byte_rows
    return rows.arranged(make(weights, rows.recipe.width))


def rows_for(recipe: Recipe, kind: RowKind, ins: int, outs: int) -> EventRows:
    rows = FloatRows if kind in ("f32", "f64") else EventRows
    return rows(recipe, kind, ins, outs)


def _scratch(synapse: Synapse) -> int:
    if isinstance(synapse.rows, FloatRows):
        return float_scratch(synapse, None)
    return layer_scratch(synapse, None)


def _write(name: str, synapse: Synapse) -> llvm.FuncOp:
    write = write_float_layer if isinstance(synapse.rows, FloatRows) else write_layer
    return write(name, synapse)


@pytest.fixture(params=list(ELEMENTS))
def kind(request: pytest.FixtureRequest) -> RowKind:
    """Each kind of weights."""
    pytest.importorskip("llvmlite")
    return request.param


def compiled(synapses: Sequence[Synapse]) -> list[Kernel]:
    names = [f"synapse_{n}" for n in range(len(synapses))]
    functions = [_write(name, s) for name, s in zip(names, synapses, strict=True)]
    library = Library(compile_object(ModuleOp(functions)))
    return [Kernel(s, name, library) for name, s in zip(names, synapses, strict=True)]


def test_sums_are_those_of_products(width_recipe: str, kind: RowKind, guarded_copy: Guard) -> None:
    recipe = recipe_named(width_recipe, host_features())
    rows = [rows_for(recipe, kind, ins, outs) for ins, outs in SHAPES]
    for kernel in compiled([Synapse(r, r.element) for r in rows]):
        r = kernel.synapse.rows
        weights, x = weights_of(kind, r.ins, r.outs), trains(r.ins)
        expected = x.astype(np.float64) @ weights.astype(np.float64)
        for found in kernel(guarded_copy, x, packed(r, weights), (None, None)):
            np.testing.assert_array_equal(found, expected)


@settings(max_examples=12)
@given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 40))
def test_sums_of_any_shape(guarded_copy: Guard, ins: int, outs: int, count: int) -> None:
    pytest.importorskip("llvmlite")
    recipe = recipe_named("generic", host_features())
    kinds: tuple[RowKind, ...] = ("trit", "i8", "f32")
    x = (np.random.default_rng(count).random((count, ins)) < 0.3).astype(np.uint8)
    for kernel in compiled([Synapse(r, r.element) for r in rows_of(recipe, kinds, ins, outs)]):
        r = kernel.synapse.rows
        weights = weights_of(r.kind, ins, outs)
        expected = x.astype(np.float64) @ weights.astype(np.float64)
        for found in kernel(guarded_copy, x, packed(r, weights), (None, None)):
            np.testing.assert_array_equal(found, expected)


def rows_of(recipe: Recipe, kinds: Sequence[RowKind], ins: int, outs: int) -> list[EventRows]:
    return [rows_for(recipe, kind, ins, outs) for kind in kinds]


@pytest.mark.parametrize("spread", ["all", "channel"])
def test_scale_and_bias_follow_in_float32(
    width_recipe: str, spread: Literal["all", "channel"], guarded_copy: Guard
) -> None:
    pytest.importorskip("llvmlite")
    recipe = recipe_named(width_recipe, host_features())
    rng = np.random.default_rng(0)
    ins, outs = 70, 37
    weights, x = weights_of("i8", ins, outs), trains(ins)
    rows = EventRows(recipe, "i8", ins, outs)
    (kernel,) = compiled([Synapse(rows, f32, spread, bias=True)])
    scale = rng.normal(size=1 if spread == "all" else outs).astype(np.float32)
    bias = rng.normal(size=outs).astype(np.float32)

    def table(values: Array) -> Array:
        whole = np.zeros(kernel.synapse.finished, np.float32)
        whole[: values.size] = values
        return whole

    tables = (scale if spread == "all" else table(scale), table(bias))
    sums = (x.astype(np.int64) @ weights.astype(np.int64)).astype(np.float32)
    for found in kernel(guarded_copy, x, packed(rows, weights), tables):
        np.testing.assert_array_equal(found, sums * scale + bias)


def test_floats_are_added_in_the_order_of_the_inputs(
    width_recipe: str, guarded_copy: Guard
) -> None:
    pytest.importorskip("llvmlite")
    recipe = recipe_named(width_recipe, host_features())
    rng = np.random.default_rng(1)
    ins, outs = 90, 21
    weights = rng.normal(size=(ins, outs)).astype(np.float32)
    x = trains(ins)
    (kernel,) = compiled([Synapse(FloatRows(recipe, "f32", ins, outs), f32)])
    expected = np.zeros((len(x), outs), np.float32)
    for i in range(ins):
        expected += np.where(x[:, i, None] != 0, weights[i], np.float32(0))
    for found in kernel(guarded_copy, x, packed(kernel.synapse.rows, weights), (None, None)):
        np.testing.assert_array_equal(found, expected)
