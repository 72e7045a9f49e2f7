"""Sums that several outputs of a ternary matrix have in common, chosen by the sites they save.

A *source* is an input or a shared sum, as a heap of bits. A bit that an output has still to sum
costs half a site, as a full position of a row makes two bits fewer for each site. So two or three
sources that k outputs have in common, with the same relation of signs, save k/2 times the bits that
go away, less the sites of their sum. Fewer adders is another aim: a shared sum stays a heap where
a number would cost more. Not here: adders (`passes.adder_graph`), what a row does (`summing`).
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations, zip_longest

import numpy as np
from numpy.typing import NDArray

from .rows import Nets, Row
from .summing import Heap, paired, squeezed

Heights = tuple[int, ...]
"""The number of bits of each weight, from weight 0 on."""

Terms = tuple[tuple[int, int], ...]
"""Sources, each with its sign."""

SITES_OF_A_BIT = 0.5
"""What a bit costs where it is summed."""

_POWER = 0.6
"""How much a group of many terms in many outputs has to save more than a small one: it stands in
the way of many others."""

_CANDIDATES = 60_000
"""Groups that are looked at together, about: those that most outputs have in common."""

_PLACES = 30_000_000
"""Places of triples in columns that are looked at, about."""

_ROUNDS = 3
"""How often groups are looked for."""


@cache
def shared_size(parts: tuple[Heights, ...]) -> tuple[int, Heights, int, int]:
    """Of the sum of such heaps: its sites, what is left, its levels, and the bits that it makes
    fewer."""
    nets = Nets()
    heap: Heap = {
        weight: [2 * nets.new(0) for _ in range(count)]
        for weight, count in enumerate(added(*parts))
        if count
    }
    rows, left = shared_rows(nets, heap, parts)
    heights = tuple(len(left.get(weight, ())) for weight in range(max(left, default=-1) + 1))
    levels = max((level for level, _ in rows), default=0)
    away = sum(map(sum, parts)) - sum(heights)
    return sum(row.sites for _, row in rows), heights, levels, away


def shared_rows(
    nets: Nets, heap: Heap, parts: Sequence[Heights]
) -> tuple[list[tuple[int, Row]], Heap]:
    """The rows of a heap that is the sum of such ones, with their levels, and what is left."""
    if len(parts) == 2 and max(added(*parts), default=0) == 2:
        row, heap = paired(nets, heap)
        level = 1 + max(nets.levels[net] for net in row.reads())
        return [(level, row)], heap
    return squeezed(nets, heap)


def added(*parts: Heights) -> Heights:
    """All bits together."""
    return tuple(map(sum, zip_longest(*parts, fillvalue=0)))


class Sharing:
    """Shared sums of a matrix, found greedily.

    Args:
        matrix: int8 [K, N] of trits.
        heights: of each input.
        most_levels: a shared sum may be made in; 0 for none.

    Attributes:
        nodes: for each shared sum its terms; its number is K plus its place here.
        sums: for each output what is left: sources with their signs.
        levels: of each source.
    """

    def __init__(
        self, matrix: NDArray[np.int8], heights: Sequence[Heights], most_levels: int
    ) -> None:
        self.heights = list(heights)
        self.levels = [0] * len(heights)
        self.nodes: list[Terms] = []
        self.most_levels = most_levels
        self.sums = [
            {int(k): int(column[k]) for k in np.flatnonzero(column)} for column in matrix.T
        ]
        self._where = [[0, 0] for _ in heights]
        for output, terms in enumerate(self.sums):
            for source, sign in terms.items():
                self._where[source][sign < 0] |= 1 << output
        self._queue: list[tuple[float, int, Terms]] = []
        if most_levels:
            self._run(matrix)

    def _run(self, matrix: NDArray[np.int8]) -> None:
        """Groups of inputs that many outputs have first, then those that are left."""
        for _ in range(_ROUNDS):
            before = len(self.nodes)
            for terms in common_groups(self._signs(len(matrix))):
                self._push(terms)
            while self._queue:
                self._step()
            if len(self.nodes) == before:
                break

    def _signs(self, count: int) -> NDArray[np.int8]:
        """What is left of the first sources, as a matrix."""
        signs = np.zeros((count, len(self.sums)), np.int8)
        for output, terms in enumerate(self.sums):
            for source, sign in terms.items():
                if source < count:
                    signs[source, output] = sign
        return signs

    def _places(self, terms: Terms) -> tuple[int, int]:
        """Bit masks of the outputs that have the terms, and that have them negated."""
        same = opposite = -1
        for source, sign in terms:
            plus, minus = self._where[source]
            same &= plus if sign > 0 else minus
            opposite &= minus if sign > 0 else plus
        return same, opposite

    def _gain(self, terms: Terms, count: int) -> float:
        """The sites that a shared sum saves."""
        parts = tuple(sorted([self.heights[source] for source, _ in terms]))
        sites, _, levels, away = shared_size(parts)
        if not sites or max([self.levels[s] for s, _ in terms]) + levels > self.most_levels:
            return 0.0
        return SITES_OF_A_BIT * count * away - sites

    def _push(self, terms: Terms) -> None:
        same, opposite = self._places(terms)
        count = same.bit_count() + opposite.bit_count()
        gain = self._gain(terms, count) if count > 1 else 0.0
        if gain > 0:
            worth = gain / (len(terms) * count) ** _POWER
            heapq.heappush(self._queue, (-worth, count, terms))

    def _step(self) -> None:
        _, was, terms = heapq.heappop(self._queue)
        same, opposite = self._places(terms)
        if same.bit_count() + opposite.bit_count() != was:
            self._push(terms)
            return
        new = self._share(terms, same, opposite)
        if self.levels[new] < self.most_levels:
            for rest in self._companions(new):
                self._push(rest)

    def _share(self, terms: Terms, same: int, opposite: int) -> int:
        """Put a new source in the place of terms."""
        _, left, levels, _ = shared_size(tuple(sorted(self.heights[s] for s, _ in terms)))
        new = len(self.heights)
        self.heights.append(left)
        self.levels.append(max(self.levels[source] for source, _ in terms) + levels)
        self._where.append([same, opposite])
        self.nodes.append(terms)
        for mask, sign in ((same, 1), (opposite, -1)):
            for source, own in terms:
                self._where[source][own * sign < 0] &= ~mask
            for output in _ones(mask):
                for source, _ in terms:
                    del self.sums[output][source]
                self.sums[output][new] = sign
        return new

    def _companions(self, new: int) -> Iterator[Terms]:
        """Groups of the new source with one or two others that enough outputs have."""
        beside: list[list[tuple[int, int]]] = []
        for output in _ones(self._where[new][0] | self._where[new][1]):
            terms = self.sums[output]
            own = terms[new]
            beside.append([(source, g * own) for source, g in terms.items() if source != new])
        common = Counter(term for others in beside for term in others)
        pairs = Counter(
            pair
            for others in beside
            for pair in combinations(sorted(term for term in others if common[term] > 1), 2)
        )
        for term, count in common.items():
            if count > 1:
                yield tuple(sorted(((new, 1), term)))
        for pair, count in pairs.items():
            if count > 1:
                yield tuple(sorted(((new, 1), *pair)))


def _ones(mask: int) -> Iterator[int]:
    while mask:
        yield (mask & -mask).bit_length() - 1
        mask &= mask - 1


def common_groups(signs: NDArray[np.int8]) -> list[Terms]:
    """Pairs and triples of rows that two columns or more have with the same relation of signs.

    Only so many: those that most columns have; and of large matrices only groups within blocks of
    rows that follow each other.

    Args:
        signs: of K rows and N columns, trits.
    """
    density = float((signs != 0).mean()) if signs.size else 0.0
    if not density:
        return []
    rows = max(8, int((6 * _PLACES / (signs.size * density**3)) ** 0.5))
    blocks = range(0, len(signs), rows)
    most = _CANDIDATES // (len(blocks) * min(rows, len(signs)))
    groups: list[Terms] = []
    for start in blocks:
        block = signs[start : start + rows]
        for first in range(len(block) - 1):
            codes, counts = _meetings(block[first:])
            if len(codes) > most:
                codes = codes[np.argsort(-counts, kind="stable")[:most]]
            groups += [_terms(start + first, code, len(block) - first) for code in codes.tolist()]
    return groups


def _meetings(rows: NDArray[np.int8]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The groups that the first row is in, coded as `_terms` reads them, and how often each is.

    Those that are met once are left out; codes rise.
    """
    columns = np.flatnonzero(rows[0])
    relations = rows[1:, columns] * rows[0, columns]
    # Each row twice: where it has the sign of the first one, and where it has the other.
    signed = np.zeros((2 * len(rows), len(columns)), np.float32)
    signed[2::2] = relations > 0
    signed[3::2] = relations < 0
    often = np.flatnonzero(signed.sum(axis=1) > 1)
    # Counts, which floats hold exactly.
    meet = signed[often] @ signed[often].T
    a, b = np.nonzero(meet > 1)
    a, b = a[a <= b], b[a <= b]
    return often[a] * len(signed) + often[b], meet[a, b].astype(np.int64)


def _terms(first: int, code: int, size: int) -> Terms:
    """Three rows with their signs beside the first one's; two where the others are the same."""
    a, b = divmod(code, 2 * size)
    others = dict.fromkeys((a, b))
    return ((first, 1), *((first + (other >> 1), 1 - 2 * (other & 1)) for other in others))
