"""A repair as data, and how the rules of the other files look around among the tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..diagnostics import Edit
from ..lexer import SourceToken

Tokens = Sequence[SourceToken]


@dataclass(frozen=True)
class Change:
    """`text` in place of the tokens from `first` to before `stop`; none of them for an insertion.

    An insertion stands right behind the token before `first`. `tokens` is what the parser reads
    where that is not the text itself: separators are the layout's.
    """

    first: int
    stop: int
    text: str
    tokens: str | None = None


@dataclass(frozen=True)
class Repair:
    """What was written, and what of it is changed.

    Attributes:
        message: what is wrong.
        first, last: the tokens that the message points at.
        changes: in the order of the tokens.
        suggestion: what to write; `did you mean …?` of the change where it is empty.
        stop: where to go on when the item is left out as a whole.
    """

    message: str
    first: int
    last: int
    changes: tuple[Change, ...]
    suggestion: str = ""
    stop: int | None = None


def edits_of(tokens: Tokens, changes: Sequence[Change]) -> tuple[Edit, ...]:
    """The changes as edits of the source; what is left out takes the space behind it along."""
    edits: list[Edit] = []
    for change in changes:
        if change.first == change.stop:
            edits.append(Edit(tokens[change.first - 1].span.end, change.text))
            continue
        span = tokens[change.first].span.to(tokens[change.stop - 1].span)
        behind = tokens[change.stop].span if change.stop < len(tokens) else span
        first_of_line = change.first == 0 or tokens[change.first].newline_before
        if not change.text and (behind.line == span.end_line or first_of_line):
            span = span.to(behind.start)
        edits.append(Edit(span, change.text))
    return tuple(edits)


def source_text(tokens: Tokens, first: int, stop: int) -> str:
    """The source of the tokens from `first` to before `stop`, on one line."""
    text = ""
    for index in range(first, stop):
        token = tokens[index]
        if index > first:
            before = tokens[index - 1].span
            gap = token.span.column - before.end_column if token.span.line == before.end_line else 1
            text += " " * min(max(gap, 0), 1)
        text += str(token)
    return text


def closing(tokens: Tokens, opener: int) -> int | None:
    """The index of the bracket that closes the one at `opener`."""
    depth = 0
    for index in range(opener, len(tokens)):
        kind = tokens[index].type
        depth += (kind in ("LPAR", "LSQB", "LBRACE")) - (kind in ("RPAR", "RSQB", "RBRACE"))
        if depth == 0:
            return index
    return None


def kind_at(tokens: Tokens, index: int) -> str:
    return tokens[index].type if 0 <= index < len(tokens) else ""


def follow(tokens: Tokens, first: int, *kinds: str) -> bool:
    return all(kind_at(tokens, first + offset) == kind for offset, kind in enumerate(kinds))


def item_end(tokens: Tokens, position: int) -> int:
    """The separator or `}` that ends the item at `position`, outside of brackets."""
    depth = 0
    for index in range(position, len(tokens)):
        kind = tokens[index].type
        if depth == 0 and kind in ("_SEP", "RBRACE", "$END"):
            return index
        depth += (kind in ("LPAR", "LSQB", "LBRACE")) - (kind in ("RPAR", "RSQB", "RBRACE"))
    return len(tokens) - 1


def operand_before(tokens: Tokens, stop: int, start: int) -> int:
    """Where the operand that ends before `stop` begins: a name, number, call, index or group."""
    index = stop - 1
    while index > start:
        if tokens[index].type in ("RPAR", "RSQB"):
            depth = 0
            while index > start:
                kind = tokens[index].type
                depth += (kind in ("RPAR", "RSQB")) - (kind in ("LPAR", "LSQB"))
                if depth == 0:
                    break
                index -= 1
            if kind_at(tokens, index - 1) in ("NAME", "RPAR", "RSQB"):
                index -= 1
                continue
        elif kind_at(tokens, index - 1) == "DOT":
            index -= 2
            continue
        break
    return index


def operand_behind(tokens: Tokens, first: int) -> int:
    """The token behind the operand that begins at `first`."""
    index = first + (kind_at(tokens, first) == "MINUS")
    while kind_at(tokens, index + 1) in ("LPAR", "LSQB", "DOT"):
        if kind_at(tokens, index + 1) == "DOT":
            index += 2
            continue
        end = closing(tokens, index + 1)
        if end is None:
            break
        index = end
    if kind_at(tokens, index) in ("LPAR", "LSQB"):
        index = closing(tokens, index) or index
    return index + 1


def open_bracket(tokens: Tokens, start: int, position: int) -> int:
    """The innermost bracket that is open at `position`, or -1."""
    depth = 0
    for index in range(position - 1, start - 1, -1):
        kind = tokens[index].type
        depth += (kind in ("RPAR", "RSQB")) - (kind in ("LPAR", "LSQB"))
        if depth < 0:
            return index
    return -1


def at_depth(tokens: Tokens, first: int, stop: int, kind: str) -> int:
    depth = 0
    for index in range(first, stop):
        if depth == 0 and tokens[index].type == kind:
            return index
        depth += (tokens[index].type in ("LPAR", "LSQB")) - (tokens[index].type in ("RPAR", "RSQB"))
    return -1
