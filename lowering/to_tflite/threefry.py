"""Random words from counters in LiteRT, as `spike.encode` draws them.

Threefry-2x32-20; see `dialects.spike.threefry`. Words stand as INT32, whose arithmetic wraps
around; what is shifted to the right is UINT32 meanwhile.
"""

from __future__ import annotations

import numpy as np

from ...dialects.spike.threefry import PARITY, ROTATIONS, ROUNDS
from .graph import Element, Tensor
from .tflite_writer import Writer

WORD = 1 << 32


def words(e: Writer, seed: int, t: Tensor, j: Tensor) -> Tensor:
    """The first random word of each counter (t, j), as INT32, for INT32 counters that broadcast."""
    key = [seed % WORD, seed // WORD]
    schedule = [_number(e, word) for word in (*key, key[0] ^ key[1] ^ PARITY)]
    x, y = (e.binary("ADD", c, word) for c, word in zip((t, j), schedule, strict=False))
    for round in range(ROUNDS):
        x = e.binary("ADD", x, y)
        y = e.binary("BITWISE_XOR", _turned(e, y, ROTATIONS[round % 8]), x)
        if round % 4 == 3:
            injection = round // 4 + 1
            x = e.binary("ADD", x, schedule[injection % 3])
            y = e.binary("ADD", y, schedule[(injection + 1) % 3])
            y = e.binary("ADD", y, _number(e, injection))
    return x


def _turned(e: Writer, word: Tensor, by: int) -> Tensor:
    """The bits of a word moved to the left, those that fall out back in on the right."""
    high = e.binary("MUL", word, _number(e, 1 << by))
    amount = e.constant(np.array([32 - by], np.uint32), "amount")
    low = e.binary("RIGHT_SHIFT", e.cast(word, Element.UINT32), amount)
    return e.binary("ADD", high, e.cast(low, Element.INT32))


def _number(e: Writer, word: int) -> Tensor:
    return e.constant(np.array([word], np.uint32).view(np.int32), "word")
