"""Threefry-2x32-20 on torch tensors: the random numbers of rate coding, bit for bit.

Salmon, Moraes, Dror & Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). The same words
as `dialects.spike.threefry`, on any device. Words are int64 from 0 to 2^32 - 1, because PyTorch
computes little on unsigned types.
"""

from __future__ import annotations

import torch
from torch import Tensor

ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
PARITY = 0x1BD11BDA
ROUNDS = 20
MASK = 2**32 - 1


def threefry(key: tuple[int, int], counter: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """The two random words of each counter, int64.

    Args:
        key: two words from 0 to 2^32 - 1.
        counter: two int64 tensors of such words, in shapes that broadcast.
    """
    schedule = (*key, key[0] ^ key[1] ^ PARITY)
    x, y = counter[0] + schedule[0] & MASK, counter[1] + schedule[1] & MASK
    for round in range(ROUNDS):
        rotation = ROTATIONS[round % 8]
        x = x + y & MASK
        y = (y << rotation | y >> 32 - rotation) & MASK
        y = y ^ x
        if round % 4 == 3:
            injection = round // 4 + 1
            x = x + schedule[injection % 3] & MASK
            y = y + schedule[(injection + 1) % 3] + injection & MASK
    return x, y


def random_words(
    seed: int,
    start: int,
    steps: int,
    count: int,
    device: torch.device | str = "cpu",
    *,
    first: int = 0,
) -> Tensor:
    """The first word for each counter (t, j), int64[steps, count].

    Args:
        seed: from 0 to 2^64 - 1; its low word is the first of the key.
        start: the first t; t counts modulo 2^32.
        steps: the number of values of t.
        count: the number of values of j.
        device: where the words are made.
        first: the first j; j counts modulo 2^32.
    """
    t = torch.arange(start & MASK, (start & MASK) + steps, device=device) & MASK
    j = torch.arange(first & MASK, (first & MASK) + count, device=device) & MASK
    return threefry((seed & MASK, seed >> 32 & MASK), (t[:, None], j[None, :]))[0]
