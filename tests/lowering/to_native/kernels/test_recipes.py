"""The table of SIMD recipes."""

import pytest

from triton_dsl.ir.errors import OptionError
from triton_dsl.lowering.to_native.kernels.recipes import RECIPES, Recipe, best_recipe, recipe_named

AVX2 = {"avx", "avx2"}
AVX512 = {*AVX2, "avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512vnni"}


@pytest.mark.parametrize(
    ("features", "name"),
    [
        ({*AVX512, "gfni", "avx512vbmi", "amx-tile", "amx-int8"}, "amx"),
        ({*AVX512, "gfni", "avx512vbmi", "amx-tile"}, "avx512vnni-gfni"),
        (AVX512, "avx512vnni"),
        ({*AVX2, "avxvnni"}, "avxvnni"),
        (AVX2, "avx2"),
        # An instruction set without what it stands on is no use.
        (AVX512 - {"avx2"}, "generic"),
        ({"avx2", "avxvnni"}, "generic"),
        ({"fp-armv8", "neon", "dotprod", "i8mm"}, "neon-dotprod"),
        ({"fp-armv8", "neon"}, "neon"),
        # On 32 bits.
        ({"neon"}, "generic"),
        (set[str](), "generic"),
    ],
)
def test_takes_the_best_that_runs(features: set[str], name: str) -> None:
    assert best_recipe(features).name == name


def test_a_recipe_is_found_by_name() -> None:
    for recipe in RECIPES:
        assert recipe_named(recipe.name, recipe.features) is recipe


def test_refuses_an_unknown_name_and_a_processor_that_lacks_something() -> None:
    with pytest.raises(OptionError, match="no SIMD recipe is named 'sse9'; there are amx, avx512"):
        recipe_named("sse9", [])
    with pytest.raises(OptionError, match=r"it has no avx, avx2$"):
        recipe_named("avx2", ["sse2"])


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_registers_divide_a_step_of_a_panel(recipe: Recipe) -> None:
    assert 64 % recipe.width == 0
    assert recipe.tile_rows <= recipe.sums
    assert recipe.gemv_rows & (recipe.gemv_rows - 1) == 0
