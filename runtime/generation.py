"""Tokens one after the other: the choice of each from logits, and text to tokens and back.

Not here: what computes logits (`lowering.generation`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from ..ir.arrays import Array
from ..ir.errors import OptionError, SourceError, first_line, refuse
from ..ir.extras import needed
from ..ir.safe_read import opened
from .session import Session


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
        heat, share = self.temperature, self.top_p
        said = f"temperature must be a number of at least 0, got {heat}"
        refuse(not 0 <= heat < float("inf"), said)
        refuse(self.top_k < 0, f"top_k must be at least 0, got {self.top_k}")
        refuse(self.seed < 0, f"seed must be at least 0, got {self.seed}")
        refuse(not 0 < share <= 1, f"top_p must be above 0 and at most 1, got {share}")

    def probabilities(self, logits: Array) -> Array:
        """What each token is drawn with, float64 [vocabulary].

        Args:
            logits: [vocabulary].
        """
        if self.temperature == 0:
            return np.eye(1, len(logits), int(np.argmax(logits)))[0]
        with np.errstate(over="ignore"):
            scaled = (logits.astype(np.float64) - float(logits.max())) / self.temperature
        weights = np.exp(scaled)
        if self.top_k or self.top_p < 1:
            count = min(self.top_k or len(weights), len(weights))
            likeliest = np.partition(weights, -count)[-count:]
            total = likeliest.sum()
            # Tokens below an equal share of what is left out are left out, and need no order.
            least = max(likeliest[0], total * (1 - self.top_p) / count / 2)
            kept = np.flatnonzero(weights >= least)
            # Of equal ones the first are drawn from.
            kept = kept[np.argsort(-scaled[kept], kind="stable")][:count]
            if self.top_p < 1:
                # The token with which the sum reaches top_p still counts.
                before = np.cumsum(weights[kept]) - weights[kept]
                kept = kept[before < self.top_p * total]
            left, weights = weights[kept], np.zeros(len(weights))
            weights[kept] = left
        return weights / weights.sum()

    def choose(self, logits: Array, draw: np.random.Generator) -> int:
        """A token.

        Args:
            logits: [vocabulary].
            draw: what chance is taken from, one number for each token unless temperature is 0.
        """
        if self.temperature == 0:
            return int(np.argmax(logits))
        shares = self.probabilities(logits)
        token = int(np.searchsorted(np.cumsum(shares), draw.random(), side="right"))
        return min(token, int(np.flatnonzero(shares)[-1]))


class Choice(NamedTuple):
    """A token and the logits that it was chosen of, float32 [vocabulary]."""

    token: int
    logits: Array


def choices(
    session: Session, tokens: Sequence[int], count: int, sampling: Sampling | None = None
) -> Iterator[Choice]:
    """Tokens that follow some others, as they are chosen; see `generate`."""
    sampling = sampling or Sampling()
    draw = np.random.default_rng(sampling.seed)
    told: Sequence[int] = tokens
    for _ in range(count):
        logits = session.feed(told)
        token = sampling.choose(logits, draw)
        yield Choice(token, logits)
        told = [token]


def generate(
    session: Session,
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
    for token, _ in choices(session, tokens, count, sampling):
        if token in stop:
            return
        yield token


_LARGEST_FILE, _LONGEST = 1 << 28, 300
"""Bytes of a tokenizer, which take a multiple in memory; characters that a message takes of it."""


class Tokenizer:
    """Text to tokens and back.

    Args:
        made: of the package `tokenizers`.
    """

    def __init__(self, made: Any) -> None:
        self._tokenizer = made
        self._stream = needed("tokenizers.decoders", "tokenizers", "language").DecodeStream

    @classmethod
    def of_file(cls, file: Path) -> Self:
        """The tokenizer of a file in the form of `tokenizer.json`.

        Raises:
            BackendError: the package `tokenizers` is missing.
            SourceError: no such file, or a broken one.
        """
        read = needed("tokenizers", "tokenizers", "language").Tokenizer.from_buffer
        if not file.exists():
            raise SourceError(f"'{file}': no such file; a tokenizer is in the form tokenizer.json")
        with opened(file, _LARGEST_FILE, SourceError) as content:
            text = content.read()
        try:
            return cls(read(text))
        except Exception as error:  # the package has no type of its own for it
            said = first_line(error)[:_LONGEST]
            raise SourceError(f"'{file}' is no tokenizer: {said}") from None

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """The tokens of a text, by default with those that the tokenizer puts around one.

        Raises:
            OptionError: the text cannot be written in UTF-8.
        """
        return self.measured(text, special=special)[0]

    def measured(self, text: str, *, special: bool = True) -> tuple[list[int], list[int]]:
        """The tokens of a text, see `encode`, and where each ends in it, in characters."""
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise OptionError(f"the text is not of Unicode's characters: {error}") from None
        encoding = self._tokenizer.encode(text, add_special_tokens=special)
        return list(encoding.ids), [end for _, end in encoding.offsets]

    def decode(self, tokens: Sequence[int], *, special: bool = False) -> str:
        """The text of tokens, without special ones or with them as they are called."""
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=not special))

    def text_after(self, prompt: Sequence[int]) -> Callable[[int], str]:
        """What gives, for each token behind a prompt, the text that it completes; none is ''."""
        stream = self._stream(ids=list(prompt), skip_special_tokens=True)
        return lambda token: stream.step(self._tokenizer, token) or ""
