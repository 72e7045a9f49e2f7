"""Multipliers and shifts against exact rational arithmetic."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from triton_dsl.dialects.tensor.fixed_point import fixed_point, fixed_points
from triton_dsl.ir.errors import PassError

factors = st.builds(
    lambda mantissa, exponent, sign: sign * mantissa * 2.0**exponent,
    st.floats(1, 2, exclude_max=True),
    st.integers(-80, 28),
    st.sampled_from([1, -1]),
)


@given(factors)
@example(0.0)
@example(1.0)
@example(0.5)
@example(2.0**-32)
@example(2.0**-63)
@example(float(np.nextafter(1.0, 0.0)))
@example(2.0**30 - 1)
def test_the_nearest_fixed_point(factor: float) -> None:
    multiplier, shift = fixed_point(factor)
    assert abs(multiplier) <= 2**31 - 1 and 1 <= shift <= 62
    error = abs(Fraction(multiplier, 2**shift) - Fraction(factor))
    assert error <= max(Fraction(abs(factor)) / 2**31, Fraction(1, 2**63))
    # The largest i32 times the multiplier, plus the rounding term, fits an i64.
    assert 2**31 * abs(multiplier) + 2 ** (shift - 1) < 2**63
    assert shift == 1 or multiplier % 2 == 1 or multiplier == 0


@pytest.mark.parametrize("exponent", range(-62, 29))
def test_powers_of_two_are_exact(exponent: int) -> None:
    multiplier, shift = fixed_point(2.0**exponent)
    assert Fraction(multiplier, 2**shift) == Fraction(2) ** exponent


@pytest.mark.parametrize("factor", [2.0**30, -(2.0**40), float("inf"), float("nan")])
def test_factors_out_of_range_are_refused(factor: float) -> None:
    with pytest.raises(PassError, match="scale factor"):
        fixed_point(factor)


def test_arrays_keep_their_shape() -> None:
    multipliers, shifts = fixed_points(np.array([[0.5, 3.0]]))
    np.testing.assert_array_equal(multipliers, np.array([[1, 6]], np.int32))
    np.testing.assert_array_equal(shifts, np.array([[1, 1]], np.int32))
    assert multipliers.dtype == shifts.dtype == np.int32
