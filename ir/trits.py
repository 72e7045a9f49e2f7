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
    if trits.dtype.kind in "cOSU":
        raise ParameterError(f"expected trits in {{-1, 0, 1}}, got numbers of dtype {trits.dtype}")
    if trits.ndim == 2 and trits.size and trits.T.flags.c_contiguous and not trits.shape[1] % 4:
        # Four rows of what is turned become one of bytes: a quarter of it is left to turn.
        rows = trits.T.reshape(trits.shape[1] // 4, -1)
        count = max(1, _PART // max(1, rows.shape[1]))
        packed = np.empty((trits.shape[0], len(rows)), np.uint8)
        for n in range(0, len(rows), count):
            codes = _codes(rows[n : n + count], trits).reshape(-1, 4, trits.shape[0])
            a, b, c, d = codes.swapaxes(0, 1)
            packed[:, n : n + count] = (a | b << 2 | c << 4 | d << 6).T
        return packed.reshape(-1)
    flat = np.ascontiguousarray(trits).reshape(-1)
    packed = np.empty(packed_size(flat.shape), np.uint8)
    for n in range(0, packed.size, _PART // 4):
        codes = np.zeros(4 * min(_PART // 4, packed.size - n), np.uint8)
        part = flat[4 * n : 4 * n + codes.size]
        codes[: part.size] = _codes(part, trits)
        pairs = codes.view("<u4")
        pairs |= pairs >> 6
        packed[n : n + pairs.size] = pairs | pairs >> 12
    return packed


def _codes(part: NDArray[np.generic], trits: NDArray[np.generic]) -> NDArray[np.uint8]:
    """The codes of a part of trits.

    Raises:
        ParameterError: a value is none of -1, 0, 1; it says the first one of all.
    """
    if not ((part == 0) | (part == 1) | (part == -1)).all():
        flat = trits.reshape(-1)
        index = int(np.argmin((flat == 0) | (flat == 1) | (flat == -1)))
        raise ParameterError(
            f"expected trits in {{-1, 0, 1}}, got {flat[index]} at element {index}; "
            "ternarize the tensor first"
        )
    codes = part.astype(np.int8).view(np.uint8)
    codes &= 3
    codes -= codes >> 1  # -1 & 3 is 0b11; its code is 0b10
    return codes


_PART = 1 << 18
"""So many trits are packed at a time, all of whose steps stay near the processor."""


def unpack_trits(packed: NDArray[np.uint8], shape: Sequence[int]) -> NDArray[np.int8]:
    """Unpack `uint8[packed_size(shape)]` into `int8[shape]` with values in {-1, 0, 1}.

    Raises:
        ParameterError: wrong byte count, the reserved code 0b11, or padding that is not zero.
    """
    check_packed(packed, shape)
    trits = np.take(QUADS, packed.reshape(-1), axis=0).reshape(-1)
    return trits[: prod(shape)].reshape(tuple(shape))


def check_packed(packed: NDArray[np.uint8], shape: Sequence[int]) -> None:
    """Refuse bytes that are not the trits of a shape.

    Raises:
        ParameterError: see `unpack_trits`.
    """
    if packed.dtype != np.uint8 or packed.size != packed_size(shape):
        raise ParameterError(
            f"expected uint8[{packed_size(shape)}] for {'x'.join(map(str, shape))} packed trits, "
            f"got {packed.dtype}[{packed.size}]"
        )
    flat = packed.reshape(-1)
    reserved = flat & flat >> 1 & 0x55
    if reserved.any():
        byte = int(np.argmax(reserved != 0))
        place = 4 * byte + QUADS[flat[byte]].tolist().index(_NONE)
        raise ParameterError(f"reserved trit code 0b11 at element {place}; the file is corrupt")
    rest = prod(shape) % 4
    if rest and QUADS[flat[-1], rest:].any():
        raise ParameterError("padding bits of the last byte are not zero; the file is corrupt")


_NONE = 2
"""What stands for the reserved code while trits are unpacked."""

QUADS = np.array([0, 1, -1, _NONE], np.int8)[np.arange(256)[:, None] >> np.arange(0, 8, 2) & 3]
"""The four trits of each byte; 2 for the reserved code."""

TRITS_OF_BYTES = np.where(QUADS == _NONE, np.int8(0), QUADS)
"""The four trits of each byte, for engines that cannot refuse the reserved code: 0 for it."""
