"""Packed trits of PyTorch: 2 bits each, four to a byte, row-major, as in `ir.trits` bit for bit.

Not here: how floats become trits (`runtime.quantization`), products (`runtime.operators`), and the
tensor that users hold (`runtime.ternary_tensor`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ..ir.errors import ParameterError
from ..ir.trits import packed_size


def pack(trits: Tensor) -> Tensor:
    """Pack values in {-1, 0, 1} of any shape and dtype into `uint8[packed_size(shape)]`.

    Raises:
        ParameterError: a value is none of -1, 0, 1.
    """
    outside = ~((trits == 0) | (trits == 1) | (trits == -1))
    if bool(outside.any()):
        index = int(outside.flatten().to(torch.uint8).argmax())
        value = trits.flatten()[index].item()
        raise ParameterError(
            f"expected trits in {{-1, 0, 1}}, got {value} at element {index}; "
            "ternarize the tensor first"
        )
    return pack_unchecked(trits)


def pack_unchecked(trits: Tensor) -> Tensor:
    """`pack` for values that are known to be trits; can be traced."""
    flat = trits.detach().flatten().to(torch.int8)
    codes = torch.where(flat < 0, 2, flat).to(torch.uint8)
    quads = torch.nn.functional.pad(codes, (0, -flat.numel() % 4)).reshape(-1, 4)
    return quads[:, 0] | (quads[:, 1] << 2) | (quads[:, 2] << 4) | (quads[:, 3] << 6)


def unpack(packed: Tensor, shape: Sequence[int], dtype: torch.dtype = torch.int8) -> Tensor:
    """Unpack `uint8[packed_size(shape)]` into `dtype[shape]` with values in {-1, 0, 1}.

    Raises:
        ParameterError: wrong byte count, the reserved code 0b11, or padding that is not zero.
    """
    check_packed(packed, shape)
    return unpack_unchecked(packed, shape, dtype)


def check_packed(packed: Tensor, shape: Sequence[int]) -> None:
    """Refuse bytes that are no packed trits of `shape`; see `unpack`."""
    if any(size < 0 for size in shape):
        raise ParameterError(f"expected sizes of at least 0, got shape {list(shape)}")
    if packed.dtype != torch.uint8 or packed.shape != (packed_size(shape),):
        raise ParameterError(
            f"expected uint8[{packed_size(shape)}] for {'x'.join(map(str, shape))} packed trits, "
            f"got {str(packed.dtype).removeprefix('torch.')}{list(packed.shape)}"
        )
    reserved = packed & (packed >> 1) & 0x55
    if bool(reserved.any()):
        byte = int((reserved != 0).to(torch.uint8).argmax())
        place = next(k for k in range(4) if int(reserved[byte]) >> (2 * k) & 1)
        raise ParameterError(
            f"reserved trit code 0b11 at element {4 * byte + place}; the file is corrupt"
        )
    rest = math.prod(shape) % 4
    if rest and int(packed[-1]) >> (2 * rest):
        raise ParameterError("padding bits of the last byte are not zero; the file is corrupt")


def unpack_unchecked(packed: Tensor, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """`unpack` for bytes that are known to be right; can be traced."""
    shifts = torch.arange(0, 8, 2, dtype=torch.uint8, device=packed.device)
    codes = (packed.unsqueeze(1) >> shifts) & 3
    trits = (codes & 1).to(torch.int8) - (codes >> 1).to(torch.int8)
    return trits.flatten()[: math.prod(shape)].reshape(tuple(shape)).to(dtype)
