"""Generated kernels against NumPy in int64, under every recipe that this processor can run."""

from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from triton_dsl.ir.errors import OptionError
from triton_dsl.lowering.to_native.callables import native_linear
from triton_dsl.lowering.to_native.kernels.kernel import fingerprint, kernel_module
from triton_dsl.lowering.to_native.kernels.recipes import RECIPES, Recipe
from triton_dsl.runtime.native.abi.linear import KINDS, LAYOUTS, MAX_INS, Layout
from triton_dsl.runtime.native.processor import host_features

pytest.importorskip("llvmlite")
pytestmark = pytest.mark.usefixtures("users_code")


@cache
def runnable() -> list[Recipe]:
    return [recipe for recipe in RECIPES if recipe.features <= host_features()]


RUNNABLE = pytest.mark.parametrize("recipe", [recipe.name for recipe in runnable()])
SIZES = [1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 255, 256, 257, 511, 512, 768, 1000]


def random_trits(rng: np.random.Generator, outs: int, ins: int) -> NDArray[np.int8]:
    return rng.integers(-1, 2, (outs, ins)).astype(np.int8)


def check(recipe: str, layout: Layout, x: NDArray[np.int8], trits: NDArray[np.int8]) -> None:
    """One product equals NumPy's in int64, with its result and its place exact."""
    result = native_linear(trits, recipe=recipe, layout=layout)(x)
    expected = x.astype(np.int64) @ trits.T.astype(np.int64)
    assert result.dtype == np.int32
    assert np.array_equal(result, expected), (recipe, layout, x.shape, trits.shape)


def layouts(ins: int) -> list[Layout]:
    return [name for name in LAYOUTS if name != "stored" or ins % 256 == 0]


def sweep(recipe: str, count: int, seed: int) -> None:
    """Random shapes and values; every fourth holds the extremes only."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        rows = int(rng.choice([0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 25]))
        ins = int(rng.choice(SIZES)) if rng.random() < 0.6 else int(rng.integers(1, 900))
        outs = int(rng.choice(SIZES[:12])) if rng.random() < 0.5 else int(rng.integers(1, 200))
        trits = random_trits(rng, outs, ins)
        x = rng.integers(-128, 128, (rows, ins)).astype(np.int8)
        if number % 4 == 0:
            x = rng.choice([-128, 127], (rows, ins)).astype(np.int8)
            trits = rng.choice([-1, 1], (outs, ins)).astype(np.int8)
        for layout in layouts(ins):
            check(recipe, layout, x, trits)


@RUNNABLE
def test_int8_is_exact(recipe: str) -> None:
    sweep(recipe, 60, 1)


@RUNNABLE
@pytest.mark.slow
def test_int8_is_exact_on_ten_thousand_shapes(recipe: str) -> None:
    sweep(recipe, 10_000, 2)


@RUNNABLE
@pytest.mark.parametrize(("value", "trit"), [(-128, 1), (-128, -1), (127, 1), (127, -1)])
def test_extremes_beyond_int16(recipe: str, value: int, trit: int) -> None:
    x = np.full((7, 3000), value, np.int8)
    trits = np.full((66, 3000), trit, np.int8)
    for rows in (1, 7):
        check(recipe, "rows", x[:rows], trits)
        check(recipe, "panels", x[:rows], trits)


@RUNNABLE
def test_the_longest_row(recipe: str) -> None:
    x = np.full((1, MAX_INS), -128, np.int8)
    trits = np.ones((1, MAX_INS), np.int8)
    for layout in LAYOUTS:
        check(recipe, layout, x, trits)


@RUNNABLE
def test_activations_anywhere_in_memory(recipe: str) -> None:
    rng = np.random.default_rng(3)
    trits = random_trits(rng, 70, 300)
    buffer = rng.integers(-128, 128, 5000).astype(np.int8)
    for offset in (0, 1, 3, 17, 63):
        x = buffer[offset : offset + 2 * 300].reshape(2, 300)
        check(recipe, "rows", x, trits)
        check(recipe, "panels", x, trits)
    wide = buffer[:4800].reshape(4, 1200)
    check(recipe, "panels", wide[:, ::4], trits)
    check(recipe, "panels", wide[::-1, 5:305], trits)
    check(recipe, "rows", np.asfortranarray(wide[:, :300]), trits)


@RUNNABLE
def test_leading_axes(recipe: str) -> None:
    rng = np.random.default_rng(4)
    trits = random_trits(rng, 9, 33)
    x = rng.integers(-128, 128, (2, 3, 33)).astype(np.int8)
    layer = native_linear(trits, recipe=recipe)
    expected = x.astype(np.int64) @ trits.T.astype(np.int64)
    assert np.array_equal(layer(x), expected)
    assert np.array_equal(layer(x[0, 0]), expected[0, 0])
    assert layer(x[:0]).shape == (0, 3, 9)
    assert layer(x[:0]).dtype == np.int32


def test_a_processor_that_lacks_the_recipe_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    features = "triton_dsl.lowering.to_native.callables.host_features"
    monkeypatch.setattr(features, lambda: frozenset({"sse2"}))
    with pytest.raises(OptionError, match="cannot run the recipe 'avx2'"):
        native_linear(np.ones((1, 1)), recipe="avx2")
    x = np.array([[5]], np.int8)
    assert native_linear(np.ones((1, 1)))(x) == [[5]]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_modules_verify_and_differ(recipe: Recipe) -> None:
    marks = {fingerprint(recipe, layout, kind) for layout in LAYOUTS for kind in KINDS}
    assert len(marks) == len(LAYOUTS) * len(KINDS)
    kernel_module(recipe, "rows", KINDS[0]).verify()


@pytest.mark.parametrize(
    ("triple", "multiply"),
    [("aarch64-unknown-linux-gnu", "mla"), ("riscv64-unknown-linux-gnu", "mul")],
)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_generic_recipe_is_for_every_processor(
    triple: str, multiply: str, layout: Layout
) -> None:
    from llvmlite import binding
    from xdsl.backend.llvm.convert import convert_module

    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    module = kernel_module(RECIPES[-1], layout, KINDS[0])
    parsed = binding.parse_assembly(str(convert_module(module, fallback_target_triple=triple)))
    parsed.verify()
    machine = binding.Target.from_triple(triple).create_target_machine(opt=2)
    text = machine.emit_assembly(parsed)
    assert multiply in text


@pytest.mark.parametrize(
    ("recipe", "processor", "instruction"),
    [
        ("amx", "sapphirerapids", "tdpbsud"),
        ("avx512vnni-gfni", "icelake-server", "vgf2p8affineqb"),
        ("avx512vnni", "cascadelake", "vpdpbusd"),
        ("avxvnni", "alderlake", "vpdpbusd"),
        ("avx2", "haswell", "vpmaddubsw"),
        ("neon-dotprod", "cortex-a76", "sdot"),
        ("neon", "cortex-a53", "sadalp"),
        ("generic", "x86-64", "pmullw"),
    ],
)
def test_a_recipe_needs_no_more_than_it_says(recipe: str, processor: str, instruction: str) -> None:
    from llvmlite import binding
    from xdsl.backend.llvm.convert import convert_module

    architecture = "aarch64" if recipe.startswith("neon") else "x86_64"
    triple = f"{architecture}-unknown-linux-gnu"
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    chosen = next(one for one in RECIPES if one.name == recipe)
    machine = binding.Target.from_triple(triple).create_target_machine(cpu=processor, opt=2)
    for layout in LAYOUTS:
        module = kernel_module(chosen, layout, KINDS[1])
        parsed = binding.parse_assembly(str(convert_module(module, fallback_target_triple=triple)))
        text = machine.emit_assembly(parsed)
        only = {"vgf2p8affineqb": "stored", "tdpbsud": "panels"}.get(instruction, layout)
        assert (instruction in text) == (layout == only)
