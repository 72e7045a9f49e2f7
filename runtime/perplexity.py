"""How well a language model foretells a text: perplexity and bits a byte, over windows of tokens.

A window begins anew and scores the tokens that none before it scored, as in the guide of Hugging
Face (https://huggingface.co/docs/transformers/perplexity). Not here: engines and files.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..ir.arrays import Array
from ..ir.errors import OptionError, refuse
from .session import Session

_PIECE = 64
"""Logits of at most so many tokens are held at once."""


class Foretold(NamedTuple):
    """Some tokens, int64 [count], and the logits of each, float32 [count, vocabulary]."""

    tokens: Array
    logits: Array


def foretold(
    session: Session, tokens: Sequence[int], window: int = 512, stride: int = 256
) -> Iterator[Foretold]:
    """The logits of all tokens of a text but the first, in order, some at a time.

    Args:
        session: is reset for each window.
        tokens: of the text, at least two.
        window: tokens that a window holds, at least two.
        stride: tokens from one window to the next, at most `window` - 1; each window but the first
            scores as many.

    Raises:
        OptionError: numbers out of range.
    """
    if not 1 <= stride < window:
        raise OptionError(f"stride {stride} is to be from 1 to {window - 1}, below the window")
    refuse(len(tokens) < 2, f"a text of {len(tokens)} tokens foretells none; at least 2 are needed")
    scored = 1
    for begin in range(0, len(tokens), stride):
        end = min(begin + window, len(tokens))
        session.reset()
        first = session.feed(tokens[begin:scored])[None]
        for start in range(scored, end, _PIECE):
            stop = min(start + _PIECE, end)
            # The logits of a token are those behind the one before it.
            behind = tokens[start : stop - 1] if stop == end else tokens[start:stop]
            logits = np.concatenate([first, session.feed_all(behind)]) if behind else first
            first = logits[-1:]
            yield Foretold(np.array(tokens[start:stop]), logits[: stop - start])
        scored = end
        if end == len(tokens):
            return


def log_probabilities(logits: Array) -> Array:
    """The natural logarithms of a softmax over the last axis, float64."""
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


@dataclass
class Perplexity:
    """What was foretold so far.

    Attributes:
        tokens: how many were scored.
        nats: the sum of their negative log-probabilities.
        squares: of the squares of these.
    """

    tokens: int = 0
    nats: float = 0.0
    squares: float = 0.0

    def add(self, part: Foretold) -> None:
        """Count more tokens."""
        rows = np.arange(len(part.tokens))
        nats = -log_probabilities(part.logits)[rows, part.tokens]
        self.tokens += len(rows)
        self.nats += float(nats.sum())
        self.squares += float((nats**2).sum())

    @property
    def value(self) -> float:
        """exp of the mean of a token."""
        return math.exp(self.nats / self.tokens)

    @property
    def error(self) -> float:
        """The standard error of `value`, to first order, were tokens drawn apart."""
        mean = self.nats / self.tokens
        variance = max(self.squares / self.tokens - mean**2, 0.0)
        return self.value * math.sqrt(variance / self.tokens)

    def bits_per_byte(self, count: int) -> float:
        """Bits that each of so many bytes of text takes."""
        return self.nats / math.log(2) / count
