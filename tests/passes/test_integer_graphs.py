"""Products with integer weights as shared additions, against NumPy."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from triton_dsl.passes.adder_graph import optimize_integers
from triton_dsl.passes.adder_graph.integers import digit_planes

pytestmark = pytest.mark.usefixtures("whole_searches")


@given(st.lists(st.integers(-(1 << 30), 1 << 30), min_size=1, max_size=8))
def test_signed_digits(numbers: list[int]) -> None:
    planes = digit_planes(np.array([numbers]))
    places = 1 << np.arange(len(planes), dtype=np.int64)
    assert np.array_equal(np.tensordot(places, planes.astype(np.int64), 1), np.array([numbers]))
    assert not (planes[1:] * planes[:-1]).any()


@settings(max_examples=40, deadline=None)
@example(k=1, n=1, bits=1, seed=0)
@example(k=3, n=2, bits=12, seed=1)
@given(
    k=st.integers(1, 9),
    n=st.integers(1, 7),
    bits=st.integers(1, 12),
    seed=st.integers(0, 10_000),
)
def test_a_graph_multiplies_by_its_matrix(k: int, n: int, bits: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.integers(-(1 << bits), (1 << bits) + 1, (k, n)) * (rng.random((k, n)) < 0.7)
    matrix[:, 0] *= 4
    graph, shifts = optimize_integers(matrix, time_budget=0.0)
    x = rng.integers(-1000, 1000, (20, k))
    assert np.array_equal(graph.evaluate(x) << np.array(shifts), x @ matrix)


def test_sums_are_shared() -> None:
    rng = np.random.default_rng(0)
    matrix = rng.integers(-127, 128, (16, 16))
    graph, _ = optimize_integers(matrix, time_budget=0.0)
    naive = int(np.count_nonzero(digit_planes(matrix))) - 16
    assert graph.adders < 0.75 * naive
