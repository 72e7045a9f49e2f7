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
    """Runs the program of `from_checkpoint.program`, whose logits are those of the last token.

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
        self.reset()

    @classmethod
    def of(cls, checkpoint: Checkpoint, target: str) -> Self:
        """See `Session.of`."""
        decoder = checkpoint.decoder
        module = import_tri(decoder_text(decoder, last=True), weights=checkpoint.state())
        if target == "interpreter":
            return cls(decoder, partial(run_module, module), "the reference interpreter")
        return cls(decoder, engine_of(module, target).run, target)

    def _feed(self, tokens: Array) -> Array:
        logits, *self._cache = self._run([tokens[None], *self._cache])
        return logits[0, -1]

    def reset(self) -> None:
        """See `Session.reset`."""
        super().reset()
        shape = (1, 0, self.decoder.groups, self.decoder.head_dim)
        self._cache = [np.zeros(shape, np.float32) for _ in range(2 * self.decoder.layers)]
