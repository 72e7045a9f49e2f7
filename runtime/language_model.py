"""A language model and its text: a session, a tokenizer, where texts end, how chats are written.

Not here: the files that it comes in (`lowering.from_checkpoint`), engines (`lowering.generation`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..ir.errors import OptionError, refuse
from .chat_template import Message, chat_text
from .generation import Sampling, Tokenizer, generate
from .session import Session


@dataclass(frozen=True)
class TextFacts:
    """What is known of a model's texts; its files may say none of it.

    Attributes:
        ends: tokens that end a text.
        template: of chats, in Jinja; a stranger's program.
        special: tokens as texts by the names that templates have for them, such as `bos_token`.
        context: how many tokens the model was made for.
    """

    ends: frozenset[int] = frozenset()
    template: str | None = None
    special: Mapping[str, str] = field(default_factory=dict[str, str])
    context: int | None = None


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
        refuse(not tokens, "the prompt is empty: give at least one token")
        return tokens

    def tokens_after(
        self, prompt: Sequence[int], count: int = 128, sampling: Sampling | None = None
    ) -> Iterator[int]:
        """The tokens that follow a prompt, up to one that ends the text, or so many."""
        rest = prompt[self.session.keep(prompt) :]
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
