"""Sums that several outputs of a ternary matrix have in common, chosen by the sites they save.

A *source* is an input or a shared sum, as a heap of bits. A bit that an output has still to sum
costs half a site, as a full position of a row makes two bits fewer for each site. So two or three
sources that k outputs have in common, with the same relation of signs, save k/2 times the bits that
go away, less the sites of their sum. Fewer adders is another aim: a shared sum stays a heap where
a number would cost more. Not here: adders (`passes.adder_graph`), what a row does (`summing`).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations_with_replacement, zip_longest
from math import inf

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

_GROUPS = 937
"""Groups of each source that are looked at: those that most outputs have. Measured on matrices of
27 to 784 rows: fewer save less, more take longer for little."""

_BESIDE = 256
"""Terms that are looked at beside each source: those that most outputs have with it."""

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
        self._signs = matrix.copy()
        self._where = [[0, 0] for _ in heights]
        for source, output in np.argwhere(matrix).tolist():
            self._where[source][int(matrix[source, output] < 0)] |= 1 << output
        self._first: dict[tuple[Heights, int], int] = {}
        self._alike = [self._first.setdefault((h, 0), k) for k, h in enumerate(heights)]
        self._queue: list[tuple[float, int, Terms]] = []
        if most_levels:
            self._run()
        self.sums = [
            {int(k): int(column[k]) for k in np.flatnonzero(column)} for column in self._signs.T
        ]

    def _run(self) -> None:
        """Groups of inputs that many outputs have first, then those that are left."""
        inputs = np.arange(len(self.heights))
        for _ in range(_ROUNDS):
            before = len(self.nodes)
            for first in inputs.tolist():
                self._look(inputs[first:])
            while self._queue:
                self._step()
            if len(self.nodes) == before:
                break

    def _places(self, terms: Terms) -> tuple[int, int]:
        """Bit masks of the outputs that have the terms, and that have them negated."""
        same = opposite = -1
        for source, sign in terms:
            plus, minus = self._where[source]
            same &= plus if sign > 0 else minus
            opposite &= minus if sign > 0 else plus
        return same, opposite

    def _saving(self, sources: Sequence[int]) -> tuple[float, int]:
        """What a sum of sources saves for each output that has it, and its sites."""
        sites, _, levels, away = shared_size(tuple(sorted([self.heights[s] for s in sources])))
        if max([self.levels[source] for source in sources]) + levels > self.most_levels:
            away = 0
        return SITES_OF_A_BIT * away, sites

    def _fewest(self, *sources: int) -> float:
        """The outputs that have to have a sum of sources so that it saves something."""
        saved, sites = self._saving(sources)
        return max(2, sites // saved + 1) if saved else inf

    def _push(self, terms: Terms) -> None:
        same, opposite = self._places(terms)
        count = same.bit_count() + opposite.bit_count()
        saved, sites = self._saving([source for source, _ in terms])
        gain = count * saved - sites
        if count > 1 and gain > 0:
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
            beside = np.flatnonzero(self._signs[:, self._signs[new] != 0].any(axis=1))
            self._look(np.array([new, *beside[beside != new]]))

    def _share(self, terms: Terms, same: int, opposite: int) -> int:
        """Put a new source in the place of terms."""
        _, left, levels, _ = shared_size(tuple(sorted(self.heights[s] for s, _ in terms)))
        new = len(self.heights)
        self.heights.append(left)
        self.levels.append(max(self.levels[source] for source, _ in terms) + levels)
        self._alike.append(self._first.setdefault((left, self.levels[new]), new))
        self._where.append([same, opposite])
        self.nodes.append(terms)
        row = np.zeros_like(self._signs[:1])
        for mask, sign in ((same, 1), (opposite, -1)):
            outputs = list(_ones(mask))
            row[0, outputs] = sign
            for source, own in terms:
                self._where[source][own * sign < 0] &= ~mask
                self._signs[source, outputs] = 0
        self._signs = np.concatenate([self._signs, row])
        return new

    def _look(self, sources: NDArray[np.int64]) -> None:
        """Queue groups of the first source with one or two others, which most outputs have.

        So many at most, and beside so many terms, that a matrix of twice the rows takes about twice
        the work.
        """
        first, others = int(sources[0]), sources[1:]
        columns = np.flatnonzero(self._signs[first])
        if len(columns) < 2 or not len(others):
            return
        relations = self._signs[np.ix_(others, columns)] * self._signs[first, columns]
        # Each other twice: where it has the sign of the first one, and where it has the opposite.
        beside = np.stack([relations > 0, relations < 0], axis=1).reshape(-1, len(columns))
        often = beside.sum(axis=1)
        near = np.flatnonzero(often > 1)
        near = np.sort(near[np.argsort(-often[near], kind="stable")[:_BESIDE]])
        terms = tuple((int(others[place >> 1]), 1 - 2 * (place & 1)) for place in map(int, near))
        a, b, counts = self._meetings(first, terms, beside[near])
        for place in np.lexsort((b, a, -counts))[:_GROUPS].tolist():
            rest = dict.fromkeys((terms[a[place]], terms[b[place]]))
            self._push(tuple(sorted(((first, 1), *rest))))

    def _meetings(
        self, first: int, terms: Terms, beside: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], ...]:
        """The groups of a source that can save something: the places of two terms, the same one
        twice in a pair, and how many outputs have them.

        Args:
            first: the source.
            terms: that it may be with.
            beside: the outputs that each term is beside the source in.
        """
        alike = np.array([self._alike[source] for source, _ in terms], np.int64)
        often = beside.sum(axis=1)
        # Counts, which floats hold exactly.
        has = beside.astype(np.float32)
        found = [(np.zeros(0, np.int64),) * 3]
        kinds: list[int] = np.unique(alike).tolist()
        for x in kinds:
            a = np.flatnonzero((alike == x) & (often >= self._fewest(first, x)))
            found.append((a, a, often[a]))
        for x, y in combinations_with_replacement(kinds, 2):
            fewest = self._fewest(first, x, y)
            a, b = (np.flatnonzero((alike == kind) & (often >= fewest)) for kind in (x, y))
            meet = has[a] @ has[b].T
            i, j = np.nonzero(np.triu(meet >= fewest, 1) if x == y else meet >= fewest)
            found.append((a[i], b[j], meet[i, j].astype(np.int64)))
        return tuple(map(np.concatenate, zip(*found, strict=True)))


def _ones(mask: int) -> Iterator[int]:
    while mask:
        yield (mask & -mask).bit_length() - 1
        mask &= mask - 1
