"""A convolution of PyTorch's operator, as it asks for a program.

`lowering.to_native.conv_kernels` compiles it, `runtime.native.torch_conv` runs it.
"""

from __future__ import annotations

from typing import NamedTuple

from .linear import Precision


class Convolution(NamedTuple):
    """A convolution but for its weights.

    Attributes:
        image: channels, rows and columns.
        shape: of the weights, [out, in / groups, rows, columns].
        stride: for rows and columns.
        padding: zeros above, to the left, below and to the right.
        dilation: for rows and columns.
        groups: parts that channels and outputs are divided in.
        floats: whether images are float32, else int8.
        precision: of float images.
    """

    image: tuple[int, ...]
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    floats: bool
    precision: Precision

    @property
    def places(self) -> tuple[int, ...]:
        """Rows and columns of the result; less than one where no window fits."""
        return tuple(
            (self.image[1 + a] + self.padding[a] + self.padding[2 + a] - self._span(a))
            // self.stride[a]
            + 1
            for a in (0, 1)
        )

    def _span(self, axis: int) -> int:
        return self.dilation[axis] * (self.shape[2 + axis] - 1) + 1
