"""Texts that a language model writes: several at once, taking turns in one thread.

Each text has a session of its own over the same weights. A session that wrote or read the beginning
of a new prompt takes it up from there, so that the turns of a chat are not told again. Not here:
what requests look like (`openai`).
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from ...ir.arrays import Array
from ..generation import Feeds, Sampling, Tokenizer, choices
from ..perplexity import log_probabilities
from .batching import Busy

_PIECE = 128
"""Tokens of a prompt that are told before others have their turn."""


class Remembers(Feeds, Protocol):
    """What can take up a text where it left it; see `lowering.generation.session`."""

    def shared(self, tokens: Sequence[int]) -> int:
        """How many tokens of a prompt it was told already."""
        ...

    def keep(self, tokens: Sequence[int]) -> int:
        """Forget what is not the beginning of a prompt; how many tokens are left."""
        ...

    def another(self) -> Self:
        """A session with the same weights."""
        ...


@dataclass(frozen=True)
class TextModel:
    """What writes.

    Attributes:
        session: on the model.
        tokenizer: of it.
        prompt: the tokens of a text or of a chat's messages; raises `OptionError`.
        ends: tokens that end a text.
        context: how many tokens it was made for, if that is known.
    """

    session: Remembers
    tokenizer: Tokenizer
    prompt: Callable[[str | Sequence[Mapping[str, Any]]], list[int]]
    ends: Collection[int] = ()
    context: int | None = None


@dataclass(frozen=True)
class Asked:
    """Which texts are to be written.

    Attributes:
        prompts: tokens of each.
        count: texts for each prompt.
        most: tokens of each text.
        sampling: of the first text; the seed of each further one is larger by one.
        stop: texts that end one; they are not given.
        likeliest: of how many tokens log-probabilities are wanted beside the chosen one's; `None`
            for no log-probabilities at all.
    """

    prompts: Sequence[Sequence[int]]
    count: int
    most: int
    sampling: Sampling
    stop: Sequence[str]
    likeliest: int | None


class Likely(NamedTuple):
    """A token and its log-probability."""

    token: int
    log_probability: float


@dataclass(frozen=True)
class Piece:
    """What one turn gave.

    Attributes:
        index: of the text.
        text: which may be none.
        tokens: 1, or 0 at the end of a text.
        chosen: the token with its log-probability, then the likeliest, where they are wanted.
        finish: `stop` or `length` at the end of a text.
    """

    index: int
    text: str
    tokens: int
    chosen: Sequence[Likely] = ()
    finish: str | None = None


class StopWords:
    """Holds text back that may turn out to be a stop word.

    Args:
        words: none of them empty.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self._held = ""

    def take(self, text: str) -> tuple[str, bool]:
        """What may be shown once this text has come, and whether a word was found behind it."""
        self._held += text
        places = [place for word in self._words if (place := self._held.find(word)) >= 0]
        if places:
            return self._held[: min(places)], True
        open_ends = (
            size
            for word in self._words
            for size in range(1, len(word))
            if self._held.endswith(word[:size])
        )
        shown = len(self._held) - max(open_ends, default=0)
        text, self._held = self._held[:shown], self._held[shown:]
        return text, False

    def rest(self) -> str:
        """What was held back, when no more comes."""
        return self._held


def write(model: TextModel, session: Remembers, asked: Asked) -> Iterator[Piece | None]:
    """The texts, a turn at a time; `None` where a turn went to a prompt."""
    for number, prompt in enumerate(asked.prompts):
        for index in range(number * asked.count, (number + 1) * asked.count):
            rest = prompt[session.keep(prompt) :]
            while len(rest) > _PIECE:
                session.feed(rest[:_PIECE])
                rest = rest[_PIECE:]
                yield None
            yield from _one(model, session, asked, prompt, rest, index)


def _one(
    model: TextModel,
    session: Remembers,
    asked: Asked,
    prompt: Sequence[int],
    rest: Sequence[int],
    index: int,
) -> Iterator[Piece]:
    words, text_of = StopWords(asked.stop), model.tokenizer.text_after(prompt)
    given = asked.sampling
    sampling = Sampling(given.temperature, given.top_k, given.top_p, given.seed + index)
    for token, logits in choices(session, rest, asked.most, sampling):
        if token in model.ends:
            yield Piece(index, words.rest(), 1, finish="stop")
            return
        text, found = words.take(text_of(token))
        chosen = () if asked.likeliest is None else likely(token, logits, asked.likeliest)
        yield Piece(index, text, 1, chosen, "stop" if found else None)
        if found:
            return
    yield Piece(index, words.rest(), 0, finish="length")


def likely(token: int, logits: Array, count: int) -> list[Likely]:
    """A token with its log-probability, and so many of the likeliest with theirs, in order."""
    found = log_probabilities(logits)
    order = np.argsort(-found, kind="stable")[:count]
    return [Likely(int(n), float(found[n])) for n in (token, *order)]


@dataclass(eq=False)
class _Job:
    asked: Asked
    loop: asyncio.AbstractEventLoop
    pieces: asyncio.Queue[Piece | BaseException | None]
    gone: bool = False

    def put(self, piece: Piece | BaseException | None) -> None:
        self.loop.call_soon_threadsafe(self.pieces.put_nowait, piece)


@dataclass(eq=False)
class Writer:
    """Writes texts for requests.

    Attributes:
        model: what writes.
        texts: requests that are answered at once; the texts of one come one after the other.
        waiting: requests that may wait.
    """

    model: TextModel
    texts: int
    waiting: int
    _jobs: deque[_Job] = field(default_factory=deque[_Job])
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _closed: bool = False

    def __post_init__(self) -> None:
        self._free: list[Remembers] = []
        self._made = 0
        self._thread = threading.Thread(target=self._work, name="triton-write", daemon=True)
        self._thread.start()

    async def submit(self, asked: Asked) -> AsyncIterator[Piece]:
        """The pieces of the texts, as they come.

        Raises:
            Busy: too many wait already.
            Exception: whatever the model raises.
        """
        job = _Job(asked, asyncio.get_running_loop(), asyncio.Queue())
        with self._changed:
            if len(self._jobs) >= self.waiting:
                raise Busy
            self._jobs.append(job)
            self._changed.notify()
        return self._given(job)

    async def _given(self, job: _Job) -> AsyncIterator[Piece]:
        try:
            while (piece := await job.pieces.get()) is not None:
                if isinstance(piece, BaseException):
                    raise piece
                yield piece
        finally:
            job.gone = True  # nobody reads on: the next turn is the last

    async def close(self) -> None:
        """Answer what waits, and stop."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        await asyncio.to_thread(self._thread.join)

    def _work(self) -> None:
        """In the thread: one turn for each text, then for each again."""
        active: list[tuple[_Job, Remembers, Iterator[Piece | None]]] = []
        while True:
            with self._changed:
                while not active and not self._jobs and not self._closed:
                    self._changed.wait()
                if self._closed and not active and not self._jobs:
                    return
                started = [
                    self._jobs.popleft() for _ in range(self.texts - len(active)) if self._jobs
                ]
            for job in started:
                session = self._session(job.asked.prompts[0])
                active.append((job, session, write(self.model, session, job.asked)))
            for entry in [*active]:
                if not self._turn(entry[0], entry[2]):
                    active.remove(entry)
                    self._free.append(entry[1])

    def _turn(self, job: _Job, pieces: Iterator[Piece | None]) -> bool:
        """Whether the text goes on."""
        if job.gone:
            return False
        try:
            piece = next(pieces)
        except StopIteration:
            job.put(None)
            return False
        except Exception as error:  # whatever an engine raises is the answer
            job.put(error)
            return False
        if piece is not None:
            job.put(piece)
        return True

    def _session(self, prompt: Sequence[int]) -> Remembers:
        """The free session that was told most of a prompt, or a new one."""
        best = max(self._free, key=lambda session: session.shared(prompt), default=None)
        if best is not None and (best.shared(prompt) or self._made == self.texts):
            self._free.remove(best)
            return best
        self._made += 1
        return self.model.session if self._made == 1 else self.model.session.another()
