"""Threefry-2x32-20, the counter-based random generator of `spike.encode`.

Salmon, Moraes, Dror & Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). Additions,
rotations and exclusive ors of 32-bit words alone, so that hardware has it without multipliers; no
state, so that every element of every step is drawn by itself. The rounds are written once, over
words of any kind: arrays, tensors, nodes of a graph. The PyTorch target copies their text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...ir.arrays import Array


def key_schedule(seed: int) -> tuple[int, int, int]:
    """The words of a seed from 0 to 2^64 - 1, the low one first, and the third made of them."""
    low, high = seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF
    return low, high, low ^ high ^ 0x1BD11BDA


def threefry(
    schedule: Sequence[Any],
    counter: tuple[Any, Any],
    add: Callable[[Any, Any], Any],
    xor: Callable[[Any, Any], Any],
    rotate: Callable[[Any, int], Any],
) -> tuple[Any, Any]:
    """The two random words of each counter, by what adds, mixes and turns words of 32 bits.

    `add` takes numbers too in the second place, where `schedule` has numbers and not words.
    """
    x, y = add(counter[0], schedule[0]), add(counter[1], schedule[1])
    for turn in range(20):
        x = add(x, y)
        y = xor(rotate(y, (13, 15, 26, 6, 17, 29, 16, 24)[turn % 8]), x)
        if turn % 4 == 3:
            group = turn // 4 + 1
            x = add(x, schedule[group % 3])
            y = add(add(y, schedule[(group + 1) % 3]), group)
    return x, y


def draw(seed: int, t: Array, j: Array) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """The two random words of each counter (t, j), modulo 2^32.

    Args:
        seed: from 0 to 2^64 - 1.
        t: the first word, integers of rank 1 or more.
        j: the second, in a shape that broadcasts.
    """

    def rotate(word: Array, bits: int) -> Array:
        return (word << bits) | (word >> (32 - bits))

    counter = t.astype(np.uint32), j.astype(np.uint32)
    return threefry(key_schedule(seed), counter, np.add, np.bitwise_xor, rotate)


def uniform(seed: int, steps: range, count: int) -> NDArray[np.float64]:
    """Numbers in [0, 1), multiples of 2^-32, [len(steps), count]: the first word for (t, j).

    Args:
        seed: from 0 to 2^64 - 1.
        steps: the values of t, the first word of the counter.
        count: j runs from 0 to `count` - 1, modulo 2^32.
    """
    t = np.array([step & 0xFFFFFFFF for step in steps], np.uint32)[:, None]
    words, _ = draw(seed, t, np.arange(count)[None, :])
    return words.astype(np.float64) * 2.0**-32
