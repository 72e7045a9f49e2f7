"""Products with packed ternary weights on NVIDIA's devices, by kernels of OpenAI's Triton.

Weights are read as they are stored, two bits a trit, and unpacked in registers. Many rows of
activations go through the tensor cores (`tl.dot`), few rows through sums of products. Floats are
summed in float32, int8 in int32, exactly. Not here: the operator (`runtime.operators`), processors
(`native.torch_linear`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

FEW_ROWS = 8
"""Up to so many rows are multiplied one by one, without tensor cores."""

_TYPES = (torch.float32, torch.float16, torch.bfloat16, torch.int8)


@dataclass(frozen=True)
class Tile:
    """How much one program of a kernel computes: rows by outputs, so many inputs at a time."""

    rows: int
    outs: int
    ins: int
    warps: int


FEW = Tile(rows=1, outs=128, ins=64, warps=4)
MANY = Tile(rows=64, outs=64, ins=64, warps=4)
MANY_FLOAT32 = Tile(rows=32, outs=64, ins=32, warps=4)
"""Tiles of float32 take twice the shared memory."""


def product(
    x: Tensor, weight: Tensor, outs: int, scale: Tensor | None, bias: Tensor | None
) -> Tensor | None:
    """y = (x · W) · scale + bias; `None` where no kernel can do it.

    Args:
        x: float32, float16, bfloat16 or int8 `[..., ins]`. int8 gives int32, without scale and
            bias.
        weight: uint8, W `[ins, outs]` packed row-major, on x's device.
        outs: the columns of W.
        scale: floats `[outs]`.
        bias: floats `[outs]`.
    """
    # Places in a tensor are counted in 32 bits.
    rows = x.shape[:-1].numel()
    largest = max(x.numel(), rows * outs, 4 * weight.numel())
    if x.dtype not in _TYPES or largest >= 1 << 31 or not _is_able(x.device):
        return None
    dtype = torch.int32 if x.dtype == torch.int8 else x.dtype
    y = x.new_empty((*x.shape[:-1], outs), dtype=dtype)
    if y.numel():
        _launch(x.contiguous(), weight.contiguous(), y, scale, bias)
    return y


@cache
def _is_able(device: torch.device) -> bool:
    """Whether there is Triton, and a device with the tensor cores that the kernels need."""
    if find_spec("triton") is None:
        return False
    return device.type != "cuda" or torch.cuda.get_device_capability(device) >= (8, 0)


def _launch(
    x: Tensor, weight: Tensor, y: Tensor, scale: Tensor | None, bias: Tensor | None
) -> None:
    ins, outs = x.shape[-1], y.shape[-1]
    rows = y.numel() // outs
    many = MANY_FLOAT32 if x.dtype == torch.float32 else MANY
    tile = FEW if rows <= FEW_ROWS else many
    kernels = _kernels()
    kernel = kernels.single_rows if tile is FEW else kernels.many_rows
    # Programs of neighbouring outputs run beside each other and share rows of activations.
    grid = (-(-outs // tile.outs), -(-rows // tile.rows))
    # Triton runs on the current device.
    with torch.cuda.device_of(x):
        kernel[grid](
            x,
            weight,
            y,
            y if scale is None else scale.contiguous(),
            y if bias is None else bias.contiguous(),
            rows,
            ins,
            outs,
            HAS_SCALE=scale is not None,
            HAS_BIAS=bias is not None,
            EXACT=x.dtype == torch.int8,
            ROWS=tile.rows,
            OUTS=tile.outs,
            INS=tile.ins,
            num_warps=tile.warps,
            enable_fp_fusion=True,
        )


def _kernels() -> Any:
    from . import cuda_kernels

    return cuda_kernels
