"""A staircase of many steps, about equally far apart, as a division by their distance: exactly.

y is the largest k ≥ 0 with k·divisor ≤ u·2^fraction + offset, for the whole numbers u that an
accumulator holds: thresholds ⌈(k·divisor - offset) / 2^fraction⌉. What a rescaling makes is of this
form, and two numbers a column stand for its hundreds of thresholds. As y has few bits, few bits of
fraction are enough. Not here: the circuit (`activation`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .....ir.arrays import Array

MOST_FRACTION = 24
"""The most bits of fraction that are tried."""

_NEIGHBOURS = (0, 1, -1)
"""Divisors that are tried: that in the middle of those that are possible, and those beside it."""

_ROUNDS = 100
"""Of searches by sections."""

_FAR = 1 << 60


@dataclass(frozen=True)
class Division:
    """y = the largest k in [0, most] with k·divisor ≤ u·2^fraction + offset, or 0.

    Attributes:
        divisors: one a column, above 0.
        offsets: one a column.
        fraction: bits that are added to u below.
        most: the largest result.
    """

    divisors: tuple[int, ...]
    offsets: tuple[int, ...]
    fraction: int
    most: int

    def __call__(self, u: Array, column: int) -> Array:
        """The results of a column."""
        scaled = (u.astype(np.int64) << self.fraction) + self.offsets[column]
        return np.clip(scaled // self.divisors[column], 0, self.most)


@dataclass(frozen=True)
class _Steps:
    """What u + offset has to keep to: at least level·δ at `at`, below limit·δ at `below`."""

    at: Array
    level: Array
    below: Array
    limit: Array

    def gap(self, distance: float) -> float:
        """The least offset less the largest one for a distance of steps; below 0 if one exists.

        A convex function of the distance: the largest of some lines less the least of others.
        """
        least = (self.level * distance - self.at).max(initial=-np.inf)
        most = (self.limit * distance - self.below).min(initial=np.inf)
        return float(least - most)

    def offset(self, divisor: int, fraction: int) -> int | None:
        """The whole number nearest to 0 with which all is kept to."""
        least = int((self.level * divisor - (self.at << fraction)).max(initial=-_FAR))
        most = int((self.limit * divisor - (self.below << fraction)).min(initial=_FAR)) - 1
        return None if least > most else min(max(least, 0), most)


def division(rows: Sequence[Sequence[int]], most: Sequence[int]) -> Division | None:
    """The division with the fewest bits that counts thresholds; `None` where there is none.

    Args:
        rows: rising thresholds of each column; a result is how many of them are reached.
        most: the largest number that each column's accumulator holds; the least one is 0.
    """
    largest = max(len(row) for row in rows)
    every = [_steps(row, top, largest) for row, top in zip(rows, most, strict=True)]
    distances = [_distances(steps, top) for steps, top in zip(every, most, strict=True)]
    known = [ends for ends in distances if ends is not None]
    if len(known) < len(every):
        return None
    for fraction in range(MOST_FRACTION + 1):
        pairs: list[tuple[int, int]] = []
        for steps, ends in zip(every, known, strict=True):
            pair = _fitted(steps, ends, fraction)
            if pair is None:
                break
            pairs.append(pair)
        else:
            divisors, offsets = zip(*pairs, strict=True)
            return Division(tuple(divisors), tuple(offsets), fraction, largest)
    return None


def _steps(row: Sequence[int], top: int, largest: int) -> _Steps:
    """What has to be kept to by a column whose accumulator holds [0, top]."""
    first, last = sum(t <= 0 for t in row), sum(t <= top for t in row)
    at = np.array(row[first:last], np.int64)
    level = np.arange(first + 1, last + 1, dtype=np.int64)
    below, limit = at - 1, level
    if first:
        at, level = np.append(at, 0), np.append(level, first)
    if last < largest:
        below, limit = np.append(below, top), np.append(limit, last + 1)
    return _Steps(at, level, below, limit)


def _distances(steps: _Steps, top: int) -> tuple[float, float] | None:
    """The least and the largest distance of steps with which an offset exists."""
    low, high = 0.0, 2.0 * (top + 1)
    left, right = low, high
    for _ in range(_ROUNDS):
        third = (right - left) / 3
        if steps.gap(left + third) <= steps.gap(right - third):
            right -= third
        else:
            left += third
    best = (left + right) / 2
    if steps.gap(best) >= 0:
        return None
    return _edge(steps, best, low), _edge(steps, best, high)


def _edge(steps: _Steps, inside: float, outside: float) -> float:
    """The last distance from `inside` towards `outside` with which an offset exists."""
    for _ in range(_ROUNDS):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if steps.gap(middle) < 0 else (inside, middle)
    return inside


def _fitted(steps: _Steps, ends: tuple[float, float], fraction: int) -> tuple[int, int] | None:
    """A divisor and an offset with so many bits of fraction."""
    middle = round((ends[0] + ends[1]) / 2 * 2.0**fraction)
    for neighbour in _NEIGHBOURS:
        divisor = max(middle + neighbour, 1)
        offset = steps.offset(divisor, fraction)
        if offset is not None:
            return divisor, offset
    return None
