"""Windows that move over an image: kernel, strides, dilation, pads. Rules are in other files."""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from ..problems import ProblemError, refuse
from .onnx_builder import Builder, Call
from .rules_shape import check_size
from .sizes import Size, static


class Window:
    """The window of a node: kernel, strides, dilation, low and high pads."""

    def __init__(self, call: Call, kernel: list[int], image: list[Size]) -> None:
        spatial = len(kernel)
        self.kernel, self.image = kernel, image
        self.strides = call.integers("strides", [1] * spatial)
        self.dilation = call.integers("dilations", [1] * spatial)
        pads = call.integers("pads", [0] * (2 * spatial))
        lengths = (len(self.strides), len(self.dilation), len(pads), len(image))
        if lengths != (spatial, spatial, 2 * spatial, spatial):
            raise ProblemError(f"its window {kernel} and its strides, dilations or pads differ")
        if min((*self.strides, *self.dilation, *kernel), default=1) < 1:
            raise ProblemError("its window, strides and dilations must be at least 1")
        check_size([abs(n) + 1 for n in pads])
        self.low, self.high = pads[:spatial], pads[spatial:]
        self.extra = [0] * spatial
        auto = call.text("auto_pad", "NOTSET")
        if auto.startswith("SAME"):
            self._same(auto == "SAME_UPPER")
        elif auto == "VALID":
            self.low, self.high = [0] * spatial, [0] * spatial
        if call.integer("ceil_mode", 0) and not auto.startswith("SAME"):
            self._round_up()

    @property
    def spans(self) -> list[int]:
        """How many elements of the image a window spans."""
        return [d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilation, strict=True)]

    def counts(self) -> list[int]:
        """How many windows there are along each axis of the image, which is known."""
        sizes, pads = static(self.image, "image"), self.pads()
        counts = [
            (size + low + high - span) // stride + 1
            for size, low, high, span, stride in zip(
                sizes, pads[: len(sizes)], pads[len(sizes) :], self.spans, self.strides, strict=True
            )
        ]
        refuse(min(counts, default=1) < 1, f"its window {self.kernel} does not fit {sizes}")
        return counts

    def _same(self, upper: bool) -> None:
        sizes = static(self.image, "image")
        for axis, (size, span) in enumerate(zip(sizes, self.spans, strict=True)):
            stride = self.strides[axis]
            pads = max((-(-size // stride) - 1) * stride + span - size, 0)
            small = pads // 2
            self.low[axis] = small if upper else pads - small
            self.high[axis] = pads - self.low[axis]

    def _round_up(self) -> None:
        sizes = static(self.image, "image")
        for axis, (size, span) in enumerate(zip(sizes, self.spans, strict=True)):
            stride = self.strides[axis]
            room = size + self.low[axis] + self.high[axis] - span
            count = math.ceil(room / stride) + 1
            # The last window must start inside the image or the low pads.
            if (count - 1) * stride >= size + self.low[axis]:
                count -= 1
            self.extra[axis] = max((count - 1) * stride - room, 0)

    def pads(self) -> list[int]:
        """Low pads, then high pads, rounding up included."""
        return [*self.low, *(a + b for a, b in zip(self.high, self.extra, strict=True))]


# Convolutions.


def image_of(e: Builder, x: SSAValue) -> list[Size]:
    if e.rank(x) < 3:
        raise ProblemError(f"its image has rank {e.rank(x)}")
    return list(e.sizes(x)[2:])
