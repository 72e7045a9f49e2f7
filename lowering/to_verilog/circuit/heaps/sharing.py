"""Sums that several outputs of a ternary matrix have in common, chosen by the sites they save.

A *source* is an input or a shared sum, as a heap of bits. A bit that an output has still to sum
costs half a site, as a full position of a row makes two bits fewer for each site. So two or three
sources that k outputs have in common, with the same relation of signs, save k/2 times the bits that
go away, less the sites of their sum. Fewer adders is another aim: a shared sum stays a heap where
a number would cost more. Not here: adders (`passes.adder_graph`), what a row does (`summing`).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations_with_replacement, pairwise, zip_longest
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...estimate.areas import SITES_OF_A_BIT
from .rows import Nets, Row
from .summing import Heap, paired, squeezed
from .triples import ones, packed

Heights = tuple[int, ...]
"""The number of bits of each weight, from weight 0 on."""

Terms = tuple[tuple[int, int], ...]
"""Sources, each with its sign."""

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


_FIELD = 21
"""Bits of a *term* in the number of a group. A term is twice the number of its source, from 1 on,
plus one where its sign is positive; a group has two, or three, in order, the first one highest."""


class _Kind(NamedTuple):
    """What groups of as many terms, of heaps of the same heights, have in common.

    Attributes:
        size: its terms.
        saved: by each output that has the sum.
        sites: of the sum.
    """

    size: int
    saved: float
    sites: int

    @property
    def fewest(self) -> float:
        """The outputs that have to have it so that it saves something."""
        return max(2, self.sites // self.saved + 1) if self.saved else inf


@dataclass
class _Bucket:
    """Groups that are worth the same.

    Attributes:
        groups: a heap, each with its kind, whose outputs have been counted since they came here.
        added: others.
    """

    groups: list[tuple[int, _Kind]] = field(default_factory=list[tuple[int, _Kind]])
    added: dict[_Kind, list[NDArray[np.int64]]] = field(
        default_factory=dict[_Kind, list[NDArray[np.int64]]]
    )


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
        self.outputs = matrix.shape[1]
        signed = np.stack([matrix < 0, matrix > 0], axis=1).reshape(-1, self.outputs)
        # For each term the outputs that have it, as bits; before them all, for the third of two.
        every = np.ones((2, self.outputs), np.bool_)
        self._masks = packed(np.concatenate([every, signed]))
        self._first: dict[tuple[Heights, int], int] = {}
        alike = [self._first.setdefault((h, 0), k) for k, h in enumerate(heights)]
        self._alike = np.array(alike, np.int64)
        self._queue: list[tuple[float, int]] = []
        self._buckets: dict[tuple[float, int], _Bucket] = {}
        if most_levels:
            self._run()
        minus, plus = (
            self._unpacked(self._masks[2:]).T.reshape(self.outputs, -1, 2).transpose(2, 0, 1)
        )
        self.sums = [
            {k: 1 if added[k] else -1 for k in np.flatnonzero(added | taken).tolist()}
            for added, taken in zip(plus, minus, strict=True)
        ]

    def _run(self) -> None:
        """Groups of inputs that many outputs have first, then those that are left."""
        inputs = len(self.heights)
        for _ in range(_ROUNDS):
            before = len(self.nodes)
            for first in range(inputs):
                self._look(first, range(first + 1, inputs))
            while self._queue:
                self._step()
            if len(self.nodes) == before:
                break

    def _places(self, groups: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """The outputs that have each group, and that have it negated, as bits [groups, words]."""
        terms = [groups >> shift & ((1 << _FIELD) - 1) for shift in (2 * _FIELD, _FIELD, 0)]
        same, opposite = self._masks[terms[0]], self._masks[terms[0] ^ 1]
        for term in terms[1:]:
            same &= self._masks[term]
            opposite &= self._masks[term ^ 1]
        return same, opposite

    def _kind(self, *sources: int) -> _Kind:
        sites, _, levels, away = shared_size(tuple(sorted([self.heights[s] for s in sources])))
        if max([self.levels[source] for source in sources]) + levels > self.most_levels:
            away = 0
        return _Kind(len(sources), SITES_OF_A_BIT * away, sites)

    def _push(
        self,
        groups: NDArray[np.int64],
        counts: NDArray[np.integer],
        kinds: Sequence[_Kind],
        which: NDArray[np.integer],
    ) -> None:
        """Queue groups: how many outputs have each, and the place of its kind."""
        alike = which.astype(np.int64) * (self.outputs + 1) + counts
        order = np.argsort(alike, kind="stable")
        ends = np.flatnonzero(np.diff(alike[order], append=-1)) + 1
        for start, end in pairwise([0, *ends.tolist()]):
            count, kind = int(counts[order[start]]), kinds[int(which[order[start]])]
            gain = count * kind.saved - kind.sites
            if count > 1 and gain > 0:
                key = -gain / (kind.size * count) ** _POWER, count
                if key not in self._buckets:
                    self._buckets[key] = _Bucket()
                    heapq.heappush(self._queue, key)
                self._buckets[key].added.setdefault(kind, []).append(groups[order[start:end]])

    def _step(self) -> None:
        """Share the best group, or find that fewer outputs have it; the first one of equals."""
        key = self._queue[0]
        bucket = self._buckets[key]
        for kind, added in bucket.added.items():
            for group in self._still(np.concatenate(added), key[1], kind):
                heapq.heappush(bucket.groups, (group, kind))
        bucket.added.clear()
        if not bucket.groups:
            del self._buckets[heapq.heappop(self._queue)]
            return
        group, kind = heapq.heappop(bucket.groups)
        if not self._still(np.array([group]), key[1], kind):
            return
        new = self._share(group)
        if self.levels[new] < self.most_levels:
            self._look(new, range(new))

    def _still(self, groups: NDArray[np.int64], count: int, kind: _Kind) -> list[int]:
        """Those that so many outputs have; the others go to where they are worth now."""
        same, opposite = self._places(groups)
        counts = ones(same | opposite)
        here = counts == count
        if not here.all():
            counts = counts[~here]
            self._push(groups[~here], counts, [kind], np.zeros_like(counts))
        found: list[int] = groups[here].tolist()
        return found

    def _share(self, group: int) -> int:
        """Put a new source in the place of a group."""
        terms = [t for s in (2, 1, 0) if (t := group >> s * _FIELD & ((1 << _FIELD) - 1))]
        sources = [(term >> 1) - 1 for term in terms]
        _, left, levels, _ = shared_size(tuple(sorted(self.heights[s] for s in sources)))
        new = len(self.heights)
        self.heights.append(left)
        self.levels.append(max(self.levels[source] for source in sources) + levels)
        kind = self._first.setdefault((left, self.levels[new]), new)
        self._alike = np.append(self._alike, kind)
        self.nodes.append(
            tuple((s, 2 * (term & 1) - 1) for s, term in zip(sources, terms, strict=True))
        )
        same, opposite = self._places(np.array([group]))
        for term in terms:
            self._masks[term] &= ~same[0]
            self._masks[term ^ 1] &= ~opposite[0]
        self._masks = np.concatenate([self._masks, opposite, same])
        return new

    def _unpacked(self, masks: NDArray[np.uint64]) -> NDArray[np.uint8]:
        """Of each mask a number for each output."""
        return np.unpackbits(masks.view(np.uint8), axis=1, count=self.outputs)

    def _look(self, first: int, others: range) -> None:
        """Queue groups of a source with one or two others, which most outputs have.

        So many at most, and beside so many terms, that a matrix of twice the rows takes about twice
        the work.
        """
        own = 2 * first + 3
        terms = np.arange(2 * others.start + 2, 2 * others.stop + 2) ^ 1
        beside = self._masks[terms] & self._masks[own]
        beside |= self._masks[terms ^ 1] & self._masks[own ^ 1]
        often = ones(beside).astype(np.int64)
        near = np.flatnonzero(often > 1)
        near = np.sort(near[np.argsort(-often[near], kind="stable")[:_BESIDE]])
        if not len(near):
            return
        terms = terms[near]
        a, b, counts, which, kinds = self._meetings(first, terms, beside[near], often[near])
        best = np.arange(len(counts))
        if len(counts) > _GROUPS:
            best = np.flatnonzero(counts >= np.partition(counts, -_GROUPS)[-_GROUPS])
        best = best[np.lexsort((b[best], a[best], -counts[best]))[:_GROUPS]]
        a, b, counts, which = a[best], b[best], counts[best], which[best]
        parts = np.stack([np.full(len(a), own), terms[a], terms[b]])
        parts[2, a == b] = 1 << _FIELD  # behind the others: no third term
        parts.sort(axis=0)
        groups = parts[0] << 2 * _FIELD | parts[1] << _FIELD | parts[2] & ((1 << _FIELD) - 1)
        self._push(groups, counts, kinds, which)

    def _meetings(
        self,
        first: int,
        terms: NDArray[np.int64],
        beside: NDArray[np.uint64],
        often: NDArray[np.int64],
    ) -> tuple[
        NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], list[_Kind]
    ]:
        """The groups of a source that can save something: the places of two terms, the same one
        twice in a pair, how many outputs have them, the place of their kind, and the kinds.

        Args:
            first: the source.
            terms: that it may be with.
            beside: the outputs that each term is beside the source in, as bits.
            often: how many they are.
        """
        alike = self._alike[(terms >> 1) - 1]
        # Counts, which floats hold exactly.
        has = self._unpacked(beside).astype(np.float32)
        found = [(np.zeros(0, np.int64),) * 4]
        types: list[int] = np.unique(alike).tolist()
        kinds = [self._kind(first, x) for x in types]
        for place, (x, kind) in enumerate(zip(types, kinds, strict=True)):
            a = np.flatnonzero((alike == x) & (often >= kind.fewest))
            found.append((a, a, often[a], np.full(len(a), place)))
        for x, y in combinations_with_replacement(types, 2):
            kinds.append(kind := self._kind(first, x, y))
            a, b = (np.flatnonzero((alike == t) & (often >= kind.fewest)) for t in (x, y))
            meet = has[a] @ has[b].T
            enough = meet >= kind.fewest
            i, j = np.nonzero(np.triu(enough, 1) if x == y else enough)
            counts = meet[i, j].astype(np.int64)
            found.append((a[i], b[j], counts, np.full(len(i), len(kinds) - 1)))
        a, b, often, which = map(np.concatenate, zip(*found, strict=True))
        return a, b, often, which, kinds
