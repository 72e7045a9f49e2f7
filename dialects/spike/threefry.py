"""Threefry-2x32-20, the counter-based random generator of `spike.encode`.

Salmon, Moraes, Dror & Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). Additions,
rotations and exclusive ors of 32-bit words alone, so that hardware has it without multipliers; no
state, so that every element of every step is drawn by itself.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...ir.arrays import Array

ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
PARITY = 0x1BD11BDA
ROUNDS = 20

Words = NDArray[np.uint32]


def threefry(key: tuple[int, int], counter: tuple[Array, Array]) -> tuple[Words, Words]:
    """The two random words of each counter.

    Args:
        key: two words from 0 to 2^32 - 1.
        counter: two arrays of such words, of rank 1 or more and shapes that broadcast.
    """
    schedule = [np.array([word], np.uint32) for word in (*key, key[0] ^ key[1] ^ PARITY)]
    x, y = np.broadcast_arrays(*(word.astype(np.uint32) for word in counter))
    x, y = x + schedule[0], y + schedule[1]
    for round in range(ROUNDS):
        rotation = ROTATIONS[round % 8]
        x = x + y
        y = (y << np.uint32(rotation)) | (y >> np.uint32(32 - rotation))
        y = y ^ x
        if round % 4 == 3:
            injection = round // 4 + 1
            x = x + schedule[injection % 3]
            y = y + schedule[(injection + 1) % 3] + np.uint32(injection)
    return x, y


def uniform(seed: int, steps: range, count: int) -> NDArray[np.float64]:
    """Numbers in [0, 1), multiples of 2^-32, [len(steps), count]: the first word for (t, j).

    Args:
        seed: from 0 to 2^64 - 1; its low word is the first of the key.
        steps: the values of t, the first word of the counter.
        count: j runs from 0 to `count` - 1, modulo 2^32.
    """
    mask = 2**32 - 1
    t = np.array([step & mask for step in steps], np.uint32)[:, None]
    j = (np.arange(count, dtype=np.int64) & mask).astype(np.uint32)[None, :]
    words, _ = threefry((seed & mask, seed >> 32 & mask), (t, j))
    return words.astype(np.float64) * 2.0**-32
