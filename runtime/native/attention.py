"""A cache of keys and values, and attention of new tokens to it by native code.

Not here: the code (`to_native.kernels.attention`), projections and rotary embeddings.
"""

from __future__ import annotations

import math
from ctypes import c_char_p, c_int64
from struct import Struct

import numpy as np

from ...ir.arrays import Array
from .abi.attention import ATTENTION, EVER, PIECE, Heads, scratch_values
from .addresses import address_of
from .jit import Library
from .memory import Arena, Memory
from .threads import together

_pack = Struct("8q").pack

_WORTH = 200_000
"""Products of floats for which one more thread saves more than it costs."""


class Attention:
    """What attends.

    Args:
        library: with the function `ATTENTION` for these sizes.
        heads: sizes.
        threads: most that take part.
    """

    def __init__(self, library: Library, heads: Heads, threads: int = 1) -> None:
        self.heads = heads
        self._part = library.function(ATTENTION, [c_char_p, *[c_int64] * 4])
        self._threads = threads
        self._memory = Memory()

    def __call__(self, queries: Array, cache: Cache, start: int, window: int = 0) -> Array:
        """The means of the values that tokens attend to.

        Args:
            queries: float32 [tokens, heads, head_dim], contiguous.
            cache: with the keys and values of these tokens and of all before them.
            start: the place of the first token.
            window: how many places each sees, its own among them; 0 for all.

        Returns:
            Float32 [tokens, heads, head_dim].
        """
        sizes, tokens = self.heads, len(queries)
        means, pieces = np.empty_like(queries), len(cache.table)
        work = tokens * (start + tokens) * sizes.heads * sizes.head_dim
        threads = max(1, min(self._threads, work // _WORTH))
        scratch = self._memory.of(4 * threads * scratch_values(sizes, pieces))
        places = (address_of(array) for array in (queries, cache.table, means))
        argument = _pack(*places, scratch, start, tokens, window or EVER, pieces)
        together(self._part, argument, threads, (tokens * sizes.groups, 0))
        return means


class Cache:
    """Keys and values of places, in pieces that stay where they are while more come.

    Args:
        heads: sizes.
        arena: where the pieces stand.

    Attributes:
        table: their addresses as `abi.attention` has them, int64.
    """

    def __init__(self, heads: Heads, arena: Arena) -> None:
        self._shape = 2, heads.groups, PIECE, heads.head_dim
        self._arena, self._pieces = arena, list[Array]()
        self.table = np.zeros(0, np.int64)

    def put(self, start: int, keys: Array, values: Array) -> None:
        """Set the places from `start` on: float32 [tokens, groups, head_dim] each."""
        end = start + len(keys)
        while len(self._pieces) * PIECE < end:
            piece = self._arena.take(4 * math.prod(self._shape)).view(np.float32)
            self._pieces.append(piece.reshape(self._shape))
            self.table = np.array([*map(address_of, self._pieces)], np.int64)
        for number in range(start // PIECE, -(-end // PIECE)):
            first = number * PIECE
            low, high = max(start, first), min(end, first + PIECE)
            for part, new in zip(self._pieces[number], (keys, values), strict=True):
                part[:, low - first : high - first] = new[low - start : high - start].swapaxes(0, 1)
