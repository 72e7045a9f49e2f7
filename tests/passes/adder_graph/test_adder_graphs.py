"""Adder graphs stand for their matrix exactly, keep to a depth, and are as small as is promised."""

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from triton_dsl.ir.errors import OptionError
from triton_dsl.passes.adder_graph import (
    COSTS,
    AdderGraph,
    InputRange,
    least_depth,
    optimize_matrix,
)
from triton_dsl.passes.adder_graph.bit_rows import share_pairs
from triton_dsl.passes.adder_graph.factoring import SINKS, SOURCES, Factoring
from triton_dsl.passes.adder_graph.graph import width_of

pytestmark = pytest.mark.usefixtures("whole_searches")

Matrix = NDArray[np.int8]


def random_matrix(seed: int, shape: tuple[int, int], zeros: float = 0.5) -> Matrix:
    rng = np.random.default_rng(seed)
    return (rng.choice([-1, 1], shape) * (rng.random(shape) >= zeros)).astype(np.int8)


@st.composite
def matrices(draw: st.DrawFn) -> Matrix:
    """Ternary matrices with zero, repeated and negated rows and columns."""
    rows, columns = draw(st.integers(1, 14)), draw(st.integers(1, 14))
    zeros = draw(st.sampled_from([0.0, 0.2, 0.5, 0.9, 1.0]))
    matrix = random_matrix(draw(st.integers(0, 2**32 - 1)), (rows, columns), zeros)
    for axis, size in ((0, rows), (1, columns)):
        for _ in range(draw(st.integers(0, 3))):
            source, target = draw(st.integers(0, size - 1)), draw(st.integers(0, size - 1))
            factor = draw(st.sampled_from([-1, 0, 1]))
            view = matrix if axis == 0 else matrix.T
            view[target] = factor * view[source]
    return matrix


def expanded(graph: AdderGraph) -> NDArray[Any]:
    """The matrix of a graph, one node after the other in plain Python."""
    values = [[int(i == j) for j in range(graph.inputs)] for i in range(graph.inputs)]
    for a, b, sign, shift in graph.nodes:
        assert sign in (-1, 1)
        values.append([x + sign * (y << shift) for x, y in zip(values[a], values[b], strict=True)])
    columns = [[sign * x for x in values[value]] for value, sign in graph.outputs]
    return np.array(columns, np.int64).reshape(len(columns), graph.inputs).T


def naive_adders(matrix: Matrix) -> int:
    return int(np.maximum(np.count_nonzero(matrix, axis=0) - 1, 0).sum())


@given(matrix=matrices(), cost=st.sampled_from(COSTS), slack=st.sampled_from([None, 0, 1, 3]))
def test_graph_stands_for_the_matrix(matrix: Matrix, cost: str, slack: int | None) -> None:
    max_depth = None if slack is None else least_depth(matrix) + slack
    graph = optimize_matrix(matrix, cost=cost, max_depth=max_depth, time_budget=0.003)
    assert np.array_equal(expanded(graph), matrix)
    assert np.array_equal(graph.matrix(), matrix)
    assert graph.adders <= naive_adders(matrix)
    if max_depth is not None:
        assert graph.depth <= max_depth
    if cost == "depth":
        assert graph.depth == least_depth(matrix)


@given(matrix=matrices(), bits=st.integers(1, 9), signed=st.booleans())
def test_ranges_are_exact(matrix: Matrix, bits: int, signed: bool) -> None:
    """Each end of each interval is reached by some input."""
    inputs = InputRange.of_bits(bits, signed=signed)
    graph = optimize_matrix(matrix, time_budget=0, inputs=inputs)
    every = AdderGraph(
        graph.inputs, graph.nodes, tuple((v, 1) for v in range(graph.inputs + graph.adders))
    )
    coefficients = expanded(every)
    positive, negative = (coefficients > 0).sum(axis=0), (coefficients < 0).sum(axis=0)
    low = positive * inputs.low - negative * inputs.high
    high = positive * inputs.high - negative * inputs.low
    assert graph.ranges(inputs) == list(zip(low.tolist(), high.tolist(), strict=True))


@pytest.mark.parametrize(
    ("low", "high", "bits"),
    [(0, 0, 1), (0, 1, 1), (0, 15, 4), (0, 16, 5), (-8, 7, 4), (-9, 0, 5), (-1, 0, 1), (-1, 1, 2)],
)
def test_width(low: int, high: int, bits: int) -> None:
    assert width_of(low, high) == bits


@given(matrix=matrices())
def test_equal_columns_cost_nothing(matrix: Matrix) -> None:
    once = optimize_matrix(matrix, cost="adders", time_budget=0)
    twice = optimize_matrix(np.hstack([matrix, -matrix]), cost="adders", time_budget=0)
    assert twice.nodes == once.nodes


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (1, 1), (1, 5), (5, 1)])
def test_smallest_matrices(shape: tuple[int, int]) -> None:
    graph = optimize_matrix(np.ones(shape, np.int8))
    assert np.array_equal(graph.matrix(), np.ones(shape))
    assert graph.adders == max(shape[0] - 1, 0) * (shape[1] > 0)


@pytest.mark.parametrize("cost", COSTS)
def test_same_input_gives_the_same_graph(cost: str) -> None:
    matrix = random_matrix(1, (40, 24))
    first = optimize_matrix(matrix, cost=cost, time_budget=0.1)
    assert optimize_matrix(matrix.copy(order="F"), cost=cost, time_budget=0.1) == first


def test_known_optimum() -> None:
    """The Hadamard matrix of order 8 needs 24 additions (the fast Walsh-Hadamard transform)."""
    h = np.array([[1, 1], [1, -1]])
    hadamard = np.kron(np.kron(h, h), h).astype(np.int8)
    graph = optimize_matrix(hadamard, cost="adders", time_budget=0.1)
    assert graph.adders == 24
    assert graph.depth == 3


def test_more_budget_is_no_worse() -> None:
    matrix = random_matrix(2, (30, 20))
    sizes = [optimize_matrix(matrix, cost="adders", time_budget=t).adders for t in (0, 0.1, 0.5)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < sizes[0]


def test_costs_differ_as_they_say() -> None:
    matrix = random_matrix(3, (128, 48))
    inputs = InputRange.of_bits(4)
    bits, adders, depth = (
        optimize_matrix(matrix, cost=cost, time_budget=0.2, inputs=inputs) for cost in COSTS
    )
    assert bits.bits(inputs) < min(adders.bits(inputs), depth.bits(inputs))
    assert adders.adders < bits.adders
    assert depth.depth == least_depth(matrix)


@pytest.mark.parametrize(
    ("shape", "zeros", "share"),
    [((64, 64), 0.5, 966 / 1936), ((256, 64), 0.5, 3567 / 8009), ((576, 64), 0.75, 4881 / 9057)],
)
def test_random_matrices_are_as_small_as_the_best_known(
    shape: tuple[int, int], zeros: float, share: float
) -> None:
    """The best of other tools leave these shares of the adders on matrices of the same kind."""
    matrix = random_matrix(10, shape, zeros)
    found = optimize_matrix(matrix, cost="adders", time_budget=0.3).adders
    assert found / naive_adders(matrix) < 1.01 * share


@given(
    matrix=matrices(),
    slack=st.sampled_from([None, 0, 2]),
    choice=st.sampled_from(["first", "small", "random"]),
)
def test_bit_rows_and_tables_share_alike(matrix: Matrix, slack: int | None, choice: str) -> None:
    """Both forms of the greedy phase leave no pair that could still be shared."""
    max_depth = None if slack is None else least_depth(matrix) + slack
    steps, left, _ = share_pairs(matrix, 2, choice, Random(0), max_depth)
    factoring = Factoring(left, max_depth, steps)
    assert factoring.inputs == len(matrix)
    if max_depth is not None:
        assert all(a <= b for a, b in zip(factoring.load, factoring.limit, strict=True))
    before = list(factoring.steps)
    factoring.share_pairs(SOURCES, 2, "last", Random(0))
    assert factoring.steps == before


def test_transposed_matrix_costs_the_same() -> None:
    """A step on sinks is a step on the sources of the transposed matrix."""
    matrix = random_matrix(4, (20, 30))
    one, other = Factoring(matrix), Factoring(np.ascontiguousarray(matrix.T))
    one.share_pairs(SINKS, 2, "last", Random(0))
    other.share_pairs(SOURCES, 2, "last", Random(0))
    assert one.adders + 30 == other.adders + 20


@pytest.mark.parametrize(
    ("matrix", "options", "message"),
    [
        (np.ones((5, 1), np.int8), {"max_depth": 2}, "with 5 nonzeros needs 3"),
        (np.ones((5, 1), np.int8), {"cost": "area"}, "got 'area'"),
        (np.full((2, 2), 2, np.int8), {}, "a matrix of -1, 0 and 1"),
        (np.full((2, 2), -128, np.int8), {}, "a matrix of -1, 0 and 1"),
        (np.ones(3, np.int8), {}, "a matrix of -1, 0 and 1"),
    ],
)
def test_refused(matrix: Matrix, options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        optimize_matrix(matrix, **options)
