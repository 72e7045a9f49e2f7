"""What a language model with a memory is, and how one is opened from a folder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from pkgutil import resolve_name
from typing import Self

import numpy as np

from ...ir.arrays import Array
from ...ir.errors import OptionError
from ..from_checkpoint.checkpoint import Checkpoint
from ..from_checkpoint.decoder import Decoder
from ..from_checkpoint.folder import read_folder
from ..from_checkpoint.gguf_file import read_gguf


class Session(ABC):
    """A decoder and the tokens that it was told.

    Attributes:
        decoder: its sizes.
        name: of the engine.
    """

    name: str = "none"

    def __init__(self, decoder: Decoder) -> None:
        self.decoder = decoder
        self._length = 0
        self._tokens: list[int] = []

    @classmethod
    @abstractmethod
    def of(cls, checkpoint: Checkpoint, target: str) -> Self:
        """A session that was told nothing.

        Args:
            checkpoint: the model; its weights are read.
            target: with its options.

        Raises:
            TritonError: the decoder does not compile, or the engine is missing.
        """

    @property
    def length(self) -> int:
        """How many tokens it was told."""
        return self._length

    def feed(self, tokens: Sequence[int]) -> Array:
        """Tell more tokens.

        Args:
            tokens: at least one.

        Returns:
            The logits of the token that follows, float32 [vocabulary].

        Raises:
            OptionError: no tokens, or one that is not in the vocabulary.
        """
        logits = self._feed(self._checked(tokens))
        self._tokens += tokens
        return logits

    def feed_all(self, tokens: Sequence[int]) -> Array:
        """Tell more tokens, see `feed`.

        Returns:
            The logits behind each of them, float32 [len(tokens), vocabulary].
        """
        logits = self._feed_all(self._checked(tokens))
        self._tokens += tokens
        return logits

    def _checked(self, tokens: Sequence[int]) -> Array:
        given = np.asarray(tokens, np.int64)
        if given.ndim != 1 or not given.size:
            raise OptionError("a session is told at least one token")
        if given.min() < 0 or given.max() >= self.decoder.vocabulary:
            wrong = next(t for t in tokens if not 0 <= t < self.decoder.vocabulary)
            raise OptionError(
                f"token {wrong} is not in the vocabulary of {self.decoder.vocabulary}"
            )
        return given

    @abstractmethod
    def _feed(self, tokens: Array) -> Array:
        """See `feed`; tokens int64 [T]. Adds to the length."""

    def _feed_all(self, tokens: Array) -> Array:
        """See `feed_all`; one by one, where an engine has nothing better."""
        return np.stack([self._feed(tokens[n : n + 1]) for n in range(len(tokens))])

    def rewind(self, length: int) -> None:
        """Forget all tokens but so many of the first.

        Raises:
            OptionError: it was told fewer.
        """
        if not 0 <= length <= self._length:
            raise OptionError(f"{self._length} tokens were told; not {length}")
        self._length = length
        self._tokens = self._tokens[:length]

    def shared(self, tokens: Sequence[int]) -> int:
        """How many of the first of these, but for the last, it was told at first."""
        pairs = zip(self._tokens, tokens[:-1], strict=False)
        same = min(len(self._tokens), len(tokens) - 1)
        return next((n for n, (a, b) in enumerate(pairs) if a != b), same)

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


_SESSIONS: Mapping[str, str] = {
    "native": "native_session:NativeSession",
    "transformers": "transformers_session:TransformersSession",
}
_OTHER = "engine_session:EngineSession"


def open_session(model: str | Path, engine: str = "native") -> Session:
    """A session on a language model.

    Args:
        model: a Hugging Face folder, or a `.gguf` file.
        engine: `interpreter`, a target with its options, or `transformers`, which reads the files
            itself.

    Raises:
        SourceError, ParameterError: see `from_checkpoint.folder.read_folder`.
        TritonError: the engine is missing, or does not take the program.
    """
    path = Path(model)
    checkpoint = (read_gguf if path.suffix == ".gguf" else read_folder)(path)
    where = _SESSIONS.get(engine.partition("{")[0].strip(), _OTHER)
    kind: type[Session] = resolve_name(f"{__package__}.{where}")
    return kind.of(checkpoint, engine)
