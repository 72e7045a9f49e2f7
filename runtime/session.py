"""What remembers the tokens of a text and foretells the next one: a session, on any engine.

Not here: the engines (`lowering.generation`), the choice of tokens (`generation`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from itertools import takewhile
from typing import Self

import numpy as np

from ..ir.arrays import Array
from ..ir.errors import OptionError, refuse


class Session(ABC):
    """A language model and the tokens that it was told.

    Args:
        vocabulary: how many tokens there are.
        name: of the engine.
        limit: the most tokens of a text; any number if not given.
    """

    def __init__(self, vocabulary: int, name: str, limit: int | None = None) -> None:
        self.vocabulary, self.name, self.limit = vocabulary, name, limit
        self._tokens: list[int] = []

    @property
    def length(self) -> int:
        """How many tokens it was told."""
        return len(self._tokens)

    def feed(self, tokens: Sequence[int]) -> Array:
        """Tell more tokens.

        Args:
            tokens: at least one.

        Returns:
            The logits of the token that follows, float32 [vocabulary].

        Raises:
            OptionError: see `check`.
        """
        return self._tell(tokens, 1)[0]

    def feed_all(self, tokens: Sequence[int]) -> Array:
        """Tell more tokens, see `feed`.

        Returns:
            The logits behind each of them, float32 [len(tokens), vocabulary].
        """
        return self._tell(tokens, len(tokens))

    def _tell(self, tokens: Sequence[int], count: int) -> Array:
        self.check(tokens)
        if self.limit is not None and self.length + len(tokens) > self.limit:
            raise OptionError(f"the model is computed for texts of {self.limit} tokens at most")
        logits = self._told(np.asarray(tokens, np.int64), count)
        self._tokens += tokens
        return logits

    def check(self, tokens: Sequence[int]) -> None:
        """Refuse what is no text.

        Raises:
            OptionError: no tokens, or one that is not in the vocabulary.
        """
        refuse(not len(tokens), "a session is told at least one token")
        wrong = next((token for token in tokens if not 0 <= token < self.vocabulary), None)
        if wrong is not None:
            raise OptionError(f"token {wrong} is not in the vocabulary of {self.vocabulary}")

    @abstractmethod
    def _told(self, tokens: Array, count: int) -> Array:
        """The logits behind the last `count` of tokens, int64 [T], that follow `length` others."""

    def rewind(self, length: int) -> None:
        """Forget all tokens but so many of the first.

        Raises:
            OptionError: it was told fewer.
        """
        refuse(not 0 <= length <= self.length, f"{self.length} tokens were told; not {length}")
        self._tokens = self._tokens[:length]

    def shared(self, tokens: Sequence[int]) -> int:
        """How many of the first of these, but for the last, it was told at first."""
        pairs = zip(self._tokens, tokens[:-1], strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))

    def keep(self, tokens: Sequence[int]) -> int:
        """Forget all tokens that are not the beginning of these, and the last of these.

        Returns:
            How many are left: those behind are to be told.
        """
        same = self.shared(tokens)
        self.rewind(same)
        return same

    def reset(self) -> None:
        """Forget all tokens."""
        self.rewind(0)

    def another(self) -> Self:
        """A session with the same weights that was told nothing; use both in one thread alone."""
        other = copy(self)
        other.reset()
        return other
