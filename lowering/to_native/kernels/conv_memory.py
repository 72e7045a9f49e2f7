"""Scratch memory of a convolution: sizes and places of its images, sums and results.

An image is prepared twice over. Its values lie in a *plane* of places with their channels together,
which tiles read; the sums of these channels lie in a *grid*, from which the sums of windows are
made. Depthwise convolutions have a grid of values only. All is known when the code is made, except
how many images there are. Not here: the code that fills and reads them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ....runtime.native.abi.conv import ConvGeometry
from ....runtime.native.abi.linear import PANEL, Kind, raw_stride, round_up
from .recipes import Recipe

ALIGNMENT = 64
_RAW_BYTES = 64 << 10
"""Raw results of the places that are computed together, so that they stay in a near cache."""
_LEAST_PLACES, _MOST_PLACES = 48, 256


def aligned(size: int) -> int:
    """The next multiple of the alignment."""
    return round_up(size, ALIGNMENT)


@dataclass(frozen=True)
class Runs:
    """Pieces of an image that follow each other in memory and are read a vector at a time.

    Attributes:
        count: pieces, each a row or the whole image.
        length: places of a piece.
        lanes: places of a vector.
    """

    count: int
    length: int
    lanes: int

    @property
    def short(self) -> bool:
        """Whether a piece is shorter than a vector: then it must be copied before it is read."""
        return self.length < self.lanes

    @property
    def vectors(self) -> int:
        """Vectors of a piece; the last one may overlap the one before."""
        return -(-self.length // self.lanes)


@dataclass(frozen=True)
class Grid:
    """A padded image of one number a place, so arranged that windows lie in straight lines.

    Rows of the same remainder by the stride stand together, and so do columns. Then the value of
    one tap of the window for result q stands at `offset(tap) + q`, where result (i, j) is
    q = i · pitch + j; the last places of a row of results are void.
    """

    geometry: ConvGeometry
    bytes: int
    """Of a number."""

    @property
    def _padded(self) -> tuple[int, int]:
        g = self.geometry
        high = g.before[0] + g.height + g.after[0]
        return high, g.before[1] + g.width + g.after[1]

    @property
    def pitch(self) -> int:
        """Numbers between rows."""
        return -(-self._padded[1] // self.geometry.strides[1])

    @property
    def part(self) -> int:
        """Numbers of the rows and columns of one remainder, and a vector more for overlap."""
        rows = -(-self._padded[0] // self.geometry.strides[0])
        return rows * self.pitch + ALIGNMENT // self.bytes

    @property
    def size(self) -> int:
        """Bytes of the whole, and what vectors may read past its end."""
        strides = self.geometry.strides
        return aligned(strides[0] * strides[1] * self.part * self.bytes) + 2 * ALIGNMENT

    @property
    def span(self) -> int:
        """Results with the void ones between their rows."""
        return (self.geometry.out_height - 1) * self.pitch + self.geometry.out_width

    @property
    def packed(self) -> bool:
        """Whether no result is void."""
        return self.pitch == self.geometry.out_width

    @property
    def straight(self) -> bool:
        """Whether a row of the image is one piece of the grid."""
        return self.geometry.strides == (1, 1)

    def offset(self, row: int, column: int) -> int:
        """Where result 0 finds its value for a tap of the window."""
        (height, width), dilation = self.geometry.strides, self.geometry.dilation
        down, right = row * dilation[0], column * dilation[1]
        part = (down % height) * width + right % width
        return part * self.part + (down // height) * self.pitch + right // width


@dataclass(frozen=True)
class Plane:
    """A padded image of bytes, all channels of a place together, which tiles read in place.

    With dilated columns, those of the same remainder stand together in each row, so that a row of
    the window is one piece.
    """

    geometry: ConvGeometry

    @property
    def columns(self) -> int:
        """Places of a row of one remainder."""
        g = self.geometry
        return -(-(g.before[1] + g.width + g.after[1]) // g.dilation[1])

    @property
    def pitch(self) -> int:
        """Bytes between rows."""
        g = self.geometry
        return g.dilation[1] * self.columns * g.stored_channels

    @property
    def rows(self) -> int:
        """Rows with their pads."""
        g = self.geometry
        return g.before[0] + g.height + g.after[0]


class ConvMemory:
    """Scratch memory of one convolution with one kind of activations under one recipe."""

    def __init__(self, recipe: Recipe, kind: Kind, geometry: ConvGeometry) -> None:
        self.recipe = recipe
        self.kind = kind
        self.geometry = geometry.flat() if not geometry.depthwise else geometry
        self.plane = Plane(self.geometry)
        self.sums = Grid(self.geometry, 4)
        self.values = Grid(self.geometry, self._value_bytes)
        self._size = 0
        self._lay_out()

    @property
    def _value_bytes(self) -> int:
        """Bytes of a value of a depthwise grid: sums of bytes stay within int16 for 255 taps."""
        taps = self.geometry.kernel[0] * self.geometry.kernel[1]
        return 2 if self.kind.bytes == 1 and taps <= 255 else 4

    @property
    def lanes(self) -> int:
        """Places that are prepared together."""
        return self.recipe.width // (self._value_bytes if self.geometry.depthwise else 4)

    @cached_property
    def runs(self) -> Runs:
        """The image in pieces: rows, or all of it if rows are short or need no pads between."""
        g = self.geometry
        if self._no_column_pads or g.width < self.lanes:
            return Runs(1, g.pixels, self.lanes)
        return Runs(g.height, g.width, self.lanes)

    @property
    def _no_column_pads(self) -> bool:
        return self.geometry.before[1] == self.geometry.after[1] == 0

    @property
    def by_columns(self) -> bool:
        """Whether results are shared out by columns, as those of one row, or else by rows."""
        return self.geometry.height == self.geometry.out_height == 1

    @property
    def input_size(self) -> int:
        """Rows of the image, or its columns if results are shared out by columns."""
        return self.geometry.width if self.by_columns else self.geometry.height

    @property
    def padded(self) -> bool:
        """Whether there are any pads."""
        return any(self.geometry.before + self.geometry.after)

    @property
    def _in_place(self) -> bool:
        if self.runs.short:
            return not self.padded
        return self.runs.count > 1 or self._no_column_pads

    @property
    def plane_in_place(self) -> bool:
        """Whether values are prepared where tiles read them."""
        return self._in_place and self.geometry.dilation[1] == 1

    @property
    def grid_in_place(self) -> bool:
        """Whether numbers are prepared where windows read them."""
        return self._in_place and self.sums.straight

    @property
    def single(self) -> bool:
        """Whether a window is one place, and each place one window."""
        g = self.geometry
        return g.kernel == g.strides == (1, 1) and not self.padded

    @cached_property
    def block(self) -> tuple[int, int]:
        """Rows and columns of the results that are computed together."""
        g, digits = self.geometry, self.kind.digits
        fitting = _RAW_BYTES // (4 * PANEL * g.panels * digits)
        most = min(max(fitting, _LEAST_PLACES), _MOST_PLACES)
        if g.out_width > most:
            # Pieces of about equal size, of whole turns of the remainders of dilated columns.
            width = -(-g.out_width // -(-g.out_width // most))
            return 1, min(g.out_width, round_up(width, g.dilation[1]))
        rows = min(max(1, most // g.out_width), g.out_height)
        return -(-g.out_height // -(-g.out_height // rows)), g.out_width

    @property
    def places(self) -> int:
        """Places of a block, rounded up to vectors."""
        return round_up(self.block[0] * self.block[1], 16)

    @property
    def turned_stride(self) -> int:
        """Numbers between channels of turned results; no power of two."""
        return self.places + 16

    def _take(self, size: int) -> int:
        place, self._size = self._size, self._size + aligned(size)
        return place

    def _lay_out(self) -> None:
        g, digits = self.geometry, self.kind.digits
        self.scale_at = self._take(8)
        source = g.group_channels * self.lanes * self.kind.bytes if self.runs.short else 0
        self.source_at = self._take(source)
        # Vectors that take one place of each stride are read past the end.
        pixels = g.pixels + ALIGNMENT * (1 + g.strides[1])
        if g.depthwise:
            bytes_ = self.values.bytes
            self.loose_at = self._take(0 if self.grid_in_place else pixels * bytes_)
            self.values_at = self._take(self.values.size)
            self.spans_at = self._take(4 * self.values.span + 2 * ALIGNMENT)
            self.results_at = self._take(4 * g.places + 2 * ALIGNMENT)
            return
        self.loose_size = aligned(pixels * g.stored_channels)
        self.loose_at = self._take(0 if self.plane_in_place else digits * self.loose_size)
        # Tiles read up to a step past the end, vectors of short images a vector.
        self.plane_size = aligned(self.plane.rows * self.plane.pitch + ALIGNMENT)
        self.plane_size += self.lanes * g.stored_channels
        self.plane_size = aligned(self.plane_size)
        self.plane_at = self._take(digits * self.plane_size)
        self.loose_sums_size = aligned(4 * pixels)
        self.loose_sums_at = self._take(0 if self.grid_in_place else digits * self.loose_sums_size)
        self.sums_size = self.sums.size
        self.sums_at = self._take(digits * self.sums_size)
        self.spans_size = aligned(4 * self.sums.span + 2 * ALIGNMENT)
        self.spans_at = self._take(0 if self.single else digits * self.spans_size)
        self.windows_size = aligned(4 * g.places + 2 * ALIGNMENT)
        loose = not self.single and not self.sums.packed
        self.windows_at = self._take(digits * self.windows_size if loose else 0)
        self.raw_stride = raw_stride(g.group_outs)
        self.raw_size = aligned((self.places + 4) * self.raw_stride * 4)
        self.raw_at = self._take(digits * self.raw_size)
        self.turned_at = self._take(PANEL * g.panels * self.turned_stride * 4 + ALIGNMENT)

    @property
    def bytes(self) -> int:
        """Bytes of the whole."""
        return self._size
