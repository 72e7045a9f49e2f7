"""Symbolic dimensions: normal form, exact and rounding division, substitution, assumptions."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from triton_dsl.ir.language.assumptions import Assumptions
from triton_dsl.ir.language.dims import (
    UNKNOWN,
    Dim,
    DimError,
    floor_divide,
    solve,
)

N, H, W, S = (Dim.symbol(name) for name in ("N", "H", "W", "stride"))


@pytest.mark.parametrize(
    ("dim", "text"),
    [
        (Dim.of(0), "0"),
        (N * 4 / 2, "2*N"),
        (H / S, "H/stride"),
        ((H + 1) / 2, "(H + 1)/2"),
        (H - 1, "H - 1"),
        (Dim.of(1) - H, "-H + 1"),
        (H * W * N, "H*N*W"),
        (floor_divide(H - 1, Dim.of(2)) + 1, "(H - 1)//2 + 1"),
        ((H * W + W) / (H + 1), "W"),
        (H / (W + 1), "H/(W + 1)"),
        (UNKNOWN * 2 + N, "?"),
    ],
)
def test_text(dim: Dim, text: str) -> None:
    assert str(dim) == text


def test_normal_form() -> None:
    assert N * 4 / 2 == N * 2
    assert H / 2 == H / 2
    assert H / 2 * 2 == H
    assert (H + W) / S == H / S + W / S
    assert H / S / W == H / (S * W)
    assert (N - N).constant() == 0


def test_constants_divide_exactly() -> None:
    assert (Dim.of(12) / 4).constant() == 3
    with pytest.raises(DimError, match="7 is not divisible by 2"):
        _ = Dim.of(7) / 2
    with pytest.raises(DimError, match="zero"):
        _ = N / 0


def test_size_is_bounded() -> None:
    with pytest.raises(DimError, match="64 bits"):
        _ = Dim.of(2**62) * 4
    power = N
    with pytest.raises(DimError):
        for _ in range(10):
            power = power * power


def test_substitution() -> None:
    output = floor_divide(H + 2 * 1 - 3, S) + 1
    assert output.substitute({"H": Dim.of(32), "stride": Dim.of(2)}).constant() == 16
    assert (H / S).substitute({"stride": Dim.of(2)}) == H / 2
    with pytest.raises(DimError, match="not a whole number"):
        (H / 2).substitute({"H": Dim.of(7)})


def test_declared_quotients_settle_rounding() -> None:
    assumptions = Assumptions()
    rounded = floor_divide(H - 1, Dim.of(2)) + 1
    assert not assumptions.equal(rounded, H / 2)
    assumptions.assume_whole(H / 2)
    assert assumptions.equal(rounded, H / 2)
    assumptions.assume_whole(H / S)
    assert assumptions.floor_divide(H - 1, S) + 1 == H / S


def test_broadcast() -> None:
    assumptions = Assumptions()
    one = Dim.of(1)
    assert assumptions.broadcast(N, one) == N
    assert assumptions.broadcast(one, N) == N
    assert assumptions.broadcast(UNKNOWN, Dim.of(3)) == Dim.of(3)
    with pytest.raises(DimError, match="N and H"):
        assumptions.broadcast(N, H)


def test_generics_get_the_benefit_of_the_doubt_only_in_compound_sizes() -> None:
    assumptions = Assumptions(generics=frozenset({"kernel", "features"}))
    kernel, features = Dim.symbol("kernel"), Dim.symbol("features")
    assert assumptions.equal(H - kernel + 1, H)
    assert not assumptions.equal(features, Dim.of(784))
    assert not assumptions.equal(H, W)


def test_solve() -> None:
    assert solve(H * 2 + 1, "H", Dim.of(33)) == Dim.of(16)
    assert solve(H * 2, "H", N) == N / 2
    assert solve(H * 2, "H", Dim.of(7)) is None
    assert solve(H * H, "H", Dim.of(4)) is None
    assert solve(W, "H", Dim.of(4)) is None


SIZES = st.integers(1, 50)


@st.composite
def polynomials(draw: st.DrawFn) -> Dim:
    """A sum of products of three names."""
    total = Dim.of(draw(st.integers(-5, 5)))
    for _ in range(draw(st.integers(0, 3))):
        term = Dim.of(draw(st.integers(-4, 4)))
        for name in draw(st.lists(st.sampled_from("abc"), max_size=3)):
            term = term * Dim.symbol(name)
        total = total + term
    return total


@given(polynomials(), polynomials(), st.tuples(SIZES, SIZES, SIZES))
def test_operations_agree_with_integers(p: Dim, q: Dim, sizes: tuple[int, int, int]) -> None:
    values = {name: Dim.of(v) for name, v in zip("abc", sizes, strict=True)}

    def at(dim: Dim) -> int:
        value = dim.substitute(values).constant()
        assert value is not None
        return value

    a, b = at(p), at(q)
    assert at(p + q) == a + b
    assert at(p - q) == a - b
    assert at(p * q) == a * b
    assume(q.terms and b)
    assert at(floor_divide(p, q)) == a // b
    assert at(p * q / q) == a
