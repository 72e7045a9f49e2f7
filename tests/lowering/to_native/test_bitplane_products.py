"""Products of trits in whole programs, against the interpreter."""

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.dialects.registry import parse_module
from triton_dsl.lowering.emission import entry_function
from triton_dsl.lowering.to_native.callables import native_program
from triton_dsl.lowering.to_native.kernels.recipes import RECIPES
from triton_dsl.runtime.native.processor import host_features
from triton_dsl.runtime.random_values import fill_parameters, random_inputs

pytest.importorskip("llvmlite")

FOUND = [recipe.name for recipe in RECIPES if recipe.features <= host_features()]
RUNNABLE = list(dict.fromkeys([FOUND[0], *FOUND[-2:]]))


def module_of(rows: str, ins: int, outs: int) -> ModuleOp:
    element = "!ternary.trit"
    text = f"""
    func.func @forward(%x: tensor<{rows}x{ins}x{element}>) -> tensor<{rows}x{outs}xi32> {{
      %w = ternary.parameter "w" : tensor<{ins}x{outs}x!ternary.trit>
      %y = ternary.matmul %x, %w : tensor<{rows}x{ins}x{element}>,
        tensor<{ins}x{outs}x!ternary.trit> -> tensor<{rows}x{outs}xi32>
      return %y : tensor<{rows}x{outs}xi32>
    }}"""
    return fill_parameters(parse_module(text), 0)


def check(module: ModuleOp, batch: int, recipe: str) -> None:
    type = entry_function(module, "native").function_type
    inputs: list[Any] = random_inputs(type, np.random.default_rng(batch), [batch], 16)
    program = native_program(module, {"recipe": recipe})
    for actual, expected in zip(program.run(inputs), run_module(module, inputs), strict=True):
        assert actual.dtype == expected.dtype
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("recipe", RUNNABLE)
@pytest.mark.parametrize(
    ("rows", "ins", "outs"), [("4x5", 50, 70), ("?x20", 100, 65), ("?", 30, 3)]
)
def test_products_agree(recipe: str, rows: str, ins: int, outs: int) -> None:
    module = module_of(rows, ins, outs)
    for batch in (0, 1, 9) if "?" in rows else (1,):
        check(module, batch, recipe)
