"""A session on a target of the compiler, or on the reference interpreter: caches go in and out."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from functools import partial
from typing import Self

import numpy as np

from ...dialects.interpret import run_module
from ...ir.arrays import Array
from ...runtime.session import Session
from ..engine import engine_of
from ..from_checkpoint.checkpoint import Checkpoint
from ..from_checkpoint.decoder import Decoder
from ..from_checkpoint.program import decoder_text
from ..from_tri import import_tri


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
        super().__init__(decoder.vocabulary, name)
        self._run = run
        shape = (1, 0, decoder.groups, decoder.head_dim)
        self._cache = [np.zeros(shape, np.float32) for _ in range(2 * decoder.layers)]

    @classmethod
    def of(cls, checkpoint: Checkpoint, target: str) -> Self:
        """A session on a target, or on the interpreter, that was told nothing.

        Raises:
            TritonError: the decoder does not compile, or the engine is missing.
        """
        decoder = checkpoint.decoder
        module = import_tri(decoder_text(decoder, places=True), weights=checkpoint.state())
        if target == "interpreter":
            return cls(decoder, partial(run_module, module), "the reference interpreter")
        run = engine_of(module, target).run
        del module
        gc.collect()  # operations refer to each other, and hold all weights
        return cls(decoder, run, target)

    def _told(self, tokens: Array, count: int) -> Array:
        places = np.arange(len(tokens) - count, len(tokens))
        logits, *self._cache = self._run([tokens[None], places, *self._cache])
        return logits[0]

    def rewind(self, length: int) -> None:
        """See `Session.rewind`."""
        super().rewind(length)
        self._cache = [np.ascontiguousarray(part[:, :length]) for part in self._cache]
