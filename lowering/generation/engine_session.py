"""A session on a target of the compiler, or on the reference interpreter: caches go in and out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Self

import numpy as np

from ...dialects.interpret import run_module
from ...ir.arrays import Array
from ..engine import engine_of
from ..from_checkpoint.checkpoint import Checkpoint
from ..from_checkpoint.decoder import Decoder
from ..from_checkpoint.program import decoder_text
from ..from_tri import import_tri
from .session import Session


class EngineSession(Session):
    """Runs the program of `from_checkpoint.program` that is told whose logits it is to give.

    Args:
        decoder: its sizes.
        run: gives the outputs of inputs.
        name: of the engine.
    """

    def __init__(
        self, decoder: Decoder, run: Callable[[Sequence[Array]], Sequence[Array]], name: str
    ) -> None:
        super().__init__(decoder)
        self.name = name
        self._run = run
        shape = (1, 0, decoder.groups, decoder.head_dim)
        self._cache = [np.zeros(shape, np.float32) for _ in range(2 * decoder.layers)]

    @classmethod
    def of(cls, checkpoint: Checkpoint, target: str) -> Self:
        """See `Session.of`."""
        decoder = checkpoint.decoder
        module = import_tri(decoder_text(decoder, places=True), weights=checkpoint.state())
        if target == "interpreter":
            return cls(decoder, partial(run_module, module), "the reference interpreter")
        return cls(decoder, engine_of(module, target).run, target)

    def _feed(self, tokens: Array) -> Array:
        return self._told(tokens, np.array([len(tokens) - 1]))[0]

    def _feed_all(self, tokens: Array) -> Array:
        return self._told(tokens, np.arange(len(tokens)))

    def _told(self, tokens: Array, places: Array) -> Array:
        logits, *self._cache = self._run([tokens[None], places, *self._cache])
        self._length += len(tokens)
        return logits[0]

    def rewind(self, length: int) -> None:
        """See `Session.rewind`."""
        super().rewind(length)
        self._cache = [np.ascontiguousarray(part[:, :length]) for part in self._cache]
