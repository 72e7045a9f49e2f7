"""Convolutions of PyTorch's tensors with packed ternary weights, by native kernels.

`convolve` is what runs behind the operator `triton_dsl::ternary_conv2d` on processors. The geometry
is part of a kernel's code: one is compiled for each size of the images, stride and so on, but not
for each number of images. Weights in the layout of kernels are made once for each tensor (`held`).
Not here: the operator (`runtime.operators`), layers, other devices.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from struct import Struct
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from ..packing import unpack_unchecked
from .abi.conv import ConvGeometry, conv_weights
from .abi.linear import KIND_NAMED, PRECISIONS, Activations, Kind, Precision
from .abi.parallel import CONV_CALL, CONV_CALL_ARGUMENTS, CONV_PART
from .columns import Bytes, aligned
from .held import Contents, Held, digest_of
from .jit import Library
from .memory import Memory
from .provider import CONV
from .threads import WORTH_A_MEMBER, default_threads, with_pytorch
from .torch_linear import float_vector, precision

Ints = Sequence[int]

_MOST_SHAPES = 256
"""Shapes of images for which weights remember what to do."""
_MOST_GEOMETRIES = 64
"""Kernels that are compiled for one tensor of weights; other sizes of images take PyTorch's way."""
_SLOW_PRODUCTS = 4
"""Products of int8 that take as long as one of a depthwise convolution, which has no tiles."""

_pack = Struct(f"{len(CONV_CALL_ARGUMENTS)}q").pack


class ConvKernel(NamedTuple):
    """One compiled convolution.

    Attributes:
        library: with the functions of `abi.parallel`.
        scratch: bytes of memory that a thread works in, a multiple of 64.
    """

    library: Library
    scratch: int


class ConvProvider(Protocol):
    """Gives the kernel of a geometry that is `supported`."""

    def __call__(self, geometry: ConvGeometry, kind: Kind) -> ConvKernel: ...


class _Plan:
    """A call with images of a certain shape."""

    __slots__ = ("batch", "call", "kernel", "part", "result", "scratch", "units", "work")

    def __init__(self, kernel: ConvKernel, geometry: ConvGeometry, kind: Kind, batch: int) -> None:
        library = kernel.library
        self.call = library.function(CONV_CALL, [ctypes.c_char_p])
        self.part = library.function(CONV_PART, [ctypes.c_char_p, *[ctypes.c_int64] * 4])
        self.scratch = kernel.scratch
        self.batch = batch
        self.result = (batch, geometry.outs, geometry.out_height, geometry.out_width)
        each = _SLOW_PRODUCTS if geometry.depthwise else kind.digits
        worth = batch * geometry.work * each // WORTH_A_MEMBER
        self.units = batch * geometry.units
        self.work = min(worth, self.units)


class _Filters:
    """The weights of one tensor for kernels, and what to do for each shape of images."""

    def __init__(self, weights: Bytes, outs: int) -> None:
        self._weights = weights
        self.address: int = weights.ctypes.data
        self._ones, self._zeros = np.ones(outs, np.float32), np.zeros(outs, np.float32)
        self.ones: int = self._ones.ctypes.data
        self.zeros: int = self._zeros.ctypes.data
        self._plans: dict[tuple[Any, ...], _Plan | None] = {}
        self._geometries: set[ConvGeometry] = set()

    def plan(self, key: tuple[Any, ...], shape: Ints, x: Tensor, window: _Window) -> _Plan | None:
        """What to do for such images; `None` where no kernel can do it."""
        if key not in self._plans:
            plan = self._made(_geometry(x.shape, shape, window), x)
            with _LOCK:
                if len(self._plans) >= _MOST_SHAPES:
                    self._plans.clear()
                self._plans[key] = plan
        return self._plans[key]

    def _made(self, geometry: ConvGeometry, x: Tensor) -> _Plan | None:
        provider = CONV.get()
        if provider is None or not geometry.supported:
            return None
        with _LOCK:
            if geometry not in self._geometries and len(self._geometries) >= _MOST_GEOMETRIES:
                return None
            self._geometries.add(geometry)
        kind = KIND_NAMED[_activations(x.dtype, geometry)]
        kernel = provider(geometry, kind)
        return _Plan(kernel, geometry, kind, x.shape[0])


class _Window(NamedTuple):
    """How windows lie, as `runtime.operators.ternary_conv2d` takes it."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int


_HELD: dict[int, Held[_Filters]] = {}
"""By the identity of the tensor; the key is the shape and the groups."""
_CONTENTS: Contents[_Filters] = Contents()
_MEMORY = Memory()
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
    window = _Window(tuple(stride), tuple(padding), tuple(dilation), groups)
    filters = _find(weight, tuple(shape), groups)
    chosen: Precision | None = None if x.dtype is torch.int8 else precision()
    plan = filters.plan((x.shape, x.dtype, window, chosen), shape, x, window)
    if plan is None:
        return None
    # The vectors are named here, so that they outlive the call.
    scale = None if scale is None else float_vector(scale)
    bias = None if bias is None else float_vector(bias)
    scales = filters.ones if scale is None else scale.data_ptr()
    return _run(filters, plan, x, scales, filters.zeros if bias is None else bias.data_ptr())


def _run(filters: _Filters, plan: _Plan, x: Tensor, scales: int, offsets: int) -> Tensor:
    dtype = torch.int32 if x.dtype is torch.int8 else torch.float32
    y = torch.empty(plan.result, dtype=dtype, device=x.device)
    if plan.batch == 0:
        return y
    x = x.contiguous()
    threads = max(1, min(plan.work, default_threads()))
    memory = _MEMORY.of(plan.scratch * threads)
    addresses = (x.data_ptr(), filters.address, y.data_ptr(), memory, scales, offsets)
    arguments = _pack(*addresses, plan.batch)
    if threads > 1:
        with_pytorch(plan.part, arguments, threads, (plan.units, 0))
    else:
        plan.call(arguments)
    return y


def _activations(dtype: torch.dtype, geometry: ConvGeometry) -> Activations:
    if dtype is torch.int8:
        return "i8"
    # A depthwise convolution multiplies floats as floats, whatever the precision.
    return "f32" if geometry.depthwise else PRECISIONS[precision()]


def _geometry(images: Ints, shape: Ints, window: _Window) -> ConvGeometry:
    stride, padding, dilation, groups = window
    return ConvGeometry.of(images, shape, stride, padding, dilation, groups)


def _find(tensor: Tensor, shape: tuple[int, ...], groups: int) -> _Filters:
    known = _HELD.get(id(tensor))
    if known is not None and known.holds(tensor) and known.key == (shape, groups):
        return known.value
    with _LOCK:
        key = (shape, groups)
        digest = digest_of(tensor)
        filters = _CONTENTS.find(tensor, digest, key, lambda: _filters(tensor, shape, groups))
        _HELD[id(tensor)] = Held(tensor, digest, filters, _HELD, key)
        return filters


def _filters(tensor: Tensor, shape: tuple[int, ...], groups: int) -> _Filters:
    trits = unpack_unchecked(tensor, shape, torch.int8).numpy()
    # The layout is the same for images of any size.
    window = _Window((1, 1), (0, 0, 0, 0), (1, 1), groups)
    content = conv_weights(_geometry((1, groups * shape[1], 1, 1), shape, window), trits)
    weights = aligned(content.size)
    weights[...] = content
    return _Filters(weights, shape[0])
