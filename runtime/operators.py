"""`torch.ops.triton_dsl.ternary_linear`: a product with packed ternary weights that compilers see.

Loading this module registers the operator, and `ternary_conv2d` (`conv2d_operator`). It works with
autograd (for the input, scale and bias), `torch.compile` and `torch.export`. On processors it runs
native kernels where llvmlite is installed (`native.torch_linear`), on NVIDIA's devices kernels of
OpenAI's Triton where that is (`cuda`), else the formula of PyTorch. `ternary_linear` checks its
arguments, and calls native kernels without PyTorch's dispatcher where nothing would see the
difference.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from ..ir.errors import OptionError
from .conv2d_operator import ternary_conv2d
from .native import torch_linear
from .native.abi.linear import Precision
from .operator_library import LIBRARY, autocast, check_vectors, on_processor, register_flops
from .packing import unpack_unchecked

__all__ = [
    "get_precision",
    "set_precision",
    "ternary_conv2d",
    "ternary_linear",
    "use_precision",
]

NAME = "triton_dsl::ternary_linear"
SCHEMA = "(Tensor x, Tensor weight, SymInt out_features, Tensor? scale, Tensor? bias) -> Tensor"

LIBRARY.define("ternary_linear" + SCHEMA, tags=(torch.Tag.pt2_compliant_tag,))


def set_precision(precision: Precision) -> None:
    """Choose how native kernels multiply float activations, for the whole process.

    `float32`, the default, is as accurate as float32 arithmetic. `dynamic-int8` rounds each row of
    activations to int8 first (scale max|x| / 127), and takes half to a third of the time. The
    choice is read when a product runs, also in compiled and exported models. Other devices, and
    processors without native kernels, always use float arithmetic.

    Raises:
        OptionError: an unknown precision.
    """
    torch_linear.set_precision(precision)


def get_precision() -> Precision:
    """What `set_precision` chose."""
    return torch_linear.precision()


@contextmanager
def use_precision(precision: Precision) -> Generator[None]:
    """`set_precision` for a `with` block; for the whole process, too.

    Raises:
        OptionError: an unknown precision.
    """
    before = get_precision()
    set_precision(precision)
    try:
        yield
    finally:
        set_precision(before)


def _formula(
    x: Tensor, weight: Tensor, out_features: int, scale: Tensor | None, bias: Tensor | None
) -> Tensor:
    if x.dtype == torch.int8:
        # float64 holds every sum.
        return _product(x.to(torch.float64), weight, out_features).to(torch.int32)
    result = _product(x, weight, out_features)
    if scale is not None:
        result *= scale.to(x.dtype)
    if bias is not None:
        result += bias.to(x.dtype)
    return result


def _on_cuda(
    x: Tensor, weight: Tensor, out_features: int, scale: Tensor | None, bias: Tensor | None
) -> Tensor:
    from .cuda import product

    result = product(x, weight, out_features, scale, bias)
    return _formula(x, weight, out_features, scale, bias) if result is None else result


LIBRARY.impl("ternary_linear", _formula, "CompositeExplicitAutograd")
LIBRARY.impl("ternary_linear", on_processor(torch_linear.product, _formula), "CPU")
LIBRARY.impl("ternary_linear", _on_cuda, "CUDA")
_is_compiling = torch.compiler.is_compiling
_OP: Any = torch.ops.triton_dsl.ternary_linear.default


def _product(x: Tensor, weight: Tensor, out_features: int) -> Tensor:
    return torch.matmul(x, unpack_unchecked(weight, (x.shape[-1], out_features), x.dtype))


def _fake(
    x: Tensor, weight: Tensor, out_features: int, scale: Tensor | None, bias: Tensor | None
) -> Tensor:
    dtype = torch.int32 if x.dtype == torch.int8 else x.dtype
    return x.new_empty((*x.shape[:-1], out_features), dtype=dtype)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, weight, ctx.out_features, scale, bias = inputs
    ctx.bias_dtype = None if bias is None else bias.dtype
    ctx.save_for_backward(x, weight, scale)


def _backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    x, weight, scale = ctx.saved_tensors
    leading = list(range(gradient.dim() - 1))
    grad_x = grad_scale = grad_bias = None
    if ctx.needs_input_grad[0]:
        scaled = gradient if scale is None else gradient * scale.to(gradient.dtype)
        trits = unpack_unchecked(weight, (x.shape[-1], ctx.out_features), gradient.dtype)
        grad_x = torch.matmul(scaled, trits.T)
    if scale is not None and ctx.needs_input_grad[3]:
        grad_scale = gradient * _product(x, weight, ctx.out_features)
        grad_scale = (grad_scale.sum(leading) if leading else grad_scale).to(scale.dtype)
    if ctx.needs_input_grad[4]:
        grad_bias = (gradient.sum(leading) if leading else gradient).to(ctx.bias_dtype)
    return grad_x, None, None, grad_scale, grad_bias


torch.library.register_fake(NAME, _fake, lib=LIBRARY)
torch.library.register_autograd(NAME, _backward, setup_context=_setup_context, lib=LIBRARY)


def _count_flops(
    x_shape: Sequence[int], weight_shape: Sequence[int], out_features: int, *_: Any, **__: Any
) -> int:
    """What the product would cost with float weights."""
    return 2 * math.prod(x_shape) * out_features


register_flops(torch.ops.triton_dsl.ternary_linear, _count_flops)


def ternary_linear(
    x: Tensor,
    weight: Tensor,
    out_features: int,
    scale: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """y = (x · W) · scale + bias, with packed trits W; the op `ternary.linear` on floats.

    The result has x's type, or that of `torch.autocast` where it is on; int8 gives exact int32.

    Args:
        x: floats `[..., in_features]`, or int8 without scale and bias.
        weight: `uint8[ceil(in_features · out_features / 4)]`, W `[in_features, out_features]`
            packed row-major. Its codes are not checked here.
        out_features: the columns of W.
        scale: floats `[out_features]`.
        bias: floats `[out_features]`.

    Raises:
        OptionError: types or shapes that do not go together.
    """
    if not _is_compiling():
        result = torch_linear.quick_product(x, weight, out_features, scale, bias)
        if result is not None:
            return result
    x = autocast(x)
    _check(x, weight, out_features, scale, bias)
    result = _OP(x, weight, out_features, scale, bias)
    if not _is_compiling():
        torch_linear.remember(weight, scale, bias)
    return result


def _check(
    x: Tensor, weight: Tensor, out_features: int, scale: Tensor | None, bias: Tensor | None
) -> None:
    size = -(-x.shape[-1] * out_features // 4) if x.dim() else -1
    is_right = x.is_floating_point() or x.dtype == torch.int8
    if not is_right or weight.dtype != torch.uint8 or weight.shape != (size,):
        raise OptionError(
            f"ternary_linear: expected floats or int8 [..., in] and "
            f"uint8[ceil(in * {out_features} / 4)], "
            f"got {x.dtype}{list(x.shape)} and {weight.dtype}{list(weight.shape)}"
        )
    check_vectors("ternary_linear", "activations", x, out_features, scale, bias)
