"""Convolutions of floats with trits that a call expands, against PyTorch, and what they take."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.nn import functional

from triton_dsl import compile_model
from triton_dsl.dialects.parameters import attach_store
from triton_dsl.dialects.registry import parse_module, triton_context
from triton_dsl.ir.store import ParameterStore
from triton_dsl.ir.trits import pack_trits
from triton_dsl.lowering.targets import compile_to_target
from triton_dsl.lowering.to_native.callables import native_program
from triton_dsl.lowering.to_native.kernels.recipes import RECIPES
from triton_dsl.lowering.to_native.linalg import ConvertTensorToLinalgPass
from triton_dsl.lowering.to_native.target import NativeOptions, NativeTarget
from triton_dsl.runtime.native.loading import load_shared
from triton_dsl.runtime.native.processor import host_features
from triton_dsl.runtime.native.program import NativeProgram

pytest.importorskip("llvmlite")

Array = NDArray[Any]
RUNNABLE = [recipe.name for recipe in RECIPES if recipe.features <= host_features()]

NETWORK = """
func.func @forward(%x: tensor<?x5x9x8xf32>) -> (tensor<?x40x1x3xf32>, tensor<?x30x5x4xf32>) {
  %w = ternary.parameter "w" : tensor<30x5x3x3x!ternary.trit>
  %bias = tensor.parameter "bias" : tensor<30xf32>
  %h = ternary.conv %x, %w bias(%bias : tensor<30xf32>) {strides = array<i64: 2, 2>,
       padding = array<i64: 1, 1, 1, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64,
       activation = "relu"} : tensor<?x5x9x8xf32>, tensor<30x5x3x3x!ternary.trit>
       -> tensor<?x30x5x4xf32>
  %d = ternary.parameter "d" : tensor<30x1x3x3x!ternary.trit>
  %g = ternary.conv %h, %d {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>,
       dilation = array<i64: 1, 1>, groups = 30 : i64} : tensor<?x30x5x4xf32>,
       tensor<30x1x3x3x!ternary.trit> -> tensor<?x30x5x4xf32>
  %v = ternary.parameter "v" : tensor<40x10x5x2x!ternary.trit>
  %y = ternary.conv %g, %v {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>,
       dilation = array<i64: 1, 1>, groups = 3 : i64} : tensor<?x30x5x4xf32>,
       tensor<40x10x5x2x!ternary.trit> -> tensor<?x40x1x3xf32>
  func.return %y, %g : tensor<?x40x1x3xf32>, tensor<?x30x5x4xf32>
}
""".replace("40", "42")

WIDE = """
func.func @forward(%x: tensor<?x512x3x4xf32>) -> tensor<?x600x3x4xf32> {
  %w = ternary.parameter "w" : tensor<600x512x1x1x!ternary.trit>
  %y = ternary.conv %x, %w {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>,
       dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<?x512x3x4xf32>,
       tensor<600x512x1x1x!ternary.trit> -> tensor<?x600x3x4xf32>
  func.return %y : tensor<?x600x3x4xf32>
}
"""

TILED = """
func.func @forward(%x: tensor<?x24x7x9xf32>) -> tensor<?x50x7x9xf32> {
  %w = ternary.parameter "w" : tensor<50x24x3x3x!ternary.trit>
  %y = ternary.conv %x, %w {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>,
       dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<?x24x7x9xf32>,
       tensor<50x24x3x3x!ternary.trit> -> tensor<?x50x7x9xf32>
  func.return %y : tensor<?x50x7x9xf32>
}
"""

SHARED = """
func.func @forward(%x: tensor<?x16x6x6xf32>, %b: tensor<?x16x6x6xi8>)
    -> (tensor<?x24x4x4xf32>, tensor<?x24x4x4xi32>, tensor<24x16x3x3xf32>) {
  %w = ternary.parameter "w" : tensor<24x16x3x3x!ternary.trit>
  %y = ternary.conv %x, %w {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>,
       dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<?x16x6x6xf32>,
       tensor<24x16x3x3x!ternary.trit> -> tensor<?x24x4x4xf32>
  %z = ternary.conv %b, %w {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>,
       dilation = array<i64: 1, 1>, groups = 1 : i64} : tensor<?x16x6x6xi8>,
       tensor<24x16x3x3x!ternary.trit> -> tensor<?x24x4x4xi32>
  %f = ternary.dequantize %w : (tensor<24x16x3x3x!ternary.trit>) -> tensor<24x16x3x3xf32>
  func.return %y, %z, %f : tensor<?x24x4x4xf32>, tensor<?x24x4x4xi32>, tensor<24x16x3x3xf32>
}
"""


def _trits(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).integers(-1, 2, shape).astype(np.int8)


def _module(text: str, values: Mapping[str, Array]) -> Any:
    module = parse_module(text)
    stored = {k: pack_trits(v) if v.dtype == np.int8 else v for k, v in values.items()}
    attach_store(module, ParameterStore.of(stored))
    return module


def _conv(x: Array, w: Array, **options: Any) -> Array:
    image, weight = (torch.from_numpy(v.astype(np.float64)) for v in (x, w))
    return functional.conv2d(image, weight, **options).numpy()


def _near(result: Array, expected: Array) -> None:
    assert result.shape == expected.shape
    assert np.abs(result - expected).max() < 2e-6 * np.abs(expected).max()


@pytest.mark.parametrize("recipe", RUNNABLE)
@pytest.mark.parametrize("batch", [1, 3])
def test_strides_groups_and_depth(batch: int, recipe: str) -> None:
    values = {"w": _trits(30, 5, 3, 3), "d": _trits(30, 1, 3, 3), "v": _trits(42, 10, 5, 2)}
    random = np.random.default_rng(0)
    bias = random.normal(size=30).astype(np.float32)
    program = native_program(_module(NETWORK, {**values, "bias": bias}), {"recipe": recipe})
    x = random.normal(size=(batch, 5, 9, 8)).astype(np.float32)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 0)))
    h = _conv(padded, values["w"], stride=2) + bias[:, None, None]
    g = _conv(np.maximum(h, 0), values["d"], padding=1, groups=30)
    y, between = program(x)
    _near(between, g)
    _near(y, _conv(g, values["v"], groups=3))


@pytest.mark.parametrize("batch", [1, 2])
def test_more_trits_than_a_near_cache_holds_as_floats(batch: int) -> None:
    w = _trits(600, 512, 1, 1)
    x = np.random.default_rng(1).normal(size=(batch, 512, 3, 4)).astype(np.float32)
    _near(native_program(_module(WIDE, {"w": w}))(x), _conv(x, w))


def test_trits_that_kernels_and_loops_read() -> None:
    w, random = _trits(24, 16, 3, 3), np.random.default_rng(2)
    x = random.normal(size=(2, 16, 6, 6)).astype(np.float32)
    b = random.integers(-128, 128, (2, 16, 6, 6)).astype(np.int8)
    y, z, f = native_program(_module(SHARED, {"w": w}))(x, b)
    _near(y, _conv(x, w))
    np.testing.assert_array_equal(z, _conv(b, w).astype(np.int32))
    np.testing.assert_array_equal(f, w)


def test_sums_of_whole_numbers_are_exact() -> None:
    w = _trits(600, 512, 1, 1)
    x = np.random.default_rng(3).integers(-3000, 3000, (1, 512, 3, 4)).astype(np.float32)
    np.testing.assert_array_equal(native_program(_module(WIDE, {"w": w}))(x), _conv(x, w))


LAYER = """
func.func @forward(%x: tensor<?x{rows}x{ins}xf32>) -> tensor<?x{rows}x65xf32> {{
  %w = ternary.parameter "w" : tensor<{ins}x65x!ternary.trit>
  %y = ternary.linear %x, %w {{activation = "relu"}}
       : tensor<?x{rows}x{ins}xf32>, tensor<{ins}x65x!ternary.trit> -> tensor<?x{rows}x65xf32>
  func.return %y : tensor<?x{rows}x65xf32>
}}
"""


@pytest.mark.parametrize("recipe", RUNNABLE)
@pytest.mark.parametrize(
    ("rows", "ins", "share", "few"),
    [
        (3, 83, 1, False),
        (4, 83, 1, True),
        (4, 5000, 1, False),
        (30, 5000, 1, True),
        (4, 1200, 0.5, False),
        (4, 1200, 0.9, True),
    ],
)
def test_matrices_that_meet_enough_rows_are_floats(
    recipe: str, rows: int, ins: int, share: float, *, few: bool
) -> None:
    random, w = np.random.default_rng(4), _trits(ins, 65)
    zeros = random.permutation(ins // 4)[: round((1 - share) * ins / 4)]
    w[(4 * zeros[:, None] + np.arange(4)).reshape(-1)] = 0
    module = _module(LAYER.format(rows=rows, ins=ins), {"w": w})
    target, chosen = NativeTarget(), NativeOptions(recipe=recipe)
    has_floats = "floats=true" in next(
        stage.pipeline for stage in target.stages(chosen) if stage.name == "linalg"
    )
    assert has_floats == (recipe in {"avx2", "neon", "generic"})
    lowered = module.clone()
    pass_ = ConvertTensorToLinalgPass(keep="ternary", floats=has_floats)
    pass_.apply(triton_context(), lowered)
    assert ("ternary.linear" in str(lowered)) == (not (has_floats and few))
    if not few:
        return
    program = native_program(module, {"recipe": recipe})
    x = random.normal(size=(2, rows, ins)).astype(np.float32)
    wide = w.astype(np.float64)
    _near(program(x), np.maximum(x @ wide, 0))
    x = random.integers(-127, 128, x.shape).astype(np.float32)
    np.testing.assert_array_equal(program(x), np.maximum(x @ wide, 0))


def test_an_object_holds_two_bits_for_a_trit(tmp_path: Path) -> None:
    w = _trits(600, 512, 1, 1)
    compile_model(_module(WIDE, {"w": w}), backend="native").save(tmp_path / "model.o")
    assert (tmp_path / "model.o").stat().st_size < w.size // 4 + 20_000


@pytest.mark.parametrize("recipe", RUNNABLE[::2])
def test_windows_that_the_first_call_transforms(recipe: str) -> None:
    w = _trits(50, 24, 3, 3)
    module = _module(TILED, {"w": w})
    kept, anew = (native_program(module, {"recipe": recipe, "kept": k}) for k in (True, False))
    # 16 floats of each window, of 50 outputs in vectors of at least 4.
    assert 16 * 4 * 24 * 50 <= kept.interface.kept < 16 * 4 * 24 * 64 + 4096
    assert anew.interface.kept == 0
    for seed in range(2):
        x = np.random.default_rng(seed).normal(size=(2, 24, 7, 9)).astype(np.float32)
        _near(kept(x), _conv(x, w, padding=1))
        _near(anew(x), _conv(x, w, padding=1))


def test_windows_come_in_one_order() -> None:
    # Nine of them are read by one step; an order by their addresses would be another each time.
    texts = [
        compile_to_target(_module(TILED, {"w": _trits(50, 24, 3, 3)}), "native") for _ in "123"
    ]
    assert texts[0].files == texts[1].files == texts[2].files


@pytest.mark.parametrize(("text", "shape"), [(WIDE, (600, 512, 1, 1)), (TILED, (50, 24, 3, 3))])
def test_first_calls_at_the_same_time(text: str, shape: tuple[int, ...]) -> None:
    w = _trits(*shape)
    images = (1, 512, 3, 4) if text is WIDE else (1, 24, 7, 9)
    x = np.random.default_rng(0).normal(size=images).astype(np.float32)
    expected = _conv(x, w, padding=shape[2] // 2)
    for _ in range(5):
        program, gate = native_program(_module(text, {"w": w})), Barrier(4)

        def call(program: NativeProgram = program, gate: Barrier = gate) -> Array:
            gate.wait(60)
            return program(x)

        with ThreadPoolExecutor(4) as pool:
            results = [future.result() for future in [pool.submit(call) for _ in range(4)]]
        for result in results:
            _near(result, expected)


def test_an_object_says_what_it_keeps(tmp_path: Path) -> None:
    w = _trits(600, 512, 1, 1)
    compile_model(_module(WIDE, {"w": w}), backend="native").save(tmp_path / "model.so")
    header = next(tmp_path.glob("*.h"))
    program = load_shared(tmp_path / "model.so", header.stem)
    assert program.interface.kept >= 4 * w.size
    assert f"but {program.interface.kept} bytes" in header.read_text()
    for seed in range(2):
        x = np.random.default_rng(seed).normal(size=(1, 512, 3, 4)).astype(np.float32)
        _near(program(x), _conv(x, w))


def test_rows_of_trits_are_looked_up() -> None:
    module = parse_module("""
func.func @forward(%i: tensor<100xi32>) -> tensor<100x4xi8> {
  %t = tensor.parameter "table" : tensor<256x4xi8>
  %r = tensor.gather_rows %t, %i : (tensor<256x4xi8>, tensor<100xi32>) -> tensor<100x4xi8>
  func.return %r : tensor<100x4xi8>
}""")
    rng, store = np.random.default_rng(3), ParameterStore()
    table = rng.integers(-1, 2, (256, 4)).astype(np.int8)
    store.add("table", table)
    attach_store(module, store)
    indices = rng.integers(0, 256, 100).astype(np.int32)
    found = native_program(module)(indices)
    np.testing.assert_array_equal(found, table[indices])
