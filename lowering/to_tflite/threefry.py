"""Random words from counters in LiteRT, as `spike.encode` draws them.

Threefry-2x32-20; see `dialects.spike.threefry`. Words stand as INT32, whose arithmetic wraps
around; what is shifted to the right is UINT32 meanwhile.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from ...dialects.spike.threefry import key_schedule, threefry
from .graph import Element, Tensor
from .tflite_writer import Writer


def words(e: Writer, seed: int, t: Tensor, j: Tensor) -> Tensor:
    """The first random word of each counter (t, j), as INT32, for INT32 counters that broadcast."""

    def add(x: Tensor, y: Tensor | int) -> Tensor:
        return e.binary("ADD", x, _number(e, y) if isinstance(y, int) else y)

    xor = partial(e.binary, "BITWISE_XOR")
    return threefry(key_schedule(seed), (t, j), add, xor, partial(_turned, e))[0]


def _turned(e: Writer, word: Tensor, by: int) -> Tensor:
    """The bits of a word moved to the left, those that fall out back in on the right."""
    high = e.binary("MUL", word, _number(e, 1 << by))
    amount = e.constant(np.array([32 - by], np.uint32), "amount")
    low = e.binary("RIGHT_SHIFT", e.cast(word, Element.UINT32), amount)
    return e.binary("ADD", high, e.cast(low, Element.INT32))


def _number(e: Writer, word: int) -> Tensor:
    return e.constant(np.array([word], np.uint32).view(np.int32), "word")
