"""A staircase of many steps, about equally far apart, as a division by their distance: exactly.

y is the largest k ≥ 0 with k·divisor ≤ u·2^fraction + offset, for the whole numbers u that an
accumulator holds: thresholds ⌈(k·divisor - offset) / 2^fraction⌉. What a rescaling makes is of this
form, and two numbers a column stand for its hundreds of thresholds. As y has few bits, few bits of
fraction are enough. Not here: circuits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np

from ...ir.arrays import Array
from .rescaling_fit import Steps

MOST_FRACTION = 24
"""The most bits of fraction that are tried."""

_NEIGHBOURS = (0, 1, -1)
"""Divisors that are tried: that in the middle of those that are possible, and those beside it."""

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


def division(rows: Sequence[Sequence[int]], most: Sequence[int]) -> Division | None:
    """The division with the fewest bits that counts thresholds; `None` where there is none.

    Args:
        rows: rising thresholds of each column; a result is how many of them are reached.
        most: the largest number that each column's accumulator holds; the least one is 0.
    """
    largest = max(len(row) for row in rows)
    columns = [_fitted(row, top, largest) for row, top in zip(rows, most, strict=True)]
    known = [fitted for fitted in columns if fitted is not None]
    if len(known) < len(columns):
        return None
    for fraction in range(MOST_FRACTION + 1):
        pairs = [*takewhile(lambda pair: pair is not None, (f(fraction) for f in known))]
        if len(pairs) == len(known):
            divisors, offsets = zip(*filter(None, pairs), strict=True)
            return Division(tuple(divisors), tuple(offsets), fraction, largest)
    return None


def _fitted(
    row: Sequence[int], top: int, largest: int
) -> Callable[[int], tuple[int, int] | None] | None:
    """For a column whose accumulator holds [0, top]: the divisor and the offset with so many bits
    of fraction; `None` where there is none with any."""
    first, last = sum(t <= 0 for t in row), sum(t <= top for t in row)
    begins = np.array(row[first:last], np.int64)
    steps = Steps.of(begins, (0, top), (first, last), (0, largest))
    # A line over the results, of which the distance of steps is the slope.
    distances = Steps(-steps.level, -steps.at, -steps.limit, -steps.below).slopes(2.0 * (top + 1))
    if distances is None:
        return None
    distance = sum(distances) / 2

    def fitted(fraction: int) -> tuple[int, int] | None:
        for neighbour in _NEIGHBOURS:
            divisor = max(round(distance * 2.0**fraction) + neighbour, 1)
            least = (steps.level * divisor - (steps.at << fraction)).max(initial=-_FAR)
            most = (steps.limit * divisor - (steps.below << fraction)).min(initial=_FAR) - 1
            if least <= most:
                return divisor, int(min(max(least, 0), most))
        return None

    return fitted
