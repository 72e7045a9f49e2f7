"""Functions in C that programs call, from `library.c`: which are needed, with types for its words.

Not here: what calls them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"^static [^(]*?(\w+)\(", re.MULTILINE)
_WORD = re.compile(r"\w+")
_TYPES = ("INPUT", "SUM", "TABLE", "BASE")


@cache
def _functions() -> Mapping[str, str]:
    """The text of each function, in the order in which they may call each other."""
    text = files(__name__.rpartition(".")[0]).joinpath("library.c").read_text(encoding="utf-8")
    parts = [part.strip() for part in text.split("\n\n")[1:]]
    return {_name(part): part for part in parts}


def _name(part: str) -> str:
    match = _NAME.search(part)
    assert match is not None
    return match.group(1)


class Library:
    """The functions that a program needs."""

    def __init__(self) -> None:
        self._texts: dict[tuple[int, str], str] = {}

    def need(self, name: str, **types: str) -> str:
        """Ask for a function, with `INPUT`, `SUM`, `TABLE`, `BASE` for these words; its name."""
        functions = _functions()

        def written(text: str) -> str:
            for word in _TYPES:
                text = re.sub(rf"(?<![A-Z]){word}(?![A-Z])", types.get(word, word), text)
            return text

        text = functions[name]
        own = written(name)
        key = (list(functions).index(name), own)
        if key not in self._texts:
            self._texts[key] = written(text)
            for word in set(_WORD.findall(text)) - {name}:
                if word in functions:
                    self.need(word, **types)
                elif word == "all_sums_uint32_t":
                    self.need("all_sums_TABLE", TABLE="uint32_t")
        return own

    def need_all(self, code: str) -> None:
        """Ask for the functions without types that some code calls."""
        for word in set(_WORD.findall(code)) & set(_functions()):
            self.need(word)

    def text(self) -> str:
        """The functions, each before those that call it."""
        return "\n\n".join(self._texts[key] for key in sorted(self._texts))
