"""A language model and its text: a session, a tokenizer, where texts end, how chats are written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...ir.errors import OptionError
from ...runtime.chat_template import Message, chat_text
from ...runtime.generation import Sampling, Tokenizer, generate
from ..from_checkpoint.folder import folder_text_facts
from ..from_checkpoint.gguf_file import gguf_text_facts
from ..from_checkpoint.gguf_tokenizer import gguf_tokenizer
from ..from_checkpoint.text_facts import TextFacts
from .session import Session, open_session


@dataclass
class LanguageModel:
    """What continues texts.

    Attributes:
        name: of the folder or file.
        session: what was told stays, so that a chat goes on without telling it all again.
        tokenizer: of the model.
        facts: about text.
    """

    name: str
    session: Session
    tokenizer: Tokenizer
    facts: TextFacts

    def prompt(self, text: str | Sequence[Message]) -> list[int]:
        """The tokens of a text, or of a chat up to where the answer begins.

        Raises:
            OptionError: no tokens, or a chat that the model's template does not take.
        """
        if isinstance(text, str):
            tokens = self.tokenizer.encode(text)
        elif self.facts.template is None:
            raise OptionError(f"'{self.name}' has no chat template: give it a text to continue")
        else:
            chat = chat_text(self.facts.template, self.facts.special, text)
            tokens = self.tokenizer.encode(chat, special=False)
        if not tokens:
            raise OptionError("the prompt is empty: give at least one token")
        return tokens

    def tokens_after(
        self, prompt: Sequence[int], count: int = 128, sampling: Sampling | None = None
    ) -> Iterator[int]:
        """The tokens that follow a prompt, up to one that ends the text, or so many."""
        kept = self.session.keep(prompt)
        rest = prompt[kept:]
        return generate(self.session, rest, count, sampling=sampling, stop=self.facts.ends)

    def generate(
        self,
        prompt: str | Sequence[Message],
        max_tokens: int = 128,
        *,
        sampling: Sampling | None = None,
    ) -> Iterator[str]:
        """The text that follows a prompt, as it comes.

        Args:
            prompt: a text, or the messages of a chat: objects with `role` and `content`.
            max_tokens: how many at most.
            sampling: how tokens are chosen; the likeliest when not given.

        Raises:
            OptionError: see `prompt`.
        """
        tokens = self.prompt(prompt)
        text_of = self.tokenizer.text_after(tokens)
        yield from map(text_of, self.tokens_after(tokens, max_tokens, sampling))


def open_language_model(
    model: str | Path, engine: str = "native", *, tokenizer: str | Path | None = None
) -> LanguageModel:
    """A language model that takes and gives text.

    Args:
        model: a Hugging Face folder, or a `.gguf` file.
        engine: see `open_session`.
        tokenizer: a file in the form of `tokenizer.json`; that of the model when not given.

    Raises:
        SourceError, ParameterError, BackendError: see `open_session` and `Tokenizer`.
    """
    path = Path(model)
    text = open_tokenizer(path, tokenizer)
    facts = (gguf_text_facts if path.suffix == ".gguf" else folder_text_facts)(path)
    name = path.stem if path.suffix == ".gguf" else path.resolve().name
    return LanguageModel(name, open_session(path, engine), text, facts)


def open_tokenizer(model: Path, file: str | Path | None) -> Tokenizer:
    """The tokenizer of a model, or the one of a file.

    Raises:
        SourceError, BackendError: see `open_language_model`.
    """
    if model.suffix == ".gguf" and file is None:
        return Tokenizer(model, gguf_tokenizer(model))
    return Tokenizer(model / "tokenizer.json" if file is None else Path(file))
