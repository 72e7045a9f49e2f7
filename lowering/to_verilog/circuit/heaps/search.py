"""Ways to sum heaps of weighted bits by rows, tried many at once with counts of bits alone.

What a row takes and gives depends on how many bits each weight has, and on which of them are
inverted: thousands of tries are arrays that go row by row together, each with rows drawn by chance.
The best ones become rows afterwards (`summing`). Not here: which heaps there are (`plan`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .....dialects.fabric import INPUTS

_Array = NDArray[Any]

WAYS = ((2, 1.0), (2, 1.5), (1, 1.5), (2, 1.3), (1, 1.0), (2, 1.7), (2, 1.0))
"""Ways that tries take in turn: the atoms (1: where the next weight has too few bits for a `T`;
2: at the start of a row in any case), and the bits that a row saves for each site, as long as there
is such a row."""

_TOGETHER = 8192
"""Tries in one set of arrays, which fit in a cache."""

_MOST_LEVELS = 30

MANY = 7
"""Bits of a weight that stand for more of them: a position takes seven at most."""


class NoSumError(Exception):
    """A heap that no try sums, or with sums that may leave 64 bits."""


@dataclass(frozen=True)
class Problem:
    """A heap to sum.

    Attributes:
        inverted, plain: for each level, from 0 on, and each weight the bits that are there behind
            it, [L, W].
        constant: added to the bits; modulo 2^width.
        width: the bits of the result.
    """

    inverted: _Array
    plain: _Array
    constant: int
    width: int


@dataclass(frozen=True)
class Way:
    """Rows that sum a heap.

    Attributes:
        start: the level behind which they begin.
        end: the level at which one row makes a number of all bits, or they are one.
        level: of the last row.
        sites: look-up tables of all rows.
        waiting: bits that rows give and that wait from one level to the next, all levels together.
        atoms: see `WAYS`.
    """

    start: int
    end: int
    level: int
    sites: int
    waiting: int
    atoms: int
    _tries: _Tries
    _number: int

    @property
    def rows(self) -> list[tuple[int, int, int]]:
        """Of each row but the last one, at `end`, the level, the first weight, and
        the positions."""
        numbers, rows = self._tries.rows
        first, end = np.searchsorted(numbers, (self._number, self._number + 1))
        return [(level, start, end) for level, start, end in rows[first:end].tolist()]


def ways(problems: Sequence[Problem], tries: int, seed: int) -> list[list[Way]]:
    """For each heap the ways of so many tries that came to an end."""
    found: list[list[Way]] = []
    together = max(1, _TOGETHER // tries)
    for first in range(0, len(problems), together):
        batch = problems[first : first + together]
        found += _Tries(batch, tries, np.random.default_rng((seed, first))).run()
    return found


class _Tries:
    """All tries of some heaps; those that are at an end leave the arrays.

    Attributes:
        lane: of each try that goes on its number: `tries` for each heap.
        inverted, plain, made: bits of each weight that are there: inverted ones, others, and those
            that a row of this try gave, which come before the others. [N, W]
        given: by rows of this level.
        constant: bits of the constant that are still to be added.
    """

    def __init__(
        self, problems: Sequence[Problem], tries: int, chance: np.random.Generator
    ) -> None:
        self.chance, self.count, self.tries = chance, len(problems) * tries, tries
        self.levels = max(len(problem.plain) for problem in problems)
        self.weights = weights = max(problem.width for problem in problems)
        self.columns = np.arange(weights, dtype=np.int32)
        arriving = np.zeros((2, len(problems), self.levels + 1, weights), np.int32)
        constants = np.zeros((len(problems), weights), np.int32)
        for place, problem in enumerate(problems):
            width = problem.width
            for kind, bits in enumerate((problem.inverted, problem.plain)):
                arriving[kind, place, : len(bits), :width] = bits[:, :width]
            constants[place, :width] = [problem.constant >> weight & 1 for weight in range(width)]
        latest = [len(problem.plain) - 1 for problem in problems]
        number = np.arange(self.count) % tries
        self.atoms = np.array([atoms for atoms, _ in WAYS], np.int32)[number % len(WAYS)]
        self.least = np.array([least for _, least in WAYS], np.float32)[number % len(WAYS)]
        self.lane = np.arange(self.count)
        self.width = np.repeat([p.width for p in problems], tries).astype(np.int32)
        end = np.repeat(latest, tries)
        start = np.where(number % 2, chance.integers(0, end + 1), end)
        self.start = self.level = start.astype(np.int32)
        self.arriving = arriving
        self.arrived = arriving.cumsum(axis=2)
        problem = self.lane // tries
        self.inverted, self.plain = self.arrived[:, problem, start]
        self.left = self.arrived[:, problem, -1].sum(axis=0) - self.inverted - self.plain
        self.made, self.given = np.zeros_like(self.plain), np.zeros_like(self.plain)
        self.constant = constants[problem]
        self.sites = np.zeros(self.count, np.int32)
        self.waiting = np.zeros(self.count, np.int32)
        self.ended = np.full((self.count, 6), -1, np.int64)
        self._rows: list[tuple[_Array, _Array]] = []

    def run(self) -> list[list[Way]]:
        """The ways of each heap."""
        self.level = self.level + 1
        self._finish(np.ones(len(self.lane), np.bool_))
        while len(self.lane):
            self._step()
        found: list[list[Way]] = [[] for _ in range(self.count // self.tries)]
        for number, (start, end, level, sites, waiting, atoms) in enumerate(self.ended.tolist()):
            if start >= 0:
                way = Way(start, end, level, sites, waiting, atoms, self, number)
                found[number // self.tries].append(way)
        return found

    @cached_property
    def rows(self) -> tuple[_Array, _Array]:
        """Of all rows, try by try, the number of the try; the level, the first weight, and the
        positions."""
        if not self._rows:
            return np.zeros(0, np.int64), np.zeros((0, 3), np.int32)
        numbers, rows = map(np.concatenate, zip(*self._rows, strict=True))
        order = np.argsort(numbers, kind="stable")
        return numbers[order], rows[order]

    _FIELDS = ("atoms", "least", "lane", "width", "level", "inverted", "plain", "left", "made",
               "given", "constant", "sites", "waiting", "start")  # fmt: skip

    def _step(self) -> None:
        """A row of each try, or its next level."""
        total = self.inverted + self.plain + self.made
        rest = self.given + self.left
        small = np.flatnonzero(total.max(axis=1) <= INPUTS)
        done = np.zeros(len(self.lane), np.bool_)
        if len(small):
            plain = (self.plain + self.made + self.given)[small]
            late = self._late_plain(small)
            done[small] = self._fit(small, (total + rest)[small], plain + late)
        going = np.flatnonzero(~done)
        if len(going):
            found, start, end = self._best(going, total[going], rest[going].any(axis=1))
            done[going[~found]] = True
            self._apply(going[found], start[found], end[found])
        if done.any():
            self._rise(done)

    def _late_plain(self, lanes: _Array) -> _Array:
        """The bits of later levels that are not inverted."""
        problem = self.lane[lanes] // self.tries
        behind = np.minimum(self.level[lanes] - 1, self.levels)
        return self.arrived[1, problem, -1] - self.arrived[1, problem, behind]

    def _rise(self, done: _Array) -> None:
        """The next level of some tries."""
        self.made[done] += self.given[done]
        self.given[done] = 0
        self.waiting[done] += self.made[done].sum(axis=1)
        problem, behind = self.lane[done] // self.tries, np.minimum(self.level[done], self.levels)
        inverted, plain = self.arriving[:, problem, behind]
        self.inverted[done] += inverted
        self.plain[done] += plain
        self.left[done] -= inverted + plain
        self.level[done] += 1
        self._finish(done)

    def _finish(self, done: _Array) -> None:
        """Take out, of tries that begin a level, those that one row ends, or nothing does."""
        at = np.flatnonzero(done)
        total = (self.inverted + self.plain + self.made)[at]
        ends = ~self.left[at].any(axis=1) & self._fit(at, total, (self.plain + self.made)[at])
        out, total = at[ends], total[ends]
        low = self._lowest(out, total)
        has_row = low < self.width[out]
        sites = self._last_sites(out, total, low)
        kept = np.where(self.columns < low[:, None], self.made[out], 0).sum(axis=1)
        waiting = self.waiting[out] + np.where(has_row, kept + self.width[out] - low, 0)
        end, sites = self.level[out], self.sites[out] + sites
        about = self.start[out], end, end - ~has_row, sites, waiting, self.atoms[out]
        self.ended[self.lane[out]] = np.stack(about, axis=1)
        gone = np.zeros(len(self.lane), np.bool_)
        gone[out] = True
        gone |= self.level >= self.start + _MOST_LEVELS
        if gone.any():
            for name in self._FIELDS:
                setattr(self, name, getattr(self, name)[~gone])

    def _lowest(self, lanes: _Array, total: _Array) -> _Array:
        """The first weight whose bit of the result is not there already."""
        width = self.width[lanes]
        several = total + self.constant[lanes] > 1
        return np.where(several.any(axis=1), several.argmax(axis=1), width).astype(np.int32)

    def _fit(self, lanes: _Array, total: _Array, plain: _Array) -> _Array:
        """Whether one row makes all bits together a number."""
        constant, last = self.constant[lanes], self.width[lanes] - 1
        low = self._lowest(lanes, total)
        columns, at = self.columns, np.arange(len(lanes))
        is_low, is_last = columns == low[:, None], columns == last[:, None]
        most = np.where(is_last, 5 + is_low, np.where(is_low, 4, 3 - constant))
        fits = ((total <= most) | (columns < low[:, None])).all(axis=1)
        first = np.minimum(low, last)
        # The fourth bit of the first position passes the table by, and cannot be inverted.
        return fits & ((low >= last) | (total[at, first] < 4) | (plain[at, first] > 0))

    def _last_sites(self, lanes: _Array, total: _Array, low: _Array) -> _Array:
        """Of the row that makes the bits a number."""
        width, sites = self.width[lanes], np.zeros(len(lanes), np.int32)
        linked = np.zeros(len(lanes), np.bool_)
        for weight in range(self.weights):
            inside = (weight >= low) & (weight < width)
            bits = total[:, weight] + self.constant[lanes, weight] * (weight != low)
            needless = (weight == width - 1) & (bits == 0) & ~linked & (sites > 0)
            sites += inside & ~needless
            linked = inside & (bits + linked > 2)
        return sites

    def _best(self, lanes: _Array, total: _Array, relaxed: _Array) -> tuple[_Array, _Array, _Array]:
        """The row of each try that saves most bits a site; a poor one only where nothing else
        happens. Half of the rows that could be longer are left out by chance.

        Args:
            lanes: the tries.
            total: bits of each weight.
            relaxed: whether something else happens.

        Returns:
            Whether there is a row, its first weight, and its positions.
        """
        count, weights = len(total), self.weights
        heights = np.zeros((count, weights + 3), np.int32)
        np.minimum(total, MANY, out=heights[:, :weights])
        heights[:, :weights] *= self.columns < (self.width[lanes] - 1)[:, None]
        room = np.zeros_like(heights, np.bool_)
        room[:, :weights] = self.columns < (self.width[lanes] - 2)[:, None]
        flat: _Array = heights.ravel()
        room, row = room.ravel(), weights + 3
        lane, first = np.nonzero(heights >= 3)
        place: _Array = lane * row + first
        where: _Array = lane * weights + first
        atoms: _Array = self.atoms[lanes[lane]]
        least: _Array = self.least[lanes[lane]]
        far: _Array = relaxed[lane]
        below: _Array = first.astype(np.float32) * np.float32(0.02)
        taken: _Array = np.zeros(len(lane), np.int32)
        sites: _Array = np.zeros(len(lane), np.int32)
        high: _Array = np.zeros(len(lane), np.int32)
        linked: _Array = np.zeros(len(lane), np.bool_)
        score: _Array = np.full(count * weights, -np.inf, np.float32)
        end: _Array = np.zeros(count * weights, np.int32)
        position = 0
        while place.size:
            bits: _Array = flat[place]
            above: _Array = flat[place + 1]
            is_first = position == 0
            may, atom = _kind(bits, above, room[place], atoms, linked, is_first)
            taken += np.where(atom, 6 - linked + is_first, np.where(linked | (bits == 3), 3, 4))
            sites += 1 + atom
            high = np.maximum(high, np.where(atom, np.maximum(bits, above), bits))
            saved = taken - sites - 1 - (~atom & (taken > 3))
            beyond: _Array = place + 1 + atom
            linked = ~atom
            last: _Array = flat[beyond] < 3
            draw = self.chance.random(len(bits), np.float32)
            offered = (saved > 0) & (last | ((draw >= 0.5) & ~(may & ~atom)))
            good = saved >= least * sites
            offered &= good | ~far
            worth = saved / sites - below + np.where(last, draw, 2 * draw - 1) * np.float32(0.1)
            # Poor rows come behind all others, and of them those of no more than three bits.
            worth += np.where(good, 100, np.where(high > 3, 10, 0))
            better = np.flatnonzero(offered & (worth > score[where]))
            score[where[better]] = worth[better]
            position += 1
            end[where[better]] = position
            rest: list[_Array] = [beyond, where, atoms, least, far, below]
            rest += [taken, sites, high, linked]
            place, where, atoms, least, far, below, taken, sites, high, linked = (
                each[~last] for each in rest
            )
        start = score.reshape(count, weights).argmax(axis=1).astype(np.int32)
        best: _Array = np.arange(count) * weights + start
        return score[best] > -np.inf, start, end[best]

    def _apply(self, lanes: _Array, start: _Array, end: _Array) -> None:
        """Take the bits of a row of each of these tries, and give what comes out."""
        weight, top = start.copy(), self.width[lanes] - 1
        sites, linked, extra, cut, first = (
            np.zeros(len(lanes), d) for d in (np.int32, *[np.bool_] * 4)
        )
        for position in range(int(end.max(initial=0))):
            on = np.flatnonzero((position < end) & ~cut)
            lane, at, link = lanes[on], weight[on], linked[on]
            inverted, plain, made = (x[lane, at] for x in (self.inverted, self.plain, self.made))
            bits, free = inverted + plain + made, plain + made
            room = at + 1 < top[on]
            above = np.where(room, self._bits(lane, np.minimum(at + 1, self.weights - 1)), 0)
            _, atom = _kind(
                np.minimum(bits, MANY), above, room, self.atoms[lane], link, position == 0
            )
            # The sixth bit cannot be inverted.
            stops = atom & ~link & (free == 0)
            whole = atom & ~stops
            passing = ~link & np.where(whole, True, ~atom & (bits > 3) & (free > 0))
            if position == 0:
                extra, first = passing & ~atom, atom
            apart = passing.astype(np.int32)
            if position == 0:
                apart += whole & (bits > 6) & (free > 1)
            taken = np.where(whole, 5, 3)
            # Those that are taken apart are the last ones, the others the first.
            last = np.minimum(plain, apart)
            plain, made = plain - last, made - (apart - last)
            one = np.minimum(inverted, taken)
            two = np.minimum(made, taken - one)
            self.inverted[lane, at] = inverted - one
            self.made[lane, at] = made - two
            self.plain[lane, at] = plain - (taken - one - two)
            sites[on] += 1 + whole
            linked[on], cut[on] = ~whole, stops
            weight[on] += 1 + atom
        # Three bits alone carry nothing.
        alone = (sites == 1) & ~extra
        self.constant[lanes, start] &= first | alone
        above = self.columns - start[:, None]
        self.given[lanes] += (above >= 0) & (above < sites[:, None])
        self.given[lanes, start + sites] += linked.astype(np.int32) + ~alone
        self.sites[lanes] += sites
        self._rows.append((self.lane[lanes], np.stack([self.level[lanes], start, end], axis=1)))

    def _bits(self, lanes: _Array, weights: _Array) -> _Array:
        kinds = self.inverted, self.plain, self.made
        return sum((bits[lanes, weights] for bits in kinds), np.zeros(len(lanes), np.int32))


def _kind(
    bits: _Array, above: _Array, room: _Array, atoms: _Array, linked: _Array, first: bool
) -> tuple[_Array, _Array]:
    """Whether the next position may be an `A`, and whether it is one; else it is a `T`."""
    may = room & (bits > 4) & (bits + linked >= 6 + first)
    return may, may & ((above < 3) | ((atoms > 1) & first))
