"""The models of a server: loaded one after the other, each answering as soon as it can."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .batching import Batcher, Limits, Run
from .signature import Signature


@dataclass(frozen=True)
class Loaded:
    """A model that can run.

    Attributes:
        run: the model.
        signature: of it.
        platform: what runs it.
    """

    run: Run
    signature: Signature
    platform: str


@dataclass
class Served:
    """A model under its name.

    Attributes:
        name: in addresses.
        loaders: forms of the model, the quickest to load first; each takes the place of the one
            before when it is ready.
        loaded: the form that answers; `None` before the first is ready.
        batcher: of it.
        problem: why a form could not be loaded.
    """

    name: str
    loaders: Sequence[Callable[[], Loaded]]
    loaded: Loaded | None = None
    batcher: Batcher | None = None
    problem: str | None = None
    pending: int = field(init=False)

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
                former, self.loaded = self.batcher, loaded
                self.batcher = Batcher(loaded.run, loaded.signature, limits, on_batch)
                if former is not None:
                    await former.close()
            self.pending -= 1

    async def close(self) -> None:
        """Answer what waits, and stop."""
        batcher, self.batcher = self.batcher, None
        if batcher is not None:
            await batcher.close()
