"""Texts that a language model writes: several at once, taking turns in one thread.

Each text has a session of its own over the same weights. A session that wrote or read the beginning
of a new prompt takes it up from there, so that the turns of a chat are not told again. Not here:
what requests look like (`openai`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from ...ir.arrays import Array
from ..generation import Sampling, choices
from ..language_model import LanguageModel
from ..perplexity import log_probabilities
from ..session import Session
from .batching import Busy

_PIECE = 128
"""Tokens of a prompt that are told before others have their turn."""


@dataclass(frozen=True)
class TextRequest:
    """Which texts are to be written, and how they are sent.

    Attributes:
        chat: whether an answer to messages is asked for.
        prompts: tokens of each.
        count: texts for each prompt.
        most: tokens of each text.
        sampling: of the first text; the seed of each further one is larger by one.
        stop: texts that end one; they are not given.
        likeliest: of how many tokens log-probabilities are wanted beside the chosen one's; `None`
            for no log-probabilities at all.
        stream: whether pieces are sent as they come.
        usage: whether the stream ends with numbers of tokens.
    """

    chat: bool
    prompts: Sequence[Sequence[int]]
    count: int
    most: int
    sampling: Sampling
    stop: Sequence[str]
    likeliest: int | None
    stream: bool
    usage: bool


@dataclass(frozen=True)
class Piece:
    """What one turn gave: that of a token, or what is left at a text's full length.

    Attributes:
        index: of the text.
        text: which may be none.
        place: in the text where it begins.
        chosen: the token with its log-probability, then the likeliest, where they are wanted.
        finish: `stop` or `length` at the end of a text.
    """

    index: int
    text: str
    place: int = 0
    chosen: Sequence[tuple[int, float]] = ()
    finish: str | None = None


_END = Piece(-1, "")
"""Comes after all others."""


class StopWords:
    """Holds text back that may turn out to be a stop word.

    Args:
        words: none of them empty.

    Attributes:
        held: what is held back.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self._words, self.held = words, ""

    def take(self, text: str) -> tuple[str, bool]:
        """What may be shown once this text has come, and whether a word was found behind it."""
        whole, words = self.held + text, self._words
        places = [place for word in words if (place := whole.find(word)) >= 0]
        # Else what begins no word is shown.
        ends = (n for n in range(len(whole)) if any(word.startswith(whole[n:]) for word in words))
        end = min(places) if places else next(ends, len(whole))
        shown, self.held = whole[:end], whole[end:]
        return shown, bool(places)


def write(model: LanguageModel, session: Session, asked: TextRequest) -> Iterator[Piece | None]:
    """The texts, a turn at a time; `None` where a turn went to a prompt."""
    for index in range(len(asked.prompts) * asked.count):
        prompt = asked.prompts[index // asked.count]
        rest = prompt[session.keep(prompt) :]
        while len(rest) > _PIECE:
            session.feed(rest[:_PIECE])
            rest = rest[_PIECE:]
            yield None
        words, text_of = StopWords(asked.stop), model.tokenizer.text_after(prompt)
        sampling = replace(asked.sampling, seed=asked.sampling.seed + index)
        place = 0
        for token, logits in choices(session, rest, asked.most, sampling):
            if token in model.facts.ends:
                yield Piece(index, words.held, place, finish="stop")
                break
            text, found = words.take(text_of(token))
            chosen = () if asked.likeliest is None else likely(token, logits, asked.likeliest)
            yield Piece(index, text, place, chosen, "stop" if found else None)
            if found:
                break
            place += len(text)
        else:
            yield Piece(index, words.held, place, finish="length")


def likely(token: int, logits: Array, count: int) -> list[tuple[int, float]]:
    """A token with its log-probability, and so many of the likeliest with theirs, in order."""
    found = log_probabilities(logits)
    order = np.argsort(-found, kind="stable")[:count]
    return [(int(n), float(found[n])) for n in (token, *order)]


class ServedText:
    """A language model under its name, which writes one turn of each text after the other.

    Args:
        name: in requests.
        loader: of the model.
        texts: requests that are answered at once; the texts of one come one after the other.

    Attributes:
        model: what writes; `None` before it is ready.
        problem: why it could not be loaded.
    """

    def __init__(self, name: str, loader: Callable[[], LanguageModel], texts: int = 4) -> None:
        self.name, self._loader, self.texts = name, loader, texts
        self.model: LanguageModel | None = None
        self.problem: str | None = None
        self._waiting, self._places = 0, asyncio.Semaphore(texts)
        self._thread = ThreadPoolExecutor(1, "triton-write")

    async def load(self, waiting: int) -> None:
        """Load the model, in a thread; so many requests may wait."""
        try:
            model = await asyncio.to_thread(self._loader)
        except Exception as error:  # whatever it is, other models are to answer
            self.problem = str(error) or type(error).__name__
            return
        self._free = [model.session, *(model.session.another() for _ in range(self.texts - 1))]
        self._most_waiting, self.model = waiting, model

    async def pieces(self, asked: TextRequest) -> AsyncGenerator[Piece]:
        """The pieces of the texts, as they come; who reads no further closes this.

        Raises:
            Busy: too many wait already.
            Exception: whatever the model raises.
        """
        if self._waiting >= self._most_waiting:
            raise Busy(f"{self._most_waiting} requests wait; ask again later")
        self._waiting += 1
        try:
            await self._places.acquire()
        finally:
            self._waiting -= 1
        # The session that was told most of the prompt; of equal ones, that which rests longest.
        session = max(self._free, key=lambda session: session.shared(asked.prompts[0]))
        self._free.remove(session)
        assert self.model is not None
        turns, loop = write(self.model, session, asked), asyncio.get_running_loop()
        try:
            while (turn := await loop.run_in_executor(self._thread, next, turns, _END)) is not _END:
                if turn is not None:
                    yield turn
        finally:  # a turn that goes on ends before the session's next one
            self._free.append(session)
            self._places.release()

    async def close(self) -> None:
        """Answer what waits, and stop."""
        while self.model and (self._waiting or len(self._free) < self.texts):
            await asyncio.sleep(0.005)
        self._thread.shutdown()
