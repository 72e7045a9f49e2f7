"""The saved tables are those of the grammar, and nothing depends on them but time."""

import json
from pathlib import Path

import pytest

from triton_dsl.ir.language import grammar_tables
from triton_dsl.ir.language.loader import prelude, prelude_names
from triton_dsl.ir.language.tree_builder import TreeBuilder


def test_the_saved_tables_are_of_this_grammar() -> None:
    renew = "python -m triton_dsl.ir.language.grammar_tables renews them"
    saved = json.loads(grammar_tables.SAVED.read_text(encoding="utf-8"))
    grammar = grammar_tables.SAVED.with_suffix(".lark").read_bytes()
    assert saved["digest"] == grammar_tables.digest(grammar), renew
    assert saved.keys() == json.loads(grammar_tables.tables()).keys()


@pytest.mark.parametrize("content", [None, "{", "[]", '{"digest": "0"}'])
def test_a_parser_is_made_where_none_is_saved(
    content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = grammar_tables.load_parser(TreeBuilder())
    path = tmp_path / "grammar.json"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    monkeypatch.setattr(grammar_tables, "SAVED", path)
    made = grammar_tables.load_parser(TreeBuilder())
    assert saved.source_path == "<deserialized>" != made.source_path
    assert [t.name for t in saved.terminals] == [t.name for t in made.terminals]
    assert [str(r) for r in saved.rules] == [str(r) for r in made.rules]


def test_the_names_of_the_prelude_are_known_before_it_is_parsed() -> None:
    assert prelude_names() == set(prelude().own)
