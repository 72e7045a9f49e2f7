"""`torch.ops.triton_dsl.ternary_conv2d`: a convolution with packed ternary weights.

It works with autograd (for the images, scale and bias), `torch.compile` and `torch.export`. On
processors it runs native kernels where llvmlite is installed (`native.torch_conv`), else PyTorch's
convolution. `ternary_conv2d` checks its arguments, and calls native kernels without PyTorch's
dispatcher where nothing would see the difference.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional, grad

from ..ir.errors import OptionError
from .native import torch_conv
from .native.torch_linear import is_cast, is_unseen
from .operator_library import LIBRARY, autocast, check_vectors, on_processor, register_flops
from .packing import unpack_unchecked

Ints = Sequence[int]
Window = tuple[Ints, Ints, Ints, int]
"""Stride, padding, dilation and groups."""
_grad: Any = grad

NAME = "triton_dsl::ternary_conv2d"
SCHEMA = (
    "(Tensor x, Tensor weight, int[] shape, Tensor? scale, Tensor? bias, "
    "int[] stride, int[] padding, int[] dilation, int groups) -> Tensor"
)

LIBRARY.define("ternary_conv2d" + SCHEMA, tags=(torch.Tag.pt2_compliant_tag,))


def _formula(
    x: Tensor, weight: Tensor, shape: Ints, scale: Tensor | None, bias: Tensor | None, *window: Any
) -> Tensor:
    if x.dtype == torch.int8:
        # float64 holds every sum.
        return _convolved(x.to(torch.float64), weight, shape, window).to(torch.int32)
    result = _convolved(x, weight, shape, window)
    if scale is not None:
        result = result * _channels(scale, x.dtype)
    if bias is not None:
        result = result + _channels(bias, x.dtype)
    return result


LIBRARY.impl("ternary_conv2d", _formula, "CompositeExplicitAutograd")
LIBRARY.impl("ternary_conv2d", on_processor(torch_conv.convolve, _formula), "CPU")
_OP: Any = torch.ops.triton_dsl.ternary_conv2d.default
_is_compiling = torch.compiler.is_compiling
_QUICK = (torch.float32, torch.int8)
_SOUND: set[Hashable] = set()
_MOST_SOUND = 4096
"""Arguments that were checked, but for values; beyond so many, each call is checked."""


def _channels(values: Tensor, dtype: torch.dtype) -> Tensor:
    return values.to(dtype).reshape(-1, 1, 1)


def _convolved(x: Tensor, weight: Tensor, shape: Ints, window: Window) -> Tensor:
    stride, padding, dilation, groups = window
    trits = unpack_unchecked(weight, shape, x.dtype)
    top, left, bottom, right = padding
    if (top, left) != (bottom, right):
        x = functional.pad(x, (left, right, top, bottom))
        top = left = 0
    y = functional.conv2d(x, trits, None, tuple(stride), (top, left), tuple(dilation), groups)
    return y.contiguous()


def _fake(
    x: Tensor, weight: Tensor, shape: Ints, scale: Tensor | None, bias: Tensor | None, *window: Any
) -> Tensor:
    stride, padding, dilation, _ = window
    sizes = [
        (x.shape[2 + a] + padding[a] + padding[2 + a] - _span(shape, dilation, a)) // stride[a] + 1
        for a in (0, 1)
    ]
    dtype = torch.int32 if x.dtype == torch.int8 else x.dtype
    return x.new_empty((x.shape[0], shape[0], *sizes), dtype=dtype)


def _span(shape: Ints, dilation: Ints, axis: int) -> int:
    """Rows or columns that a window covers."""
    return dilation[axis] * (shape[2 + axis] - 1) + 1


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, weight, ctx.shape, scale, bias, *ctx.window = inputs
    ctx.bias_dtype = None if bias is None else bias.dtype
    ctx.save_for_backward(x, weight, scale)


def _backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    x, weight, scale = ctx.saved_tensors
    grad_x = grad_scale = grad_bias = None
    if ctx.needs_input_grad[0]:
        scaled = gradient if scale is None else gradient * _channels(scale, gradient.dtype)
        trits = unpack_unchecked(weight, ctx.shape, gradient.dtype)
        grad_x = _image_gradient(x, trits, scaled, ctx.window)
    if scale is not None and ctx.needs_input_grad[3]:
        product = gradient * _OP(x, weight, ctx.shape, None, None, *ctx.window)
        grad_scale = product.sum((0, 2, 3)).to(scale.dtype)
    if ctx.needs_input_grad[4]:
        grad_bias = gradient.sum((0, 2, 3)).to(ctx.bias_dtype)
    return grad_x, None, None, grad_scale, grad_bias, None, None, None, None


def _image_gradient(x: Tensor, trits: Tensor, gradient: Tensor, window: Window) -> Tensor:
    stride, padding, dilation, groups = window
    top, left, bottom, right = padding
    batch, channels, height, width = x.shape
    padded = _grad.conv2d_input(
        (batch, channels, top + height + bottom, left + width + right),
        trits,
        gradient,
        tuple(stride),
        0,
        tuple(dilation),
        groups,
    )
    return padded[:, :, top : top + height, left : left + width]


torch.library.register_fake(NAME, _fake, lib=LIBRARY)
torch.library.register_autograd(NAME, _backward, setup_context=_setup_context, lib=LIBRARY)


def _count_flops(
    x_shape: Ints, weight_shape: Ints, shape: Ints, *_: Any, out_shape: Ints, **__: Any
) -> int:
    """What the convolution would cost with float weights."""
    return 2 * math.prod(out_shape) * math.prod(shape[1:])


register_flops(torch.ops.triton_dsl.ternary_conv2d, _count_flops)


def ternary_conv2d(
    x: Tensor,
    weight: Tensor,
    shape: Ints,
    scale: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    stride: Ints = (1, 1),
    padding: Ints = (0, 0),
    dilation: Ints = (1, 1),
    groups: int = 1,
) -> Tensor:
    """y = conv(x, W) · scale + bias, with packed trits W; the op `ternary.conv` on floats.

    The result is contiguous and has x's type, or that of `torch.autocast` where it is on; int8
    gives exact int32.

    Args:
        x: floats `[N, C, H, W]` or `[C, H, W]`, or int8 without scale and bias.
        weight: `uint8[ceil(O · C / groups · kh · kw / 4)]`, W packed row-major. Its codes are not
            checked here.
        shape: of W, `[O, C / groups, kh, kw]`.
        scale: floats `[O]`.
        bias: floats `[O]`.
        stride: for rows and columns.
        padding: zeros around an image, above and to the left; those below and to the right are as
            many, or two more numbers.
        dilation: of the window, for rows and columns.
        groups: parts that channels and outputs are divided in.

    Raises:
        OptionError: types or shapes that do not go together.
    """
    is_compiling = _is_compiling()
    if is_compiling or is_cast():
        x = autocast(x)
    try:
        pads = (*padding, *padding) if len(padding) == 2 else tuple(padding)
        window = (stride, pads, dilation, groups)
        numbers = (*shape, *stride, *pads, *dilation, groups)
        is_quick = not is_compiling and x.dtype in _QUICK and is_unseen(x, weight, scale, bias)
        given = _given(x, weight, shape, scale, bias, window, numbers) if is_quick else None
        is_sound = given in _SOUND
    except TypeError:  # no numbers, or no sequences of them
        raise _refusal(shape, (stride, padding, dilation, groups)) from None
    if not is_sound:
        _check(x, weight, shape, scale, bias, window, numbers)
        if not is_compiling:
            _check_size(x, shape, pads, dilation)
        if given is not None and len(_SOUND) < _MOST_SOUND:
            _SOUND.add(given)
    images = x.unsqueeze(0) if x.dim() == 3 else x
    result = None
    if is_quick:
        result = torch_conv.convolve(images, weight, shape, scale, bias, *window)
    if result is None:
        numbers = (list(stride), list(pads), list(dilation), groups)
        result = _OP(images, weight, list(shape), scale, bias, *numbers)
    return result.squeeze(0) if x.dim() == 3 else result


def _given(
    x: Tensor,
    weight: Tensor,
    shape: Ints,
    scale: Tensor | None,
    bias: Tensor | None,
    window: Window,
    numbers: Ints,
) -> Hashable:
    """All that `_check` and `_check_size` look at."""
    stride, padding, dilation, _ = window
    vectors = [None if v is None else v.shape for v in (scale, bias)]
    # Lengths and types tell apart what compares equal.
    parts = (len(shape), len(stride), len(padding), len(dilation), *map(type, numbers))
    return x.shape, x.dtype, weight.shape, weight.dtype, numbers, *vectors, parts


def _check_size(images: Tensor, shape: Ints, padding: Ints, dilation: Ints) -> None:
    """Refuse images that no window fits into; sizes that are traced are the caller's business."""
    for axis in (0, 1):
        size = images.shape[axis - 2] + padding[axis] + padding[2 + axis]
        if size < _span(shape, dilation, axis):
            raise OptionError(
                f"ternary_conv2d: a window of {_span(shape, dilation, 0)}x"
                f"{_span(shape, dilation, 1)} does not fit into images {list(images.shape)} with "
                f"padding {list(padding)}"
            )


def _check(
    x: Tensor,
    weight: Tensor,
    shape: Ints,
    scale: Tensor | None,
    bias: Tensor | None,
    window: Window,
    numbers: Sequence[Any],
) -> None:
    stride, padding, dilation, groups = window
    if (
        not all(isinstance(number, int | torch.SymInt) for number in numbers)
        or [len(shape), len(stride), len(padding), len(dilation)] != [4, 2, 4, 2]
        or min(shape[1], *padding) < 0
        or min(shape[0], *shape[2:], *stride, *dilation, groups) < 1
        or shape[0] % groups
    ):
        raise _refusal(shape, window)
    channels = groups * shape[1]
    size = -(-math.prod(shape) // 4)
    is_image = x.dim() in (3, 4) and x.shape[-3] == channels
    is_right = is_image and (x.is_floating_point() or x.dtype == torch.int8)
    if not is_right or weight.dtype != torch.uint8 or weight.shape != (size,):
        raise OptionError(
            f"ternary_conv2d: expected floats or int8 [N, {channels}, H, W] and uint8[{size}], "
            f"got {x.dtype}{list(x.shape)} and {weight.dtype}{list(weight.shape)}"
        )
    check_vectors("ternary_conv2d", "images", x, shape[0], scale, bias)


def _refusal(shape: Ints, window: Window) -> OptionError:
    stride, padding, dilation, groups = window
    return OptionError(
        f"ternary_conv2d: expected a shape [out, in / groups, kh, kw] and stride, padding and "
        f"dilation for rows and columns, whole numbers all, got {shape}, {stride}, {padding} and "
        f"{dilation} with {groups} groups"
    )
