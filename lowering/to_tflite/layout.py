"""In which order the axes of a value are stored: the layout assignment.

LiteRT wants images as N, H, W, C where the IR has N, C, H, W. A value is stored in whatever order
the operator that made it gives, and the order travels with it: element-wise operators keep it,
`permute` only renames axes, reductions, slices and pads work on axes wherever they stand. A value
is transposed where an operator needs another order, and once for each order. So a network of
convolutions has one transpose, that of its input.

`Layout.image` goes on where a rank-4 value is flattened for a linear layer: the vector is stored as
H, W, C, and the layer's constant weights are reordered instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from ...dialects.shapes import DYNAMIC, Shape


@dataclass(frozen=True)
class Layout:
    """Axis i of the stored tensor is axis `order[i]` of the IR value.

    Attributes:
        order: a permutation.
        image: the sizes (C, …) that the last axis is made of where its elements stand in the order
            (…, C); then `order` is the plain one.
    """

    order: tuple[int, ...]
    image: tuple[int, ...] | None = None

    @property
    def is_plain(self) -> bool:
        """Whether this is the IR's own order."""
        return self.image is None and self.order == tuple(range(len(self.order)))

    @property
    def is_channels_last(self) -> bool:
        """Whether this is N, …, C for a value N, C, …"""
        return len(self.order) >= 3 and self.order == channels_last(len(self.order)).order

    def axis(self, axis: int) -> int:
        """Where the IR's axis stands in the stored tensor; 0 for a number, which has none."""
        return self.order.index(axis % len(self.order)) if self.order else 0

    def stored(self, shape: Sequence[int]) -> Shape:
        """The IR's shape, or any list with an entry an axis, in stored order."""
        return tuple(shape[axis] for axis in self.order)

    def permuted(self, perm: Sequence[int]) -> Layout:
        """The layout of `permute` by `perm` of a value of this layout, which stays as it is."""
        place = {axis: index for index, axis in enumerate(perm)}
        return Layout(tuple(place[axis] for axis in self.order))

    def without(self, axes: set[int]) -> Layout:
        """The layout after the IR's `axes` are dropped."""
        rest = sorted(axis for axis in self.order if axis not in axes)
        place = {axis: index for index, axis in enumerate(rest)}
        return Layout(tuple(place[axis] for axis in self.order if axis not in axes))

    def with_axes(self, axes: set[int]) -> Layout:
        """The layout after new axes are put in, at the positions `axes` of IR and tensor alike."""
        rank = len(self.order) + len(axes)
        old = [axis for axis in range(rank) if axis not in axes]
        stored = iter(self.order)
        return Layout(tuple(i if i in axes else old[next(stored)] for i in range(rank)))


def plain(rank: int) -> Layout:
    """The IR's own order."""
    return Layout(tuple(range(rank)))


def channels_last(rank: int) -> Layout:
    """N, …, C for a value N, C, …"""
    return Layout((0, *range(2, rank), 1))


def with_last(rank: int, axis: int) -> Layout:
    """The IR's order, but `axis` stands last."""
    axis %= rank
    return Layout((*(a for a in range(rank) if a != axis), axis))


def moves(have: Layout, want: Layout) -> list[int]:
    """The permutation that brings a stored tensor from `have` to `want`."""
    return [have.order.index(axis) for axis in want.order]


def is_free(perm: Sequence[int], shape: Shape) -> bool:
    """Whether a transpose moves axes of size 1 alone, so that the elements stay in order."""
    moved = [axis for axis in perm if shape[axis] != 1]
    return moved == sorted(moved)


def image_order(image: Sequence[int]) -> NDArray[np.int64]:
    """For each position of the stored vector (…, C) the position in the IR's vector (C, …)."""
    places = np.arange(prod(image), dtype=np.int64).reshape(tuple(image))
    return np.moveaxis(places, 0, -1).reshape(-1)


def regrouped(layout: Layout, shape: Shape, wanted: Shape) -> Layout | None:
    """The order after a reshape that merges and splits axes which stand together as stored.

    `None` where elements would have to move. So the patches of an image stored N, H, W, C become
    tokens N, H·W, C of a value N, C, H·W without a transpose.
    """
    if layout.image is not None or max(shape.count(DYNAMIC), wanted.count(DYNAMIC)) > 1:
        return None
    groups = _groups(shape, wanted)
    places = {axis: i for i, axis in enumerate(a for a in layout.order if shape[a] != 1)}
    starts: list[tuple[int, list[int]]] = []
    for axes, behind in groups or []:
        spots = [places[axis] for axis in axes]
        if spots != list(range(spots[0], spots[0] + len(spots))):
            return None
        starts.append((spots[0], behind))
    return Layout(tuple(a for _, behind in sorted(starts) for a in behind)) if starts else None


def _groups(shape: Shape, wanted: Shape) -> list[tuple[list[int], list[int]]] | None:
    """Which axes of `shape` become which of `wanted`; those of size 1 only join the latter."""
    before, after = (
        [axis for axis, size in enumerate(sizes) if size != 1] for sizes in (shape, wanted)
    )
    groups: list[tuple[list[int], list[int]]] = []
    while before and after:
        axes, behind = [before.pop(0)], [after.pop(0)]
        left, right = shape[axes[0]], wanted[behind[0]]
        while left != right:
            shorter, sizes = (before, shape) if left < right else (after, wanted)
            if DYNAMIC in (left, right) or not shorter or sizes[shorter[0]] == DYNAMIC:
                return None
            if left < right:
                left *= sizes[shorter[0]]
                axes.append(shorter.pop(0))
            else:
                right *= sizes[shorter[0]]
                behind.append(shorter.pop(0))
        groups.append((axes, behind))
    if before or after or not groups:
        return None
    for axis in (axis for axis, size in enumerate(wanted) if size == 1):
        owner = next((m for _, m in reversed(groups) if m[0] < axis), groups[0][1])
        owner.append(axis)
        owner.sort()
    return groups


def flattened(layout: Layout, shape: Shape, result: Shape) -> Layout | None:
    """The layout of N, C, … stored channels last and reshaped to N, C·…; `None` for other forms."""
    if not layout.is_channels_last or DYNAMIC in shape[1:]:
        return None
    rows, *image = shape
    return Layout((0, 1), tuple(image)) if result == (rows, prod(image)) else None
