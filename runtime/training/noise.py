"""Noise that nobody guesses: normal numbers from the key stream of a cipher.

PyTorch's generators are made for statistics: who sees enough of their numbers knows the next. Here
the bits are those of AES-256 in counter mode, and each number is half the sum of four, so that the
gaps between floats, too, tell nothing of what it was added to (Holohan and Braghin 2021, "Secure
random sampling in differential privacy", section 5.1, n = 2, as the `secure_mode` of Opacus).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from ...ir.extras import needed

Stream = Callable[[int], bytes]
"""The next bytes, so many."""


def key_stream(seed: int, step: int) -> Stream:
    """The bits of a step: the same for the same seed, without which they look like chance.

    The key is the SHA-256 of the seed's decimal digits, the step the first half of the counter.

    Raises:
        BackendError: the package `cryptography` is missing.
    """
    ciphers = needed("cryptography.hazmat.primitives.ciphers", "cryptography", "privacy")
    key = hashlib.sha256(str(seed).encode()).digest()
    modes, algorithms = ciphers.modes, ciphers.algorithms
    start = step.to_bytes(8, "big") + bytes(8)
    cipher = ciphers.Cipher(algorithms.AES256(key), modes.CTR(start)).encryptor()
    return lambda count: cipher.update(bytes(count))


def normal(stream: Stream, deviation: float, like: Tensor) -> Tensor:
    """Normal numbers around 0, of the shape, type and device of `like`."""
    total = np.zeros(like.numel())
    for _ in range(4):
        bits = np.frombuffer(stream(16 * like.numel()), np.dtype("<u8")).reshape(2, -1) >> 11
        # Box and Muller 1958; the first is above 0.
        radius, turn = (bits[0] + 1) * 2.0**-53, bits[1] * 2.0**-53
        total += np.sqrt(-2 * np.log(radius)) * np.cos(2 * np.pi * turn)
    return torch.from_numpy(total * (deviation / 2)).to(like).reshape(like.shape)
