"""Threefry-2x32-20 on torch tensors: the random numbers of rate coding, bit for bit.

The words of `dialects.spike.threefry`, on any device, as int64 from 0 to 2^32 - 1, because PyTorch
computes little on unsigned types. The PyTorch target copies the text of `draw_words`.
"""

from __future__ import annotations

import torch

from ...dialects.spike.threefry import key_schedule, threefry


def draw_words(seed: int, t: torch.Tensor, j: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The two words of Threefry-2x32-20 for the counters (t, j) modulo 2^32, as int64."""

    def add(x: torch.Tensor, y: torch.Tensor | int) -> torch.Tensor:
        return (x + y) & 0xFFFFFFFF

    def rotate(x: torch.Tensor, bits: int) -> torch.Tensor:
        return ((x << bits) | (x >> (32 - bits))) & 0xFFFFFFFF

    return threefry(key_schedule(seed), (t, j), add, torch.bitwise_xor, rotate)


def random_words(
    seed: int,
    start: int,
    steps: int,
    count: int,
    device: torch.device | str = "cpu",
    *,
    first: int = 0,
) -> torch.Tensor:
    """The first word for each counter (t, j), int64[steps, count].

    Args:
        seed: from 0 to 2^64 - 1; its low word is the first of the key.
        start: the first t; t counts modulo 2^32.
        steps: the number of values of t.
        count: the number of values of j.
        device: where the words are made.
        first: the first j; j counts modulo 2^32.
    """
    mask = 2**32 - 1
    t = torch.arange(start & mask, (start & mask) + steps, device=device)
    j = torch.arange(first & mask, (first & mask) + count, device=device)
    return draw_words(seed, t[:, None], j[None, :])[0]
