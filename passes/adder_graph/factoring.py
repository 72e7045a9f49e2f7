"""A sparse ternary matrix between sources and sinks, and the greedy steps that thin it out.

*Sources* are the inputs and sums of two sources; *sinks* are the outputs and sums that several
sinks have in common. A step takes two nodes of one side that meet the same nodes of the other side
with the same relation of signs, and puts one new node between:

- two sources a, b in k sinks: the source n = a ± b, used k times (k - 1 adders less);
- two sinks a, b with k sources in common: the sink n = their sum, added to a and to b, which is the
  same step on the transposed matrix (k - 1 adders less).

No entry is ever counted twice, so the network of all steps and what is left is the matrix exactly:

    adders = steps + nonzeros left - outputs that are not zero
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
from numpy.typing import NDArray

SOURCES, SINKS = 0, 1

WINDOW = 8
"""How many pairs the choice `small` looks at."""

Step = tuple[int, int, int]
"""Two nodes of a side and the relation of their signs."""

SidedStep = tuple[int, int, int, int]
"""(side, a, b, sign); the new node has the next number of its side."""


class Factoring:
    """What is left of a matrix after some steps.

    With `max_depth`, the graph of `emission.emit` is at most that deep: a tree over terms of depths
    d has the depth D if Σ 2^d ≤ 2^D (Kraft), and every sink keeps to that.
    """

    def __init__(
        self,
        matrix: NDArray[np.int8],
        max_depth: int | None = None,
        steps: Sequence[Step] = (),
    ) -> None:
        """A matrix, or what `steps` (a, b, sign) between sources have left of one."""
        sources, sinks = matrix.shape
        self.inputs, self.outputs = sources - len(steps), sinks
        self.terms: tuple[list[dict[int, int]], list[dict[int, int]]] = (
            [{} for _ in range(sources)],
            [{} for _ in range(sinks)],
        )
        """For each source its sinks with signs, for each sink its sources with signs."""
        self.steps: list[SidedStep] = [(SOURCES, *step) for step in steps]
        self.work = 0
        """What was done, in units of about a microsecond; it depends on the matrix alone."""
        self.depth = [0] * self.inputs
        for a, b, _ in steps:
            self.depth.append(1 + max(self.depth[a], self.depth[b]))
        rows, columns = np.nonzero(matrix)
        signs = matrix[rows, columns].tolist()
        for i, j, sign in zip(rows.tolist(), columns.tolist(), signs, strict=True):
            self.terms[SOURCES][i][j] = sign
            self.terms[SINKS][j][i] = sign
        self.max_depth = max_depth
        self.load = [sum(1 << self.depth[i] for i in column) for column in self.terms[SINKS]]
        """For each sink Σ 2^depth of its terms; kept only with a `max_depth`."""
        self.limit = [1 << (max_depth or 0)] * sinks

    @property
    def adders(self) -> int:
        """The adders of the network as it is now."""
        left = sum(map(len, self.terms[SOURCES]))
        return len(self.steps) + left - self._nonzero_outputs

    @property
    def _nonzero_outputs(self) -> int:
        fed = {a for side, a, _, _ in self.steps if side == SINKS}
        fed |= {b for side, _, b, _ in self.steps if side == SINKS}
        columns = self.terms[SINKS]
        return sum(bool(columns[j]) or j in fed for j in range(self.outputs))

    def made(self) -> tuple[dict[int, Step], dict[int, Step]]:
        """For each side the nodes that steps made."""
        nodes: tuple[dict[int, Step], dict[int, Step]] = {}, {}
        first = self.inputs, self.outputs
        for side, a, b, sign in self.steps:
            nodes[side][first[side] + len(nodes[side])] = a, b, sign
        return nodes

    def common(self, side: int, a: int, b: int, sign: int, node: int | None = None) -> list[int]:
        """The nodes of the other side where a and b meet with the relation `sign`, in order.

        With `node`, which stands for the two elsewhere, those where it may stand too.
        """
        x, y = self.terms[side][a], self.terms[side][b]
        if len(y) < len(x):
            x, y = y, x
        columns = [k for k, s in x.items() if y.get(k, 0) == s * sign]
        return columns if self.max_depth is None else self._within_depth(side, a, b, columns, node)

    def _within_depth(
        self, side: int, a: int, b: int, columns: list[int], node: int | None
    ) -> list[int]:
        """Those of the places `columns` where a step keeps to the depth limit."""
        if side == SOURCES:
            more = self._deeper(a, b)
            return [k for k in columns if self.load[k] + more <= self.limit[k]]
        moved = self._load_of(columns)
        if node is not None:
            return columns if self.load[node] + moved <= self.limit[node] else []
        more = _power_at_least(moved) - moved
        fits = all(self.load[j] + more <= self.limit[j] for j in (a, b))
        return columns if fits else []

    def merge(self, side: int, a: int, b: int, sign: int, common: list[int]) -> int:
        """Put a new node in the place of a and b at the nodes `common`; its number."""
        n = len(self.terms[side])
        self.put(side, n, (a, b, sign), common)
        self.steps.append((side, a, b, sign))
        return n

    def put(self, side: int, n: int, step: Step, common: list[int]) -> None:
        """Let the node n stand for two at the nodes `common`: a new one, or one taken back."""
        if n == len(self.terms[side]):
            self.terms[side].append({})
        if self.max_depth is not None:
            self._reserve(side, n, step, common)
        self.put_more(side, n, step, common)

    def put_more(self, side: int, n: int, step: Step, common: list[int]) -> None:
        """Let a node that stands for two elsewhere do so at the nodes `common` too."""
        a, b, _ = step
        mine, theirs = self.terms[side], self.terms[1 - side]
        x, y, new = mine[a], mine[b], mine[n]
        for k in common:
            new[k] = x.pop(k)
            del y[k]
            other = theirs[k]
            del other[a], other[b]
            other[n] = new[k]
        if self.max_depth is not None:
            self._account(side, n, step, common, 1)

    def take_back(self, side: int, n: int, step: Step) -> list[int]:
        """Put two nodes in the place of n, of which nothing else was made; where it stood."""
        common = list(self.terms[side][n])
        self.take_some_back(side, n, step, common)
        if self.max_depth is not None and side == SINKS:
            for j in step[:2]:
                self.load[j] -= self.limit[n]
        return common

    def take_some_back(self, side: int, n: int, step: Step, common: list[int]) -> None:
        """Put two nodes in the place of n at the nodes `common` alone."""
        a, b, sign = step
        mine, theirs = self.terms[side], self.terms[1 - side]
        x, y, new = mine[a], mine[b], mine[n]
        for k in common:
            other = theirs[k]
            s = new.pop(k)
            del other[n]
            x[k] = other[a] = s
            y[k] = other[b] = s * sign
        if self.max_depth is not None:
            self._account(side, n, step, common, -1)

    def forget(self, side: int) -> None:
        """Leave out the last node of a side, which was taken back."""
        self.terms[side].pop()
        if self.max_depth is not None:
            for values in (self.depth,) if side == SOURCES else (self.load, self.limit):
                values.pop()

    def _deeper(self, a: int, b: int) -> int:
        """What the sum of two sources loads a sink with more than the two do."""
        x, y = self.depth[a], self.depth[b]
        return (2 << max(x, y)) - (1 << x) - (1 << y)

    def _reserve(self, side: int, n: int, step: Step, common: list[int]) -> None:
        """Note the depth of a source, or the room that a sink takes in the two that it is in."""
        a, b, _ = step
        if side == SOURCES:
            _set(self.depth, n, 1 + max(self.depth[a], self.depth[b]))
            return
        # A node that comes back has the room that it had: steps within it may come back too.
        new = n == len(self.limit)
        weight = _power_at_least(self._load_of(common)) if new else self.limit[n]
        for j in (a, b):
            self.load[j] += weight
        _set(self.load, n, 0)
        _set(self.limit, n, weight)

    def _account(self, side: int, n: int, step: Step, common: list[int], sign: int) -> None:
        """Note the loads where a node begins (1) or ends (-1) to stand for two."""
        a, b, _ = step
        if side == SOURCES:
            more = sign * self._deeper(a, b)
            for k in common:
                self.load[k] += more
            return
        moved = sign * self._load_of(common)
        for j in (a, b):
            self.load[j] -= moved
        self.load[n] += moved

    def _load_of(self, sources: list[int]) -> int:
        return sum(1 << self.depth[k] for k in sources)

    def share_pairs(self, side: int, least: int, choice: str, random: Random) -> None:
        """Take the pair of `side` with the most places, again and again, down to `least` places.

        Every pair has an entry in a table of counts and, if it counts `least` or more, one in the
        bucket of its count. `choice` among equal counts is `last` (the pair whose count changed
        last), `small` (of the last few the one whose two nodes have the fewest terms, as those
        have the fewest other partners) or `random`. Time and memory are linear in the pairs
        counted: Σ n² / 2 at the start, for the n terms of each node of the other side, and three
        for each remaining term at each place of a step.
        """
        counts = self._pair_counts(side)
        theirs = self.terms[1 - side]
        buckets: list[list[tuple[int, int, int]]] = []

        def put(pair: tuple[int, int, int], count: int) -> None:
            while len(buckets) <= count:
                buckets.append([])
            buckets[count].append(pair)

        for pair, count in counts.items():
            if count >= least:
                put(pair, count)
        top = len(buckets) - 1
        while top >= least:
            bucket = buckets[top]
            if not bucket:
                top -= 1
                continue
            place = self._place(side, bucket, choice, random)
            bucket[place], bucket[-1] = bucket[-1], bucket[place]
            pair = bucket.pop()
            if counts.get(pair, 0) != top:
                continue
            a, b, sign = pair
            common = self.common(side, a, b, sign)
            if len(common) < least:
                continue
            n = self.merge(side, a, b, sign, common)
            if len(common) == top:
                del counts[pair]
            else:
                counts[pair] -= len(common)
            new = self.terms[side][n]
            touched: dict[tuple[int, int, int], None] = {}
            for k in common:
                s = new[k]
                t = s * sign
                rest = theirs[k]
                self.work += 5 * len(rest)
                for p, u in rest.items():
                    if p == n:
                        continue
                    first = (a, p, s * u) if a < p else (p, a, s * u)
                    second = (b, p, t * u) if b < p else (p, b, t * u)
                    third = (p, n, s * u)
                    counts[first] -= 1
                    counts[second] -= 1
                    counts[third] = counts.get(third, 0) + 1
                    touched[first] = touched[second] = touched[third] = None
            for pair in touched:
                count = counts[pair]
                if count >= least:
                    put(pair, count)
                elif not count:
                    del counts[pair]

    def _place(
        self, side: int, bucket: list[tuple[int, int, int]], choice: str, random: Random
    ) -> int:
        """Where in a bucket the pair to take stands."""
        last = len(bucket) - 1
        if choice == "random":
            return random.randrange(last + 1)
        if choice == "small" and last:
            nodes = self.terms[side]
            first = max(0, last - WINDOW + 1)
            sizes = [len(nodes[a]) + len(nodes[b]) for a, b, _ in bucket[first:]]
            return first + sizes.index(min(sizes))
        return last

    def _pair_counts(self, side: int) -> dict[tuple[int, int, int], int]:
        counts: dict[tuple[int, int, int], int] = {}
        for row in self.terms[1 - side]:
            items = sorted(row.items())
            self.work += len(items) ** 2 // 13
            for place, (b, t) in enumerate(items):
                for a, s in items[:place]:
                    pair = (a, b, s * t)
                    counts[pair] = counts.get(pair, 0) + 1
        return counts


def _set(values: list[int], place: int, value: int) -> None:
    """Write a value, at the end of a list or in it."""
    values[place : place + 1] = [value]


def _power_at_least(value: int) -> int:
    """The smallest power of two that is `value` or more, for a positive value."""
    return 1 << (value - 1).bit_length()
