"""Who reaches whom: synapses of a projection as arrays, counted per neuron and slice.

`Sparse` rows of indices (CSR), `Dense` a matrix, `Diagonal` one to one, `Window` a convolution or a
pool. Not here: the projections of a network (`workload`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from ...ir.arrays import Array


class Connectivity(ABC):
    """Synapses from places of a source to neurons of a target, both numbered in row-major order.

    Attributes:
        sources: places of the source.
        targets: neurons of the target.
        kernel_weights: different weights where synapses share them; 0 where none do.
    """

    sources: int
    targets: int
    kernel_weights: int = 0

    @abstractmethod
    def counts(self, start: int, stop: int, cuts: Array) -> Array:
        """Synapses from each source in [start, stop) to each slice of the target.

        Args:
            start: the first source.
            stop: behind the last one.
            cuts: where the slices begin, ascending from 0, int [slices].

        Returns:
            int32 [stop - start, slices].
        """

    @cached_property
    @abstractmethod
    def fan_in(self) -> Array:
        """Synapses to each neuron of the target, int64 [targets]."""

    @abstractmethod
    def entries(self, start: int, stop: int) -> tuple[Array, Array, Array]:
        """Source, target and weight of each synapse from the sources in [start, stop), by source.

        A weight is told by its place: in the matrix or in `indices`, row by row; in `taps`.
        """

    def edges(self, start: int, stop: int) -> tuple[Array, Array]:
        """Source and target of each synapse from the sources in [start, stop), by source."""
        return self.entries(start, stop)[:2]

    @property
    def synapses(self) -> int:
        """All of them."""
        return int(self.fan_in.sum())


@dataclass(frozen=True, eq=False)
class Dense(Connectivity):
    """A matrix: truth values [sources, targets], true where there is a synapse."""

    mask: Array

    def __post_init__(self) -> None:
        object.__setattr__(self, "sources", self.mask.shape[0])
        object.__setattr__(self, "targets", self.mask.shape[1])

    def counts(self, start: int, stop: int, cuts: Array) -> Array:
        return np.add.reduceat(self.mask[start:stop], cuts, axis=1, dtype=np.int32)

    @cached_property
    def fan_in(self) -> Array:
        return np.count_nonzero(self.mask, axis=0).astype(np.int64)

    def entries(self, start: int, stop: int) -> tuple[Array, Array, Array]:
        sources, targets = np.nonzero(self.mask[start:stop])
        return sources + start, targets, (sources + start) * self.targets + targets


class _Listed(Connectivity):
    """Synapses that are counted from their list."""

    def counts(self, start: int, stop: int, cuts: Array) -> Array:
        sources, targets = self.edges(start, stop)
        slices = np.zeros(self.targets, np.int32)
        slices[cuts[1:]] = 1
        places = (sources - start) * len(cuts) + np.cumsum(slices)[targets]
        counted = np.bincount(places, minlength=(stop - start) * len(cuts))
        return counted.reshape(stop - start, len(cuts)).astype(np.int32)


@dataclass(frozen=True, eq=False)
class Sparse(_Listed):
    """Rows of a sparse matrix (CSR).

    Attributes:
        first: where the row of each source begins in `indices`, and the end, int [sources + 1].
        indices: the targets, row by row.
        targets: neurons of the target.
    """

    first: Array
    indices: Array
    targets: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "sources", len(self.first) - 1)

    @cached_property
    def fan_in(self) -> Array:
        return np.bincount(self.indices, minlength=self.targets)

    @classmethod
    def of(cls, source: Array, target: Array, sources: int, targets: int) -> Sparse:
        """Synapses by their ends, each pair once however often it is listed."""
        keys = np.unique(source.astype(np.int64) * targets + target)
        first = np.searchsorted(keys, np.arange(sources + 1) * targets)
        return cls(first, keys % max(1, targets), targets)

    def entries(self, start: int, stop: int) -> tuple[Array, Array, Array]:
        sources = np.repeat(np.arange(start, stop), np.diff(self.first[start : stop + 1]))
        first, last = int(self.first[start]), int(self.first[stop])
        return sources, self.indices[first:last], np.arange(first, last)


@dataclass(frozen=True, eq=False)
class Diagonal(_Listed):
    """One to one.

    Attributes:
        sources: neurons on each side.
    """

    sources: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "targets", self.sources)

    @cached_property
    def fan_in(self) -> Array:
        return np.ones(self.targets, np.int64)

    def entries(self, start: int, stop: int) -> tuple[Array, Array, Array]:
        both = np.arange(start, stop)
        return both, both, both


@dataclass(frozen=True, eq=False)
class Window(_Listed):
    """A convolution or pool over the last axes.

    Attributes:
        shape: of the source, [channels, spatial…].
        result: of the target, [channels, spatial…].
        taps: channel out, channel in, and the place in the kernel of each weight but 0, int
            [weights, 2 + spatial axes].
        strides: of each axis.
        padding: before each axis.
        dilation: of each axis.
    """

    shape: Sequence[int]
    result: Sequence[int]
    taps: Array
    strides: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]

    def __post_init__(self) -> None:
        object.__setattr__(self, "sources", prod(self.shape))
        object.__setattr__(self, "targets", prod(self.result))
        object.__setattr__(self, "kernel_weights", len(self.taps))

    @cached_property
    def _reach(self) -> tuple[Array, Array]:
        """The place in the kernel of each weight, and the neuron of a channel to which each place
        brings each source of a channel, -1 for none, [sources of a channel, places]."""
        places, of = np.unique(self.taps[:, 2:], axis=0, return_inverse=True)
        reached = np.zeros((1, len(places)), np.int64)
        for axis, (size, out) in enumerate(zip(self.shape[1:], self.result[1:], strict=True)):
            ends = np.arange(size)[:, None] + self.padding[axis]
            to, rest = np.divmod(ends - places[:, axis] * self.dilation[axis], self.strides[axis])
            there = (rest == 0) & (to >= 0) & (to < out) & (reached[:, None] >= 0)
            reached = np.where(there, reached[:, None] * out + to, -1)
            reached = reached.reshape(reached.shape[0] * size, len(places))
        return of.reshape(-1), reached

    @cached_property
    def fan_in(self) -> Array:
        of, reached = self._reach
        weights = np.zeros((self.result[0], reached.shape[1]), np.int64)
        np.add.at(weights, (self.taps[:, 0], of), 1)
        there = np.zeros((reached.shape[1], prod(self.result[1:])), np.int64)
        source, place = np.nonzero(reached >= 0)
        there[place, reached[source, place]] = 1
        return (weights @ there).reshape(-1)

    def entries(self, start: int, stop: int) -> tuple[Array, Array, Array]:
        of, reached = self._reach
        plane, listed = len(reached), list[tuple[Array, ...]]()
        for channel in range(start // plane, -(-stop // plane)):
            first = max(start, channel * plane)
            own = np.flatnonzero(self.taps[:, 1] == channel)
            targets = reached[first - channel * plane : stop - channel * plane, of[own]]
            source, tap = np.nonzero(targets >= 0)
            channels = self.taps[own[tap], 0] * prod(self.result[1:])
            listed.append((source + first, channels + targets[source, tap], own[tap]))
        sources, targets, taps = (np.concatenate([part[i] for part in listed]) for i in range(3))
        return sources, targets, taps


def window(
    mask: Array,
    groups: int,
    source: Sequence[int],
    target: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Window:
    """A convolution by the weights that it has.

    Args:
        mask: where weights are not 0, [channels out, channels in / groups, kernel…].
        groups: of channels.
        source: its shape, [channels, spatial…].
        target: the same.
        strides, padding, dilation: of each axis; of pads those before come first.
    """
    taps = np.argwhere(mask)
    taps[:, 1] += taps[:, 0] // (mask.shape[0] // groups) * mask.shape[1]
    return Window(tuple(source), tuple(target), taps, strides, padding, dilation)


def composed(first: Connectivity, then: Connectivity) -> Connectivity:
    """Synapses behind synapses as one: who is reached at all."""
    source, between = first.edges(0, first.sources)
    middle, target = then.edges(0, then.sources)
    rows = np.searchsorted(middle, np.arange(then.sources + 1))
    counts: Array = np.diff(rows)[between]
    within: Array = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    reached = target[np.repeat(rows[between], counts) + within]
    return Sparse.of(np.repeat(source, counts), reached, first.sources, then.targets)
