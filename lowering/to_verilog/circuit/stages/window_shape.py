"""The geometry of windows on an image, and when they come.

Not here: the stage that makes them (`window`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from .timing import Timing

Pair = tuple[int, int]

_PIXEL, _START, _ACTIVE, _WANTED = 1, 2, 4, 8
"""What stands at slots and places: a pixel comes in; a frame begins; a window passes; it leaves."""


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


class WindowTiming(Timing):
    """One slot a cycle: a pixel, a slot without one, or what empties the delay line.

    The state is whether a window waits. One position is the slot that comes in, the other one the
    place of the next window; a frame's last windows, as many as the lag, come after its last slot.
    """

    def __init__(self, shape: WindowShape) -> None:
        self.shape = shape
        (rows, columns), (top, left) = shape.raster, shape.margin
        bounds = [(n - 1) * s + 1 for n, s in zip(shape.result, shape.strides, strict=True)]
        y, x = np.indices((rows, columns))
        numbers = np.arange(rows * columns).reshape(rows, columns)
        inside = [(top <= y) & (y < top + shape.size[0]), (left <= x) & (x < left + shape.size[1])]
        slots = np.where(inside[0] & inside[1], _PIXEL, 0) | np.where(numbers == 0, _START, 0)
        slots |= np.where(numbers >= shape.lag, _ACTIVE, 0)
        wanted = (y < bounds[0]) & (x < bounds[1])
        wanted &= (y % shape.strides[0] == 0) & (x % shape.strides[1] == 0)
        places = np.where(wanted, _WANTED, 0)
        places |= np.where(numbers >= rows * columns - shape.lag, _ACTIVE, 0)
        super().__init__(False, *(table.astype(np.uint8).tobytes() for table in (slots, places)))

    def valid(self, inputs: Sequence[bool]) -> Sequence[bool]:
        """Whether a window waits."""
        del inputs
        return (self.state,)

    def ready(self, inputs: Sequence[bool], outputs: Sequence[bool]) -> Sequence[bool]:
        """Whether the next slot takes a pixel."""
        del inputs
        return ((not self.state or outputs[0]) and self.seen(0) & _PIXEL > 0,)

    def step(self, inputs: Sequence[bool], outputs: Sequence[bool]) -> None:
        """One slot, if one can pass."""
        if self.state and not outputs[0]:
            return
        slot, place = self.seen(0), self.seen(1)
        entered = inputs[0] or not slot & (_START | _PIXEL)
        if not entered and not (slot & _START and place & _ACTIVE):
            self.state = False
            return
        active = (slot | place) & _ACTIVE > 0
        self.state = active and place & _WANTED > 0
        self.positions[1] += active
        self.positions[0] += entered
