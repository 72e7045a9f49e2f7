"""Convolutions of bytes with few channels, with pixels that lie side by side as channels of one.

ONNX Runtime's kernels for bytes (`MlasConvSym`) go from window to window and take each of its
pixels by itself, 4 channels at a time, and give 16 channels at a time. An image of 3 channels feeds
them badly, and so does a depthwise convolution of 8. Where channels lie together, as they do
between these kernels, pixels side by side are channels of one pixel without moving anything: a
convolution on such pixels has the weights of the other one, each row moved to where its pixel
stands, and zeros. The sums are the same. Not here: channels of zeros (`widths`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np
from xdsl.ir import SSAValue

from ...dialects import tensor
from ...dialects.shapes import DYNAMIC
from .graph import Array, Attributes
from .onnx_writer import Writer
from .widths import BEFORE, BEHIND

Sizes: TypeAlias = tuple[int, int, int]
"""Of an image, channels last, behind the batch."""

MOST_PRODUCTS, WIDE = (3, 1), 32
"""So many times the products that windows take else are worth it: by the first where the result has
fewer channels than the last, which kernels for processors without VNNI are busy with already."""

PART, ALLOWED = 8, 4096
"""All weights of the program by the first, or the second, is what weights may grow by, in bytes."""


@dataclass(frozen=True)
class Neighbours:
    """A convolution on pixels side by side.

    Attributes:
        weight: INT8, [together·out, taken·in, rows, columns].
        window: its attributes.
        image: the sizes of the packed image.
        result: those of the result with its pixels apart.
        together: how many pixels of the result are one.
    """

    weight: Array
    window: Attributes
    image: Sizes
    result: Sizes
    together: int

    def pack(self, e: Writer, x: str) -> str:
        """The image, [N, C, H, W], with pixels side by side as one."""
        before, sizes = e.neighbours.get(x, (x, None))
        return before if sizes == self.image else _reshaped(e, before, self.image)

    def unpack(self, e: Writer, y: str) -> str:
        """The result with its pixels apart."""
        high, wide, out = self.result
        made = _reshaped(e, y, self.result)
        e.neighbours[made] = (y, (high, wide // self.together, self.together * out))
        return made

    def each(self, numbers: Array) -> Array:
        """Numbers of the channels, [out], for those of all pixels."""
        return np.tile(numbers, self.together)


def neighbours_of(
    e: Writer, x: tuple[str, Sequence[int]], weight: Array, window: Attributes, result: SSAValue
) -> Neighbours | None:
    """How to pack a convolution; `None` where nothing is known to be gained.

    Args:
        e: where the image has been written.
        x: the image, [N, C, H, W], and its shape.
        weight: INT8, [out, in of a group, rows, columns].
        window: its attributes.
        result: of the layer.
    """
    (name, shape), is_image = x, weight.ndim == 4
    if not is_image or DYNAMIC in shape[1:] or set(_ints(window, "dilations")) != {1}:
        return None
    (out, _, rows, columns), (_, channels, height, width) = weight.shape, shape
    (down, right), pads = _ints(window, "strides"), _ints(window, "pads")
    high = (height + pads[0] + pads[2] - rows) // down + 1
    wide = (width + pads[1] + pads[3] - columns) // right + 1
    if columns == 1 or wide * right != width:
        return None
    is_deep = window["group"] == channels == out > 1
    if is_deep and channels < BEHIND:
        weight = np.eye(channels, dtype=np.int8)[:, :, None, None] * weight
    elif window["group"] != 1 or channels > BEFORE:
        return None
    together = _together(channels, out, wide, right)
    if together is None:
        return None
    taken = together * right
    image = (height, width // taken, taken * channels)
    packed, before, behind = _moved(weight, right, pads[1], together)
    attributes: Attributes = {
        "strides": (down, 1), "pads": (pads[0], before, pads[2], behind),
        "dilations": (1, 1), "group": 1,
    }  # fmt: skip
    made = Neighbours(packed, attributes, image, (high, wide, out), together)
    if is_deep:  # worth it where what it reads comes so
        return made if e.neighbours.get(name, ("", None))[1] == image else None
    times = packed.shape[3] * image[2] / (BEFORE * columns)
    grows = packed.size - weight.size > max(e.stored // PART, ALLOWED)
    if grows or times > MOST_PRODUCTS[out >= WIDE] or not _suits(result, out, together):
        return None
    return made


def _together(channels: int, out: int, wide: int, stride: int) -> int | None:
    """The least number of results that fills the kernel's vectors."""
    counts = (count for count in range(2, wide + 1) if wide % count == 0)
    fills = (n for n in counts if (n * out % BEHIND, n * stride * channels % BEFORE) == (0, 0))
    return next(fills, None)


def _suits(result: SSAValue, out: int, together: int) -> bool:
    """Whether depthwise convolutions that read a result find it with channels in whole vectors."""
    return out % BEHIND == 0 or all(
        together * out == BEHIND and reader.strides.get_values()[1] == 1
        for reader in _convolutions(result)
        if reader.groups.value.data != 1
    )


def _convolutions(value: SSAValue) -> Iterator[tensor.ConvOp]:
    """Those that read bytes less their zero point."""
    for reader in [use.operation for use in value.uses]:
        if isinstance(reader, tensor.ConvOp):
            yield reader
        elif isinstance(reader, tensor.ConvertOp | tensor.SubOp | tensor.PadToOp):
            yield from _convolutions(reader.results[0])


def _moved(weight: Array, stride: int, pad: int, together: int) -> tuple[Array, int, int]:
    """The weights for `together` results at once, and the pads before and behind."""
    out, channels, rows, columns = weight.shape
    taken = together * stride
    first, last = -pad, stride * (together - 1) + columns - 1 - pad
    before, behind = -(first // taken), last // taken
    packed = np.zeros((together, out, before + behind + 1, taken, channels, rows), np.int8)
    for pixel in range(together):
        for column in range(columns):
            block, place = divmod(stride * pixel + column - pad, taken)
            packed[pixel, :, block + before, place] = weight[:, :, :, column]
    ordered = packed.transpose(0, 1, 3, 4, 5, 2)
    return ordered.reshape(together * out, taken * channels, rows, -1), before, behind


def _reshaped(e: Writer, x: str, sizes: Sizes) -> str:
    """An image with its pixels, channels last, as those of other sizes."""
    last = e.apply("Transpose", [x], perm=(0, 2, 3, 1))
    pixels = e.reshape_with_copies(last, (-2, *sizes))
    return e.apply("Transpose", [pixels], perm=(0, 3, 1, 2))


def _ints(attributes: Attributes, name: str) -> Sequence[int]:
    return cast("Sequence[int]", attributes[name])
