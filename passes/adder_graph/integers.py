"""A constant matrix of integers as a shared graph of additions and subtractions.

Each weight becomes signed digits (a few signs with shifts), and the digits of one place a matrix of
trits of their own. The columns of all these matrices are one product with trits, whose sums are
shared wherever the search for trits finds it; the sums of a column are then added at their places.
After Hartley 1996 (canonical signed digits, common parts of several constants). Not here: the
search for products with trits (`search`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .graph import AdderGraph, InputRange, Node
from .search import optimize_matrix


def digit_planes(matrix: NDArray[np.int64]) -> NDArray[np.int8]:
    """The canonical signed digits of a matrix, int8 [digits, …], lowest place first.

    No two neighbouring digits of a number are both nonzero, so that as few as possible are
    (Reitwiesner 1960).
    """
    planes: list[NDArray[np.int8]] = []
    rest = matrix.astype(np.int64)
    while rest.any():
        digit = np.where(rest & 1, 2 - (rest & 3), 0)
        planes.append(digit.astype(np.int8))
        rest = (rest - digit) >> 1
    return np.stack(planes) if planes else np.zeros((0, *matrix.shape), np.int8)


def optimize_integers(
    matrix: NDArray[np.int64],
    *,
    cost: str = "bits",
    max_depth: int | None = None,
    time_budget: float = 1.0,
    inputs: InputRange | None = None,
) -> tuple[AdderGraph, list[int]]:
    """A small graph of additions that multiplies by a matrix of integers, exactly.

    Args:
        matrix: int64 [K, N].
        cost: as for `optimize_matrix`.
        max_depth: of the sums of a place; the places of a column are added behind them.
        time_budget: as for `optimize_matrix`.
        inputs: the range of each input.

    Returns:
        the graph, and for each column the power of two that its result is still multiplied by.
    """
    shifts = common_shifts(matrix)
    planes = digit_planes(matrix >> np.array(shifts, np.int64)[None, :])
    count = matrix.shape[1]
    if not len(planes):
        planes = np.zeros((1, *matrix.shape), np.int8)
    trits = optimize_matrix(
        np.concatenate(list(planes), axis=1),
        cost=cost,
        max_depth=max_depth,
        time_budget=time_budget,
        inputs=inputs,
    )
    if len(planes) == 1:
        return trits, shifts
    nodes: list[Node] = list(trits.nodes)
    adding = _Adding(trits.inputs, nodes)
    outputs = [
        adding.total([(*trits.outputs[place * count + n], place) for place in range(len(planes))])
        for n in range(count)
    ]
    return AdderGraph(trits.inputs, tuple(nodes), tuple(outputs)), shifts


def common_shifts(matrix: NDArray[np.int64]) -> list[int]:
    """For each column how often all of its numbers can be halved."""
    bits: list[int] = np.bitwise_or.reduce(np.abs(matrix), axis=0).tolist()
    return [(b & -b).bit_length() - 1 if b else 0 for b in bits]


class _Adding:
    """Adds sums at their places; what is added twice is added once."""

    def __init__(self, inputs: int, nodes: list[Node]) -> None:
        self.inputs = inputs
        self.nodes = nodes
        self.known: dict[Node, int] = {}

    def total(self, terms: list[tuple[int, int, int]]) -> tuple[int, int]:
        """The value and its sign of terms (value, sign, place), the first with place 0."""
        terms = [term for term in terms if term[1]]
        if not terms:
            return 0, 0
        while len(terms) > 1:
            pairs = zip(terms[::2], terms[1::2], strict=False)
            rest = terms[-1:] if len(terms) % 2 else []
            terms = [self._pair(low, high) for low, high in pairs] + rest
        ((value, sign, _),) = terms
        return value, sign

    def _pair(self, low: tuple[int, int, int], high: tuple[int, int, int]) -> tuple[int, int, int]:
        node = (low[0], high[0], low[1] * high[1], high[2] - low[2])
        if node not in self.known:
            self.known[node] = self.inputs + len(self.nodes)
            self.nodes.append(node)
        return self.known[node], low[1], low[2]
