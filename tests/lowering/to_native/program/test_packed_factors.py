"""Products of two matrices of small integers that a program computes, against sums in 64 bits."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from triton_dsl.dialects.registry import parse_module
from triton_dsl.lowering.to_native.callables import native_program, traced_program
from triton_dsl.lowering.to_native.kernels.recipes import RECIPES
from triton_dsl.lowering.to_native.target import NativeOptions
from triton_dsl.runtime.native.processor import host_features

pytest.importorskip("llvmlite")

Array = NDArray[Any]
RUNNABLE = [
    recipe.name
    for recipe in RECIPES
    if recipe.features <= host_features() and recipe.name not in ("amx", "avx512vnni-gfni")
]
"""Those that have instructions of their own for it."""


class Case(NamedTuple):
    """x [matrices, rows, taps] by y [matrices, taps, outs], bytes less a number each."""

    rows: int
    taps: int
    outs: int
    matrices: tuple[int, ...] = (2,)
    zeros: tuple[int, int] = (0, 0)
    turned: bool = False
    """Whether y comes in as [matrices, outs, taps]."""
    shared: bool = False
    """Whether y is one matrix for all."""
    dots: bool = True
    """Whether it is one for instructions that add several products."""
    columns: bool = False
    """Whether x comes in as [matrices, taps, rows]."""


CASES = {
    "keys": Case(37, 64, 37, turned=True),
    "values": Case(19, 37, 64, zeros=(-128, 0)),
    "odd": Case(5, 7, 9, (2, 3)),
    "odd keys": Case(5, 7, 9, (2, 3), turned=True),
    "one matrix": Case(6, 20, 33, (1,)),
    "shared": Case(4, 12, 70, (3,), shared=True),
    "many panels": Case(4, 8, 300, turned=True),
    "few taps": Case(8, 4, 16, zeros=(-128, 0)),
    "weights without sign": Case(8, 31, 20, zeros=(0, -128)),
    "both without sign": Case(8, 30, 20, zeros=(-128, -128)),
    "nine bits": Case(8, 30, 20, zeros=(100, 0)),
    "weights of nine bits": Case(8, 30, 20, zeros=(0, -100), turned=True),
    "columns": Case(37, 64, 20, zeros=(0, 3), columns=True),
    "columns without sign": Case(20, 9, 17, zeros=(-128, 5), columns=True),
    "three taps": Case(8, 3, 16, dots=False),
    "one row": Case(1, 64, 64, dots=False),
}


def _program(case: Case) -> Any:
    n = "x".join(map(str, case.matrices))
    last = f"{case.outs}x{case.taps}" if case.turned else f"{case.taps}x{case.outs}"
    sizes = (case.taps, case.rows) if case.columns else (case.rows, case.taps)
    x = f"tensor<{n}x{sizes[0]}x{sizes[1]}x"
    y = f"tensor<{last}x" if case.shared else f"tensor<{n}x{last}x"
    z = f"tensor<{n}x{case.rows}x{case.outs}xi32>"
    left, right, turn = x, y, ""
    axes = len(case.matrices)
    order = [*range(axes), axes + 1, axes]
    if case.columns:
        left = f"tensor<{n}x{case.rows}x{case.taps}x"
        turn = (
            f"%c = tensor.permute %x1 {{perm = array<i64: {', '.join(map(str, order))}>}} : "
            f"({x}i32>) -> {left}i32>"
        )
    if case.turned:
        right = f"tensor<{n}x{case.taps}x{case.outs}x"
        turn += (
            "\n"
            f"%t = tensor.permute %y1 {{perm = array<i64: {', '.join(map(str, order))}>}} : "
            f"({y}i32>) -> {right}i32>"
        )
    return parse_module(f"""
func.func @forward(%x: {x}i8>, %y: {y}i8>) -> {z} {{
  %p = tensor.constant dense<{case.zeros[0]}> : tensor<i32>
  %q = tensor.constant dense<{case.zeros[1]}> : tensor<i32>
  %x0 = tensor.convert %x : ({x}i8>) -> {x}i32>
  %x1 = tensor.sub %x0, %p : ({x}i32>, tensor<i32>) -> {x}i32>
  %y0 = tensor.convert %y : ({y}i8>) -> {y}i32>
  %y1 = tensor.sub %y0, %q : ({y}i32>, tensor<i32>) -> {y}i32>
  {turn}
  %z = tensor.matmul %{"c" if case.columns else "x1"}, %{"t" if case.turned else "y1"}
     : ({left}i32>, {right}i32>) -> {z}
  func.return %z : {z}
}}
""")


def _agrees(case: Case, recipe: str | None) -> None:
    random = np.random.default_rng(case.taps)
    y_shape = (case.outs, case.taps) if case.turned else (case.taps, case.outs)
    x_shape = (case.taps, case.rows) if case.columns else (case.rows, case.taps)
    left = random.integers(-128, 128, (*case.matrices, *x_shape)).astype(np.int8)
    right = random.integers(-128, 128, y_shape if case.shared else (*case.matrices, *y_shape))
    right = right.astype(np.int8)
    for values in left, right:
        values.reshape(-1)[:40] = np.where(np.arange(40) % 2, 127, -128)[: values.size]
    x, y = (v.astype(np.int64) - z for v, z in zip((left, right), case.zeros, strict=True))
    x = x.swapaxes(-1, -2) if case.columns else x
    expected = np.matmul(x, y.swapaxes(-1, -2) if case.turned else y)
    options = {} if recipe is None else {"recipe": recipe}
    found = native_program(_program(case), options)(left, right)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "recipe", [*RUNNABLE[:1], *(pytest.param(r, marks=pytest.mark.slow) for r in RUNNABLE[1:])]
)
@pytest.mark.parametrize("name", CASES)
def test_sums_are_exact(name: str, recipe: str) -> None:
    _agrees(CASES[name], recipe)


@pytest.mark.skipif("avx512vnni" not in RUNNABLE, reason="the processor has no AVX-512 VNNI")
@pytest.mark.parametrize("name", CASES)
def test_which_products_add_several_at_once(name: str) -> None:
    _, trace = traced_program(_program(CASES[name]), NativeOptions(recipe="avx512vnni"), 1)
    assert ("dots" in {facts.what for facts in trace.steps}) == CASES[name].dots


@given(
    st.builds(
        Case,
        st.integers(4, 20),
        st.integers(4, 70),
        st.integers(4, 70),
        st.sampled_from([(1,), (3,), (2, 2)]),
        st.tuples(st.sampled_from([-128, 0, 37, 127]), st.sampled_from([-128, -1, 0, 127])),
        st.booleans(),
        st.just(value=False),
        columns=st.booleans(),
    )
)
@settings(max_examples=15, deadline=None)
def test_drawn_products(case: Case) -> None:
    _agrees(case, None)


@pytest.mark.parametrize("recipe", RUNNABLE)
def test_a_matrix_by_itself(recipe: str) -> None:
    text = """
func.func @forward(%x: tensor<2x9x21xi8>) -> tensor<2x9x9xi32> {
  %w = tensor.convert %x : (tensor<2x9x21xi8>) -> tensor<2x9x21xi32>
  %t = tensor.permute %w {perm = array<i64: 0, 2, 1>}
     : (tensor<2x9x21xi32>) -> tensor<2x21x9xi32>
  %z = tensor.matmul %w, %t : (tensor<2x9x21xi32>, tensor<2x21x9xi32>) -> tensor<2x9x9xi32>
  func.return %z : tensor<2x9x9xi32>
}
"""
    x = np.random.default_rng(0).integers(-128, 128, (2, 9, 21)).astype(np.int8)
    wide = x.astype(np.int64)
    found = native_program(parse_module(text), {"recipe": recipe})(x)
    np.testing.assert_array_equal(found, wide @ wide.swapaxes(1, 2))


def test_two_threads_give_the_same() -> None:
    case = Case(197, 64, 197, (3,), turned=True)
    random = np.random.default_rng(0)
    x, y = (random.integers(-128, 128, (3, 197, 64)).astype(np.int8) for _ in range(2))
    found = native_program(_program(case), {}, threads=2)(x, y)
    np.testing.assert_array_equal(found, x.astype(np.int64) @ y.astype(np.int64).swapaxes(1, 2))
