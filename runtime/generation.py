"""Tokens one after the other: the choice of each from logits, and text to tokens and back.

Not here: what computes logits (`lowering.generation`).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..ir.arrays import Array
from ..ir.errors import BackendError, OptionError, SourceError
from ..ir.extras import install


class Feeds(Protocol):
    """What remembers tokens, and gives the logits of the next one."""

    def feed(self, tokens: Sequence[int]) -> Array:
        """The logits of the token after these, float32 [vocabulary]."""
        ...


@dataclass(frozen=True)
class Sampling:
    """How a token is chosen of its logits.

    Attributes:
        temperature: logits are divided by it; 0 takes the largest, the first of equal ones.
        top_k: only so many of the likeliest are drawn from (Fan et al. 2018); 0 for all.
        top_p: only the likeliest of at least this probability together are (Holtzman et al. 2020).
        seed: of the draw.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < float("inf"):
            raise OptionError(f"temperature must be a number of at least 0, got {self.temperature}")
        if self.top_k < 0:
            raise OptionError(f"top_k must be at least 0, got {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise OptionError(f"top_p must be above 0 and at most 1, got {self.top_p}")

    def probabilities(self, logits: Array) -> Array:
        """What each token is drawn with, float64 [vocabulary].

        Args:
            logits: [vocabulary].
        """
        if self.temperature == 0:
            chosen = np.zeros(len(logits))
            chosen[int(np.argmax(logits))] = 1.0
            return chosen
        scaled = logits.astype(np.float64) / self.temperature
        order = np.argsort(-scaled, kind="stable")
        weights = np.exp(scaled[order] - scaled[order[0]])
        if 0 < self.top_k < len(weights):
            weights[self.top_k :] = 0.0
        shares = weights / weights.sum()
        # The token with which the sum reaches top_p still counts.
        before = np.cumsum(shares) - shares
        shares[before >= self.top_p] = 0.0
        result = np.zeros(len(logits))
        result[order] = shares / shares.sum()
        return result


def generate(
    session: Feeds,
    tokens: Sequence[int],
    count: int,
    *,
    sampling: Sampling | None = None,
    stop: Collection[int] = (),
) -> Iterator[int]:
    """Tokens that follow some others, as they are chosen.

    Args:
        session: is told `tokens` and then each that is chosen, but the last.
        tokens: at least one.
        count: how many at most.
        sampling: how they are chosen; the likeliest when not given.
        stop: tokens that end the text; they are not given.
    """
    sampling = sampling or Sampling()
    draw = np.random.default_rng(sampling.seed)
    told: Sequence[int] = tokens
    for _ in range(count):
        shares = sampling.probabilities(session.feed(told))
        if sampling.temperature == 0:
            token = int(np.argmax(shares))
        else:
            token = int(np.searchsorted(np.cumsum(shares), draw.random(), side="right"))
            token = min(token, int(np.flatnonzero(shares)[-1]))
        if token in stop:
            return
        yield token
        told = [token]


class Tokenizer:
    """Text to tokens and back, by the package `tokenizers`.

    Args:
        file: `tokenizer.json`.

    Raises:
        BackendError: the package is missing.
        SourceError: no such file, or a broken one.
    """

    def __init__(self, file: Path) -> None:
        try:
            import tokenizers
        except ModuleNotFoundError:
            raise BackendError(
                f"text needs the package tokenizers: {install('language')}"
            ) from None
        if not file.is_file():
            raise SourceError(f"'{file}': no such file; a tokenizer is in the form tokenizer.json")
        try:
            self._tokenizer: Any = tokenizers.Tokenizer.from_file(str(file))
        except Exception as error:  # the package has no type of its own for it
            raise SourceError(f"'{file}' is no tokenizer: {error}") from None
        self._stream: Any = tokenizers.decoders.DecodeStream

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, with those that the tokenizer puts around one."""
        return list(self._tokenizer.encode(text).ids)

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens, without special ones."""
        return str(self._tokenizer.decode(list(tokens)))

    def stream(self, tokens: Iterator[int]) -> Iterator[tuple[int, str]]:
        """Each token with the text that it completes, which may be none."""
        stream = self._stream(skip_special_tokens=True)
        for token in tokens:
            yield token, stream.step(self._tokenizer, token) or ""


@dataclass
class Pace:
    """How long a text took.

    Attributes:
        prompt, tokens: how many tokens were told at first, and chosen.
        first, rest: seconds to the first token, and from there to the last.
    """

    prompt: int
    tokens: int = 0
    first: float = 0.0
    rest: float = 0.0

    def watch(self, tokens: Iterator[int]) -> Iterator[int]:
        """The tokens, while their times are taken."""
        start = time.perf_counter()
        for token in tokens:
            now = time.perf_counter() - start
            if not self.tokens:
                self.first = now
            self.tokens, self.rest = self.tokens + 1, now - self.first
            yield token

    def words(self) -> str:
        """In words, for people."""
        told = f"{self.prompt} tokens told in {self.first:.2f} s"
        if self.tokens < 2 or not self.rest:
            return told
        speed = (self.tokens - 1) / self.rest
        return f"{told}, {self.tokens} chosen, {speed:.1f} a second"
