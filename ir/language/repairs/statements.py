"""Statements and blocks of other languages."""

from __future__ import annotations

from ..habits import STATEMENTS
from .changes import (
    Change,
    Repair,
    Tokens,
    at_depth,
    closing,
    follow,
    item_end,
    kind_at,
    open_bracket,
    source_text,
)


def import_of_module(tokens: Tokens, start: int, position: int) -> Repair | None:
    """All such lines of the file at once: the first says it for the others."""
    if not _is_foreign_import(tokens, start):
        return None
    items = [
        index
        for index in range(start, len(tokens))
        if (index == 0 or tokens[index - 1].type == "_SEP") and _is_foreign_import(tokens, index)
    ]
    changes = tuple(Change(index, item_end(tokens, index) + 1, "") for index in items)
    message = "'import' reads .tri files: layers and functions are there without it"
    return Repair(message, start, item_end(tokens, start) - 1, changes, "leave the line out")


def _is_foreign_import(tokens: Tokens, start: int) -> bool:
    if tokens[start] == "from":
        return any(t.type == "IMPORT" for t in tokens[start : item_end(tokens, start)])
    return follow(tokens, start, "IMPORT", "NAME")


def foreign_statement(tokens: Tokens, start: int, position: int) -> Repair | None:
    word = str(tokens[start])
    at = start
    if word not in STATEMENTS:
        at = position - 1
        if position <= start or tokens[at] != "lambda":
            return None
        word = "lambda"
    hint = STATEMENTS[word]
    changes: tuple[Change, ...] = ()
    end = item_end(tokens, start)
    if hint.startswith("leave it out") and at == start:
        if "LBRACE" in (t.type for t in tokens[start:end]):
            return None
        changes = (Change(start, end + (kind_at(tokens, end) == "_SEP"), ""),)
    return Repair(f"there is no '{word}'", at, at, changes, hint)


def choice(tokens: Tokens, start: int, position: int) -> Repair | None:
    """`c ? a : b` and `a if c else b`."""
    end = item_end(tokens, position)
    inside = open_bracket(tokens, start, position)
    if inside >= 0:
        end = closing(tokens, inside) or end
    first = max(inside, start) + 1
    while first < position and kind_at(tokens, first - 1) not in ("EQUAL", "RETURN", "LPAR", "LSQB",
                                                                "COMMA"):  # fmt: skip
        first += 1
    if kind_at(tokens, position) == "QMARK":
        middle = at_depth(tokens, position, end, "COLON")
        parts = (first, position), (position + 1, middle), (middle + 1, end)
        what = "'? :'"
    elif kind_at(tokens, position) == "IF" and position > start:
        middle = at_depth(tokens, position, end, "ELSE")
        parts = (position + 1, middle), (first, position), (middle + 1, end)
        what = "'if' within an expression"
    else:
        return None
    if middle < 0 or first >= position:
        return None
    condition, yes, no = (source_text(tokens, *part) for part in parts)
    if kind_at(tokens, start) == "RETURN" and inside < 0:
        text = f"if {condition} {{ return {yes} }} else {{ return {no} }}"
        change = Change(start, end, text, text.replace(" }", "; }"))
        hint = f"write {text}, or for tensors where({condition}, {yes}, {no})"
        return Repair(f"there is no {what}", position, position, (change,), hint)
    text = f"where({condition}, {yes}, {no})"
    hint = f"write {text} for tensors, if {condition} {{ … }} else {{ … }} for what is known before"
    return Repair(f"there is no {what}", position, position, (Change(first, end, text),), hint)


def comprehension(tokens: Tokens, start: int, position: int) -> Repair | None:
    if kind_at(tokens, position) != "FOR" or open_bracket(tokens, start, position) < 0:
        return None
    hint = "write the elements out, or repeat with for … in … { … }"
    return Repair("there are no list comprehensions", position, position, (), hint)


def loop_in_parentheses(tokens: Tokens, start: int, position: int) -> Repair | None:
    end = closing(tokens, position) if follow(tokens, position - 1, "FOR", "LPAR") else None
    if end is None:
        return None
    if follow(tokens, position + 1, "NAME", "IN"):
        changes = (Change(position, position + 1, ""), Change(end, end + 1, ""))
        meant = source_text(tokens, position + 1, end)
        return Repair("'for' takes no parentheses", position, end, changes, f"write for {meant}")
    first = position + 1 + (follow(tokens, position + 1, "NAME", "NAME"))
    commas = [i for i in range(position + 1, end) if tokens[i].type in ("COMMA", "_SEP")]
    if not follow(tokens, first, "NAME", "EQUAL") or len(commas) != 2:
        return None
    below = [i for i in range(*commas) if tokens[i].type == "LESSTHAN"]
    if not below:
        return None
    begin = source_text(tokens, first + 2, commas[0])
    stop = source_text(tokens, below[0] + 1, commas[1])
    text = f"{tokens[first]} in range({begin}, {stop})"
    message = "'for' runs over a range or a list"
    return Repair(message, position, end, (Change(position, end + 1, text),), f"write for {text}")


def colon_blocks(tokens: Tokens, start: int, position: int) -> Repair | None:
    """Blocks by indentation, all of the file at once."""
    if not _is_block(tokens, position):
        return None
    ends: dict[int, list[int]] = {}
    changes: list[Change] = []
    for index in range(start, len(tokens)):
        if _is_block(tokens, index):
            changes.append(Change(index, index + 2, " {", "{"))
            header = _line_start(tokens, index)
            ends.setdefault(_block_end(tokens, header, index), []).append(header)
    for end, headers in ends.items():
        columns = sorted((tokens[h].span.column for h in headers), reverse=True)
        text = "".join(f"\n{' ' * (column - 1)}}}" for column in columns)
        goes_on = kind_at(tokens, end) == "ELSE" or tokens[end] == "elif"
        spare = "};" * (len(columns) - 1) + ("}" if goes_on else "};")
        changes.append(Change(end, end, text, spare))
    changes.sort(key=lambda change: (change.first, change.stop))
    message = "a block stands in braces, not behind ':'"
    return Repair(message, position, position, tuple(changes), "write { … }")


def _is_block(tokens: Tokens, index: int) -> bool:
    if not follow(tokens, index, "COLON", "_SEP") or tokens[index + 1] == ";":
        return False
    header = tokens[_line_start(tokens, index)]
    known = header.type in ("LAYER", "FN", "IF", "FOR", "ELSE")
    return known or str(header) in ("def", "elif", "while", "with", "class")


def _line_start(tokens: Tokens, index: int) -> int:
    while index > 0 and tokens[index - 1].type not in ("_SEP", "LBRACE", "RBRACE"):
        index -= 1
    return index


def _block_end(tokens: Tokens, header: int, colon: int) -> int:
    """The first token behind the lines that stand further in than the header."""
    for index in range(colon + 2, len(tokens)):
        begins = tokens[index - 1].type in ("_SEP", "LBRACE")
        inside = tokens[index].span.column > tokens[header].span.column
        if tokens[index].type == "$END" or (begins and not inside):
            return index
    return len(tokens) - 1


def python_class(tokens: Tokens, start: int, position: int) -> Repair | None:
    if tokens[start] != "class" or kind_at(tokens, start + 1) != "NAME":
        return None
    end = item_end(tokens, start)
    if not _is_block(tokens, end - 1):
        return None
    name = tokens[start + 1]
    hint = (
        f"write layer {name} {{ let fc = Linear(8, 4); fn forward(x: Tensor[N, 8]) -> "
        "Tensor[N, 4] { return fc(x) } }, or give the PyTorch module itself to compile_model"
    )
    stop = _block_end(tokens, start, end - 1)
    return Repair("a class of Python is no layer", start, end - 2, (), hint, stop)
