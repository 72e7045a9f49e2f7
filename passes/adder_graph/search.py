"""The search for a small adder graph: several ways to factor a matrix, then repairs of the best.

A *way* is a list of greedy phases, `S3 K2` for instance: take pairs of sources (`S`) that meet at
three sinks or more, then pairs of sinks (`K`) that have two sources or more in common. To begin
with sources gives the fewest adders; to begin with sinks, the fewest bits, as the shared sums are
narrower.

A *repair* takes a few steps back where they stand and looks for better ones (see `repairs`).

Both go on while the work done is below a budget. Work is counted and not timed (a unit is about a
microsecond on a processor of 2024), and the chance is seeded, so the same matrix and options give
the same graph on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray

from ...ir.errors import LoweringError, OptionError
from .bit_rows import Step, share_pairs
from .emission import emit
from .factoring import SINKS, SOURCES, Factoring
from .graph import AdderGraph, InputRange, width_of
from .repairs import Repairs

COSTS = ("bits", "adders", "depth")

Phases = tuple[tuple[int, int], ...]
"""For each greedy phase its side and the fewest places of a pair."""

Score = tuple[int, ...]


def _phases(text: str) -> Phases:
    return tuple((SOURCES if p[0] == "S" else SINKS, int(p[1:])) for p in text.split())


_FEW_ADDERS = (
    ("S4 K3 S2 K2", "small", "small"),
    ("S3 K2", "small", "last"),
    ("S3 K2", "first", "last"),
    ("S4 K3 S2 K2", "first", "last"),
    ("S5 K5 S4 K4 S3 K3 S2 K2", "small", "small"),
    ("K4 S3 K2", "small", "small"),
    ("S4 K2", "random", "random"),
    ("S3 K3 S2 K2", "random", "random"),
)
_FEW_BITS = (
    ("K4 S3 K2", "small", "small"),
    ("K8 S6 K6 S5 K5 S4 K4 S3 K3 S2 K2", "small", "small"),
    ("K4 S4 K3 S3 K2 S2", "first", "last"),
    ("K8 S6 K6 S5 K5 S4 K4 S3 K3 S2 K2", "first", "last"),
    ("K4 S3 K2", "first", "last"),
    ("S5 K4 S3 K3 S2 K2", "small", "small"),
    ("K4 S3 K2", "random", "random"),
    ("K4 S4 K3 S3 K2 S2", "random", "random"),
)
"""Ways in the order in which they are tried: phases, and the choice among equals of a first phase
on sources (see `bit_rows`) and of all others (see `factoring`)."""

WORK = 1e6
"""Units of work in a second of a budget."""

_WAYS = 0.3
"""The share of the work that goes to ways; one is always gone."""


@dataclass(frozen=True)
class _Trial:
    score: Score
    factoring: Factoring


def optimize_matrix(
    matrix: NDArray[np.int8],
    *,
    cost: str = "bits",
    max_depth: int | None = None,
    time_budget: float = 1.0,
    inputs: InputRange | None = None,
) -> AdderGraph:
    """A small graph of additions and subtractions that multiplies by a ternary matrix, exactly.

    Columns that are equal up to their sign are computed once. Time is linear in the budget, plus
    one greedy run (see `bit_rows` and `factoring`); memory is two bits an element, N / 4 bytes a
    shared pair of inputs, and what is linear in the nonzeros and in the pairs counted.

    Args:
        matrix: int8 [K, N] of -1, 0 and 1.
        cost: what to make small: the sum of the widths of the adders (`bits`), their number
            (`adders`), or the depth and then their number (`depth`).
        max_depth: the most adders between an input and an output.
        time_budget: about how many seconds to search; the first greedy run is always finished.
            The result depends on this number, not on how fast the machine is.
        inputs: the range of each input, for the widths; all values of 8 bits by default.

    Raises:
        OptionError: an unknown cost, or no graph is as flat as `max_depth`.
    """
    if cost not in COSTS:
        raise OptionError(f"expected cost one of {', '.join(COSTS)}, got '{cost}'")
    if matrix.ndim != 2 or (matrix.size and np.abs(matrix.astype(np.int16)).max() > 1):
        raise OptionError("an adder graph needs a matrix of -1, 0 and 1")
    least = least_depth(matrix)
    if max_depth is not None and max_depth < least:
        raise OptionError(
            f"max-depth={max_depth} is too small: a column with "
            f"{int(np.count_nonzero(matrix, axis=0).max())} nonzeros needs {least}"
        )
    distinct, columns, signs = _distinct_columns(matrix)
    search = _Search(
        np.ascontiguousarray(matrix[:, distinct]),
        cost,
        least if cost == "depth" else max_depth,
        inputs or InputRange.of_bits(8),
    )
    graph = search.run(max(0.0, time_budget) * WORK)
    outputs = tuple(
        (graph.outputs[j][0], graph.outputs[j][1] * sign) if sign else (0, 0)
        for j, sign in zip(columns, signs, strict=True)
    )
    graph = AdderGraph(graph.inputs, graph.nodes, outputs)
    if not np.array_equal(graph.matrix(), matrix):
        raise LoweringError("the adder graph does not expand back to its matrix; please report it")
    return graph


def least_depth(matrix: NDArray[np.int8]) -> int:
    """The depth that no graph of the matrix can be below."""
    if not matrix.size:
        return 0
    terms = int(np.count_nonzero(matrix, axis=0).max())
    return max(terms - 1, 0).bit_length()


def _distinct_columns(matrix: NDArray[np.int8]) -> tuple[list[int], list[int], list[int]]:
    """The columns to compute; for each column its place among them and its sign there."""
    distinct: list[int] = []
    places: dict[bytes, tuple[int, int]] = {}
    columns: list[int] = []
    signs: list[int] = []
    for j in range(matrix.shape[1]):
        column = np.ascontiguousarray(matrix[:, j])
        if not column.any():
            place, sign = 0, 0
        else:
            if column.tobytes() not in places:
                places[(-column).tobytes()] = (len(distinct), -1)
                places[column.tobytes()] = (len(distinct), 1)
                distinct.append(j)
            place, sign = places[column.tobytes()]
        columns.append(place)
        signs.append(sign)
    return distinct, columns, signs


class _Search:
    """One matrix, and the work spent on it."""

    def __init__(
        self, matrix: NDArray[np.int8], cost: str, max_depth: int | None, inputs: InputRange
    ) -> None:
        self.matrix = matrix
        self.cost = cost
        self.max_depth = max_depth
        self.inputs = inputs
        self.nonzeros = int(np.count_nonzero(matrix))
        self.work = 0.0
        self.last = 0.0

    def run(self, budget: float) -> AdderGraph:
        """The best graph that the work `budget` finds: by ways, then by repairs of the best."""
        ways = _FEW_BITS if self.cost == "bits" else _FEW_ADDERS
        random = Random(0)
        best: _Trial | None = None
        for text, first, later in ways:
            if best is not None and self.work + self.last > budget * _WAYS:
                break
            trial = self._trial(self._factored(_phases(text), first, later, random))
            if best is None or trial.score < best.score:
                best = trial
        assert best is not None
        graph = emit(best.factoring)
        if self.work >= budget or not best.factoring.steps:
            return graph
        bits = width_of(self.inputs.low, self.inputs.high) if self.cost == "bits" else None
        repairs = Repairs(best.factoring, random, bits)
        while self.work + repairs.work < budget:
            repairs.repair()
        return self._better(graph, emit(repairs.result()))

    def _better(self, one: AdderGraph, other: AdderGraph) -> AdderGraph:
        """The one with fewer bits where these count, else with fewer adders; else the other."""
        if self.cost == "bits":
            return one if one.bits(self.inputs) < other.bits(self.inputs) else other
        return one if one.adders < other.adders else other

    def _trial(self, factoring: Factoring) -> _Trial:
        score: Score
        edges = 2 * len(factoring.steps) + factoring.adders
        if self.cost == "bits":
            graph = emit(factoring)
            score = (graph.bits(self.inputs), graph.adders)
            edges *= 4
        else:
            score = (factoring.adders,)
        self.last = factoring.work + self.nonzeros + 1.5 * edges + 100
        self.work += self.last
        return _Trial(score, factoring)

    def _factored(self, phases: Phases, first: str, later: str, random: Random) -> Factoring:
        """The matrix after some greedy phases."""
        steps: list[Step] = []
        left, work, rest = self.matrix, 0, phases
        side, least = phases[0]
        if side == SOURCES:
            rest = phases[1:]
            steps, left, work = share_pairs(self.matrix, least, first, random, self.max_depth)
        factoring = Factoring(left, self.max_depth, steps)
        factoring.work += work
        for side, least in rest:
            factoring.share_pairs(side, least, later, random)
        return factoring
