"""Cheap rescalings give what the dear ones give, for every number there can be."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from triton_dsl.passes.requantize.rescaling import (
    Rescaling,
    cheapest,
    signed_digits,
    steps,
)


@given(st.integers(-(2**40), 2**40))
def test_signed_digits_add_up_and_have_no_neighbours(number: int) -> None:
    digits = signed_digits(number)
    assert sum(sign << place for place, sign in digits) == number
    places = [place for place, _ in digits]
    assert all(b - a > 1 for a, b in pairwise(places))
    assert len(digits) <= bin(abs(number)).count("1")


@given(
    multiplier=st.integers(1, 2**31 - 1),
    shift=st.integers(1, 45),
    addend=st.integers(-(2**40), 2**40),
    low=st.integers(-3000, 3000),
    span=st.integers(1, 300),
    width=st.integers(1, 40),
    start=st.integers(-300, 300),
)
def test_the_cheapest_gives_the_same(
    multiplier: int, shift: int, addend: int, low: int, span: int, width: int, start: int
) -> None:
    given_one = Rescaling(multiplier, addend, shift)
    bounds = start, start + width

    def clamped(by: Rescaling, u: int) -> int:
        return min(max(by(u), bounds[0]), bounds[1])

    numbers = range(low, low + span + 1)
    first, last = clamped(given_one, numbers[0]), clamped(given_one, numbers[-1])
    best = cheapest(given_one, first, last)
    assert best.adders <= given_one.adders
    for u in numbers:
        assert min(max(best(u), first), last) == clamped(given_one, u)
    places = steps(given_one, first, last)
    for u in numbers:
        assert first + sum(place <= u for place in places) == clamped(given_one, u)


def test_a_power_of_two_needs_no_multiplication() -> None:
    assert cheapest(Rescaling(1 << 20, 0, 24), -8, 7) == Rescaling(1, 0, 4)
    assert cheapest(Rescaling((1 << 30) + 1, 1 << 33, 34), 0, 15).adders <= 1


def test_many_steps_keep_the_multiplier() -> None:
    by = Rescaling(12345, 1 << 5, 6)
    assert cheapest(by, 0, 5000) is by
