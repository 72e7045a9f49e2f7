"""Windows that slide over images: what convolutions and pools of all dialects share.

Not here: sums over windows on NumPy (`interpret_linear`).
"""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Sequence
from typing import Any, ClassVar, TypedDict

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from xdsl.dialects.builtin import BoolAttr, DenseArrayBase, IntegerAttr, IntegerType
from xdsl.irdl import prop_def

from ..inference import InferredOp, Value, fail
from ..meaning import Array
from ..shapes import DYNAMIC, Shape, integer, merge_dim, window_output
from .interpret_linear import over_windows


class ConvWindow(TypedDict, total=False):
    """The window of a convolution, by the names of its properties.

    `padding` holds the low pads of all spatial axes, then the high pads.
    """

    strides: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]
    groups: int


_PLAIN = ConvWindow(strides=(1, 1), padding=(0, 0, 0, 0), dilation=(1, 1))
"""The window of a convolution that says nothing of it."""


class Convolves(InferredOp, ABC):
    """A convolution with a weight [O, C/groups, …], 1-d or 2-d, with pads that are zeros."""

    strides = prop_def(DenseArrayBase[IntegerType])
    padding = prop_def(DenseArrayBase[IntegerType])
    dilation = prop_def(DenseArrayBase[IntegerType])
    groups = prop_def(IntegerAttr[IntegerType], default_value=integer(1))

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **{**_PLAIN, **named})

    @property
    def window(self) -> ConvWindow:
        """The window, as constructors and functions on arrays take it."""
        return {
            "strides": self.strides.get_values(),
            "padding": self.padding.get_values(),
            "dilation": self.dilation.get_values(),
            "groups": self.groups.value.data,
        }


def conv_shape(
    input: Shape,
    weight: Shape,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Shape:
    """The result shape of a convolution; every argument is checked."""
    spatial = len(input) - 2
    if spatial not in (1, 2) or len(weight) != len(input):
        fail(
            "expects input and weight of rank 3 (1-d) or 4 (2-d), "
            f"got ranks {len(input)} and {len(weight)}"
        )
    check_window(spatial, strides, padding, dilation)
    if groups < 1 or (weight[0] != DYNAMIC and weight[0] % groups):
        fail(f"expects groups that divide {weight[0]} output channels, got {groups}")
    if weight[1] != DYNAMIC:
        merge_dim(input[1], weight[1] * groups, "input channels")
    return (
        input[0],
        weight[0],
        *(
            window_output(
                input[2 + a],
                weight[2 + a],
                strides[a],
                padding[a],
                padding[spatial + a],
                dilation[a],
            )
            for a in range(spatial)
        ),
    )


def check_window(
    spatial: int, strides: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> None:
    """Refuse window properties of wrong length or sign."""
    for what, values, length, least in (
        ("strides", strides, spatial, 1),
        ("padding", padding, 2 * spatial, 0),
        ("dilation", dilation, spatial, 1),
    ):
        if len(values) != length or min(values) < least:
            fail(f"expects {length} {what} of at least {least}, got {list(values)}")


class Pools(InferredOp, ABC):
    """A sliding window over the spatial axes of an image, 1-d or 2-d."""

    LEADING: ClassVar[int]
    """How many axes of the image are not spatial: they stand first."""

    IMAGE: ClassVar[str]
    """What errors call an image."""

    kernel = prop_def(DenseArrayBase[IntegerType])
    strides = prop_def(DenseArrayBase[IntegerType])
    padding = prop_def(DenseArrayBase[IntegerType])

    def __init__(
        self,
        operand: Value,
        kernel: Sequence[int],
        strides: Sequence[int] | None = None,
        padding: Sequence[int] | None = None,
        **named: Any,
    ) -> None:
        super().__init__(
            operand,
            kernel,
            kernel if strides is None else strides,
            [0] * (2 * len(kernel)) if padding is None else padding,
            **named,
        )

    @property
    def window(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Kernel, strides and padding, as constructors take them."""
        kernel, strides, padding = (
            p.get_values() for p in (self.kernel, self.strides, self.padding)
        )
        return kernel, strides, padding

    def pooled_shape(self, shape: Shape) -> Shape:
        """The shape of the result for an image of this shape, checked."""
        kernel, strides, padding = self.window
        lead, spatial = self.LEADING, len(shape) - self.LEADING
        if spatial not in (1, 2) or len(kernel) != spatial or min(kernel) < 1:
            fail(
                f"expects {self.IMAGE} of rank {lead + 1} or {lead + 2} and a kernel to match, "
                f"got {self.operands[0].type}"
            )
        check_window(spatial, strides, padding, [1] * spatial)
        if any(padding[a] * 2 > kernel[a % spatial] for a in range(2 * spatial)):
            fail(f"expects padding of at most half the kernel, got {list(padding)}")
        sizes = [
            window_output(n, kernel[a], strides[a], padding[a], padding[spatial + a], 1)
            for a, n in enumerate(shape[lead:])
        ]
        return (*shape[:lead], *sizes)

    def windows(self, x: Array, fill: Any) -> Array:
        """What each position sees: [leading…, positions…, kernel…], pads filled with `fill`."""
        kernel, strides, padding = self.window
        lead, spatial = self.LEADING, len(kernel)
        pads = [(0, 0)] * lead + [*zip(padding[:spatial], padding[spatial:], strict=True)]
        padded = np.pad(x, pads, constant_values=fill)
        windows = sliding_window_view(padded, kernel, axis=tuple(range(lead, x.ndim)))
        return windows[(*[slice(None)] * lead, *(slice(None, None, s) for s in strides))]


class Averages(Pools, ABC):
    """The mean of each window; `count_include_pad` counts pads as zeros, else they are left out."""

    count_include_pad = prop_def(BoolAttr, default_value=BoolAttr.from_bool(True))

    def compute(self, x: Array) -> Array:
        """The means, in the type of `x`; of spikes in f32."""
        x = x.astype(np.float32) if x.dtype.kind == "b" else x
        counts: Any = x.dtype.type(math.prod(self.kernel.get_values()))
        if not self.count_include_pad.value.data:
            ones = np.ones((*[1] * self.LEADING, *x.shape[self.LEADING :]), x.dtype)
            counts = over_windows(np.add, self.windows(ones, 0), x.ndim)
        return over_windows(np.add, self.windows(x, 0), x.ndim) / counts


class Maxima(Pools, ABC):
    """The maximum of each window, of truth values whether one is set; pads never win."""

    def compute(self, x: Array) -> Array:
        """The maxima, in the type of `x`."""
        lowest = -np.inf if x.dtype.kind == "f" else x.dtype.kind != "b" and np.iinfo(x.dtype).min
        return over_windows(np.maximum, self.windows(x, lowest), x.ndim)
