"""The search for a small adder graph: several ways to factor a matrix, then repairs of the best.

A *way* is a list of greedy phases, `S3 K2` for instance: take pairs of sources (`S`) that meet at
three sinks or more, then pairs of sinks (`K`) that have two sources or more in common. To begin
with sources gives the fewest adders; to begin with sinks, the fewest bits, as the shared sums are
narrower.

A *repair* replays the steps of the best factoring without a few of them, drawn by chance, and goes
on greedily; the result is kept when it is no worse. Repairs make small matrices 2 to 8 % cheaper; a
large one has too many places for them, and its ways are tried again with other ties instead.

Both go on while the work done is below a budget. Work is counted and not timed (a unit is about a
microsecond on a processor of 2024), and the chance is seeded, so the same matrix and options give
the same graph on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from random import Random

import numpy as np
from numpy.typing import NDArray

from ...ir.errors import LoweringError, OptionError
from .bit_rows import Step, share_pairs
from .emission import emit
from .factoring import SINKS, SOURCES, Factoring
from .graph import AdderGraph, InputRange

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

_REPAIRS = tuple(_phases(text) for text in ("K2 S2", "K3 S3 K2 S2", "S3 K2 S2", "S2 K2"))
_REPAIRABLE = 1000
"""The most steps of a factoring that repairs are tried on."""

_DROPPED = (2, 4, 3, 8)
"""How many steps a repair leaves out, on average."""


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
    graph = search.run(max(0.0, time_budget) * 1e6)
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
        """The best graph that the work `budget` finds; half of it at most goes to new ways."""
        ways = _FEW_BITS if self.cost == "bits" else _FEW_ADDERS
        random = Random(0)
        best: _Trial | None = None
        for attempt in count():
            repairable = best is not None and len(best.factoring.steps) <= _REPAIRABLE
            limit = budget / 2 if repairable else budget
            if best is not None and self.work + self.last > limit:
                break
            text, first, later = ways[attempt % len(ways)]
            if attempt >= len(ways):
                first = later = "random"
            trial = self._trial(self._factored(_phases(text), first, later, random))
            if best is None or trial.score < best.score:
                best = trial
            if attempt + 1 >= len(ways) and len(best.factoring.steps) <= _REPAIRABLE:
                break
        assert best is not None
        attempt = 0
        while self.work + self.last <= budget and best.factoring.steps:
            chosen = "small" if attempt % 2 else "random"
            dropped = _DROPPED[attempt // 2 % len(_DROPPED)] / len(best.factoring.steps)
            factoring = self._replayed(best.factoring, dropped, random)
            for side, least in _REPAIRS[attempt % len(_REPAIRS)]:
                factoring.share_pairs(side, least, chosen, random)
            trial = self._trial(factoring)
            if trial.score <= best.score:
                best = trial
            attempt += 1
        return emit(best.factoring)

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

    def _replayed(self, best: Factoring, dropped: float, random: Random) -> Factoring:
        """The steps of `best`, each but with the chance `dropped`, on the whole matrix again."""
        factoring = Factoring(self.matrix, self.max_depth)
        numbers: tuple[list[int], list[int]] = (
            list(range(best.inputs)),
            list(range(best.outputs)),
        )
        for side, a, b, sign in best.steps:
            x, y = numbers[side][a], numbers[side][b]
            node = -1
            if x >= 0 and y >= 0 and random.random() >= dropped:
                common = factoring.common(side, x, y, sign)
                if len(common) >= 2:
                    node = factoring.merge(side, x, y, sign, common)
            numbers[side].append(node)
        return factoring
