"""What a checkpoint says about text besides its tokenizer: where it ends, how a chat is written.

Not here: the files (`folder`, `gguf_file`), and what is done with it (`runtime.generation`).
"""

from __future__ import annotations

from collections.abc import Mapping
from reprlib import repr
from typing import cast

from ...ir.errors import SourceError
from ...ir.settings import Settings
from ...runtime.language_model import TextFacts


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
    listed: list[object] = cast("list[object]", ends) if isinstance(ends, list) else [ends]
    tokens = [t for t in listed if isinstance(t, int) and not isinstance(t, bool)]
    if ends is not None and len(tokens) != len(listed):
        raise SourceError(f"{what}: 'eos_token_id' is {repr(listed)}, expected numbers of tokens")
    if not isinstance(template, str | None):
        raise SourceError(f"{what}: the chat template is no text")
    words: dict[str, str] = {}
    for name, value in special.items():
        text = cast("dict[str, object]", value).get("content") if isinstance(value, dict) else value
        if isinstance(text, str):
            words[name] = text
        elif text is not None:
            raise SourceError(f"{what}: '{name}' is {repr(text)}, expected a text")
    known = Settings({"context": context}, f"{what}: ")
    length = None if context is None else known.whole("context")
    return TextFacts(frozenset(tokens), template, words, length)
