"""Products in one module, as whole programs have them: kinds of activations and fused steps."""

from __future__ import annotations

from ctypes import c_int64, c_void_p
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.ir.errors import OptionError
from triton_dsl.lowering.to_native.kernels.epilogue import Epilogue, Requantize, Thresholds
from triton_dsl.lowering.to_native.kernels.kernel import (
    fingerprint,
    linear_functions,
    shared_functions,
)
from triton_dsl.lowering.to_native.kernels.recipes import RECIPES, recipe_named
from triton_dsl.lowering.to_native.object_code import compile_object
from triton_dsl.runtime.native.abi.linear import KINDS, Kind, Layout, scratch_bytes
from triton_dsl.runtime.native.abi.tables import threshold_table, trit_sums
from triton_dsl.runtime.native.jit import Library, load
from triton_dsl.runtime.native.packed import PackedWeights
from triton_dsl.runtime.native.processor import host_features

pytest.importorskip("llvmlite")

Array = NDArray[Any]
KIND = {kind.activations: kind for kind in KINDS}
Tables = tuple[Array | None, Array | None, Array | None, Array | None]
NONE: Tables = (None, None, None, None)
INTEGERS: dict[str, type[np.integer[Any]]] = {
    "i8": np.int8,
    "u8": np.uint8,
    "i16": np.int16,
    "i32": np.int32,
}
RUNNABLE = pytest.mark.parametrize(
    "recipe", [recipe.name for recipe in RECIPES if recipe.features <= host_features()]
)
SIZES = [1, 2, 3, 5, 15, 16, 17, 63, 64, 65, 100, 129, 256, 257, 300]


@cache
def program(recipe: str, wanted: tuple[tuple[Kind, Layout, Epilogue], ...]) -> Library:
    """A module with one product for each combination, as whole programs have."""
    chosen = recipe_named(recipe, host_features())

    def generate() -> bytes:
        functions = shared_functions(chosen, ((kind, layout) for kind, layout, _ in wanted))
        for i, (kind, layout, epilogue) in enumerate(wanted):
            functions += linear_functions(chosen, kind, epilogue, str(i), layout)
        return compile_object(ModuleOp(list(functions)))

    return load(f"{fingerprint(chosen, 'panels', KINDS[0])} {wanted}", generate)


def call(
    library: Library,
    index: int,
    kind: Kind,
    layout: Layout,
    x: Array,
    trits: Array,
    result: np.dtype[Any],
    tables: Tables = NONE,
) -> Array:
    """`linear_<index>` of a program, its result surrounded by bytes that it may not touch."""
    rows, ins = x.shape
    outs = trits.shape[0]
    weights = PackedWeights.of(trits).layout(layout)
    around = np.full(rows * outs * result.itemsize + 128, 0xA5, np.uint8)
    scratch = np.zeros(scratch_bytes(rows, ins, outs, kind.digits) + 64, np.uint8)
    start = -scratch.ctypes.data % 64
    linear = library.function(f"linear_{index}", [c_void_p] * 8 + [c_int64] * 3)
    given = [None if table is None else np.ascontiguousarray(table) for table in tables]
    x = np.ascontiguousarray(x)
    addresses = [x.ctypes.data, weights.ctypes.data, around.ctypes.data + 64]
    addresses.append(scratch.ctypes.data + start)
    linear(*addresses, *(0 if t is None else t.ctypes.data for t in given), rows, ins, outs)
    assert (around[:64] == 0xA5).all()
    assert (around[-64:] == 0xA5).all()
    return around[64:-64].view(result).reshape(rows, outs)


def random_trits(rng: np.random.Generator, outs: int, ins: int) -> NDArray[np.int8]:
    return rng.integers(-1, 2, (outs, ins)).astype(np.int8)


def random_integers(rng: np.random.Generator, kind: str, shape: tuple[int, int]) -> Array:
    """Any values of the element of a kind, often the extreme ones."""
    info = np.iinfo(INTEGERS[kind])
    if rng.random() < 0.3:
        return rng.choice([info.min, info.max], shape).astype(INTEGERS[kind])
    return rng.integers(info.min, info.max + 1, shape).astype(INTEGERS[kind])


def wrapped(values: NDArray[np.int64]) -> NDArray[np.int32]:
    """Modulo 2^32."""
    return values.astype(np.uint64).astype(np.uint32).view(np.int32)


INTEGER_KERNELS: list[tuple[str, Layout]] = [
    ("i8", "panels"),
    ("u8", "panels"),
    ("i16", "panels"),
    ("i32", "panels"),
    ("u8", "sparse"),
    ("i32", "sparse"),
    ("u8", "stored"),
    ("i16", "rows"),
    ("i32", "rows"),
]


def integer_sweep(recipe: str, count: int, seed: int) -> None:
    """Random shapes and values of every integer kind, exact modulo 2^32."""
    rng = np.random.default_rng(seed)
    plain: list[tuple[Kind, Layout, Epilogue]] = [
        (KIND[name], layout, Epilogue(bias=True)) for name, layout in INTEGER_KERNELS
    ]
    library = program(recipe, tuple(plain))
    for _ in range(count):
        rows = int(rng.choice([0, 1, 1, 2, 3, 4, 5, 6, 7, 13]))
        ins, outs = int(rng.choice([0, *SIZES])), int(rng.choice([0, *SIZES]))
        trits = random_trits(rng, outs, ins)
        bias = rng.integers(-(1 << 31), 1 << 31, outs)
        for i, (kind, layout, _) in enumerate(plain):
            if layout == "stored" and ins % 256:
                continue
            x = random_integers(rng, kind.activations, (rows, ins))
            expected = wrapped(x.astype(np.int64) @ trits.T.astype(np.int64) + bias)
            given = wrapped(bias + kind.offset * trit_sums(trits).astype(np.int64))
            tables = (None, given, None, None)
            result = call(library, i, kind, layout, x, trits, np.dtype(np.int32), tables)
            assert np.array_equal(result, expected), (recipe, kind, layout, x.shape, trits.shape)


@RUNNABLE
def test_integer_kinds_are_exact(recipe: str) -> None:
    integer_sweep(recipe, 40, 1)


@RUNNABLE
@pytest.mark.slow
def test_integer_kinds_are_exact_on_ten_thousand_problems(recipe: str) -> None:
    integer_sweep(recipe, 1_250, 2)


def requantized(
    values: NDArray[np.int32], then: Requantize, multiplier: Array, shift: Array
) -> NDArray[np.int64]:
    half = np.int64(1) << (shift.astype(np.int64) - 1)
    scaled = (values.astype(np.int64) * multiplier + half) >> shift.astype(np.int64)
    return np.clip(scaled + then.zero_point, then.low, then.high)


@RUNNABLE
def test_requantisation(recipe: str) -> None:
    rng = np.random.default_rng(3)
    steps = [
        Epilogue(bias=True, then=Requantize("all", "all", -3, -128, 127, 8)),
        Epilogue(bias=True, activation="relu", then=Requantize("channel", "channel", 5, 0, 127, 8)),
        Epilogue(bias=True, then=Requantize("channel", "all", 900, -300, 32767, 16)),
        Epilogue(bias=True, then=Requantize("all", "channel", 1, -(1 << 31), (1 << 31) - 1, 32)),
    ]
    library = program(recipe, tuple((KIND["i8"], "panels", epilogue) for epilogue in steps))
    for i, epilogue in enumerate(steps):
        then = epilogue.then
        assert isinstance(then, Requantize)
        for rows, ins, outs in [(1, 40, 70), (7, 300, 16), (9, 17, 131)]:
            trits = random_trits(rng, outs, ins)
            x = random_integers(rng, "i8", (rows, ins))
            bias = rng.integers(-1000, 1000, outs).astype(np.int32)
            spreads = then.multiplier, then.shift
            counts = [outs if spread == "channel" else 1 for spread in spreads]
            multiplier = rng.integers(-(1 << 31), 1 << 31, counts[0]).astype(np.int32)
            shift = rng.integers(1, 63, counts[1]).astype(np.int32)
            sums = wrapped(x.astype(np.int64) @ trits.T.astype(np.int64) + bias)
            sums = np.maximum(sums, 0) if epilogue.activation == "relu" else sums
            dtype = np.dtype(f"int{then.width}")
            tables = (None, bias, multiplier, shift)
            result = call(library, i, KIND["i8"], "panels", x, trits, dtype, tables)
            assert np.array_equal(result, requantized(sums, then, multiplier, shift))


@RUNNABLE
def test_thresholds_of_integers(recipe: str) -> None:
    rng = np.random.default_rng(4)
    thens = [
        Thresholds(1, "all", 8),
        Thresholds(3, "channel", 8),
        Thresholds(127, "all", 8),
        Thresholds(128, "channel", 32),
    ]
    steps = [Epilogue(bias=True, then=then) for then in thens]
    library = program(recipe, tuple((KIND["i16"], "panels", epilogue) for epilogue in steps))
    for i, then in enumerate(thens):
        for rows, ins, outs in [(1, 30, 65), (5, 100, 13)]:
            trits = random_trits(rng, outs, ins)
            x = rng.integers(-9, 9, (rows, ins)).astype(np.int16)
            sums = x.astype(np.int64) @ trits.T.astype(np.int64)
            channels = outs if then.spread == "channel" else 1
            limits = rng.integers(-40, 40, (channels, then.count))
            limits[:, 0] = rng.choice([-(1 << 31), (1 << 31) - 1])
            table = threshold_table(limits.astype(np.int32))
            expected = (limits[None] <= sums[:, :, None]).sum(axis=-1)
            tables = (None, 128 * trit_sums(trits), table, None)
            dtype = np.dtype(f"int{then.width}")
            result = call(library, i, KIND["i16"], "panels", x, trits, dtype, tables)
            assert np.array_equal(result, expected)


@RUNNABLE
def test_float_steps(recipe: str) -> None:
    """Rows of whole numbers up to 127, with 127 in them, are quantised without an error."""
    rng = np.random.default_rng(5)
    steps = [
        Epilogue(scale="all"),
        Epilogue(scale="channel", bias=True, activation="relu"),
        Epilogue(bias=True, activation="relu6"),
    ]
    library = program(recipe, tuple((KIND["f32"], "panels", epilogue) for epilogue in steps))
    for i, epilogue in enumerate(steps):
        for rows, ins, outs in [(1, 30, 65), (7, 100, 13)]:
            trits = random_trits(rng, outs, ins)
            x = rng.integers(-127, 128, (rows, ins)).astype(np.float32)
            x[:, 0] = 127
            scale = rng.integers(1, 8, outs if epilogue.scale == "channel" else 1) / 8
            offset = rng.integers(-50, 50, outs).astype(np.float32)
            expected = x.astype(np.float64) @ trits.T.astype(np.float64)
            expected = expected * (1 if epilogue.scale is None else scale)
            expected = expected + (offset if epilogue.bias else 0)
            if epilogue.activation != "none":
                expected = np.clip(expected, 0, 6 if epilogue.activation == "relu6" else None)
            tables = (scale.astype(np.float32), offset, None, None)
            dtype = np.dtype(np.float32)
            result = call(library, i, KIND["f32"], "panels", x, trits, dtype, tables)
            assert np.array_equal(result, expected)


@RUNNABLE
def test_thresholds_of_floats(recipe: str) -> None:
    """Equal values reach a threshold; -0 is 0; NaN reaches none and is reached by none."""
    limits = np.array([[-np.inf, -3.5, -0.0, 0.0, 1.0, np.inf, np.nan, -np.nan]], np.float32)
    then = Thresholds(limits.shape[1], "all", 8)
    library = program(recipe, ((KIND["f32"], "panels", Epilogue(bias=True, then=then)),))
    values = np.array([-np.inf, -3.6, -3.5, -1e-40, -0.0, 0.0, 1.0, 2.0, np.inf, np.nan])
    bias = values.astype(np.float32)
    trits = np.zeros((len(bias), 3), np.int8)
    x = np.ones((2, 3), np.float32)
    tables = (None, bias, threshold_table(limits), None)
    result = call(library, 0, KIND["f32"], "panels", x, trits, np.dtype(np.int8), tables)
    expected = (limits <= bias[:, None]).sum(axis=1)
    assert result.tolist() == [expected.tolist()] * 2


@pytest.mark.parametrize(
    ("kind", "epilogue", "message"),
    [
        ("i8", Epilogue(scale="all"), "needs floats"),
        ("i8", Epilogue(activation="relu6"), "needs floats"),
        ("f32", Epilogue(then=Requantize("all", "all", 0, 0, 1, 8)), "needs integers"),
        ("u8", Epilogue(), "needs a bias"),
    ],
)
def test_refuses_steps_that_sums_have_not(kind: str, epilogue: Epilogue, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        epilogue.check(KIND[kind])
