"""Attention of tokens to a cache of keys and values: what the kernel and its callers agree on.

Query head h of a token attends to keys and values of group h · groups / heads (Ainslie et al.
2023): the mean of the values, weighted by softmax(q · k · scale) over its own place and those
before it, at most `window` of them.

The function `ATTENTION` is one in parts (`abi.parallel`) whose things are tokens of groups: those
of group 0, then of group 1, … Its argument are eight words: addresses of

- queries, float32 [tokens, heads, head_dim],
- addresses of the pieces of the cache,
  each float32 [keys and values, groups, PIECE, head_dim],
- results, float32 [tokens, heads, head_dim],
- scratch, float32 [members, scratch_values(heads, pieces)];

the place of the first token, how many tokens, window, pieces. Not here: what keeps the cache
(`runtime.native.attention`).
"""

from __future__ import annotations

from typing import NamedTuple

ATTENTION = "attention_part"

HEADS = 4
"""Query heads of a group that share what is read of it."""
PIECE, TOGETHER = 64, 8
"""Places that stand together, and things that go through them together."""
EVER = 1 << 40
"""A window that all tokens fit in."""


class Heads(NamedTuple):
    """Sizes: query heads, groups of them, values of a head; and what becomes of products.

    They are multiplied by `scale`, 1 / √head_dim if not given, and bounded by `softcap` · tanh(x /
    `softcap`) where that is not 0.
    """

    heads: int
    groups: int
    head_dim: int
    scale: float | None = None
    softcap: float = 0.0


def scratch_values(heads: Heads, pieces: int) -> int:
    """Numbers that a member needs for itself: scores, and as many more as a piece has."""
    return TOGETHER * (heads.heads // heads.groups) * (pieces + 1) * PIECE
