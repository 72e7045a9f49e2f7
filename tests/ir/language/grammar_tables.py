"""The tables of the parser, saved in `grammar.json`: Lark makes them of `grammar.lark`.

To renew the file, which a test asks for: `python -m tests.ir.language.grammar_tables`. It
needs Lark, which nothing else here does. Not here: parsing by them (`automaton`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any, cast

import lark
from lark.lexer import TerminalDef
from lark.parsers.lalr_analysis import IntParseTable, Shift

from triton_dsl.ir.language.tables import SAVED

_GRAMMAR = SAVED.with_suffix(".lark")


def tables() -> str:
    """What the file must hold."""
    content = _GRAMMAR.read_bytes()
    parser = lark.Lark(content.decode(), start="program", lexer="basic", parser="lalr",
                       keep_all_tokens=True, maybe_placeholders=False)  # fmt: skip
    table = cast(IntParseTable, cast(Any, parser).parser.parser._parse_table)
    rules = sorted(parser.rules, key=repr)
    number = {rule: index for index, rule in enumerate(rules)}
    pattern, keywords = _terminals(parser.terminals)
    # Lark numbers states as its sets happen to be ordered; here the order is that of a walk.
    order = [table.start_states["program"]]
    for state in order:
        reached = (target for _, (action, target) in _sorted(table, state) if action is Shift)
        order += [target for target in dict.fromkeys(reached) if target not in order]
    states = {state: index for index, state in enumerate(order)}
    saved = {
        "digest": digest(content),
        "pattern": pattern,
        "keywords": keywords,
        "rules": [
            [
                str(rule.origin.name),
                len(rule.expansion),
                [i for i, s in enumerate(rule.expansion) if not s.is_term and s.name[0] == "_"],
                bool(rule.options.expand1 and not rule.alias),
                str(rule.alias or rule.origin.name),
            ]
            for rule in rules
        ],
        "states": [
            {
                symbol: states[target] if action is Shift else ~number[target]
                for symbol, (action, target) in _sorted(table, state)
            }
            for state in order
        ],
        "start": 0,
        "end": states[table.end_states["program"]],
    }
    return json.dumps(saved, sort_keys=True, separators=(",", ":")) + "\n"


def _sorted(table: IntParseTable, state: int) -> list[tuple[str, tuple[Any, Any]]]:
    return sorted(cast("dict[str, tuple[Any, Any]]", table.states[state]).items())


def _terminals(definitions: Iterable[TerminalDef]) -> tuple[str, dict[str, str]]:
    """One regular expression and the keywords: patterns in the order of the grammar, then symbols,
    longest first; a symbol that reads like a name is a keyword."""
    patterns: list[tuple[str, str]] = []
    symbols: list[tuple[str, str]] = []
    keywords: dict[str, str] = {}
    for terminal in definitions:
        if terminal.pattern.type == "re":
            patterns.append((terminal.name, terminal.pattern.to_regexp()))
        elif str(terminal.pattern.value).isidentifier():
            keywords[str(terminal.pattern.value)] = terminal.name
        else:
            symbols.append((terminal.name, terminal.pattern.to_regexp()))
    symbols.sort(key=lambda item: -len(item[1].replace("\\", "")))
    return "|".join(f"(?P<{name}>{regexp})" for name, regexp in patterns + symbols), keywords


def digest(grammar: bytes) -> str:
    """What tables are made from."""
    return hashlib.sha256(grammar + lark.__version__.encode()).hexdigest()


if __name__ == "__main__":
    SAVED.write_text(tables(), encoding="utf-8")
