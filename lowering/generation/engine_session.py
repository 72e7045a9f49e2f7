"""A session on a target of the compiler, or on the reference interpreter: caches go in and out."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from ...dialects.interpret import run_module
from ...ir.arrays import Array
from ...runtime.session import Session
from ..engine import engine_of
from ..from_checkpoint.checkpoint import Checkpoint
from ..from_checkpoint.program import decoder_text
from ..from_tri import import_tri


class EngineSession(Session):
    """Runs the program of `from_checkpoint.program` that is told whose logits it is to give.

    Args:
        checkpoint: of the model.
        target: with its options; or `interpreter`, the reference.

    Raises:
        TritonError: the decoder does not compile, or the engine is missing.
    """

    def __init__(self, checkpoint: Checkpoint, target: str) -> None:
        decoder, of_reference = checkpoint.decoder, target == "interpreter"
        name = "the reference interpreter" if of_reference else target
        super().__init__(decoder.vocabulary, name, decoder.limit)
        module = import_tri(decoder_text(decoder, places=True), weights=checkpoint.state())
        run = partial(run_module, module) if of_reference else engine_of(module, target).run
        self._run: Callable[[Sequence[Array]], Sequence[Array]] = run
        del module
        gc.collect()  # operations refer to each other, and hold all weights
        shape = (1, 0, decoder.groups, decoder.head_dim)
        self._cache = [np.zeros(shape, np.float32) for _ in range(2 * decoder.layers)]

    def _told(self, tokens: Array, count: int) -> Array:
        places = np.arange(len(tokens) - count, len(tokens))
        logits, *self._cache = self._run([tokens[None], places, *self._cache])
        return logits[0]

    def rewind(self, length: int) -> None:
        """See `Session.rewind`."""
        super().rewind(length)
        self._cache = [np.ascontiguousarray(part[:, :length]) for part in self._cache]
