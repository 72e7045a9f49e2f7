"""Declarations as they are written elsewhere: words, decorators, bases and values around them."""

from __future__ import annotations

from ..habits import MODIFIERS
from .changes import (
    Change,
    Repair,
    Tokens,
    closing,
    follow,
    item_end,
    kind_at,
    source_text,
)

_KEYWORDS = ("LAYER", "FN", "LET", "CONST", "PARAM", "BUFFER")


def modifier(tokens: Tokens, start: int, position: int) -> Repair | None:
    """`pub fn`, `export layer`, `let mut x`."""
    at = start + (kind_at(tokens, start) in _KEYWORDS)
    if str(tokens[at]) not in MODIFIERS or position > at + 1:
        return None
    if kind_at(tokens, at + 1) not in (("NAME",) if at > start else _KEYWORDS):
        return None
    changes = (Change(at, at + 1, ""),)
    return Repair(f"there is no keyword '{tokens[at]}'", at, at, changes, "leave it out")


def decorator(tokens: Tokens, start: int, position: int) -> Repair | None:
    if position != start or not follow(tokens, start, "AT", "NAME"):
        return None
    end = item_end(tokens, start)
    changes = (Change(start, end + (kind_at(tokens, end) == "_SEP"), ""),)
    return Repair("there are no decorators", start, end - 1, changes, "leave it out")


def base(tokens: Tokens, start: int, position: int) -> Repair | None:
    """`layer Net: Module {`, `layer Net extends Module {`, and `layer Net<K> {`."""
    if kind_at(tokens, start) != "LAYER" or position < start + 2:
        return None
    brace = next((i for i in range(position, len(tokens)) if tokens[i].type == "LBRACE"), 0)
    if not brace or any(token.type == "_SEP" for token in tokens[position:brace]):
        return None
    if follow(tokens, position, "LESSTHAN", "NAME") and follow(tokens, brace - 1, "MORETHAN"):
        inside = tokens[position + 1 : brace - 1]
        if {token.type for token in inside} != {"NAME"} | {"COMMA"} & {t.type for t in inside}:
            return None
        text = f"({', '.join(f'{t}: int' for t in inside if t.type == 'NAME')})"
        message = "arguments of a layer stand in parentheses, with their types"
        change = Change(position, brace, f"{text} ", text)
        return Repair(message, position, brace - 1, (change,), f"did you mean '{text}'?")
    if kind_at(tokens, position) == "COLON" or tokens[position] in ("extends", "implements"):
        change = Change(position, brace, "")
        return Repair("a layer has no base", position, brace - 1, (change,), "leave it out")
    return None


def several_names(tokens: Tokens, start: int, position: int) -> Repair | None:
    """`let a, b = split(x, 2, 1)`, with parentheses and without `let` too."""
    first = start + (kind_at(tokens, start) == "LET")
    grouped = kind_at(tokens, first) == "LPAR"
    equal = next((i for i in range(first, item_end(tokens, first)) if tokens[i] == "="), 0)
    close = closing(tokens, first) if grouped else None
    named = tokens[first + 1 : close] if close is not None else tokens[first:equal]
    names = [str(token) for token in named[::2]]
    kinds = [token.type for token in named]
    if not equal or len(names) < 2 or kinds != (["NAME", "COMMA"] * len(names))[:-1]:
        return None
    if close is not None and close + 1 != equal:
        return None
    end = item_end(tokens, equal)
    whole = "_".join(names)
    text = f"let {whole} = {source_text(tokens, equal + 1, end)}"
    text += "".join(f"; let {name} = {whole}[{index}]" for index, name in enumerate(names))
    return Repair(
        "a 'let' binds one name", first, equal - 1, (Change(start, end, text),), f"write {text}"
    )


def let_without_value(tokens: Tokens, start: int, position: int) -> Repair | None:
    if not follow(tokens, start, "LET", "NAME", "COLON") or kind_at(tokens, position) != "_SEP":
        return None
    if any(token == "=" for token in tokens[start:position]):
        return None
    message = f"a 'let' needs a value, and '{tokens[start + 1]}' has none"
    if _in_layer(tokens, start):
        hint = "write param for what comes from a weights file"
        return Repair(message, start, start + 1, (Change(start, start + 1, "param"),), hint)
    return Repair(message, start, start + 1, (), "write = and its value behind the type")


def _in_layer(tokens: Tokens, start: int) -> bool:
    """Whether the innermost block around an item is that of a layer."""
    depth = 0
    for index in range(start - 1, -1, -1):
        kind = tokens[index].type
        depth += (kind == "RBRACE") - (kind == "LBRACE")
        if depth < 0:
            while index > 0 and tokens[index - 1].type not in ("_SEP", "LBRACE", "RBRACE"):
                index -= 1
            return tokens[index].type == "LAYER"
    return False


def documentation(tokens: Tokens, start: int, position: int) -> Repair | None:
    """A string where a declaration or statement stands, as Python documents itself."""
    end = item_end(tokens, start)
    if any(token.type != "STRING" for token in tokens[start:end]) or kind_at(tokens, end) != "_SEP":
        return None
    text = " ".join("".join(str(token)[1:-1] for token in tokens[start:end]).split())
    change = Change(start, end + 1, f"# {text}", "")
    return Repair("a comment begins with '#'", start, end - 1, (change,), f"write # {text}")
