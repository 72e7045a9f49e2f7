"""Windows that slide over images: strides, pads and dilation of convolutions and pools.

LiteRT has two kinds of pads: VALID, none, and SAME, whose amount follows from the sizes. A window
whose pads are those of SAME is written so, any other gets a PAD before. Images with one spatial
axis are lifted to two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

import numpy as np

from ...dialects import tensor, ternary
from ...dialects.shapes import DYNAMIC, window_output
from .graph import Array, OptionValue, Tensor
from .shape import pad, without
from .tflite_writer import Inexpressible, Writer

Windowed: TypeAlias = tensor.ConvOp | ternary.ConvOp | tensor.MaxPoolOp | tensor.AvgPoolOp
"""Ops that slide a window."""

SAME, VALID = 0, 1
"""The kinds of pads by their number in the schema."""


@dataclass(frozen=True)
class Window:
    """A window over two spatial axes; `low` and `high` are the pads before and after."""

    kernel: tuple[int, int]
    strides: tuple[int, int]
    low: tuple[int, int]
    high: tuple[int, int]
    dilation: tuple[int, int]

    @property
    def has_pads(self) -> bool:
        """Whether there is any pad."""
        return any((*self.low, *self.high))

    @property
    def is_point(self) -> bool:
        """Whether each output comes from one position of the image, at the same place."""
        return self.kernel == (1, 1) == self.strides and not self.has_pads

    def reach(self, axis: int) -> int:
        """How far the window reaches along an axis."""
        return (self.kernel[axis] - 1) * self.dilation[axis] + 1

    def is_same(self, x: Tensor) -> bool:
        """Whether the pads are those that SAME gives for the image `x`, N, H, W, C."""
        return all(self._is_same_along(axis, x.shape[1 + axis]) for axis in (0, 1))

    def _is_same_along(self, axis: int, size: int) -> bool:
        stride, reach = self.strides[axis], self.reach(axis)
        if stride == 1:
            total = reach - 1
        elif size == DYNAMIC:
            return False
        else:
            total = max((-(-size // stride) - 1) * stride + reach - size, 0)
        return (self.low[axis], self.high[axis]) == (total // 2, total - total // 2)

    def stored_pads(self) -> tuple[list[int], list[int]]:
        """Low and high pads of N, H, W, C."""
        return [0, *self.low, 0], [0, *self.high, 0]

    def padded(self, e: Writer, x: Tensor, value: float = 0.0) -> tuple[Tensor, bool]:
        """The image with pads where SAME does not give them; whether SAME does."""
        if not self.has_pads:
            return x, False
        if self.is_same(x):
            return x, True
        return pad(e, x, *self.stored_pads(), value), False

    def outputs(self, x: Tensor) -> tuple[int, int]:
        """Height and width of the result for the image `x`, before pads."""
        sizes = [
            window_output(
                x.shape[1 + a],
                self.kernel[a],
                self.strides[a],
                self.low[a],
                self.high[a],
                self.dilation[a],
            )
            for a in (0, 1)
        ]
        return sizes[0], sizes[1]

    def stride_options(self, same: bool) -> dict[str, OptionValue]:
        """The options that pools and convolutions share."""
        height, width = self.strides
        return {"padding": SAME if same else VALID, "strideH": height, "strideW": width}

    def pool_options(self, same: bool) -> dict[str, OptionValue]:
        """The options of a pool."""
        height, width = self.kernel
        return {**self.stride_options(same), "filterHeight": height, "filterWidth": width}

    def conv_options(self, same: bool) -> dict[str, OptionValue]:
        """The options of a convolution."""
        height, width = self.dilation
        options = self.stride_options(same)
        return {**options, "dilationHFactor": height, "dilationWFactor": width}

    def places(self) -> list[tuple[int, int]]:
        """The offset of each position in the window, row by row."""
        rows, columns = (
            [k * self.dilation[a] for k in range(self.kernel[a])] for a in (0, 1)
        )  # fmt: skip
        return list(product(rows, columns))

    def shares(self, x: Tensor, out: Tensor) -> Array:
        """Elements of a window over those of it inside the image, as 1, H, W, 1.

        Raises:
            Inexpressible: the size of the image is not known.
        """
        sizes = x.shape[1:3]
        if DYNAMIC in sizes:
            raise Inexpressible(
                "avg_pool leaves out pads that LiteRT does not know for an image of dynamic size; "
                "fix the sizes with infer-shapes"
            )
        inside = [
            np.array([
                sum(0 <= o * self.strides[a] - self.low[a] + k < sizes[a]
                    for k in range(self.kernel[a]))
                for o in range(out.shape[1 + a])
            ])
            for a in (0, 1)
        ]  # fmt: skip
        counts = np.maximum(np.outer(*inside), 1)
        total = self.kernel[0] * self.kernel[1]
        return (total / counts).astype(np.float32)[None, :, :, None]


def window_of(op: Windowed, kernel: Sequence[int]) -> Window:
    """The window of a convolution or pool; a missing first axis has size 1."""
    spatial = len(kernel)
    strides, pads = op.strides.get_values(), op.padding.get_values()
    pools = isinstance(op, tensor.MaxPoolOp | tensor.AvgPoolOp)
    dilation = [1] * spatial if pools else op.dilation.get_values()

    def both(values: Sequence[int], default: int) -> tuple[int, int]:
        return (values[0], values[1]) if spatial == 2 else (default, values[0])

    return Window(
        both(kernel, 1),
        both(strides, 1),
        both(pads[:spatial], 0),
        both(pads[spatial:], 0),
        both(dilation, 1),
    )


def lift(e: Writer, x: Tensor) -> Tensor:
    """N, L, C as N, 1, L, C; images stay."""
    return e.expand_axes(x, [1]) if x.rank == 3 else x


def unlift(e: Writer, x: Tensor, rank: int) -> Tensor:
    """The way back from `lift`."""
    return without(e, x, {1}) if rank == 3 else x
