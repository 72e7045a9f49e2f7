"""Types: their text, promotion against PyTorch's, broadcasting."""

from __future__ import annotations

import itertools

import pytest

from triton_dsl.ir.language.assumptions import Assumptions
from triton_dsl.ir.language.dims import Dim
from triton_dsl.ir.language.types import (
    DENSE_ELEMENTS,
    TensorType,
    TypeMismatch,
    broadcast_shapes,
    dense,
    element_count,
    fits,
    promote,
    promote_number,
    spike,
    ternary,
)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (dense("float32", "N", 784), "Tensor[N, 784]"),
        (dense("int8", 3), "Tensor<int8>[3]"),
        (dense("float32"), "float32"),
        (ternary(784, 10), "TernaryTensor[784, 10]"),
        (spike(32, "N", 10), "SpikeTensor[32, N, 10]"),
    ],
)
def test_text(found: TensorType, text: str) -> None:
    assert str(found) == text


def test_promotion_is_that_of_torch() -> None:
    torch = pytest.importorskip("torch")
    for a, b in itertools.product(DENSE_ELEMENTS, repeat=2):
        expected = torch.promote_types(getattr(torch, a), getattr(torch, b))
        assert f"torch.{promote(a, b)}" == str(expected)


def test_numbers_are_weak_as_in_torch() -> None:
    torch = pytest.importorskip("torch")
    for element, number in itertools.product(DENSE_ELEMENTS, (2, 2.5)):
        expected = torch.result_type(torch.zeros(1, dtype=getattr(torch, element)), number)
        assert f"torch.{promote_number(element, number)}" == str(expected)


def test_trits() -> None:
    assert promote("trit", "float16") == "float16"
    assert promote("trit", "trit") == "int8"
    assert promote_number("trit", 2) == "int8"
    assert promote_number("trit", 200) == "int64"
    assert promote_number("trit", 0.5) == "float32"


def test_broadcasting() -> None:
    n, h = Dim.symbol("N"), Dim.symbol("H")
    assumptions = Assumptions()
    assert broadcast_shapes((n, Dim.of(1)), (Dim.of(3),), assumptions) == (n, Dim.of(3))
    assert broadcast_shapes((), (n,), assumptions) == (n,)
    with pytest.raises(TypeMismatch, match=r"N and H differ .*axis -1"):
        broadcast_shapes((n,), (h,), assumptions)


def test_ranges() -> None:
    assert fits(-128, "int8")
    assert not fits(128, "int8")
    assert element_count((Dim.symbol("N"), Dim.of(3), Dim.of(4))) == 12
