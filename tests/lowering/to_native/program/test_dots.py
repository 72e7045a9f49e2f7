"""Convolutions and products of small integers, then rescaling, against sums in 64 bits."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.nn import functional

from triton_dsl import compile_model
from triton_dsl.dialects.parameters import attach_store
from triton_dsl.dialects.registry import parse_module
from triton_dsl.ir.store import ParameterStore
from triton_dsl.ir.trits import pack_trits
from triton_dsl.lowering.stages import run_stages
from triton_dsl.lowering.to_native.callables import native_program, traced_program
from triton_dsl.lowering.to_native.kernels.recipes import RECIPES
from triton_dsl.lowering.to_native.program.dot_layout import best_tile
from triton_dsl.lowering.to_native.target import NativeOptions, native_stages
from triton_dsl.runtime.native.processor import host_features

pytest.importorskip("llvmlite")

Array = NDArray[Any]
RUNNABLE = [recipe.name for recipe in RECIPES if recipe.features <= host_features()]


class Case(NamedTuple):
    """A convolution of int8 and what rescales its sums."""

    image: tuple[int, int, int]
    weight: tuple[int, int, int, int]
    zero: int = -128
    strides: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    shift: int = 38
    most: int = 127
    """Of the weights."""
    spread: int = 0
    """By how much channels are shifted further; every third then has a multiplier of 1."""
    bias: int = 1000
    ends: bool = False
    """Whether weights are the least and the most alone, the most of the first output."""


CASES = {
    "3x3": Case((8, 9, 7), (24, 8, 3, 3), padding=(1, 1, 1, 1)),
    "two outputs": Case((8, 9, 7), (2, 8, 3, 3), padding=(1, 1, 1, 1)),
    "two outputs of one channel": Case((1, 9, 7), (2, 1, 5, 5)),
    "depthwise, three outputs": Case((3, 9, 7), (3, 1, 3, 3), groups=3),
    "biases of a byte": Case((8, 7, 9), (48, 8, 2, 2), bias=100),
    "great biases": Case((8, 7, 9), (48, 8, 2, 2), bias=1 << 30, shift=44),
    "signed": Case((8, 9, 7), (24, 8, 3, 3), zero=0, padding=(1, 0, 1, 2)),
    "nine bits": Case((8, 6, 6), (17, 8, 3, 2), zero=100, padding=(0, 1, 2, 1)),
    "one channel": Case((1, 12, 10), (64, 1, 10, 4), strides=(2, 2), padding=(4, 1, 5, 1)),
    "three channels": Case((3, 11, 12), (16, 3, 3, 3), strides=(2, 3), padding=(1, 1, 0, 0)),
    "five channels": Case((5, 8, 6), (33, 5, 2, 3), dilation=(2, 1)),
    "one place": Case((70, 1, 1), (100, 70, 1, 1)),
    "1x1": Case((64, 7, 7), (130, 64, 1, 1)),
    "1x1 with a stride": Case((16, 9, 9), (20, 16, 1, 1), strides=(2, 2)),
    "groups": Case((12, 6, 6), (24, 4, 3, 3), groups=3),
    "depthwise": Case((20, 8, 8), (20, 1, 3, 3), groups=20, padding=(1, 1, 1, 1)),
    "depthwise with a stride": Case((37, 9, 11), (37, 1, 3, 3), groups=37, strides=(2, 2)),
    "depthwise trits": Case((16, 7, 9), (16, 1, 5, 5), groups=16, padding=(2, 2, 2, 2), most=1),
    "depthwise, wide": Case((33, 4, 12), (33, 1, 1, 7), zero=0, groups=33, padding=(0, 3, 0, 3)),
    "depthwise, dilated": Case((20, 12, 9), (20, 1, 6, 2), groups=20, dilation=(2, 3)),
    "depthwise, nine bits": Case((24, 6, 6), (24, 1, 3, 3), zero=100, groups=24),
    "weights of nine bits": Case((4, 6, 5), (8, 4, 3, 3), most=255),
    "great sums": Case((256, 4, 4), (8, 256, 3, 3), shift=40),
    "small shift": Case((8, 5, 5), (8, 8, 1, 1), shift=31),
    "tiny shift": Case((8, 5, 5), (9, 8, 1, 1), shift=11),
    "all shifts": Case((8, 5, 5), (50, 8, 1, 1), shift=3, spread=50),
    "great shifts": Case((8, 5, 5), (12, 8, 3, 3), shift=51, spread=11),
    "trits": Case((24, 9, 7), (24, 24, 3, 3), padding=(1, 1, 1, 1), most=1),
    "many trits": Case((300, 3, 5), (20, 300, 1, 3), zero=0, most=1),
    "weights of six bits": Case((9, 9, 7), (40, 9, 3, 3), padding=(1, 0, 1, 0), most=31),
    "weights of seven bits": Case((8, 9, 7), (24, 8, 3, 3), most=63),
    "tiles of trits": Case((64, 16, 18), (80, 64, 3, 3), padding=(1, 1, 1, 1), most=1),
    "tiles of signed": Case((64, 21, 20), (80, 64, 3, 3), zero=0, most=1),
    "deep tiles": Case((512, 16, 16), (64, 512, 3, 3), padding=(1, 1, 1, 1), shift=40, most=1),
    "tiles of bytes": Case((64, 22, 22), (64, 64, 3, 3)),
    "sums of tiles of 31 bits": Case((114, 26, 26), (64, 114, 3, 3), shift=48, ends=True),
    "sums too great for tiles": Case((116, 26, 26), (64, 116, 3, 3), shift=48, ends=True),
    "windows of tiles of 15 bits": Case((64, 22, 22), (64, 64, 3, 3), most=227, ends=True),
    "windows too great for tiles": Case((64, 22, 22), (64, 64, 3, 3), most=228, ends=True),
}
TILED = {name for name in CASES if "tiles" in name and "too great" not in name}
"""Cases by tiles of 4×4 places: 64 times their sums, at most 64·9·114·127·255, are below 2³¹, and
144 times their weights, at most 144·227, below 2¹⁵."""


def _text(case: Case) -> tuple[str, tuple[int, ...]]:
    c, h, w = case.image
    o, i, kh, kw = case.weight
    (sh, sw), (dh, dw), p = case.strides, case.dilation, case.padding
    high = (h + p[0] + p[2] - dh * (kh - 1) - 1) // sh + 1
    wide = (w + p[1] + p[3] - dw * (kw - 1) - 1) // sw + 1
    x, y = f"tensor<?x{c}x{h}x{w}x", f"tensor<?x{o}x{high}x{wide}x"
    listed = [", ".join(map(str, values)) for values in (case.strides, p, case.dilation)]
    return (
        f"""
func.func @forward(%x: {x}i8>) -> {y}i8> {{
  %zero = tensor.constant dense<{case.zero}> : tensor<i32>
  %wide = tensor.convert %x : ({x}i8>) -> {x}i32>
  %c = tensor.sub %wide, %zero : ({x}i32>, tensor<i32>) -> {x}i32>
  %w = tensor.parameter "w" : tensor<{o}x{i}x{kh}x{kw}xi32>
  %b = tensor.parameter "b" : tensor<{o}xi32>
  %s = tensor.conv %c, %w, %b {{strides = array<i64: {listed[0]}>,
       padding = array<i64: {listed[1]}>, dilation = array<i64: {listed[2]}>,
       groups = {case.groups} : i64}}
       : ({x}i32>, tensor<{o}x{i}x{kh}x{kw}xi32>, tensor<{o}xi32>) -> {y}i32>
  %m = tensor.parameter "m" : tensor<{o}xi32>
  %shift = tensor.parameter "n" : tensor<{o}xi32>
  %to = tensor.constant dense<-7> : tensor<i8>
  %y = tensor.requantize %s, %m, %shift, %to {{axis = 1 : i64, low = -128 : i64, high = 127 : i64}}
       : ({y}i32>, tensor<{o}xi32>, tensor<{o}xi32>, tensor<i8>) -> {y}i8>
  func.return %y : {y}i8>
}}
""",
        (o, high, wide),
    )


def _expected(case: Case, x: Array, values: dict[str, Array]) -> Array:
    top, left, bottom, right = case.padding
    pads = ((0, 0), (0, 0), (top, bottom), (left, right))
    padded = np.pad(x.astype(np.float64) - case.zero, pads)
    image, weight = torch.from_numpy(padded), torch.from_numpy(values["w"].astype(np.float64))
    sums = functional.conv2d(
        image, weight, None, case.strides, (0, 0), case.dilation, case.groups
    ).numpy()
    total = sums.astype(np.int64) + values["b"][:, None, None]
    m, n = (values[name][:, None, None].astype(np.int64) for name in "mn")
    scaled = (total * m + (1 << (n - 1))) >> n
    return np.clip(scaled - 7, -128, 127).astype(np.int8)


def _module(case: Case) -> tuple[Any, dict[str, Array]]:
    random = np.random.default_rng(sum(case.weight))
    outs = case.weight[0]
    values = {
        "w": random.integers(-case.most, case.most + 1, case.weight).astype(np.int32),
        "b": random.integers(-case.bias, case.bias, outs).astype(np.int32),
        "m": random.integers(1 << 20, (1 << 31) - 1, outs).astype(np.int32),
        "n": case.shift + random.integers(0, case.spread + 1, outs).astype(np.int32),
    }
    if case.ends:
        values["w"] = np.where(values["w"] < 0, -case.most, case.most).astype(np.int32)
        values["w"][0] = case.most
    if case.spread:
        values["m"][::3] = 1
    module = parse_module(_text(case)[0])
    attach_store(module, ParameterStore.of(dict(values)))
    return module, values


BEST, OTHERS = RUNNABLE[0], RUNNABLE[1:]
CHOSEN = [
    *((name, BEST) for name in CASES if name != "tiles of trits"),
    *((name, "avx2") for name in CASES if "avx2" in OTHERS and "tiles" not in name),
    *(("tiles of trits", recipe) for recipe in RUNNABLE if recipe == "avx2"),
    *(("tiles of bytes", recipe) for recipe in OTHERS if recipe == "avx2"),
    *(("five channels", recipe) for recipe in OTHERS if recipe != "avx2"),
]


@pytest.mark.parametrize(("name", "recipe"), CHOSEN)
def test_sums_are_exact(name: str, recipe: str) -> None:
    case = CASES[name]
    module, values = _module(case)
    program = native_program(module, {"recipe": recipe, "additions": False})
    if min(case.weight[2:]) == 3 and max(case.strides) == 1:
        o, i = case.weight[:2]
        assert (program.interface.kept >= 2 * 36 * o * i) == (name in TILED)
    random = np.random.default_rng(0)
    for batch in (1, 3):
        x = random.integers(-128, 128, (batch, *case.image)).astype(np.int8)
        np.testing.assert_array_equal(program(x), _expected(case, x, values))
    extreme = np.where(random.integers(0, 2, (2, *case.image)), 127, -128).astype(np.int8)
    extreme[0] = 127 if case.ends else extreme[0]
    np.testing.assert_array_equal(program(extreme), _expected(case, extreme, values))


@pytest.mark.parametrize(
    ("name", "recipe", "instruction"),
    [
        ("3x3", "avx512vnni", "vpdpbusd.512"),
        ("two outputs", "avx512vnni", "vpdpbusd.512"),
        ("two outputs", "avx2", "pmadd.wd"),
        ("nine bits", "avx512vnni", "vpdpbusd.512"),
        ("weights of nine bits", "avx512vnni", "vpdpwssd.512"),
        ("3x3", "avxvnni", "vpdpbusd.256"),
        ("3x3", "avx2", "pmadd.wd"),
        ("trits", "avx2", "pmadd.ub.sw"),
        ("one channel", "avx512vnni", "vpdpbusd.512"),
        ("1x1", "avx512vnni", "vpdpbusd.512"),
    ],
)
def test_instructions(name: str, recipe: str, instruction: str) -> None:
    module, _ = _module(CASES[name])
    run_stages(module, native_stages(f"recipe={recipe} additions=false"), verify=False)
    assert instruction in str(module)


@pytest.mark.usefixtures("users_code")
def test_products_are_halved_and_packed_by_few_instructions() -> None:
    module, _ = _module(CASES["1x1"])
    options = {"cpu": "x86-64-v3", "triple": "x86_64-linux-gnu", "form": "assembly"}
    compiled = compile_model(module, backend="native", backend_options=options)
    files = compiled.artifact.files
    (text,) = (files[name].decode() for name in files if name.endswith(".s"))
    assert "vpmuldq" in text and "vpmuludq" not in text
    assert "vpackuswb" in text


@pytest.mark.parametrize("name", ["two outputs of one channel", "depthwise, three outputs"])
def test_few_outputs_of_places_near_each_other_are_plain_loops(name: str) -> None:
    module, _ = _module(CASES[name])
    run_stages(module, native_stages("recipe=avx512vnni additions=false"), verify=False)
    assert "vpdp" not in str(module)


@pytest.mark.parametrize("recipe", ["avx512vnni", "avx2"])
@pytest.mark.parametrize("groups", [2, 4])
def test_one_output_a_group_of_bytes_without_a_sign(groups: int, recipe: str) -> None:
    if recipe not in RUNNABLE:
        pytest.skip(f"this processor cannot run {recipe}")
    rng = np.random.default_rng(groups)
    each = 32 // groups
    weights = rng.integers(-1, 2, (groups, each, 1)).astype(np.int32)
    x, y, w = "tensor<?x32x13x", f"tensor<?x{groups}x7xi32>", f"tensor<{groups}x{each}x1xi32>"
    module = parse_module(f"""
func.func @forward(%x: {x}i8>) -> {y} {{
  %low = tensor.constant dense<83> : tensor<i8>
  %kept = tensor.maximum %x, %low : ({x}i8>, tensor<i8>) -> {x}i8>
  %wide = tensor.convert %kept : ({x}i8>) -> {x}i32>
  %w = tensor.parameter "w" : {w}
  %y = tensor.conv %wide, %w {{strides = array<i64: 2>, padding = array<i64: 0, 0>,
       dilation = array<i64: 1>, groups = {groups} : i64}} : ({x}i32>, {w}) -> {y}
  func.return %y : {y}
}}
""")
    attach_store(module, ParameterStore.of({"w": weights}))
    given = rng.integers(-128, 128, (2, 32, 13)).astype(np.int8)
    image = np.maximum(given, 83).astype(np.int64)[:, :, ::2].reshape(2, groups, each, 7)
    expected = np.einsum("bgcw,gc->bgw", image, weights[:, :, 0].astype(np.int64))
    np.testing.assert_array_equal(native_program(module, {"recipe": recipe})(given), expected)


@pytest.mark.parametrize("size", [1, 3])
def test_channels_of_images_that_come_in_are_turned(size: int) -> None:
    shape, outs = (12, 6, 7), 20
    rng = np.random.default_rng(size)
    x = rng.integers(-128, 128, (2, *shape)).astype(np.int8)
    trits = rng.integers(-1, 2, (outs, 12, size, size)).astype(np.int8)
    image, sums = "tensor<?x12x6x7xi8>", f"tensor<?x{outs}x6x7xi32>"
    weight = f"tensor<{outs}x12x{size}x{size}x!ternary.trit>"
    pad = size // 2
    module = parse_module(
        f"""
func.func @forward(%x: {image}) -> {sums} {{
  %w = ternary.parameter "w" : {weight}
  %y = ternary.conv %x, %w {{strides = array<i64: 1, 1>, groups = 1 : i64,
       padding = array<i64: {pad}, {pad}, {pad}, {pad}>, dilation = array<i64: 1, 1>}}
       : {image}, {weight} -> {sums}
  func.return %y : {sums}
}}
""",
        "test",
    )
    store = ParameterStore()
    store.add("w", pack_trits(trits))
    attach_store(module, store)
    program, trace = traced_program(module, NativeOptions(additions=False), 2)
    assert "dots" in [step.what for step in trace.steps]
    expected = functional.conv2d(
        torch.tensor(x).double(), torch.tensor(trits).double(), padding=pad
    )
    np.testing.assert_array_equal(program(x), expected.numpy())


@pytest.mark.parametrize("recipe", RUNNABLE)
@pytest.mark.parametrize(
    ("before", "after"), [("1x8x?x20x", "1x24x?x20x"), ("1x8x9x?x", "1x24x9x?x")]
)
def test_images_of_free_size(recipe: str, before: str, after: str) -> None:
    case = Case((8, 9, 20), (24, 8, 3, 3), padding=(1, 1, 1, 1))
    text = _text(case)[0].replace("?x8x9x20x", before).replace("?x24x9x20x", after)
    module, (_, values) = parse_module(text), _module(case)
    attach_store(module, ParameterStore.of(dict(values)))
    program = native_program(module, {"recipe": recipe})
    for size in (1, 2, 5, 24):
        shape = [size if n == "?" else int(n) for n in before.rstrip("x").split("x")]
        x = np.random.default_rng(size).integers(-128, 128, shape).astype(np.int8)
        np.testing.assert_array_equal(program(x), _expected(case, x, values))


@pytest.mark.parametrize("name", ["avx512vnni", "avxvnni", "avx2"])
@pytest.mark.parametrize("outs", [8, 64, 384])
def test_tiles_of_a_free_number_of_places(name: str, outs: int) -> None:
    """Each load of weights serves several places, as where there are as many as anyone wants."""
    recipe = next(recipe for recipe in RECIPES if recipe.name == name)
    rows, columns = best_tile(recipe, None, outs)
    many = best_tile(recipe, 9240, outs)
    assert rows > 1 and rows * columns >= 0.7 * many[0] * many[1]


@pytest.mark.parametrize("places", [14, 32, None])
@pytest.mark.parametrize("outs", [64, 384])
def test_tiles_without_vnni_leave_a_register_for_products(places: int | None, outs: int) -> None:
    """Sums, weights, a factor and a product fit the registers, or sums would wait in memory."""
    recipe = next(recipe for recipe in RECIPES if recipe.name == "avx2")
    rows, columns = best_tile(recipe, places, outs)
    assert rows * columns + columns + 2 <= 16


@pytest.mark.parametrize(("batch", "outs"), [("1", 40), ("?", 86)])
def test_sums_of_tiles_that_nothing_follows(batch: str, outs: int) -> None:
    random = np.random.default_rng(5)
    x_type, w_type = f"{batch}x32x14x11x", f"{outs}x32x3x3xi32"
    y_type = f"{batch}x{outs}x12x9xi32"
    module = parse_module(f"""
func.func @forward(%x: tensor<{x_type}i8>) -> tensor<{y_type}> {{
  %w = tensor.parameter "w" : tensor<{w_type}>
  %c = tensor.convert %x : (tensor<{x_type}i8>) -> tensor<{x_type}i32>
  %y = tensor.conv %c, %w {{strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>,
       dilation = array<i64: 1, 1>, groups = 1 : i64}}
       : (tensor<{x_type}i32>, tensor<{w_type}>) -> tensor<{y_type}>
  func.return %y : tensor<{y_type}>
}}
""")
    w = random.integers(-127, 128, (outs, 32, 3, 3)).astype(np.int32)
    attach_store(module, ParameterStore.of({"w": w}))
    x = random.integers(-128, 128, (1, 32, 14, 11)).astype(np.int8)
    program = native_program(module, {"additions": False})
    assert program.interface.kept
    image, weight = (torch.from_numpy(v.astype(np.float64)) for v in (x, w))
    np.testing.assert_array_equal(program(x), functional.conv2d(image, weight).numpy())
