"""Repairs of a factoring: a few steps are taken back where they stand, and better ones looked for.

A step is taken back by putting its two nodes in the place of the one that stood for both; what was
made of that one goes first. Greedy steps follow, of the pairs alone that the entries from there are
in. Where that costs more in the end, all of it is taken back. So a repair takes the time of what it
touches, however large the matrix is.

A pair that a step has been taken for is worth one adder more, and in one place already: its node
stands there too. Not here: the factoring before (`search`), and the adders that
it becomes (`emission`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush, heapreplace
from random import Random

import numpy as np

from .factoring import SINKS, SOURCES, Factoring

MOST = 12
"""Steps that are taken back at once, at most."""

CHANCE = 2.0
"""How many places more another pair may seem to have than it has: so that a repair is not what
was there before."""

FIRST = 9.0
"""The same for all pairs of one side, drawn for each repair, which so go first."""

Pair = tuple[int, int, int, int]
"""(side, a, b, sign), a before b."""


class Repairs:
    """A factoring that is repaired in place.

    Attributes:
        work: what was done, in units of about a microsecond.
    """

    def __init__(self, factoring: Factoring, random: Random, bits: int | None = None) -> None:
        """A factoring, which changes.

        Args:
            factoring: what is repaired.
            random: draws what is tried.
            bits: of an input, where bits of adders are to be few; else adders are.
        """
        self.factoring, self.random, self.bits = factoring, random, bits
        self.terms = factoring.terms
        self.work = 0
        self.made = factoring.made()
        self.users = tuple([set[int]() for _ in side] for side in self.terms)
        """For each node those that were made of it."""
        self.known: dict[Pair, int] = {}
        """The node that stands for a pair."""
        self.nodes = [(side, n) for side in (SOURCES, SINKS) for n in self.made[side]]
        """Those that may be taken back, and some that are gone."""
        for side in (SOURCES, SINKS):
            for n, (a, b, sign) in self.made[side].items():
                self.users[side][a].add(n)
                self.users[side][b].add(n)
                self.known.setdefault((side, a, b, sign), n)
        self.sizes: tuple[list[int], list[int]] = [1] * factoring.inputs, []
        """The inputs in each sum."""
        for a, b, _ in self.made[SOURCES].values():
            self.sizes[SOURCES].append(self.sizes[SOURCES][a] + self.sizes[SOURCES][b])
        self.sizes[SINKS].extend([0] * len(self.terms[SINKS]))
        for n in reversed(range(len(self.terms[SINKS]))):
            self.sizes[SINKS][n] = sum(self._parts(n))
        self.prices = [self._price(sink) for sink in range(len(self.terms[SINKS]))]
        """Of the adders of each sink."""
        self.touched: set[int] = set()
        """Sinks whose price a repair changes."""
        self.favours = (0.0, 0.0)

    def repair(self) -> bool:
        """Try one; whether it stays."""
        self.favours = (FIRST, 0.0) if self.random.random() < 0.5 else (0.0, FIRST)
        self.touched.clear()
        undone: list[tuple[Pair, int, list[int]]] = []
        fresh: set[tuple[int, int]] = set()
        change = 0
        for side, n in self._chosen():
            pair, common = self._undo(side, n)
            undone.append((pair, n, common))
            change -= self._price_of_step(side, n, len(common))
            for own in pair[1:3]:
                fresh.update((own, k) if side == SOURCES else (k, own) for k in common)
        done: list[tuple[Pair, int, list[int] | None]] = []
        """Steps, and the places that were added to a node that there was."""
        for pair, n, common in self._greedy(fresh):
            if n is None:
                n = self._do(pair, common, len(self.terms[pair[0]]))
                done.append((pair, n, None))
                change += self._price_of_step(pair[0], n, len(common))
            else:
                self._do_more(pair, common, n)
                done.append((pair, n, common))
                change -= len(common) if self.bits is None else 0
        prices = {sink: self._price(sink) for sink in self.touched}
        change += sum(prices.values())
        change -= sum(self.prices[sink] for sink in self.touched if sink < len(self.prices))
        if change <= 0:
            self.prices += [0] * (len(self.terms[SINKS]) - len(self.prices))
            for sink, price in prices.items():
                self.prices[sink] = price
            self.nodes += [(pair[0], n) for pair, n, places in done if places is None]
            return True
        for pair, n, places in reversed(done):
            side = pair[0]
            if places is not None:
                self._undo_some(pair, places, n)
                continue
            self._undo(side, n)
            self.factoring.forget(side)
            self.users[side].pop()
            self.sizes[side].pop()
        for pair, n, common in reversed(undone):
            self._do(pair, common, n)
        return False

    def result(self) -> Factoring:
        """The factoring as it is now, without the nodes that are gone."""
        given = self.factoring
        result = Factoring(np.zeros((given.inputs, given.outputs), np.int8))
        numbers: list[dict[int, int]] = []
        for side, end in ((SOURCES, given.inputs), (SINKS, given.outputs)):
            kept = [*range(end), *sorted(self.made[side])]
            numbers.append({n: number for number, n in enumerate(kept)})
            for n in kept[end:]:
                a, b, sign = self.made[side][n]
                result.steps.append((side, numbers[side][a], numbers[side][b], sign))
        for side in (SOURCES, SINKS):
            others = numbers[1 - side]
            rows = (self.terms[side][n] for n in numbers[side])
            result.terms[side][:] = [{others[k]: s for k, s in row.items()} for row in rows]
        return result

    def _price_of_step(self, side: int, n: int, places: int) -> int:
        """What a step costs, but for the adders of sinks that are priced by their bits."""
        if self.bits is None:
            return 1 - places
        return self._width(self.sizes[side][n]) if side == SOURCES else 0

    def _price(self, sink: int) -> int:
        """The bits of a sink's adders: a tree, the narrowest first; 0 where bits do not count."""
        if self.bits is None:
            return 0
        parts = self._parts(sink)
        self.work += 2 * len(parts)
        heapify(parts)
        price = 0
        while len(parts) > 1:
            size = heappop(parts) + parts[0]
            heapreplace(parts, size)
            price += self._width(size)
        return price

    def _parts(self, sink: int) -> list[int]:
        """The inputs in each of the sums that a sink adds up."""
        sources, sinks = self.sizes
        shared = [sinks[n] for n in self.users[SINKS][sink]]
        return [sources[n] for n in self.terms[SINKS][sink]] + shared

    def _width(self, size: int) -> int:
        """The bits of a sum of so many inputs."""
        return (self.bits or 0) + (size - 1).bit_length()

    def _chosen(self) -> list[tuple[int, int]]:
        """Steps to take back, each after those that were made of it; near each other."""
        random, made = self.random, self.made
        wanted = random.randint(2, MOST // 2)
        side, first = self._any()
        places = self.terms[side][first]
        near = [(side, n) for k in places for n in self.terms[1 - side][k] if n in made[side]]
        near += [(1 - side, k) for k in places if k in made[1 - side]]
        random.shuffle(near)
        near = [(side, first), *near[: wanted - 1]]
        near += [self._any() for _ in range(wanted - len(near))]
        found: dict[tuple[int, int], None] = {}
        for place in near:
            group = self._with_users(*place)
            if len(found) + len(group) <= MOST:
                found |= dict.fromkeys(group)
        return sorted(found, key=lambda node: (-node[1], node[0]))

    def _any(self) -> tuple[int, int]:
        """A step drawn by chance."""
        nodes = self.nodes
        while True:
            place = self.random.randrange(len(nodes))
            side, n = nodes[place]
            if n in self.made[side]:
                return side, n
            nodes[place] = nodes[-1]
            nodes.pop()

    def _with_users(self, side: int, n: int) -> list[tuple[int, int]]:
        """A node and all that was made of it, or more than are taken back at once."""
        found, waiting = {n}, [n]
        while waiting and len(found) <= MOST:
            new = self.users[side][waiting.pop()] - found
            found |= new
            waiting += new
        return [(side, m) for m in found]

    def _undo(self, side: int, n: int) -> tuple[Pair, list[int]]:
        """Take a step back: the step, and where its node stood."""
        a, b, sign = step = self.made[side].pop(n)
        self.users[side][a].discard(n)
        self.users[side][b].discard(n)
        pair = side, a, b, sign
        if self.known.get(pair) == n:
            del self.known[pair]
        common = self.factoring.take_back(side, n, step)
        self._note(pair, common, n)
        return pair, common

    def _do(self, pair: Pair, common: list[int], n: int) -> int:
        """Take a step: its node is a new one, or one that stood there before."""
        side, a, b, sign = pair
        if n == len(self.users[side]):
            self.users[side].append(set())
            sizes = self.sizes[SOURCES]
            self.sizes[side].append(
                sizes[a] + sizes[b] if side == SOURCES else sum(sizes[k] for k in common)
            )
        self.factoring.put(side, n, (a, b, sign), common)
        self.made[side][n] = a, b, sign
        self.users[side][a].add(n)
        self.users[side][b].add(n)
        self.known[pair] = n
        self._note(pair, common, n)
        return n

    def _do_more(self, pair: Pair, common: list[int], n: int) -> None:
        """Let a node that stands for a pair do so at more places."""
        side = pair[0]
        self.factoring.put_more(side, n, pair[1:], common)
        if side == SINKS:
            self.sizes[SINKS][n] += sum(self.sizes[SOURCES][k] for k in common)
        self._note(pair, common, n)

    def _undo_some(self, pair: Pair, common: list[int], n: int) -> None:
        """Take that back."""
        side = pair[0]
        self.factoring.take_some_back(side, n, pair[1:], common)
        if side == SINKS:
            self.sizes[SINKS][n] -= sum(self.sizes[SOURCES][k] for k in common)
        self._note(pair, common, n)

    def _note(self, pair: Pair, common: list[int], n: int) -> None:
        """Count the work of a step, and note the sinks whose price it changes."""
        self.work += 2 + len(common)
        self.touched.update(common if pair[0] == SOURCES else (pair[1], pair[2], n))

    def _greedy(
        self, fresh: Iterable[tuple[int, int]]
    ) -> Iterator[tuple[Pair, int | None, list[int]]]:
        """Steps, those with the most places first, for the pairs that entries are in.

        Each is to be taken before the next one is asked for: by a node that there is, or a new one.

        Args:
            fresh: entries, as (source, sink).
        """
        heap: list[tuple[float, Pair]] = []
        counts: dict[Pair, int] = {}
        self._offer(fresh, heap, counts)
        while heap:
            _, pair = heappop(heap)
            known, common = self._places(pair)
            self.work += 1
            saved = len(common) - (known is None)
            if saved < 1:
                continue
            if len(common) < counts[pair]:
                counts[pair] = len(common)
                heappush(heap, (self._rank(pair, saved), pair))
                continue
            side = pair[0]
            n = len(self.terms[side]) if known is None else known
            yield pair, known, common
            self._offer(((n, k) if side == SOURCES else (k, n) for k in common), heap, counts)

    def _places(self, pair: Pair) -> tuple[int | None, list[int]]:
        """The node that stands for a pair, if it may do so at more places, and where one may."""
        known = self.known.get(pair)
        common = self.factoring.common(*pair, known)
        if known is None or common:
            return known, common
        return None, self.factoring.common(*pair)

    def _offer(
        self,
        entries: Iterable[tuple[int, int]],
        heap: list[tuple[float, Pair]],
        counts: dict[Pair, int],
    ) -> None:
        """Note the pairs that entries are in."""
        sources, sinks = self.terms
        known = self.known
        for i, j in entries:
            row, column = sources[i], sinks[j]
            if j not in row:
                continue
            for side, own, k, mine, others in (
                (SOURCES, i, j, row, column),
                (SINKS, j, i, column, row),
            ):
                sign = mine[k]
                if 2 * len(mine) < len(others):
                    partners = self._partners(side, own, k)
                else:
                    partners = others.items()
                    self.work += len(others)
                for p, s in partners:
                    relation = s * sign
                    pair = (side, own, p, relation) if own < p else (side, p, own, relation)
                    if p == own or pair in counts:
                        continue
                    count = counts[pair] = self._count(pair)
                    saved = count if pair in known else count - 1
                    if saved > 0:
                        heappush(heap, (self._rank(pair, saved), pair))

    def _partners(self, side: int, own: int, k: int) -> Iterator[tuple[int, int]]:
        """Nodes at k that a node of few places meets elsewhere too, or has a node with; signs."""
        mine, theirs = self.terms[side][own], self.terms[1 - side]
        others, sign = theirs[k], mine[k]
        for other, s in mine.items():
            if other == k:
                continue
            there, turn = theirs[other], s * sign
            both = others.keys() & there.keys()
            self.work += 1 + (min(len(others), len(there)) + 4 * len(both)) // 16
            for p in both:
                t = others[p]
                if there[p] == t * turn:
                    yield p, t
        for n in self.users[side][own]:
            a, b, _ = self.made[side][n]
            p = b if a == own else a
            if p in others:
                yield p, others[p]

    def _count(self, pair: Pair) -> int:
        """The places of a pair, of which there is one."""
        if self.factoring.max_depth is not None:
            return len(self._places(pair)[1])
        side, a, b, relation = pair
        nodes = self.terms[side]
        few, many = nodes[a], nodes[b]
        # As `common` does: a search spends most of its time here.
        if len(many) < len(few):
            few, many = many, few
        if len(few) == 1:
            return 1
        count = 0
        for k, t in few.items():
            if k in many and many[k] == t * relation:
                count += 1
        return count

    def _rank(self, pair: Pair, saved: int) -> float:
        return -saved - CHANCE * self.random.random() - self.favours[pair[0]]
