"""Attention of tokens to a cache of keys and values: what the kernel and its callers agree on.

Query head h of a token attends to keys and values of group h · groups / heads (Ainslie et al.
2023): the mean of the values, weighted by softmax(q · k / √head_dim) over its own place and those
before it, at most `window` of them.

The function `ATTENTION` is one in parts (`abi.parallel`) whose things are tokens of groups: those
of group 0, then of group 1, … Its argument are nine words: addresses of

- queries, float32 [tokens, heads, head_dim],
- keys and values, float32 [groups, room, head_dim],
- results, float32 [tokens, heads, head_dim],
- scratch, float32 [members, scratch_values(room)];

the place of the first token, how many tokens, window, room. `room` is even and beyond the last
place. Not here: what keeps the cache (`runtime.native.attention`).
"""

from __future__ import annotations

from typing import NamedTuple

ATTENTION = "attention_part"

HEADS = 4
"""Query heads of a group that share what is read of it."""
PIECE = 64
"""Places whose values are read once for all of these heads; scores have room for as many more."""
EVER = 1 << 40
"""A window that all tokens fit in."""


class Heads(NamedTuple):
    """Sizes: query heads, groups of them, values of a head."""

    heads: int
    groups: int
    head_dim: int


def scratch_values(room: int) -> int:
    """Numbers that a member needs for itself."""
    return HEADS * (room + PIECE)
