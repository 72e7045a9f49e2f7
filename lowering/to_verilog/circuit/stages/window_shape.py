"""The geometry of windows on an image.

Not here: the stage that makes them (`window`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

Pair = tuple[int, int]


@dataclass(frozen=True)
class WindowShape:
    """The geometry of windows on an image, rows before columns.

    Attributes:
        size: of the image.
        kernel: taps of a window.
        strides: from window to window.
        low: rows above and columns before the image.
        high: rows below and columns after the image.
        dilation: from tap to tap.
    """

    size: Pair
    kernel: Pair
    strides: Pair = (1, 1)
    low: Pair = (0, 0)
    high: Pair = (0, 0)
    dilation: Pair = (1, 1)

    @property
    def extent(self) -> Pair:
        """Rows and columns that a window spans."""
        return _pair((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation, strict=True))

    @property
    def places(self) -> Pair:
        """Rows and columns of windows at stride 1."""
        sides = zip(self.size, self.low, self.high, self.extent, strict=True)
        return _pair(n + low + high - e + 1 for n, low, high, e in sides)

    @property
    def result(self) -> Pair:
        """Rows and columns of windows."""
        return _pair((n - 1) // s + 1 for n, s in zip(self.places, self.strides, strict=True))

    @property
    def margin(self) -> Pair:
        """Slots before the image, where the padding is wider than a window reaches back."""
        return _pair(max(0, low - e + 1) for low, e in zip(self.low, self.extent, strict=True))

    @property
    def raster(self) -> Pair:
        """Rows and columns of slots in a frame."""
        sides = zip(self.margin, self.size, self.places, self._ahead, strict=True)
        return _pair(max(margin + n, places, ahead + 1) for margin, n, places, ahead in sides)

    @property
    def _ahead(self) -> Pair:
        sides = zip(self.extent, self.low, self.margin, strict=True)
        return _pair(e - 1 - low + margin for e, low, margin in sides)

    @property
    def lag(self) -> int:
        """Slots from the first one of a frame to its first window."""
        rows, columns = self._ahead
        return rows * self.raster[1] + columns

    def always_inside(self, axis: int, tap: int) -> bool:
        """Whether a tap lies within the image for every window."""
        first = tap * self.dilation[axis] - self.low[axis]
        last = first + (self.result[axis] - 1) * self.strides[axis]
        return first >= 0 and last < self.size[axis]


def _pair(numbers: Iterable[int]) -> Pair:
    first, second = numbers
    return first, second
