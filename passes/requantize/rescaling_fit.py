"""A function of integers that never falls, as one multiplication, shift and bounds: exactly.

Nothing here knows the IR but for the numbers of a `tensor.requantize`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...ir.arrays import Array

_PLACES = (0, 1, 2, 4, 6, 8, 9, 10, 11, 12)
"""Bits that integers get below, tried in this order."""

_ROUNDS = 100
"""Of searches by sections."""

_NEAR = 2
"""Integers on either side of a guess that are looked at first."""

_LIMIT = (1 << 31) - 1


@dataclass(frozen=True)
class Fit:
    """y = clamp(⌊(x'·multiplier + 2^(shift-1)) / 2^shift⌋ + zero point, low, high) for
    x' = x·2^places + bias.

    Attributes:
        places: for all channels.
        biases: one a channel.
        multipliers: one a channel, i32.
        shifts: one a channel, 1 to 62.
        zero_point: what is added.
        low: the least result.
        high: the largest one.
    """

    places: int
    biases: tuple[int, ...]
    multipliers: tuple[int, ...]
    shifts: tuple[int, ...]
    zero_point: int
    low: int
    high: int


@dataclass(frozen=True)
class Steps:
    """Where a rising line has to be: at least at `level` at `at`, under `limit` at `below`."""

    at: Array
    level: Array
    below: Array
    limit: Array

    @staticmethod
    def of(
        at: Array, within: tuple[int, int], ends: tuple[int, int], range_: tuple[int, int]
    ) -> Steps:
        """Those of integers in a range that rise from one end to the other at `at`.

        Args:
            at: where each level behind the first one begins.
            within: the least and the largest x.
            ends: the levels there.
            range_: beyond which no level has to be kept apart from the ends.
        """
        level = np.arange(ends[0] + 1, ends[1] + 1, dtype=np.int64)
        below, limit = at - 1, level
        if ends[0] > range_[0]:
            at, level = np.append(at, within[0]), np.append(level, ends[0])
        if ends[1] < range_[1]:
            below, limit = np.append(below, within[1]), np.append(limit, ends[1] + 1)
        return Steps(at, level, below, limit)

    def _gap(self, slope: float) -> float:
        """The least height of a line of that slope less the largest one, below 0 if there is one.

        A convex function of the slope: the largest of some lines less the least of others.
        """
        least = (self.level - slope * self.at).max(initial=-np.inf)
        most = (self.limit - slope * self.below).min(initial=np.inf)
        return float(least - most)

    def slopes(self, most: float) -> tuple[float, float] | None:
        """The least and the largest slope in [0, most] that a line may have."""
        left, right = 0.0, most
        for _ in range(_ROUNDS):
            third = (right - left) / 3
            if self._gap(left + third) <= self._gap(right - third):
                right -= third
            else:
                left += third
        best = (left + right) / 2
        if not self._gap(best) < 0:
            return None
        return self._edge(best, 0.0), self._edge(best, most)

    def _edge(self, inside: float, outside: float) -> float:
        """The last slope from `inside` towards `outside` that a line may have."""
        for _ in range(_ROUNDS):
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if self._gap(middle) < 0 else (inside, middle)
        return inside


def fit_rescaling(function: Callable[[Array], Array], bound: Array, most: int) -> Fit | None:
    """The rescaling that does what a function does for all integers within ±bound.

    Args:
        function: of integers [rows, channels]; each channel never falls or never rises.
        bound: the largest magnitude of each channel's integers, int64 [channels].
        most: the most different results of a channel.
    """
    ends = function(np.stack([-bound, bound]))
    signs = np.where(ends[1] >= ends[0], 1, -1)
    first, last = ends.min(0), ends.max(0)
    low, high = int(first.min()), int(last.max())
    if high - low > most or high == low:
        return None
    steps = thresholds(function, bound, signs, first, last)
    zero = low
    for places in _PLACES:
        if int(bound.max()) << places > _LIMIT:
            break
        fits = [
            _channel(steps[: to - begun, c], int(bound[c]), (begun, to), (0, high - zero), places)
            for c, (begun, to) in enumerate(
                zip((first - zero).tolist(), (last - zero).tolist(), strict=True)
            )
        ]
        known = [item for item in fits if item is not None]
        if len(known) == len(fits):
            return Fit(
                places,
                tuple(int(s) * bias for s, (bias, _, _) in zip(signs, known, strict=True)),
                tuple(int(s) * m for s, (_, m, _) in zip(signs, known, strict=True)),
                tuple(shift for _, _, shift in known),
                zero,
                low,
                high,
            )
    return None


def thresholds(
    function: Callable[[Array], Array], bound: Array, signs: Array, first: Array, last: Array
) -> Array:
    """For each channel the least sign·x that reaches first + 1 … last, by bisection.

    Args:
        function: of integers [rows, channels], int64; each channel never falls or never rises.
        bound: the largest magnitude of each channel's integers.
        signs: 1 where a channel never falls, else -1.
        first, last: the least and the largest result of each channel.

    Returns:
        int64 [levels, channels], as many levels as the channel with the most has; those that a
        channel lacks are void.
    """
    count = int((last - first).max())
    levels = np.minimum(first + np.arange(1, count + 1)[:, None], last)

    def search(wanted: Array, least: Array, above: Array) -> Array:
        while (least < above).any():
            middle = (least + above) >> 1
            reached = function(signs * middle) >= wanted
            above = np.where(reached, middle, above)
            least = np.where(reached, least, np.minimum(middle + 1, above))
        return least

    ends = np.stack([np.minimum(first + 1, last), last])
    begin, end = search(ends, *(np.broadcast_to(b, ends.shape) for b in (-bound, bound)))
    # What rises evenly between its ends is where it is looked for first.
    share = (levels - first - 1) / np.maximum(last - first - 1, 1)
    near = begin + np.rint(share * (end - begin)).astype(np.int64)
    least, above = (np.clip(near + d, -bound, bound) for d in (-_NEAR, _NEAR))
    least = np.where(function(signs * np.maximum(least - 1, -bound)) < levels, least, -bound)
    above = np.where(function(signs * above) >= levels, above, bound)
    return search(levels, least, above)


def _channel(
    at: Array, bound: int, ends: tuple[int, int], range_: tuple[int, int], places: int
) -> tuple[int, int, int] | None:
    """Bias, multiplier and shift of a channel whose results begin at the integers `at`."""
    steps = Steps.of(at, (-bound, bound), ends, range_)
    slopes = steps.slopes(2.0 * (int(np.ptp(steps.level) if len(steps.level) else 0) + 1))
    if slopes is None:
        return None
    reached, missed = (steps.at, steps.level), (steps.below, steps.limit)
    tried = (slopes[0] + slopes[1]) / 2
    for _ in range(3):
        scaled = _multiplier(tried, places)
        if scaled is None:
            return None
        multiplier, shift = scaled
        least, most = _biases(reached, missed, multiplier, shift, places)
        bias = min(max(least, 0), most) if least <= most else (least + most) // 2
        if least <= most:
            fits = abs(bias) + (bound << places) <= _LIMIT
            return (bias, multiplier, shift) if fits else None
        # No whole bias for this slope: the slope in the middle of those for the nearest bias.
        low, high = _slopes_for(reached, missed, bias / 2.0**places)
        if not 0 < low < high:
            return None
        tried = (low + high) / 2
    return None


def _multiplier(slope: float, places: int) -> tuple[int, int] | None:
    """31 bits of multiplier, and its shift with the places below."""
    shift = int(np.clip(30 - np.floor(np.log2(slope)), 1, 62)) - 1
    while shift > 0 and slope * 2.0**shift > _LIMIT - 2:
        shift -= 1
    if not shift >= 1 or shift + places > 62:
        return None
    return max(round(slope * 2.0**shift), 1), shift + places


def _slopes_for(
    reached: tuple[Array, Array], missed: tuple[Array, Array], bias: float
) -> tuple[float, float]:
    """The least and the largest slope with a given bias: (x + bias)·slope + 1/2 and its level."""
    with np.errstate(divide="ignore"):
        low = ((reached[1] - 0.5) / (reached[0] + bias))[reached[0] + bias > 0]
        high = ((missed[1] - 0.5) / (missed[0] + bias))[missed[0] + bias > 0]
    return float(low.max(initial=0.0)), float(high.min(initial=np.inf))


def _biases(
    reached: tuple[Array, Array],
    missed: tuple[Array, Array],
    multiplier: int,
    shift: int,
    places: int,
) -> tuple[int, int]:
    """The least and the largest bias with which integers reach their levels, and others miss."""
    half = 1 << (shift - 1)
    least = max(
        (
            -((half - (y << shift)) // multiplier) - (x << places)
            for x, y in zip(*(a.tolist() for a in reached), strict=True)
        ),
        default=-_LIMIT,
    )
    most = min(
        (
            ((y << shift) - half - 1) // multiplier - (x << places)
            for x, y in zip(*(a.tolist() for a in missed), strict=True)
        ),
        default=_LIMIT,
    )
    return least, most
