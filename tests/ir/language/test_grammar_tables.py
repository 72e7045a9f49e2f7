"""The saved tables are those of the grammar, and read tokens as Lark reads them."""

import json
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

import lark
import pytest
from lark import UnexpectedToken

from triton_dsl.ir.language import tree_builder
from triton_dsl.ir.language.automaton import Automaton
from triton_dsl.ir.language.diagnostics import DiagnosticBag
from triton_dsl.ir.language.lexer import SourceToken
from triton_dsl.ir.language.loader import PRELUDE_FILE, prelude, prelude_names
from triton_dsl.ir.language.parser import tokenize
from triton_dsl.ir.language.tables import SAVED

from . import grammar_tables

TEXTS = [PRELUDE_FILE, *sorted((Path(__file__).parent / "mistakes").glob("*.tri"))]


def test_the_saved_tables_are_of_this_grammar() -> None:
    renew = "python -m tests.ir.language.grammar_tables renews them"
    saved = SAVED.read_text(encoding="utf-8")
    assert json.loads(saved)["digest"] == grammar_tables.digest(
        SAVED.with_suffix(".lark").read_bytes()
    ), renew
    assert saved == grammar_tables.tables(), renew


def lark_parser() -> lark.Lark:
    """Lark with the same callbacks."""
    functions = {
        name: staticmethod(value)
        for name, value in vars(tree_builder).items()
        if isinstance(value, FunctionType) and not name.startswith("_")
    }
    builder: Callable[[], Any] = type("Builder", (lark.Transformer,), functions)
    return lark.Lark(
        SAVED.with_suffix(".lark").read_text(encoding="utf-8"),
        start="program", parser="lalr", lexer="basic", transformer=builder(),
        keep_all_tokens=True, maybe_placeholders=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def peer() -> lark.Lark:
    return lark_parser()


def read_by_lark(peer: lark.Lark, tokens: list[SourceToken]) -> tuple[int, object]:
    """How many tokens fit, and what they make."""
    parser: Any = peer.parse_interactive()
    result: object = None
    for position, token in enumerate(tokens):
        try:
            result = parser.feed_token(token)
        except UnexpectedToken:
            return position, None
    return len(tokens), result


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_tokens_are_read_as_by_lark(path: Path, peer: lark.Lark) -> None:
    tokens = tokenize(path.read_text(encoding="utf-8"), "x.tri", DiagnosticBag())
    automaton, position = Automaton(), 0
    while position < len(tokens):
        known = automaton.accepted()
        if not automaton.feed(tokens[position]):
            assert tokens[position].type not in known
            break
        assert tokens[position].type in known or tokens[position].type == "$END"
        position += 1
    expected, tree = read_by_lark(peer, tokens)
    assert position == expected
    if position == len(tokens):
        assert repr(automaton.result) == repr(tree)
        assert automaton.result == tree


def test_the_names_of_the_prelude_are_known_before_it_is_parsed() -> None:
    assert prelude_names() == set(prelude().own)
