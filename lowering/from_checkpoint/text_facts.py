"""What a checkpoint says about text besides its tokenizer: where it ends, how a chat is written.

Not here: the files (`folder`, `gguf_file`), and what is done with it (`runtime.generation`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from .problems import count_of, refuse


@dataclass(frozen=True)
class TextFacts:
    """What is known; a file may say none of it.

    Attributes:
        ends: tokens that end a text.
        template: of chats, in Jinja; a stranger's program.
        special: tokens as texts by the names that templates have for them, such as `bos_token`.
        context: how many tokens the model was made for.
    """

    ends: frozenset[int]
    template: str | None
    special: Mapping[str, str]
    context: int | None


def text_facts(
    ends: object, template: object, special: Mapping[str, object], context: object, what: str
) -> TextFacts:
    """The facts out of values as files have them.

    Args:
        ends: a token, a list of them, or `None`.
        template: a text, or `None`.
        special: texts, objects with a text `content`, or `None`.
        context: a number, or `None`.
        what: the file, for errors.

    Raises:
        SourceError: one is something else.
    """
    listed = cast("list[object]", ends) if isinstance(ends, list) else [ends]
    tokens = [t for t in listed if isinstance(t, int) and not isinstance(t, bool)]
    if ends is not None and len(tokens) != len(listed):
        refuse(f"{what}: 'eos_token_id' is {ends!r}, expected numbers of tokens")
    if template is not None and not isinstance(template, str):
        refuse(f"{what}: the chat template is no text")
    words: dict[str, str] = {}
    for name, value in special.items():
        text = cast("dict[str, object]", value).get("content") if isinstance(value, dict) else value
        if isinstance(text, str):
            words[name] = text
        elif text is not None:
            refuse(f"{what}: '{name}' is {text!r}, expected a text")
    length = None if context is None else count_of({"context": context}, "context", what)
    return TextFacts(frozenset(tokens), template, words, length)
