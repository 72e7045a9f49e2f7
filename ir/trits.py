"""Packed storage of trits: 2 bits each, four to a byte; and how wide their sums are.

Codes: `00` = 0, `01` = +1, `10` = -1, `11` reserved. Element i, row-major over the logical shape,
stands in bits 2(i mod 4) … 2(i mod 4)+1 of byte i div 4; the last byte is padded with zeros.
784x10 trits take 1960 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from .errors import ParameterError


def accumulator_bits(bits: int, *, unsigned: bool = False) -> int:
    """How many bits, with a sign, sums of integers times trits have: 32, or 64 where one needs it.

    Integers of up to 32 bits with a sign are summed modulo 2^32, wider ones modulo 2^64. One
    product is so always exact, but that of -2^63 with -1 and those of unsigned 64-bit integers.

    Args:
        bits: of the integers; trits have 2.
        unsigned: whether the integers have no sign.
    """
    return 32 if bits + unsigned <= 32 else 64


def packed_size(shape: Sequence[int]) -> int:
    """The number of bytes that `shape` trits take."""
    return -(-prod(shape) // 4)


def pack_trits(trits: NDArray[np.generic]) -> NDArray[np.uint8]:
    """Pack values in {-1, 0, 1} of any shape and dtype into `uint8[packed_size(shape)]`.

    Raises:
        ParameterError: a value is none of -1, 0, 1.
    """
    flat = np.ascontiguousarray(trits).reshape(-1)
    if flat.dtype.kind in "cOSU":
        raise ParameterError(f"expected trits in {{-1, 0, 1}}, got numbers of dtype {flat.dtype}")
    outside = ~((flat == 0) | (flat == 1) | (flat == -1))
    if outside.any():
        index = int(np.argmax(outside))
        raise ParameterError(
            f"expected trits in {{-1, 0, 1}}, got {flat[index]} at element {index}; "
            "ternarize the tensor first"
        )
    codes = np.zeros(packed_size(flat.shape) * 4, dtype=np.uint8)
    codes[: flat.size] = flat.astype(np.int8) & 3
    codes -= codes >> 1  # -1 & 3 is 0b11; its code is 0b10
    pairs = codes.view("<u4")
    pairs |= pairs >> 6
    return (pairs | pairs >> 12).astype(np.uint8)


def unpack_trits(packed: NDArray[np.uint8], shape: Sequence[int]) -> NDArray[np.int8]:
    """Unpack `uint8[packed_size(shape)]` into `int8[shape]` with values in {-1, 0, 1}.

    Raises:
        ParameterError: wrong byte count, the reserved code 0b11, or padding that is not zero.
    """
    if packed.dtype != np.uint8 or packed.size != packed_size(shape):
        raise ParameterError(
            f"expected uint8[{packed_size(shape)}] for {'x'.join(map(str, shape))} packed trits, "
            f"got {packed.dtype}[{packed.size}]"
        )
    count, flat = prod(shape), packed.reshape(-1)
    trits = np.take(QUADS, flat, axis=0).reshape(-1)
    reserved = _RESERVED[flat]
    if reserved.any():
        byte = int(np.argmax(reserved))
        place = 4 * byte + int(np.argmax(trits[4 * byte : 4 * byte + 4] == _NONE))
        raise ParameterError(f"reserved trit code 0b11 at element {place}; the file is corrupt")
    if trits[count:].any():
        raise ParameterError("padding bits of the last byte are not zero; the file is corrupt")
    return trits[:count].reshape(tuple(shape))


_NONE = 2
"""What stands for the reserved code while trits are unpacked."""

QUADS = np.array([0, 1, -1, _NONE], np.int8)[np.arange(256)[:, None] >> np.arange(0, 8, 2) & 3]
"""The four trits of each byte; 2 for the reserved code."""

_RESERVED = (QUADS == _NONE).any(axis=1)
"""Whether a byte has a reserved code."""
