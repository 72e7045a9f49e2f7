"""The tables of the parser, saved: Lark makes them of `grammar.lark` in twenty times the time.

They stand in `grammar.json` with the digest of the grammar and Lark's version; where that differs
they are made anew, which only takes longer. To renew the file, which a test asks for:
`python -m triton_dsl.ir.language.grammar_tables`. Not here: parsing (`parser`).
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from lark import Lark

    from .tree_builder import TreeBuilder

_GRAMMAR = Path(__file__).with_name("grammar.lark")
SAVED = Path(__file__).with_name("grammar.json")


def make_parser(text: str, builder: TreeBuilder | None) -> Lark:
    """The parser of a grammar, by Lark."""
    from lark import Lark

    return Lark(
        text,
        start="program",
        parser="lalr",
        lexer="basic",
        transformer=builder,
        keep_all_tokens=True,
        maybe_placeholders=False,
    )


def load_parser(builder: TreeBuilder) -> Lark:
    """The parser of the language, from the saved tables where they are those of the grammar."""
    from lark import Lark

    content = _GRAMMAR.read_bytes()
    try:
        saved: dict[str, Any] = json.loads(SAVED.read_bytes())
        if saved["digest"] != digest(content):
            return make_parser(content.decode(), builder)
        data, memo = _numbered(saved["data"]), _numbered(saved["memo"])
        load = cast(Any, Lark)._load_from_dict
        return load(data, memo, transformer=builder)
    except (OSError, ValueError, LookupError, TypeError):
        return make_parser(content.decode(), builder)


def tables() -> str:
    """What the file must hold."""
    from lark.grammar import Rule
    from lark.lexer import TerminalDef

    content = _GRAMMAR.read_bytes()
    parser = cast(Any, make_parser(content.decode(), None))
    data, memo = parser.memo_serialize([TerminalDef, Rule])
    saved = {"digest": digest(content), "data": data, "memo": memo}
    return json.dumps(saved, sort_keys=True, separators=(",", ":"), default=sorted) + "\n"


def digest(grammar: bytes) -> str:
    """What tables are made from."""
    import lark

    return hashlib.sha256(grammar + lark.__version__.encode()).hexdigest()


def _numbered(value: Any) -> Any:
    """Keys that are numbers, which JSON has as text, as numbers again."""
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {int(k) if k.isdigit() else k: _numbered(v) for k, v in items}
    if isinstance(value, list):
        return [_numbered(v) for v in cast("list[Any]", value)]
    return value


if __name__ == "__main__":
    SAVED.write_text(tables(), encoding="utf-8")
