"""Convolutions of bytes with trits as code that adds, against sums in 64 bits."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.parameters import attach_store
from triton_dsl.dialects.registry import parse_module, triton_context
from triton_dsl.ir.store import ParameterStore
from triton_dsl.ir.trits import pack_trits
from triton_dsl.lowering.from_torch import from_torch
from triton_dsl.lowering.stages import apply_passes, run_stages
from triton_dsl.lowering.to_native.callables import native_program, traced_program
from triton_dsl.lowering.to_native.kernels.additions import (
    Additions,
    can_add,
    parts_of,
    write_additions,
)
from triton_dsl.lowering.to_native.kernels.recipes import RECIPES
from triton_dsl.lowering.to_native.linalg import ConvertTensorToLinalgPass
from triton_dsl.lowering.to_native.program import conv_costs
from triton_dsl.lowering.to_native.target import NativeOptions, native_stages
from triton_dsl.runtime.native.processor import host_features

pytest.importorskip("llvmlite")

Array = NDArray[Any]
RUNNABLE = [r.name for r in RECIPES if r.features <= host_features() and can_add(r)]
ADDS = "vpaddw"
"""What nothing else has."""

pytestmark = pytest.mark.skipif(not RUNNABLE, reason="this processor has no AVX2")


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Additions wherever they can be, of code that nobody else finds in the cache."""
    monkeypatch.setattr(conv_costs, "_LEFT", float("inf"))
    monkeypatch.setenv("TRITON_DSL_CACHE", "off")


def module_of(
    image: tuple[int, int, int],
    weights: Array,
    stride: int,
    padding: int,
    dilation: int,
    *,
    direct: bool = False,
) -> Any:
    """A convolution of int8 with a zero point of -128, all of whose sums it gives.

    The image is what comes in where it is `direct`, else what an op makes of it.
    """
    (c, h, w), (o, i, kh, kw) = image, weights.shape
    high = (h + 2 * padding - dilation * (kh - 1) - 1) // stride + 1
    wide = (w + 2 * padding - dilation * (kw - 1) - 1) // stride + 1
    x, y = f"tensor<?x{c}x{h}x{w}x", f"tensor<?x{o}x{high}x{wide}xi32>"
    module = parse_module(f"""
func.func @forward(%x: {x}i8>) -> {y} {{
  %low = tensor.constant dense<-127> : tensor<i8>
  %kept = tensor.maximum %x, %low : ({x}i8>, tensor<i8>) -> {x}i8>
  %zero = tensor.constant dense<{0 if direct else -128}> : tensor<i32>
  %wide = tensor.convert {"%x" if direct else "%kept"} : ({x}i8>) -> {x}i32>
  %c = tensor.sub %wide, %zero : ({x}i32>, tensor<i32>) -> {x}i32>
  %w = tensor.parameter "w" : tensor<{o}x{i}x{kh}x{kw}xi32>
  %y = tensor.conv %c, %w {{strides = array<i64: {stride}, {stride}>,
       padding = array<i64: {padding}, {padding}, {padding}, {padding}>,
       dilation = array<i64: {dilation}, {dilation}>, groups = 1 : i64}}
       : ({x}i32>, tensor<{o}x{i}x{kh}x{kw}xi32>) -> {y}
  func.return %y : {y}
}}
""")
    attach_store(module, ParameterStore.of({"w": weights.astype(np.int32)}))
    return module


def sums_of(
    x: Array, weights: Array, stride: int, padding: int, dilation: int, *, direct: bool
) -> Array:
    image = torch.from_numpy(x.astype(np.float64) + (0 if direct else 128))
    sums = functional.conv2d(
        image, torch.from_numpy(weights.astype(np.float64)), None, stride, padding, dilation
    )
    return sums.numpy().astype(np.int32)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("recipe", RUNNABLE)
@settings(max_examples=12)
@given(
    seed=st.integers(0, 1 << 30),
    channels=st.integers(1, 40),
    outs=st.integers(2, 70),
    size=st.tuples(st.integers(5, 40), st.integers(5, 40)),
    window=st.sampled_from([(1, 1), (3, 3), (3, 1), (2, 5), (5, 5)]),
    stride=st.integers(1, 3),
    padding=st.integers(0, 2),
    dilation=st.integers(1, 2),
    share=st.floats(0.05, 1),
    direct=st.booleans(),
)
@example(0, 600, 9, (5, 6), (1, 1), 1, 0, 1, 1.0, False)
@example(1, 8, 29, (9, 9), (3, 3), 2, 1, 1, 0.5, True)
def test_any_convolution(
    recipe: str,
    seed: int,
    channels: int,
    outs: int,
    size: tuple[int, int],
    window: tuple[int, int],
    stride: int,
    padding: int,
    dilation: int,
    share: float,
    direct: bool,
) -> None:
    if min(size) + 2 * padding <= dilation * (max(window) - 1):
        return
    rng = np.random.default_rng(seed)
    shape = (outs, channels, *window)
    weights = (rng.random(shape) < share) * rng.choice([-1, 1], shape)
    module = module_of((channels, *size), weights, stride, padding, dilation, direct=direct)
    program = native_program(module, {"recipe": recipe})
    for batch in (1, 2):
        x = rng.integers(-127, 128, (batch, channels, *size)).astype(np.int8)
        expected = sums_of(x, weights, stride, padding, dilation, direct=direct)
        np.testing.assert_array_equal(program(x), expected)
    extreme = np.full((1, channels, *size), 127, np.int8)
    expected = sums_of(extreme, weights, stride, padding, dilation, direct=direct)
    np.testing.assert_array_equal(program(extreme), expected)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("recipe", RUNNABLE)
@settings(max_examples=8)
@given(
    seed=st.integers(0, 1 << 30),
    rows=st.sampled_from([(32,), (197,), (7, 8), (3, 2, 9)]),
    ins=st.integers(1, 70),
    outs=st.integers(4, 60),
    share=st.floats(0.05, 1),
)
def test_any_dense_layer_of_many_rows(
    recipe: str, seed: int, rows: tuple[int, ...], ins: int, outs: int, share: float
) -> None:
    rng = np.random.default_rng(seed)
    weights = (rng.random((ins, outs)) < share) * rng.choice([-1, 1], (ins, outs))
    shape = "x".join(map(str, rows))
    x, y = f"tensor<?x{shape}x{ins}xi8>", f"tensor<?x{shape}x{outs}xi32>"
    module = parse_module(f"""
func.func @forward(%x: {x}) -> {y} {{
  %low = tensor.constant dense<-127> : tensor<i8>
  %kept = tensor.maximum %x, %low : ({x}, tensor<i8>) -> {x}
  %w = ternary.parameter "w" : tensor<{ins}x{outs}x!ternary.trit>
  %y = ternary.linear %kept, %w : {x}, tensor<{ins}x{outs}x!ternary.trit> -> {y}
  func.return %y : {y}
}}
""")
    attach_store(module, ParameterStore.of({"w": pack_trits(weights.astype(np.int8))}))
    program = native_program(module, {"recipe": recipe})
    for batch in (1, 2):
        image = rng.integers(-127, 128, (batch, *rows, ins)).astype(np.int8)
        np.testing.assert_array_equal(program(image), image.astype(np.int32) @ weights)


@pytest.mark.parametrize(
    ("rows", "ins", "stays"), [(31, 512, True), (32, 512, False), (64, 8192, True)]
)
def test_products_of_few_rows_and_large_ones_stay_kernels(
    rows: int, ins: int, *, stays: bool
) -> None:
    x, w = f"tensor<?x{rows}x{ins}xi8>", f"tensor<{ins}x512x!ternary.trit>"
    y = f"tensor<?x{rows}x512xi32>"
    module = parse_module(f"""
func.func @forward(%x: {x}) -> {y} {{
  %w = ternary.parameter "w" : {w}
  %y = ternary.linear %x, %w : {x}, {w} -> {y}
  func.return %y : {y}
}}
""")
    ConvertTensorToLinalgPass(keep="ternary", rows=32).apply(triton_context(), module)
    assert ("ternary.linear" in str(module)) == stays


def integers_of(network: nn.Module, x: torch.Tensor, folder: Path) -> ModuleOp:
    """A network with trits and activations of 8 bits, on ranges of the inputs."""
    program = from_torch(network.eval(), (x,))
    samples = folder / "samples.npy"
    np.save(samples, x.numpy())
    apply_passes(
        program,
        "ternarize,fuse-linear,fold-constants,canonicalize,"
        f'quantize-activations{{data="{samples}" bits=8 signed=false}},requantize,cse,dce',
    )
    return program


@pytest.mark.parametrize("recipe", RUNNABLE)
def test_dense_layers_of_an_encoder_add(recipe: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = nn.TransformerEncoderLayer(32, 2, 128, 0.0, "gelu", batch_first=True)
    x = torch.randn(2, 128, 32)
    program = integers_of(network, x, tmp_path)
    expected = run_module(program, [x.numpy()])[0]
    found = native_program(program, {"recipe": recipe})(x.numpy())
    # One step of what is rounded, where floats before it differ by the order of their sums.
    assert np.abs(found - expected).max() < 0.05
    assert np.mean(np.abs(found - expected) > 1e-5) < 0.01
    _, trace = traced_program(program, NativeOptions(recipe=recipe), 1)
    assert sum(step.unit == "i16" for step in trace.steps) == 4


def test_parts_hold_what_16_bits_do() -> None:
    recipe = next(r for r in RECIPES if r.name == RUNNABLE[0])
    trits = np.ones((2, 300), np.int8)
    trits[1] = -1
    for span in (1, 15, 255):
        ends = parts_of(recipe, trits, (0, span))
        assert ends[-1] == 300
        sizes = np.diff([0, *ends])
        assert span * sizes.max() <= 32767
        assert len(ends) == 1 or span * (sizes[0] + 1) > 32767
    assert parts_of(recipe, np.where(np.arange(300) % 2, 1, -1)[None], (0, 255)) == (256, 300)


def networks() -> dict[str, tuple[nn.Module, tuple[int, ...]]]:
    """Networks whose convolutions stand beside each other, and some that shall not add."""

    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv2d(16, 16, 3, padding=1)
            self.second = nn.Conv2d(16, 32, 3, stride=2, padding=1)
            self.short = nn.Conv2d(16, 32, 1, stride=2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = torch.relu(self.first(x) + x)
            return functional.max_pool2d(self.second(x) + self.short(x), 16)

    def pointwise(*between: nn.Module) -> nn.Module:
        first, last = nn.Conv2d(64, 64, 1), nn.Conv2d(64, 64, 1)
        return nn.Sequential(first, nn.ReLU(), *between, last, nn.ReLU())

    def depthwise() -> nn.Module:
        return pointwise(nn.Conv2d(64, 64, 3, padding=1, groups=64), nn.ReLU())

    return {
        "residual": (Residual(), (16, 32, 32)),
        "pointwise": (pointwise(), (64, 25, 5)),
        "depthwise": (depthwise(), (64, 25, 5)),
        "pools": (
            nn.Sequential(
                nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 32, 3)
            ),
            (16, 32, 32),
        ),
    }


@pytest.mark.parametrize("name", ["residual", "pointwise", "depthwise", "pools"])
@pytest.mark.parametrize("recipe", RUNNABLE)
def test_whole_networks(name: str, recipe: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    network, shape = networks()[name]
    x = torch.randn(3, *shape)
    program = integers_of(network, x, tmp_path)
    expected = run_module(program, [x.numpy()])[0]
    for options in ({"recipe": recipe}, {"recipe": recipe, "additions": False}):
        found = native_program(program, options, threads=2)
        np.testing.assert_array_equal(found(x.numpy()), expected)
        np.testing.assert_array_equal(found(x[:1].numpy()), expected[:1])
    run_stages(program, native_stages(f"recipe={recipe}"), verify=False)
    assert (ADDS in str(program)) == (name != "depthwise")


@pytest.mark.parametrize("recipe", RUNNABLE)
def test_two_outputs_are_additions(recipe: str) -> None:
    rng = np.random.default_rng(0)
    weights = rng.integers(-1, 2, (2, 32, 3, 3))
    module = module_of((32, 32, 32), weights, 1, 1, 1)
    x = rng.integers(-128, 128, (1, 32, 32, 32)).astype(np.int8)
    expected = sums_of(np.maximum(x, -127), weights, 1, 1, 1, direct=False)
    np.testing.assert_array_equal(native_program(module, {"recipe": recipe})(x), expected)
    for words, adds in ((" additions=false", False), ("", True)):
        lowered = module.clone()
        run_stages(lowered, native_stages(f"recipe={recipe}{words}"), verify=False)
        assert (ADDS in str(lowered)) == adds


@pytest.mark.parametrize("recipe", RUNNABLE)
@pytest.mark.parametrize("stride", [1, 2])
def test_inputs_of_windows_of_one_place_are_whole_registers(
    recipe: str, stride: int, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    first, last = nn.Conv2d(64, 64, 1), nn.Conv2d(64, 64, 1, stride=stride)
    x = torch.randn(3, 64, 25, 5)
    program = integers_of(nn.Sequential(first, nn.ReLU(), last, nn.ReLU()), x, tmp_path)
    run_stages(program, native_stages(f"recipe={recipe}"), verify=False)
    places = [int(n) for n in re.findall(r"vmovdqu(?:64)? (\d+)\(\$0\)", str(program))]
    assert len(places) > 128
    register = 64 if recipe.startswith("avx512") else 32
    assert not any(place % register for place in places)


@pytest.mark.parametrize("name", RUNNABLE)
def test_code_is_asked_for_where_all_of_it_leaves_the_near_cache(name: str) -> None:
    recipe = next(r for r in RECIPES if r.name == name)
    rng = np.random.default_rng(0)

    def functions(count: int) -> list[str]:
        variants = [
            (
                Additions(
                    rng.integers(-1, 2, (32, 200)).astype(np.int8).tobytes(),
                    32,
                    tuple(range(200)),
                    (200,),
                    2,
                ),
                f"f{n}",
            )
            for n in range(count)
        ]
        return [str(function) for function in write_additions(recipe, variants)]

    assert not any("prefetcht1" in text for text in functions(1))
    assert all("prefetcht1" in text for text in functions(12))


def test_a_trace_counts_additions() -> None:
    rng = np.random.default_rng(0)
    weights = rng.integers(-1, 2, (64, 32, 3, 3))
    module = module_of((32, 32, 32), weights, 1, 1, 1)
    _, trace = traced_program(module, NativeOptions(recipe=RUNNABLE[0]), 1)
    places = 31 * 34 + 32
    lanes = 32 if RUNNABLE[0].startswith("avx512") else 16
    work = np.count_nonzero(weights) * (-(-places // lanes) * lanes)
    assert any((step.operations or 0) >= work and step.unit == "i16" for step in trace.steps)
