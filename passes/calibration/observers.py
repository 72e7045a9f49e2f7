"""What calibration keeps of an activation, and how a range follows from it.

A `Histogram` takes in values batch by batch, in memory that does not grow. Its bins are a power of
two wide and aligned to 0; when larger values come, pairs of bins are merged. So the result does not
depend on how samples were cut into batches, nor on their order.

The observers: `minmax` (the extremes), `percentile` (without outliers), `mse` (least squared error
on a grid), `entropy` (least information lost on a grid; Migacz, "8-bit inference with TensorRT",
GTC 2017). Not here: running a program (`calibration`).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ...ir.arrays import Array
from .grids import Grid
from .ranges import Range

Floats = NDArray[np.float64]

OBSERVERS = ("minmax", "percentile", "entropy", "mse")

BINS = 4096
"""Bins on each side of 0; at least half of those of the side that reaches further are in use."""

SHARES = 100
"""How many shares of the extremes the observer `mse` tries."""

LEAST_SHARE = 16
"""`entropy` keeps at least one part in so many of the extremes, as TensorRT's 128 of 2048 bins."""

CANDIDATES = 512
"""How many thresholds the observer `entropy` tries, at most."""


class Histogram:
    """How often the values of an activation fall in each of 2·BINS bins.

    Attributes:
        low: the smallest value seen; infinite before the first.
        high: the largest.
        counts: [2·BINS]; the bin of x is BINS + ⌊x / width⌋.
        exponent: of the bins' width, 2^exponent; `None` while only zeros were seen.
        finite: whether no value was infinite or NaN; such values are not counted.
    """

    def __init__(self) -> None:
        self.low = math.inf
        self.high = -math.inf
        self.counts = np.zeros(2 * BINS, np.int64)
        self.exponent: int | None = None
        self.finite = True

    @property
    def width(self) -> float:
        """Of a bin."""
        return 0.0 if self.exponent is None else math.ldexp(1.0, self.exponent)

    def add(self, values: Array) -> None:
        """Take in values, of any shape."""
        flat = values.reshape(-1).astype(np.float64)
        held = np.isfinite(flat)
        if not held.all():
            self.finite, flat = False, flat[held]
        if not flat.size:
            return
        low, high = float(flat.min()), float(flat.max())
        self.low, self.high = min(self.low, low), max(self.high, high)
        self._fit(max(abs(low), abs(high)))
        scaled = flat if self.exponent is None else np.floor(np.ldexp(flat, -self.exponent))
        places = scaled.astype(np.int64) + BINS
        self.counts += np.bincount(places, minlength=2 * BINS)

    def _fit(self, size: float) -> None:
        """Widen the bins until `size` and -`size` fall in one."""
        if size == 0:
            return
        needed = math.frexp(size)[1] - BINS.bit_length() + 1
        if self.exponent is None:
            self.exponent = needed
        while self.exponent < needed:
            half = self.counts.reshape(2, BINS // 2, 2).sum(axis=2)
            self.counts[:] = 0
            self.counts[BINS // 2 : BINS] = half[0]
            self.counts[BINS : BINS + BINS // 2] = half[1]
            self.exponent += 1

    def bins(self) -> tuple[Floats, NDArray[np.int64]]:
        """The edges of the bins from the first to the last in use, and their counts.

        The outermost edges are the extremes.
        """
        used = np.flatnonzero(self.counts)
        first, last = int(used[0]), int(used[-1])
        edges = np.arange(first - BINS, last - BINS + 2, dtype=np.float64)
        edges *= self.width
        edges[0], edges[-1] = self.low, self.high
        return edges, self.counts[first : last + 1]


def range_of(
    histogram: Histogram, observer: str, *, percentile: float = 99.9, grid: Grid | None = None
) -> Range:
    """The range that an observer takes.

    Args:
        histogram: of at least one value.
        observer: one of `OBSERVERS`.
        percentile: for the observer of that name, above 50: leaves out what lies beyond the
            percentiles `100 - percentile` and `percentile`.
        grid: for `mse` and `entropy`: what the range is for.
    """
    extremes = Range(histogram.low, histogram.high)
    if observer == "minmax" or histogram.low == histogram.high:
        return extremes
    if observer == "percentile":
        return _percentile_range(histogram, percentile)
    if observer == "mse":
        return _mse_range(histogram, grid or Grid())
    return _entropy_range(histogram, grid or Grid())


def _percentile_range(histogram: Histogram, percentile: float) -> Range:
    edges, counts = histogram.bins()
    below = np.concatenate([[0.0], np.cumsum(counts) / counts.sum()])
    low = float(np.interp(1 - percentile / 100, below, edges))
    high = float(np.interp(percentile / 100, below, edges))
    return Range(low, high)


def _mse_range(histogram: Histogram, grid: Grid) -> Range:
    edges, counts = histogram.bins()
    centres = (edges[:-1] + edges[1:]) / 2
    best, least = Range(histogram.low, histogram.high), np.inf
    for number in range(SHARES, 0, -1):
        share = number / SHARES
        candidate = Range(histogram.low * share, histogram.high * share)
        restored = grid.quantization(candidate).restored(centres)
        error = float(np.sum(counts * (restored - centres) ** 2))
        if error < least:
            best, least = candidate, error
    return best


def _entropy_range(histogram: Histogram, grid: Grid) -> Range:
    """The extremes, cut off at the threshold of `entropy_threshold` on both sides."""
    magnitudes = histogram.counts[BINS:] + histogram.counts[:BINS][::-1]
    used = int(np.flatnonzero(magnitudes)[-1]) + 1
    levels = 1 << (grid.bits - 1 if histogram.low < 0 or _halved(grid) else grid.bits)
    chosen = entropy_threshold(magnitudes[:used], levels)
    cut = np.inf if chosen == used else chosen * histogram.width
    return Range(max(histogram.low, -cut), min(histogram.high, cut))


def _halved(grid: Grid) -> bool:
    """Whether a range without negative numbers gets the upper half of the levels alone."""
    return grid.symmetric and grid.signed


def entropy_threshold(counts: NDArray[np.int64], levels: int) -> int:
    """The number of bins to keep of a histogram of magnitudes, by relative entropy.

    For each candidate i, P is the first i bins with all that lies beyond added to the last of them,
    and Q the first i bins merged into `levels` of them and spread again, evenly, over those that
    hold something. The i with the least KL(P‖Q) is taken (Migacz 2017, "Pseudocode"); the first bin
    counts as much as the second, as in NVIDIA's pytorch-quantization: exact zeros, which any grid
    represents, would outweigh all else. No candidate is below a sixteenth of all bins.

    Args:
        counts: [bins], the last one above 0.
        levels: of the grid, on one side of 0.
    """
    histogram = counts.astype(np.float64)
    if len(histogram) > 1:
        histogram[0] = min(histogram[0], histogram[1])
    first = min(max(levels, len(histogram) // LEAST_SHARE), len(histogram))
    total = histogram.sum()
    step = max(1, -(-(len(histogram) - first) // CANDIDATES))
    best, least = len(histogram), np.inf
    for inside_bins in range(len(histogram), first - 1, -step):
        inside = histogram[:inside_bins]
        reference = inside.copy()
        reference[-1] += total - inside.sum()
        divergence = _divergence(reference, _merged(inside, levels))
        if divergence < least:
            best, least = inside_bins, divergence
    return best


def _merged(counts: Floats, levels: int) -> Floats:
    """Bins merged into `levels` runs, each spread evenly over its bins that hold something."""
    run = np.arange(len(counts)) * levels // len(counts)
    sums = np.bincount(run, counts, levels)
    holding = np.bincount(run, counts > 0, levels)
    return np.where(counts > 0, sums[run] / np.maximum(holding[run], 1), 0.0)


def _divergence(reference: Floats, other: Floats) -> float:
    """KL of two histograms; infinite where `other` is 0 and `reference` is not."""
    mass = reference.sum(), other.sum()
    held = reference > 0
    if not mass[0] or not mass[1] or not other[held].all():
        return math.inf
    p, q = reference[held] / mass[0], other[held] / mass[1]
    return float(np.sum(p * np.log(p / q)))
