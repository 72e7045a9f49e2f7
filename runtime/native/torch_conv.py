"""Convolutions of PyTorch's tensors with packed ternary weights, by compiled programs.

`convolve` is what runs behind the operator `triton_dsl::ternary_conv2d` on processors. A program is
compiled for a tensor of weights and a size of images, stride and so on, but not for each number of
images. Not here: the operator (`runtime.operators`), layers, other devices.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from ...ir.arrays import Array
from .abi.conv import Convolution
from .held import Contents, Held, digest_of
from .program import NativeProgram
from .provider import CONV
from .threads import default_threads
from .torch_linear import float_vector, precision

Ints = Sequence[int]

_MOST_PROGRAMS = 64
"""Programs of one tensor of weights, and tensors for which one convolution is compiled: beyond,
where sizes or weights seem to change all the time, PyTorch's way is taken."""


class ConvProvider(Protocol):
    """Compiles a convolution with weights, uint8 as the operator takes them, for so many threads.

    The program takes images [N, C, H, W], and the scale and bias [O] of floats.
    """

    def __call__(self, conv: Convolution, packed: Array, threads: int) -> NativeProgram: ...


class _Filters:
    """The weights of one tensor, and the programs compiled for them."""

    def __init__(self, packed: Array, outs: int) -> None:
        self._packed = packed
        self.ones, self.zeros = np.ones(outs, np.float32), np.zeros(outs, np.float32)
        self._programs: dict[tuple[Convolution, int], NativeProgram | None] = {}
        self._counted: set[Convolution] = set()

    def program(self, conv: Convolution, threads: int) -> NativeProgram | None:
        """What convolves such images; `None` where nothing is compiled for them."""
        key = (conv, threads)
        if key not in self._programs:
            with _LOCK:
                if key not in self._programs:
                    self._programs[key] = self._made(conv, threads)
        return self._programs[key]

    def _made(self, conv: Convolution, threads: int) -> NativeProgram | None:
        provider = CONV.get()
        if provider is None or min(*conv.image, *conv.shape, *conv.places) < 1:
            return None
        if len(self._programs) >= _MOST_PROGRAMS:
            return None
        if conv not in self._counted:
            if _COMPILED[conv] >= _MOST_PROGRAMS:
                return None
            _COMPILED[conv] += 1
            self._counted.add(conv)
        return provider(conv, self._packed, threads)


_HELD: dict[int, Held[_Filters]] = {}
"""By the identity of the tensor."""
_CONTENTS: Contents[_Filters] = Contents()
_COMPILED: Counter[Convolution] = Counter()
_LOCK = threading.RLock()


def convolve(
    x: Tensor,
    weight: Tensor,
    shape: Ints,
    scale: Tensor | None,
    bias: Tensor | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    groups: int,
) -> Tensor | None:
    """y = conv(x, W) · scale + bias; `None` where no kernel can do it.

    Nothing is checked: all arguments are ordinary tensors in main memory, of matching shapes.

    Args:
        x: float32 or int8 `[N, C, H, W]`. int8 gives int32, without scale and bias.
        weight: uint8, W `[O, C / groups, kh, kw]` packed row-major.
        shape: of W.
        scale: floats `[O]`.
        bias: floats `[O]`.
        stride: for rows, then for columns.
        padding: before the first row and column, and behind the last ones.
        dilation: for rows, then for columns.
        groups: parts that channels and outputs are divided in.
    """
    if CONV.get() is None:
        return None
    floats = x.dtype is torch.float32
    conv = Convolution(
        tuple(x.shape[1:]),
        tuple(shape),
        tuple(stride),
        tuple(padding),
        tuple(dilation),
        groups,
        floats,
        precision() if floats else "float32",
    )
    filters = _find(weight, shape[0])
    program = filters.program(conv, default_threads())
    if program is None:
        return None
    if x.shape[0] == 0:
        dtype = torch.float32 if floats else torch.int32
        return torch.empty((0, shape[0], *conv.places), dtype=dtype)
    images = x.detach().contiguous().numpy()
    if not floats:
        return torch.from_numpy(program(images))
    given = ((scale, filters.ones), (bias, filters.zeros))
    vectors = [default if v is None else float_vector(v).detach().numpy() for v, default in given]
    return torch.from_numpy(program(images, *vectors))


def _find(tensor: Tensor, outs: int) -> _Filters:
    known = _HELD.get(id(tensor))
    if known is not None and known.holds(tensor) and known.key == outs:
        return known.value
    with _LOCK:
        digest = digest_of(tensor)

        def made() -> _Filters:
            return _Filters(tensor.detach().contiguous().numpy().copy(), outs)

        filters = _CONTENTS.find(tensor, digest, outs, made)
        _HELD[id(tensor)] = Held(tensor, digest, filters, _HELD, outs)
        return filters
