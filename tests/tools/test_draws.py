"""Random inputs: the ends of types, and nothing that a program leaves undefined."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from triton_dsl.dialects.registry import parse_module
from triton_dsl.tools.draws import EDGE, ORDINARY, SPECIAL, draw


def program(argument: str, *lines: str) -> Any:
    """A program of one argument that gives it back, with other ops beside."""
    body = "\n".join(lines)
    head = f"func.func @forward(%x: {argument}) -> {argument}"
    return parse_module(f"{head} {{\n{body}\nfunc.return %x : {argument}}}")


@pytest.mark.parametrize(
    ("element", "low", "high"),
    [("i8", -128, 127), ("i16", -(2**15), 2**15 - 1), ("i32", -(2**31), 2**31 - 1),
     ("i64", -(2**63), 2**63 - 1), ("ui32", 0, 2**32 - 1), ("ui64", 0, 2**64 - 1)],
)  # fmt: skip
def test_the_first_samples_are_the_ends(element: str, low: int, high: int) -> None:
    (x,) = draw(program(f"tensor<?x3x{element}>"), EDGE, 16, 0) or []
    rows = [(int(row.min()), int(row.max())) for row in x[:5]]
    wanted = [low, high, 0, -1, 1] if low else [0, high, 1]
    assert rows[: len(wanted)] == [(end, end) for end in wanted]
    # An image alone has the ends among its first elements.
    (x,) = draw(program(f"tensor<1x4x4x{element}>"), EDGE, 16, 0) or []
    assert x.reshape(-1)[: len(wanted)].tolist() == wanted


def test_floats_have_zeros_of_both_signs_and_large_values() -> None:
    (x,) = draw(program("tensor<?x100xf32>"), EDGE, 100, 0) or []
    zeros = x[x == 0]
    assert 0.1 < np.mean((x == 0) & np.signbit(x)) < 0.15 and 0.2 < zeros.size / x.size < 0.3
    assert 0.05 < np.mean(np.abs(x) > 5) < 0.125 and 500 < np.abs(x).max() < 5000
    assert np.isfinite(x).all()


def test_special_values_only_where_asked_for() -> None:
    (x,) = draw(program("tensor<?x100xf32>"), SPECIAL, 100, 0) or []
    assert np.isnan(x).any() and np.isposinf(x).any() and np.isneginf(x).any()
    assert (np.abs(x) == np.finfo(np.float32).max).any()


@pytest.mark.parametrize("kind", [ORDINARY, EDGE, SPECIAL])
def test_indices_stay_in_the_table(kind: str) -> None:
    module = program(
        "tensor<?xi64>",
        "%t = tensor.constant dense<[[1.0], [2.0]]> : tensor<2x1xf32>",
        "%r = tensor.gather_rows %t, %x : (tensor<2x1xf32>, tensor<?xi64>) -> tensor<?x1xf32>",
    )
    (x,) = draw(module, kind, 16, 0) or []
    assert set(x.tolist()) == {0, 1}


@pytest.mark.parametrize("kind", [ORDINARY, EDGE, SPECIAL])
def test_integers_are_not_divided_by_zero(kind: str) -> None:
    module = program(
        "tensor<?xi32>",
        "%c = tensor.constant dense<100> : tensor<i32>",
        "%r = tensor.div %c, %x : (tensor<i32>, tensor<?xi32>) -> tensor<?xi32>",
    )
    (x,) = draw(module, kind, 16, 0) or []
    assert (x != 0).all()
    if kind == EDGE:
        assert {x.min(), x.max()} == {-(2**31), 2**31 - 1}


@pytest.mark.parametrize(("kind", "asked"), [(ORDINARY, True), (EDGE, True), (SPECIAL, False)])
def test_products_with_trits_take_finite_numbers(kind: str, asked: bool) -> None:
    module = program(
        "tensor<?x8xf32>",
        "%b = tensor.constant dense<85> : tensor<4xui8>",
        "%w = ternary.unpack %b : (tensor<4xui8>) -> tensor<8x2x!ternary.trit>",
        "%r = ternary.matmul %x, %w"
        " : tensor<?x8xf32>, tensor<8x2x!ternary.trit> -> tensor<?x2xf32>",
    )
    assert (draw(module, kind, 16, 0) is not None) is asked


def test_bytes_of_fewer_bits_keep_to_them() -> None:
    module = parse_module("""
func.func @forward(%x: tensor<?x9xi8> {onnx.type = "int4"}) -> tensor<?x9xi8> {
  func.return %x : tensor<?x9xi8>
}""")
    for kind in (ORDINARY, EDGE):
        (x,) = draw(module, kind, 16, 0) or []
        assert x.min() == -8 and x.max() == 7
