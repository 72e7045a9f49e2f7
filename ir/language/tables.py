"""The grammar as data: what `grammar.json` holds, for `lexer` and `automaton`.

Lark makes the file (`grammar_tables`, beside the tests) and does not run here: to load it takes
longer than to check a program.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

SAVED = Path(__file__).with_name("grammar.json")


class Rule(NamedTuple):
    """One rule of the grammar.

    Attributes:
        origin: the symbol that it makes.
        size: how many symbols it is made of.
        inlined: which of these give their children instead of themselves.
        single: whether a single child stands for the whole.
        name: what makes its value in `tree_builder`.
    """

    origin: str
    size: int
    inlined: list[int]
    single: bool
    name: str


@dataclass(frozen=True)
class Tables:
    """The language as data.

    Attributes:
        pattern: every terminal but the keywords, as groups of one regular expression.
        keywords: the terminal of each keyword.
        rules: the rules of the grammar.
        states: for each state what a symbol leads to: a state, or `~n` where rule n is complete.
        start, end: the first state, and the one in which a whole program is read.
    """

    pattern: re.Pattern[str]
    keywords: dict[str, str]
    rules: Sequence[Rule]
    states: Sequence[dict[str, int]]
    start: int
    end: int


@cache
def tables() -> Tables:
    """The saved tables."""
    saved: dict[str, Any] = json.loads(SAVED.read_bytes())
    return Tables(
        pattern=re.compile(saved["pattern"]),
        keywords=saved["keywords"],
        rules=[Rule(*rule) for rule in saved["rules"]],
        states=saved["states"],
        start=saved["start"],
        end=saved["end"],
    )
