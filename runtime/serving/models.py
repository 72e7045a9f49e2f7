"""The models of a server: loaded one after the other, each answering as soon as it can."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ...ir.arrays import Array
from .batching import Batcher, Limits, Run
from .signature import Signature

REST, _MOST = 0.5, 120
"""Seconds that a form rests after it failed, and the most such times in a row."""


@dataclass
class Loaded:
    """A model that can run: as a function, with its signature, and the name of what runs it.

    A form of several rests after it failed where another did not.
    """

    run: Run
    signature: Signature
    platform: str
    failures: int = 0
    rests_until: float = 0.0

    def failed(self) -> None:
        """Rest: half a second at first, twice as long each time, a minute at most."""
        self.rests_until = time.monotonic() + REST * min(2**self.failures, _MOST)
        self.failures += 1


@dataclass
class Served:
    """A model under its name.

    Attributes:
        name: in addresses.
        loaders: forms of the model, the quickest to load first; each takes the place of the one
            before when it is ready, and that answers where it fails.
        loaded: the form that answers; `None` before the first is ready.
        batcher: of it.
        problem: why a form could not be loaded.
        on_failure: is told the platform of a form in whose place another answered.
    """

    name: str
    loaders: Sequence[Callable[[], Loaded]]
    loaded: Loaded | None = None
    batcher: Batcher | None = None
    problem: str | None = None
    on_failure: Callable[[str], None] = field(default=lambda platform: None, repr=False)
    pending: int = field(init=False)
    forms: list[Loaded] = field(init=False, default_factory=list[Loaded])

    def __post_init__(self) -> None:
        self.pending = len(self.loaders)

    async def load(self, limits: Limits, on_batch: Callable[[int], None]) -> None:
        """Load the forms one after the other, in a thread."""
        for loader in self.loaders:
            try:
                loaded = await asyncio.to_thread(loader)
            except Exception as error:  # whatever it is, other models are to answer
                self.problem = str(error) or type(error).__name__
            else:
                self.forms = [loaded, *self.forms]
                # Where one form takes samples alone, so do all: it may have to answer.
                signatures = [form.signature for form in self.forms]
                alone = (each for each in signatures if not each.takes_batches)
                former = self.batcher
                self.loaded = replace(loaded, signature=next(alone, loaded.signature))
                self.batcher = Batcher(self.run, self.loaded.signature, limits, on_batch)
                if former is not None:
                    await former.close()
            self.pending -= 1

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The results of the newest form; where it fails, of the others in turn.

        Raises:
            Exception: what the newest of them raised, where all fail.
        """
        now = time.monotonic()
        # Those that rest come last: a model of which all forms rest still answers.
        forms = sorted(self.forms, key=lambda form: form.rests_until > now)
        errors: list[Exception] = []
        for form in forms:
            try:
                results = form.run(inputs)
            except Exception as error:  # whatever an engine raises
                errors.append(error)
                continue
            for other in forms[: len(errors)]:  # not the request is at fault, but they
                other.failed()
                self.on_failure(other.platform)
            form.failures = 0
            return results
        raise errors[0]

    async def close(self) -> None:
        """Answer what waits, and stop."""
        batcher, self.batcher = self.batcher, None
        if batcher is not None:
            await batcher.close()
