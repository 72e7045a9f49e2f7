"""Products with integer weights as shared additions, against NumPy."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from triton_dsl.passes.adder_graph import optimize_integers
from triton_dsl.passes.adder_graph.constants import constant_graph
from triton_dsl.passes.adder_graph.integers import common_shifts, digit_planes

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


@pytest.mark.parametrize(("number", "adders"), [(3, 1), (11, 2), (43, 3), (683, 4)])
def test_the_smallest_numbers_of_so_many_adders(number: int, adders: int) -> None:
    """Gustafsson, Dempster and Wanhammar 2002, "Extended results for minimum-adder constant
    integer multipliers"."""
    graph = constant_graph(np.array([[number]]), 10, 1e6)
    assert graph is not None
    assert graph.adders == adders
    assert graph.matrix().item() == number
    smaller = (constant_graph(np.array([[n]]), adders, 1e6) for n in range(1, number, 2))
    assert all(graph is not None for graph in smaller)


def _fewest_steps(most: int) -> dict[frozenset[int], int]:
    """For each set of odd multiples the fewest steps, by all programs of up to `most`."""
    programs, found = {frozenset([1])}, dict[frozenset[int], int]()
    for steps in range(most + 1):
        for made in programs:
            for size in (1, 2):
                for chosen in combinations(sorted(made), size):
                    found.setdefault(frozenset(chosen), steps)
        programs = {
            made | {number}
            for made in programs
            for a in made
            for b in made
            for shift in range(1, 6)
            for number in (a + (b << shift), abs(a - (b << shift)))
            if number < 64
        }
    return found


def test_fewest_adders_of_two_numbers() -> None:
    for numbers, steps in _fewest_steps(3).items():
        if max(numbers) > 31:
            continue
        row = np.array([sorted(numbers)])
        for matrix, joined in ((row, 0), (row.T, len(numbers) - 1)):
            graph = constant_graph(matrix, steps + joined + 1, 1e6)
            assert graph is not None
            assert graph.adders == steps + joined
            assert np.array_equal(graph.matrix(), matrix)


@settings(max_examples=40, deadline=None)
@given(k=st.integers(1, 6), n=st.integers(1, 6), bits=st.integers(1, 9), seed=st.integers(0, 9999))
def test_multiples_alone(k: int, n: int, bits: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.integers(-(1 << bits), (1 << bits) + 1, (k, n)) * (rng.random((k, n)) < 0.8)
    matrix >>= np.array(common_shifts(matrix))
    graph = constant_graph(matrix, 1000, 1e5)
    x = rng.integers(-1000, 1000, (20, k))
    assert graph is not None
    assert np.array_equal(graph.evaluate(x), x @ matrix)


def test_few_outputs_take_multiples() -> None:
    """Nine weights of eight bits: eight adders join them, and each odd number takes one."""
    matrix = np.random.default_rng(8).integers(-127, 128, (9, 1))
    graph, _ = optimize_integers(matrix, cost="adders", time_budget=0.01)
    odd = {int(n) // (int(n) & -int(n)) for n in np.abs(matrix).reshape(-1)}
    assert graph.adders == 8 + len(odd - {1})
