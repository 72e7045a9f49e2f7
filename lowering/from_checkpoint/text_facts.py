"""What a checkpoint says about text besides its tokenizer: where it ends, how a chat is written.

Not here: the files (`folder`, `gguf_file`), and what is done with it (`runtime.generation`).
"""

from __future__ import annotations

from collections.abc import Mapping
from reprlib import repr
from typing import Any, cast

from ...ir.settings import Settings
from ...runtime.language_model import TextFacts

_SPECIAL = ("bos_token", "eos_token", "unk_token", "pad_token")


def text_facts(values: Mapping[str, Any], what: str) -> TextFacts:
    """The facts out of values in the words of Hugging Face's files, where a token may be an object.

    Raises:
        SourceError: one is something else; `what` names the file.
    """
    given = Settings(values, f"{what}: ")
    ends = values.get("eos_token_id")
    listed = cast("list[int]", ends if isinstance(ends, list) else [ends])
    if ends is not None and any(type(token) is not int for token in listed):
        given.refuse(f"'eos_token_id' is {repr(listed)}, expected numbers of tokens")
    template = values.get("chat_template")
    if not isinstance(template, str | None):
        given.refuse("the chat template is no text")
    words: dict[str, str] = {}
    for name in _SPECIAL:
        value = values.get(name)
        text = cast("dict[str, Any]", value).get("content") if isinstance(value, dict) else value
        if isinstance(text, str):
            words[name] = text
        elif text is not None:
            given.refuse(f"'{name}' is {repr(text)}, expected a text")
    name = "max_position_embeddings"
    length = None if values.get(name) is None else given.whole(name)
    return TextFacts(frozenset(listed if ends is not None else ()), template, words, length)
