"""Rules that pick pixels at computed places, and those that sum what windows hold.

Not here: new sizes of images, whose places are known (`rules_resize`), pixels of regions
(`rules_regions`).
"""

from __future__ import annotations

from itertools import product as cross
from math import prod

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import f32, i64
from xdsl.ir import SSAValue

from ...dialects import tensor
from ..from_torch.sizes import ProblemError
from .emitter import Call, Emitter, Rule
from .rules_activation import Formula
from .rules_index import RULES as INDEX
from .rules_shape import check_size, counted
from .windows import Window

Array = NDArray[np.int64]


class Pixels:
    """Pixels of images [N, C, …] at whole places.

    Args:
        e: writes the ops.
        images: of fixed sizes.
    """

    def __init__(self, e: Emitter, images: SSAValue) -> None:
        self.e, shape = e, e.shape(images)
        self.sizes = shape[2:]
        # Rows of the table are pixels, with a channel each.
        moved = e.move_axis(images, 1, len(shape) - 1)
        self.rows = e.reshape(moved, [shape[0] * prod(shape[2:]), shape[1]])

    def at(self, image: Formula, places: list[Formula], *, zeros: bool) -> Formula:
        """The pixels of images at places, each a tensor, as […, C].

        Those of places outside are 0, or the nearest ones.
        """
        e, inside, flat = self.e, None, image
        for place, size in zip(places, self.sizes, strict=True):
            low = e.add(tensor.CompareOp(place.value, e.number(-0.5, place.value), "gt"))
            high = e.add(tensor.CompareOp(place.value, e.number(size - 0.5, place.value), "lt"))
            within = e.add(tensor.AndOp(low, high))
            inside = within if inside is None else e.add(tensor.AndOp(inside, within))
            whole = Formula(e, e.convert(place.maximum(0).minimum(size - 1).value, i64))
            flat = flat * size + whole
        assert inside is not None
        found = e.add(tensor.GatherRowsOp(self.rows, flat.value))
        if zeros:
            kept = e.add(tensor.UnsqueezeOp(inside, [e.rank(inside)]))
            found = e.add(tensor.WhereOp(kept, found, e.number(0, found)))
        return Formula(e, found)


class _Sampler:
    """Pixels of an image [N, C, …] at computed places [N, …, axes]."""

    def __init__(self, e: Emitter, call: Call) -> None:
        self.e = e
        self.image, grid = call[0], e.convert(call[1], f32)
        self.shape, places = e.shape(self.image), e.shape(grid)
        self.axes, self.places = len(self.shape) - 2, places[:-1]
        if places[-1] != self.axes or self.axes < 1:
            raise ProblemError(f"its grid {places} does not fit an image of {self.shape}")
        self.padding = str(call.get("padding_mode", "zeros"))
        if self.padding not in ("zeros", "border", "reflection"):
            raise ProblemError(f"its padding_mode '{self.padding}' is unknown")
        self.align = bool(call.get("align_corners", 0))
        self.pixels = Pixels(e, self.image)
        last = e.rank(grid) - 1
        self.coordinates = [
            self._coordinate(Formula(e, e.reshape(e.cut(grid, last, a, a + 1), self.places)), size)
            for a, size in zip(range(self.axes - 1, -1, -1), self.shape[2:], strict=True)
        ]

    def _coordinate(self, x: Formula, size: int) -> Formula:
        """From -1 … 1 to pixels."""
        if self.align:
            return (x + 1) * ((size - 1) / 2)
        return ((x + 1) * size - 1) * 0.5

    def reflected(self, x: Formula, size: int) -> Formula:
        """Places beyond an edge turned back."""
        low, high = (0.0, size - 1.0) if self.align else (-0.5, size - 0.5)
        span = high - low
        if span == 0:
            return x * 0
        e = self.e
        period = e.number(2 * span, f32)
        part = Formula(e, e.add(tensor.ModOp((x - low).value, period)))
        far = (2 * span - part).value
        folded = part.where("le", span, Formula(e, far)) + low
        return folded.maximum(0).minimum(size - 1)

    def pixel(self, places: list[Formula]) -> Formula:
        """The pixels at whole places [N, …], as [N, …, C]."""
        if self.padding == "reflection":
            pairs = zip(places, self.shape[2:], strict=True)
            places = [self.reflected(place, size) for place, size in pairs]
        batch = counted(self.shape[0]).reshape(-1, *[1] * (len(self.places) - 1))
        image = Formula(self.e, self.e.indices(batch))
        return self.pixels.at(image, places, zeros=self.padding == "zeros")

    def weighed(self, kernel: list[list[tuple[Formula, Formula]]]) -> SSAValue:
        """Σ of pixels times weights; for each axis the places and their weights."""
        e = self.e
        total: Formula | None = None
        for chosen in cross(*kernel):
            value = self.pixel([place for place, _ in chosen])
            weight = chosen[0][1]
            for _, other in chosen[1:]:
                weight = weight * other
            spread = e.add(tensor.UnsqueezeOp(weight.value, [len(self.places)]))
            part = value * Formula(e, e.convert(spread, self.image))
            total = part if total is None else total + part
        assert total is not None
        return e.move_axis(total.value, len(self.places), 1)


def _cubic(x: Formula, a: float = -0.75) -> list[Formula]:
    """Weights of the four pixels around a fraction x (Keys 1981)."""

    def outer(d: Formula) -> Formula:
        return ((d * a - 5 * a) * d + 8 * a) * d - 4 * a

    def inner(d: Formula) -> Formula:
        return ((d * (a + 2) - (a + 3)) * d) * d + 1

    return [outer(x + 1), inner(x), inner(1 - x), outer(2 - x)]


def _grid_sample(e: Emitter, call: Call) -> SSAValue:
    sampler, mode = _Sampler(e, call), str(call.get("mode", "linear"))
    kernel: list[list[tuple[Formula, Formula]]] = []
    for place, size in zip(sampler.coordinates, sampler.shape[2:], strict=True):
        if sampler.padding == "border" and mode != "cubic" and mode != "bicubic":
            place = place.maximum(0).minimum(size - 1)
        elif sampler.padding == "reflection" and mode not in ("cubic", "bicubic"):
            place = sampler.reflected(place, size)
        if mode == "nearest":
            near = place.of(tensor.RoundOp)
            kernel.append([(near, near * 0 + 1)])
            continue
        floor = place.of(tensor.FloorOp)
        part = place - floor
        if mode in ("linear", "bilinear"):
            kernel.append([(floor, 1 - part), (floor + 1, part)])
        elif mode in ("cubic", "bicubic"):
            weights = _cubic(part)
            kernel.append([(floor + (i - 1), weight) for i, weight in enumerate(weights)])
        else:
            raise ProblemError(f"its mode '{mode}' is unknown")
    return sampler.weighed(kernel)


def _col2im(e: Emitter, call: Call) -> SSAValue:
    """Columns of windows put back into an image, summed where they overlap."""
    image, kernel = (e.int_list(call[i], what) for i, what in ((1, "image"), (2, "kernel")))
    window = Window(e, call, kernel, list(image))
    check_size([*image, *kernel])
    n, rows, columns = e.shape(call[0])
    channels = rows // prod(kernel)
    padded: list[int] = [
        size + a + b for size, a, b in zip(image, window.low, window.high, strict=True)
    ]
    counts = [
        (size - span) // stride + 1
        for size, span, stride in zip(padded, window.spans, window.strides, strict=True)
    ]
    if rows != channels * prod(kernel) or columns != prod(counts) or min(counts) < 1:
        raise ProblemError(f"its columns [{rows}, {columns}] do not fit an image of {image}")
    check_size([n, channels, *padded])
    places: Array = np.zeros((*kernel, *counts), np.int64)
    spatial = len(kernel)
    for axis in range(spatial):
        offset = np.arange(kernel[axis]) * window.dilation[axis]
        start = np.arange(int(counts[axis])) * int(window.strides[axis])
        shape = [1] * (2 * spatial)
        shape[axis], shape[spatial + axis] = kernel[axis], counts[axis]
        places = places * padded[axis] + (offset[:, None] + start).reshape(shape)
    last = e.reshape(e.permute(e.reshape(call[0], [n * channels, prod(kernel) * columns]), [1, 0]),
                     [places.size, n * channels])  # fmt: skip
    zero = e.stretch(e.reshape(e.number(0, last), [1, 1]), [prod(padded), n * channels])
    targets = e.indices(places.reshape(-1, 1))
    put = Call("ScatterND", "", 18, [zero, targets, last], {"reduction": "add"})
    made = e.reshape(e.permute(INDEX["ScatterND"](e, put), [1, 0]), [n, channels, *padded])
    for axis, (low, size) in enumerate(zip(window.low, image, strict=True)):
        made = e.cut(made, 2 + axis, low, low + size)
    return made


RULES: dict[str, Rule] = {"Col2Im": _col2im, "GridSample": _grid_sample}
"""By the type of the operator."""
