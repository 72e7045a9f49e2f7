"""A constant matrix of integers as a shared graph of additions and subtractions.

Each weight becomes signed digits (a few signs with shifts), and the digits of one place a matrix of
trits of their own. The columns of all these matrices are one product with trits, whose sums are
shared wherever the search for trits finds it; the sums of a column are then added at their places.
After Hartley 1996 (canonical signed digits, common parts of several constants). Where there are few
inputs or few outputs, multiples without common sums may take less. Not here: the search for
products with trits (`search`), and that for multiples (`constants`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...ir.errors import LoweringError
from .constants import constant_graph
from .graph import AdderGraph, InputRange, Sums
from .search import WORK, optimize_matrix


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
    sums = Sums(trits.inputs, trits.nodes)
    outputs: list[tuple[int, int]] = []
    for n in range(count):
        places = enumerate(trits.outputs[n::count])
        terms = [(value, sign, place) for place, (value, sign) in places if sign]
        outputs.append(sums.narrow(terms)[:2])
    graph = AdderGraph(trits.inputs, tuple(sums.nodes), tuple(outputs))
    odd = matrix >> np.array(shifts, np.int64)
    few = constant_graph(odd, graph.adders + 1, time_budget * WORK)
    if few is not None and (max_depth is None or few.depth <= graph.depth):
        given = inputs or InputRange.of_bits(8)
        if _size(few, cost, given) < _size(graph, cost, given):
            graph = few
    if not np.array_equal(graph.matrix(), odd):
        raise LoweringError("the adder graph does not expand back to its matrix; please report it")
    return graph, shifts


def _size(graph: AdderGraph, cost: str, inputs: InputRange) -> tuple[int, int]:
    """What is to be small, and what among equals."""
    if cost == "bits":
        return graph.bits(inputs), graph.adders
    return graph.depth if cost == "depth" else 0, graph.adders


def common_shifts(matrix: NDArray[np.int64]) -> list[int]:
    """For each column how often all of its numbers can be halved."""
    bits: list[int] = np.bitwise_or.reduce(np.abs(matrix), axis=0).tolist()
    return [(b & -b).bit_length() - 1 if b else 0 for b in bits]
