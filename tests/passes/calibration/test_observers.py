"""Histograms that stream, and ranges against SciPy and brute force."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from triton_dsl.passes.calibration.grids import Grid
from triton_dsl.passes.calibration.observers import BINS, Histogram, entropy_threshold, range_of
from triton_dsl.passes.calibration.ranges import Range

Array = NDArray[Any]

FLOATS = arrays(np.float32, st.integers(1, 60), elements=st.floats(-(2.0**90), 2.0**90, width=32))


def histogram(*batches: Array) -> Histogram:
    made = Histogram()
    for batch in batches:
        made.add(batch)
    return made


@given(FLOATS, st.integers(0, 60), st.randoms())
def test_neither_batches_nor_order_matter(values: Array, cut: int, random: Any) -> None:
    whole = histogram(values)
    shuffled = values.copy()
    random.shuffle(shuffled)
    parts = histogram(shuffled[:cut], shuffled[cut:])
    np.testing.assert_array_equal(whole.counts, parts.counts)
    assert (whole.low, whole.high, whole.exponent) == (parts.low, parts.high, parts.exponent)


@given(FLOATS)
def test_bins_are_those_of_numpy(values: Array) -> None:
    made = histogram(values)
    assert made.counts.sum() == values.size
    if made.exponent is None:
        assert not values.any()
        return
    edges = np.arange(-BINS, BINS + 1) * made.width
    # NumPy's last bin is closed; ours never reaches it.
    expected, _ = np.histogram(values.astype(np.float64), edges)
    np.testing.assert_array_equal(made.counts, expected)
    side = np.abs(values.astype(np.float64)).max() / made.width
    assert BINS / 2 <= side <= BINS


def test_infinite_values_are_noticed_and_not_counted() -> None:
    made = histogram(np.array([1, np.inf, np.nan, -2], np.float32))
    assert not made.finite
    assert (made.low, made.high, made.counts.sum()) == (-2, 1, 2)


def entropy_by_scipy(counts: Array, levels: int, first: int) -> list[float]:
    """KL(P‖Q) for each number of kept bins, from the pseudocode of Migacz 2017, in plain loops."""
    from scipy.stats import entropy

    found: list[float] = []
    for kept in range(first, len(counts) + 1):
        inside = counts[:kept].astype(float)
        reference = inside.copy()
        reference[-1] += counts[kept:].sum()
        candidate = np.zeros(kept)
        for level in range(levels):
            run = [i for i in range(kept) if i * levels // kept == level]
            holding = [i for i in run if inside[i]]
            for i in holding:
                candidate[i] = sum(inside[j] for j in run) / len(holding)
        lost = np.any((reference > 0) & (candidate == 0)) or not candidate.sum()
        found.append(np.inf if lost else float(entropy(reference, candidate)))
    return found


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("levels", [8, 16])
def test_entropy_is_that_of_scipy(seed: int, levels: int) -> None:
    rng = np.random.default_rng(seed)
    values = np.abs(rng.standard_t(2, size=3000))
    counts, _ = np.histogram(values, 120)
    counts[0] = min(counts[0], counts[1])
    divergences = entropy_by_scipy(counts, levels, max(levels, 120 // 16))
    found = entropy_threshold(counts, levels) - max(levels, 120 // 16)
    assert divergences[found] == pytest.approx(min(divergences), rel=1e-9)


def test_entropy_cuts_off_outliers() -> None:
    rng = np.random.default_rng(0)
    values = np.append(rng.normal(size=100_000), [40.0, -35.0])
    found = range_of(histogram(values), "entropy")
    assert 3 < found.high < 10 and found.low == -found.high
    assert range_of(histogram(np.abs(values)), "entropy").low == np.abs(values).min()


def test_entropy_keeps_what_has_no_outliers() -> None:
    values = np.random.default_rng(1).uniform(-1, 1, size=100_000)
    found = range_of(histogram(values), "entropy")
    assert found.high > 0.98 and found.low < -0.98


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
@pytest.mark.parametrize("grid", [(True, True), (True, False), (False, False)], ids=str)
def test_least_squares_is_that_of_brute_force(bits: int, grid: tuple[bool, bool]) -> None:
    chosen = Grid(bits, *grid)
    values = np.random.default_rng(bits).standard_t(3, size=20_000)
    found = range_of(histogram(values), "mse", grid=chosen)

    def error(share: float) -> float:
        seen = Range(values.min() * share, values.max() * share)
        return float(np.mean((chosen.quantization(seen).restored(values) - values) ** 2))

    taken = float(np.mean((chosen.quantization(found).restored(values) - values) ** 2))
    assert taken <= 1.02 * min(error(share) for share in np.linspace(0.002, 1, 500))


@pytest.mark.parametrize("percentile", [60, 99, 99.9, 100])
def test_percentiles_are_those_of_numpy(percentile: float) -> None:
    values = np.random.default_rng(2).normal(size=50_000)
    made = histogram(values[:10], values[10:])
    found = range_of(made, "percentile", percentile=percentile)
    low, high = np.percentile(values, [100 - percentile, percentile])
    # Where values are sparse, NumPy interpolates between two of them, and the bins do not.
    assert found.low == pytest.approx(low, abs=4 * made.width)
    assert found.high == pytest.approx(high, abs=4 * made.width)


@pytest.mark.parametrize("observer", ["minmax", "percentile", "entropy", "mse"])
@pytest.mark.parametrize("value", [0.0, 2.5, -1e-40])
def test_constants(observer: str, value: float) -> None:
    assert range_of(histogram(np.full(9, value)), observer) == Range(value, value)
