"""Random codes in machine code draw the very numbers of the interpreter."""

from collections.abc import Callable
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.registry import parse_module

Compile = Callable[..., Any]
DTYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}


def program(element: str, shape: str, *, seed: int, start: int, elapsed: bool) -> ModuleOp:
    given, made = f"tensor<{shape}x{element}>", f"!spike.train<6x{shape}>"
    argument, operand = (", %e: tensor<i64>", " elapsed(%e : tensor<i64>)") if elapsed else ("", "")
    return parse_module(
        f"func.func @forward(%x: {given}{argument}) -> {made} {{\n"
        f'%s = spike.encode %x{operand} {{scheme = "rate", timesteps = 6 : i64, '
        f"start = {start} : i64, seed = {seed} : i64}} : ({given}) -> {made}\n"
        f"func.return %s : {made}\n}}"
    )


@pytest.mark.parametrize("element", list(DTYPES))
def test_every_float_type(element: str, recipe: str, compile_module: Compile) -> None:
    module = program(element, "?x37", seed=2**63 - 5, start=2**32 - 3, elapsed=False)
    compiled = compile_module(module, recipe)
    for batch in (1, 3):
        x = np.random.default_rng(batch).random((batch, 37)).astype(DTYPES[element])
        x[0, :4] = np.nan, np.inf, -0.5, 1.0
        (found,) = compiled.check([x], batch)
        assert 0.3 < found.mean() < 0.7
        assert not found[:, 0, [0, 2]].any() and found[:, 0, [1, 3]].all()


@pytest.mark.parametrize("shape", ["?", "2x?", "3x?x2x5", "1"])
def test_places_count_in_row_major_order(shape: str, recipe: str, compile_module: Compile) -> None:
    compiled = compile_module(program("f32", shape, seed=1, start=0, elapsed=False), recipe)
    for batch in (1, 4, 19):
        sizes = [batch if size == "?" else int(size) for size in shape.split("x")]
        compiled.check([np.full(sizes, 0.5, np.float32)], batch)


def test_a_transposed_input(recipe: str, compile_module: Compile) -> None:
    module = parse_module(
        "func.func @forward(%x: tensor<?x5xf32>) -> !spike.train<4x5x?> {\n"
        "%t = tensor.permute %x {perm = array<i64: 1, 0>} "
        ": (tensor<?x5xf32>) -> tensor<5x?xf32>\n"
        '%s = spike.encode %t {scheme = "rate", timesteps = 4 : i64, seed = 9 : i64} '
        ": (tensor<5x?xf32>) -> !spike.train<4x5x?>\n"
        "func.return %s : !spike.train<4x5x?>\n}"
    )
    x = np.random.default_rng(0).random((7, 5)).astype(np.float32)
    compile_module(module, recipe).check([x], 7)


@cache
def counted(compile_module: Compile, recipe: str) -> Any:
    return compile_module(program("f32", "?x9", seed=7, start=5, elapsed=True), recipe)


@settings(max_examples=30)
@given(elapsed=st.integers(0, 2**62), batch=st.integers(0, 20))
def test_earlier_steps_are_counted(
    recipe: str, compile_module: Compile, elapsed: int, batch: int
) -> None:
    x = np.random.default_rng(batch).random((batch, 9)).astype(np.float32)
    counted(compile_module, recipe).check([x, np.asarray(elapsed, np.int64)], batch)
