"""Texts of a circuit's folder that are the same for all circuits but for words, as `<name>`.

Verilog, tests, scripts; what depends on the circuit line by line is written where it is known. Not
here: Verilog of circuits (`printer`).
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files


@cache
def _text(template: str) -> str:
    return files(__name__).joinpath(template).read_text(encoding="utf-8")


def filled(template: str, **words: object) -> str:
    """A template, by the name of its file, with words in the places of their names.

    Raises:
        KeyError: a word is missing.
    """
    return re.sub(r"<(\w+)>", lambda place: str(words[place[1]]), _text(template))
