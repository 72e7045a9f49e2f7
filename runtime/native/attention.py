"""A cache of keys and values, and attention of new tokens to it by native code.

Not here: the code (`to_native.kernels.attention`), projections and rotary embeddings.
"""

from __future__ import annotations

from ctypes import c_char_p, c_int64
from struct import Struct

import numpy as np

from ...ir.arrays import Array
from .abi.attention import ATTENTION, EVER, Heads, scratch_values
from .addresses import address_of
from .jit import Library
from .memory import Memory, aligned
from .threads import together

_pack = Struct("9q").pack

_ROOM, _MORE = 64, 64
"""Tokens that a cache has room for at first, and more whenever it is full."""

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
        means, room = np.empty_like(queries), cache.room
        work = tokens * (start + tokens) * sizes.heads * sizes.head_dim
        threads = max(1, min(self._threads, work // _WORTH))
        scratch = self._memory.of(4 * threads * scratch_values(room))
        keys, values = (address_of(part) for part in cache.parts)
        places = (address_of(queries), keys, values, address_of(means), scratch)
        argument = _pack(*places, start, tokens, window or EVER, room)
        together(self._part, argument, threads, (tokens * sizes.groups, 0))
        return means


class Cache:
    """Keys and values of places, as `abi.attention` has them.

    Args:
        heads: sizes.

    Attributes:
        parts: keys and values, float32 [groups, room, head_dim].
    """

    def __init__(self, heads: Heads) -> None:
        self._shape = heads.groups, heads.head_dim
        self.parts = self._empty(_ROOM)

    @property
    def room(self) -> int:
        """How many places it has memory for."""
        return self.parts[0].shape[1]

    def put(self, start: int, keys: Array, values: Array) -> None:
        """Set the places from `start` on: float32 [tokens, groups, head_dim] each."""
        end = start + len(keys)
        if end >= self.room:
            old, self.parts = self.parts, self._empty(max(self.room + _MORE, end + 2 - end % 2))
            for part, before in zip(self.parts, old, strict=True):
                part[:, :start] = before[:, :start]
        for part, new in zip(self.parts, (keys, values), strict=True):
            part[:, start:end] = new.swapaxes(0, 1)

    def _empty(self, room: int) -> tuple[Array, Array]:
        groups, size = self._shape
        keys, values = (
            aligned(4 * groups * room * size).view(np.float32).reshape(groups, room, size)
            for _ in range(2)
        )
        return keys, values
