"""`torch.ops.triton_dsl.ternary_linear`: a product with packed ternary weights that compilers see.

Loading this module registers the operator. It works with autograd (for the input, scale and bias),
`torch.compile` and `torch.export`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import flop_counter

from ..ir.errors import OptionError
from .ternary_tensor import unpack_unchecked

NAME = "triton_dsl::ternary_linear"
SCHEMA = "(Tensor x, Tensor weight, SymInt out_features, Tensor? scale, Tensor? bias) -> Tensor"


@torch.library.custom_op(NAME, mutates_args=(), schema=SCHEMA)
def _ternary_linear(
    x: Tensor, weight: Tensor, out_features: int, scale: Tensor | None, bias: Tensor | None
) -> Tensor:
    result = _product(x, weight, out_features)
    if scale is not None:
        result *= scale.to(x.dtype)
    if bias is not None:
        result += bias.to(x.dtype)
    return result


def _product(x: Tensor, weight: Tensor, out_features: int) -> Tensor:
    return torch.matmul(x, unpack_unchecked(weight, (x.shape[-1], out_features), x.dtype))


def _fake(
    x: Tensor, weight: Tensor, out_features: int, scale: Tensor | None, bias: Tensor | None
) -> Tensor:
    return x.new_empty((*x.shape[:-1], out_features))


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


_ternary_linear.register_fake(_fake)
_ternary_linear.register_autograd(_backward, setup_context=_setup_context)


def _count_flops(
    x_shape: Sequence[int], weight_shape: Sequence[int], out_features: int, *_: Any, **__: Any
) -> int:
    """What the product would cost with float weights."""
    return 2 * math.prod(x_shape) * out_features


_flop_counter: Any = flop_counter
_flop_counter.register_flop_formula(torch.ops.triton_dsl.ternary_linear)(_count_flops)


def ternary_linear(
    x: Tensor,
    weight: Tensor,
    out_features: int,
    scale: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """y = (x · W) · scale + bias, with packed trits W; the op `ternary.linear` on floats.

    The result has x's type, or that of `torch.autocast` where it is on.

    Args:
        x: floats `[..., in_features]`.
        weight: `uint8[ceil(in_features · out_features / 4)]`, W `[in_features, out_features]`
            packed row-major. Its codes are not checked here.
        out_features: the columns of W.
        scale: floats `[out_features]`.
        bias: floats `[out_features]`.

    Raises:
        OptionError: types or shapes that do not go together.
    """
    kind = x.device.type
    if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
        x = x.to(torch.get_autocast_dtype(kind))
    size = -(-x.shape[-1] * out_features // 4) if x.dim() else -1
    if not x.is_floating_point() or weight.dtype != torch.uint8 or weight.shape != (size,):
        raise OptionError(
            f"ternary_linear: expected floats [..., in] and uint8[ceil(in * {out_features} / 4)], "
            f"got {x.dtype}{list(x.shape)} and {weight.dtype}{list(weight.shape)}"
        )
    for name, vector in (("scale", scale), ("bias", bias)):
        if vector is not None and vector.shape != (out_features,):
            raise OptionError(
                f"ternary_linear: expected {name} of shape [{out_features}], "
                f"got {list(vector.shape)}"
            )
    result: Tensor = _ternary_linear(x, weight, out_features, scale, bias)
    return result
