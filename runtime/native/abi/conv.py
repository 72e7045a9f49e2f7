"""Convolutions with trit weights: their geometry, and their weights as native kernels read them.

Weights [O, C/groups, kh, kw] lie as one matrix of panels (`linear`) for each group: the rows of
a matrix are the outputs of the group, its values run over the rows of the window, then over its
columns and channels, these two together rounded up to whole steps. A depthwise convolution has its
trits as they are, one a byte. Not here: how a kernel computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ....ir.arrays import Array
from .layouts import weights_in
from .linear import MAX_INS, PANEL, STEP, round_up

Pair = tuple[int, int]

MOST_TAPS, MOST_APART = 1024, 64
"""Places of a window, and steps between them or between windows, each with code of its own."""
MOST_PADS = 1 << 16
"""Pads on a side: offsets in an image must fit into instructions."""

UNIT = 24
"""Places of one row that are done together: whole tiles of any recipe."""


@dataclass(frozen=True)
class ConvGeometry:
    """One convolution of images [channels, height, width]; see `tensor.conv` for the properties.

    Attributes:
        channels, height, width: of an image; a signal of one dimension has height 1.
        outs: output channels.
        kernel, strides, dilation: for rows, then for columns.
        before, after: pads before the first and after the last row, then column.
        groups: parts that channels and outputs are divided in.
    """

    channels: int
    height: int
    width: int
    outs: int
    kernel: Pair
    strides: Pair = (1, 1)
    before: Pair = (0, 0)
    after: Pair = (0, 0)
    dilation: Pair = (1, 1)
    groups: int = 1

    @staticmethod
    def of(
        input: Sequence[int],
        weight: Sequence[int],
        strides: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        groups: int,
    ) -> ConvGeometry:
        """The geometry of a `ternary.conv` with these shapes and properties, 1-d or 2-d."""
        spatial = len(input) - 2
        height, width = _pair(input[2:], 1)
        return ConvGeometry(
            input[1],
            height,
            width,
            weight[0],
            _pair(weight[2:], 1),
            _pair(strides, 1),
            _pair(padding[:spatial], 0),
            _pair(padding[spatial:], 0),
            _pair(dilation, 1),
            groups,
        )

    @property
    def group_channels(self) -> int:
        """Channels of a group."""
        return self.channels // self.groups

    @property
    def group_outs(self) -> int:
        """Outputs of a group."""
        return self.outs // self.groups

    @property
    def out_height(self) -> int:
        """Rows of the result."""
        return self._out(0, self.height)

    @property
    def out_width(self) -> int:
        """Columns of the result."""
        return self._out(1, self.width)

    def _out(self, axis: int, size: int) -> int:
        span = self.dilation[axis] * (self.kernel[axis] - 1) + 1
        return (size + self.before[axis] + self.after[axis] - span) // self.strides[axis] + 1

    @property
    def pixels(self) -> int:
        """Places of the input."""
        return self.height * self.width

    @property
    def places(self) -> int:
        """Places of the result."""
        return self.out_height * self.out_width

    @property
    def depthwise(self) -> bool:
        """Whether each output sees one channel only."""
        return self.group_channels == 1 and self.groups > 1

    @property
    def ins(self) -> int:
        """Values that an output is a sum of."""
        return self.group_channels * self.kernel[0] * self.kernel[1]

    @property
    def work(self) -> int:
        """Products for one image."""
        return self.outs * self.places * self.ins

    @property
    def stored_channels(self) -> int:
        """Bytes of a place with all channels of a group: 1, 2 or a multiple of 4."""
        return self.group_channels if self.group_channels < 3 else round_up(self.group_channels, 4)

    @property
    def steps(self) -> int:
        """Steps of a row of the window in panels."""
        return round_up(self.kernel[1] * self.stored_channels, STEP) // STEP

    @property
    def panels(self) -> int:
        """Panels of a group."""
        return round_up(self.group_outs, PANEL) // PANEL

    @property
    def panel_bytes(self) -> int:
        """Bytes of weights of a group."""
        return self.panels * PANEL * self.kernel[0] * self.steps * STEP // 4

    @property
    def supported(self) -> bool:
        """Whether kernels take it: sums stay exact, code stays small, and there are results."""
        sizes = (self.ins, self.pixels, self.out_height, self.out_width, self.outs)
        longest = self.kernel[0] * self.steps * STEP
        taps = self.kernel[0] * self.kernel[1]
        return (
            min(sizes) > 0
            and longest <= MAX_INS
            and taps <= MOST_TAPS
            and max(self.strides + self.dilation) <= MOST_APART
            and max(self.before + self.after) <= MOST_PADS
        )

    @property
    def unit(self) -> int:
        """Rows of the result that a unit of work is, or columns where there is one row only."""
        flat = self.flat()
        return round_up(UNIT, flat.dilation[1]) if flat.height == flat.out_height == 1 else 1

    @property
    def units(self) -> int:
        """Parts of an image that can be done apart: channels of a depthwise convolution."""
        if self.depthwise:
            return self.groups
        flat = self.flat()
        unit = self.unit
        return (
            -(-flat.out_width // unit) if flat.height == flat.out_height == 1 else flat.out_height
        )

    def flat(self) -> ConvGeometry:
        """The same convolution with an image as one row, where no window reaches beyond a place."""
        if any(pair != (1, 1) for pair in (self.kernel, self.strides)):
            return self
        if any(self.before + self.after):
            return self
        return replace(self, height=1, width=self.pixels, dilation=(1, 1))


def _pair(values: Sequence[int], missing: int) -> Pair:
    return (values[0], values[1]) if len(values) == 2 else (missing, values[0])


def conv_weights(geometry: ConvGeometry, trits: Array) -> NDArray[np.uint8]:
    """The bytes that kernels read for weights [O, C/groups, …] with values -1, 0, 1."""
    if geometry.depthwise:
        return np.ascontiguousarray(trits, np.int8).view(np.uint8).reshape(-1)
    outs, channels = geometry.group_outs, geometry.group_channels
    rows, columns = geometry.kernel
    taps = np.asarray(trits).reshape(geometry.groups, outs, channels, rows, columns)
    lines = round_up(outs, PANEL)
    # -1 has the code 0, which counts nothing where there is no weight.
    placed = np.full((geometry.groups, lines, rows, columns, geometry.stored_channels), -1, np.int8)
    placed[:, :outs, :, :, :channels] = taps.transpose(0, 1, 3, 4, 2)
    matrices = np.full((geometry.groups, lines, rows, geometry.steps * STEP), -1, np.int8)
    used = columns * geometry.stored_channels
    matrices[..., :used] = placed.reshape(geometry.groups, lines, rows, used)
    return weights_in("panels", matrices.reshape(geometry.groups * lines, -1))
