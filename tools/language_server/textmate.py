"""The TextMate grammar that editors colour `.tri` files by, made from the grammar of the language.

Keywords, literals and comments come from `grammar.lark`, types from the checker's tables.
`python -m triton_dsl.tools.language_server.textmate` renews the file, which a test asks for. Not
here: colours by meaning, so that a new function changes nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ...ir.language import loader, types

SAVED = Path(__file__).parent / "vscode" / "syntaxes" / "tri.tmLanguage.json"
_GRAMMAR = Path(loader.__file__).with_name("grammar.lark").read_text(encoding="utf-8")
_RULES, _, _TERMINALS = _GRAMMAR.partition("// Terminals")

WORDS = tuple(sorted(set(re.findall(r'"([a-z]+)"', _RULES))))
"""The keywords of the language."""
_DECLARING = ("buffer", "const", "fn", "layer", "let", "param")
_VALUES = ("false", "true")


def _terminal(name: str) -> str:
    """The regular expression of a terminal."""
    found = re.search(rf"^{name}: /(.+)/$", _TERMINALS, re.MULTILINE)
    assert found is not None, name
    return found[1].replace(r"\/", "/")


def _words(words: Iterable[str]) -> str:
    return rf"\b({'|'.join(sorted(words))})\b"


def grammar() -> str:
    """The file's text."""
    controls = [word for word in WORDS if word not in (*_DECLARING, *_VALUES)]
    comment = _terminal("LINE_COMMENT").partition("[")[0]
    scopes = [
        ("comment.line", rf"{comment}.*$"),
        ("string.quoted.double", _terminal("STRING")),
        ("constant.numeric.float", rf"\b({_terminal('FLOAT')})"),
        ("constant.numeric.integer", rf"\b({_terminal('INTEGER')})\b"),
        ("constant.language", _words(_VALUES)),
        ("keyword.control", _words(controls)),
        ("storage.type", _words(_DECLARING)),
        ("support.type", _words((*types.KEYWORDS.values(), *types.SCALARS))),
        ("entity.name.type", r"\b[A-Z][A-Za-z0-9_]*\b"),
        ("entity.name.function", rf"\b{_terminal('NAME')}(?=\s*\()"),
        ("keyword.operator", r"->|&&|\|\||[=!<>]=|[-+*/%@<>=!]"),
    ]
    begin, _, end = _terminal("BLOCK_COMMENT").partition(r"[\s\S]*?")
    patterns: list[dict[str, Any]] = [
        {"name": "comment.block.tri", "begin": begin, "end": end},
        *({"name": f"{scope}.tri", "match": pattern} for scope, pattern in scopes),
    ]
    content = {"name": "Triton", "scopeName": "source.tri", "fileTypes": ["tri"]}
    return json.dumps({**content, "patterns": patterns}, indent=2) + "\n"


if __name__ == "__main__":
    SAVED.parent.mkdir(parents=True, exist_ok=True)
    SAVED.write_text(grammar(), encoding="utf-8")
