"""The codes of messages, and what `triton explain` says of each: the table is `codes.toml`.

A row has the patterns of the messages that it stands for, so that a message is written in one
place only, where it is found; a test holds every message against the table. Not here: drawing.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_WITHIN = re.compile(r"in '?[\w.]+(?:\(…\))?'?: ")


@dataclass(frozen=True)
class Explanation:
    """What a code stands for.

    Attributes:
        code: `E0201` for an error, `W0901` for a warning.
        title: what is wrong, on one line.
        why: the rule behind it, a few sentences.
        wrong: a whole program that has the error.
        right: the same without it.
        messages: regular expressions; one of them matches the beginning of each such message.
    """

    code: str
    title: str
    why: str
    wrong: str
    right: str
    messages: tuple[re.Pattern[str], ...]


@cache
def explanations() -> dict[str, Explanation]:
    """The table, by code."""
    text = Path(__file__).with_name("codes.toml").read_text(encoding="utf-8")
    return {
        code: Explanation(
            code,
            row["title"],
            row["why"].strip(),
            row["wrong"].strip() + "\n",
            row["right"].strip() + "\n",
            tuple(re.compile(pattern, re.DOTALL) for pattern in row["messages"]),
        )
        for code, row in tomllib.loads(text).items()
    }


def code_of(message: str) -> str:
    """The code of a message of the compiler's; an empty string for text that is none."""
    prefix = _WITHIN.match(message)
    for text in (message, message[prefix.end() :] if prefix else ""):
        for row in explanations().values():
            if text and any(pattern.match(text) for pattern in row.messages):
                return row.code
    return ""
