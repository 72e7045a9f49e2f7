"""Syntax of other languages, put right in the tokens: what the message offers and the parser reads.

`repair` is asked at a token that does not fit. What it knows becomes one message with edits of the
source, and the same edits of the tokens, so that the parse goes on as if the text had been right.
Words alone stand in `habits`. Not here: mistakes that nothing can be made of (`recovery`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .diagnostics import Edit
from .habits import ELEMENTS, STATEMENTS
from .lexer import SourceToken, end_of
from .nodes import Span
from .tree_builder import cover

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


def repair(tokens: Tokens, start: int, position: int) -> Repair | None:
    """What the token at `position` is a habit of, in the item that begins at `start`."""
    for rule in _RULES:
        found = rule(tokens, start, position)
        if found is not None and _keeps_braces(tokens, start, found):
            return found
    return None


def _keeps_braces(tokens: Tokens, start: int, found: Repair) -> bool:
    """Whether as many braces open and close afterwards: the parser relies on the layout's."""

    def depth(text: str) -> int:
        return text.count("{") - text.count("}")

    def depth_of(first: int, stop: int) -> int:
        kinds = [token.type for token in tokens[first:stop]]
        return kinds.count("LBRACE") - kinds.count("RBRACE")

    more = sum(
        depth(c.text if c.tokens is None else c.tokens) - depth_of(c.first, c.stop)
        for c in found.changes
    )
    return more == 0 and (found.stop is None or depth_of(start, found.stop) == 0)


def edits_of(tokens: Tokens, changes: Sequence[Change]) -> tuple[Edit, ...]:
    """The changes as edits of the source; what is left out takes the space behind it along."""
    edits: list[Edit] = []
    for change in changes:
        if change.first == change.stop:
            edits.append(Edit(end_of(tokens[change.first - 1].span), change.text))
            continue
        span = cover(tokens[change.first].span, tokens[change.stop - 1].span)
        behind = tokens[change.stop].span if change.stop < len(tokens) else span
        first_of_line = change.first == 0 or tokens[change.first].newline_before
        if not change.text and (behind.line == span.end_line or first_of_line):
            span = cover(span, Span(behind.file, 0, 0, behind.line, behind.column))
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


def _kind(tokens: Tokens, index: int) -> str:
    return tokens[index].type if 0 <= index < len(tokens) else ""


def _kinds(tokens: Tokens, first: int, *kinds: str) -> bool:
    return all(_kind(tokens, first + offset) == kind for offset, kind in enumerate(kinds))


def _end(tokens: Tokens, position: int) -> int:
    """The separator or `}` that ends the item at `position`, outside of brackets."""
    depth = 0
    for index in range(position, len(tokens)):
        kind = tokens[index].type
        if depth == 0 and kind in ("_SEP", "RBRACE", "$END"):
            return index
        depth += (kind in ("LPAR", "LSQB", "LBRACE")) - (kind in ("RPAR", "RSQB", "RBRACE"))
    return len(tokens) - 1


def _operand_before(tokens: Tokens, stop: int, start: int) -> int:
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
            if _kind(tokens, index - 1) in ("NAME", "RPAR", "RSQB"):
                index -= 1
                continue
        elif _kind(tokens, index - 1) == "DOT":
            index -= 2
            continue
        break
    return index


def _operand_behind(tokens: Tokens, first: int) -> int:
    """The token behind the operand that begins at `first`."""
    index = first + (_kind(tokens, first) == "MINUS")
    while _kind(tokens, index + 1) in ("LPAR", "LSQB", "DOT"):
        if _kind(tokens, index + 1) == "DOT":
            index += 2
            continue
        end = closing(tokens, index + 1)
        if end is None:
            break
        index = end
    if _kind(tokens, index) in ("LPAR", "LSQB"):
        index = closing(tokens, index) or index
    return index + 1


# Types


def _in_type(tokens: Tokens, name: int) -> bool:
    """Whether the name stands where a type does."""
    return _kind(tokens, name) == "NAME" and _kind(tokens, name - 1) in ("COLON", "ARROW")


def _shape_in_parentheses(tokens: Tokens, start: int, position: int) -> Repair | None:
    end = closing(tokens, position) if _kind(tokens, position) == "LPAR" else None
    if end is None or end == position + 1 or not _in_type(tokens, position - 1):
        return None
    changes = (Change(position, position + 1, "["), Change(end, end + 1, "]"))
    meant = f"{tokens[position - 1]}[{source_text(tokens, position + 1, end)}]"
    return Repair(
        "a shape stands in square brackets", position - 1, end, changes, f"did you mean '{meant}'?"
    )


def _shape_in_angles(tokens: Tokens, start: int, position: int) -> Repair | None:
    opener = position if tokens[position].type in ("INTEGER", "NAME", "COMMA") else position - 1
    while opener > start and _kind(tokens, opener) in ("INTEGER", "NAME", "COMMA", "MORETHAN"):
        opener -= 1
    if _kind(tokens, opener) != "LESSTHAN" or not _in_type(tokens, opener - 1):
        return None
    stop = opener + 1
    while _kind(tokens, stop) in ("INTEGER", "NAME", "COMMA"):
        stop += 1
    if _kind(tokens, stop) != "MORETHAN" or stop == opener + 1:
        return None
    kind = str(tokens[opener - 1])
    if stop == opener + 2 and _kind(tokens, opener + 1) == "NAME":
        element = ELEMENTS.get(str(tokens[opener + 1]), str(tokens[opener + 1]))
        if _kind(tokens, stop + 1) == "LSQB":
            return None
        return Repair(
            "a tensor type needs its sizes",
            opener - 1,
            stop,
            (Change(opener - 1, stop + 1, element),),
            f"write {kind}<{element}>[…], or {element} for one number",
        )
    changes = (Change(opener, opener + 1, "["), Change(stop, stop + 1, "]"))
    meant = f"{kind}[{source_text(tokens, opener + 1, stop)}]"
    return Repair(
        "a shape stands in square brackets", opener - 1, stop, changes, f"did you mean '{meant}'?"
    )


def _module_of_type(tokens: Tokens, start: int, position: int) -> Repair | None:
    if not _kinds(tokens, position, "DOT", "NAME") or not _in_type(tokens, position - 1):
        return None
    stop = position + 1
    while _kinds(tokens, stop + 1, "DOT", "NAME"):
        stop += 2
    changes = (Change(position - 1, stop, ""),)
    return Repair(
        "a type has no module before it", position - 1, stop, changes, f"write {tokens[stop]}"
    )


def _type_before_name(tokens: Tokens, start: int, position: int) -> Repair | None:
    if _kind(tokens, position) != "LSQB" or _kind(tokens, position - 2) not in (
        "PARAM",
        "BUFFER",
        "LET",
        "CONST",
    ):
        return None
    end = closing(tokens, position)
    if end is None or _kind(tokens, end + 1) != "NAME":
        return None
    text = f"{tokens[end + 1]}: {source_text(tokens, position - 1, end + 1)}"
    changes = (Change(position - 1, end + 2, text),)
    return Repair("a type stands behind its name", position - 1, end + 1, changes)


def _shape_of_tuple(tokens: Tokens, start: int, position: int) -> Repair | None:
    opener = _open(tokens, start, position)
    if _kind(tokens, position) != "COMMA" or _kind(tokens, opener) != "LPAR":
        return None
    end = closing(tokens, opener)
    if end is None:
        return None
    if _kind(tokens, opener - 1) == "LSQB" and _in_type(tokens, opener - 2):
        changes = (Change(opener, opener + 1, ""), Change(end, end + 1, ""))
        meant = source_text(tokens, opener + 1, end)
        message = "the sizes of a shape stand in its square brackets alone"
        return Repair(message, opener, end, changes, f"write [{meant}]")
    if _kind(tokens, opener - 1) in ("NAME", "RPAR", "RSQB", "FOR"):
        return None
    changes = (Change(opener, opener + 1, "["), Change(end, end + 1, "]"))
    meant = f"[{source_text(tokens, opener + 1, end)}]"
    message = "several values stand in square brackets"
    return Repair(message, opener, end, changes, f"did you mean '{meant}'?")


def _values_without_brackets(tokens: Tokens, start: int, position: int) -> Repair | None:
    if _kind(tokens, position) != "COMMA" or _kind(tokens, start) != "RETURN":
        return None
    if _open(tokens, start, position) >= 0:
        return None
    end = _end(tokens, position)
    meant = f"[{source_text(tokens, start + 1, end)}]"
    changes = (Change(start + 1, end, meant),)
    return Repair("several values stand in square brackets", start + 1, end - 1, changes)


def _open(tokens: Tokens, start: int, position: int) -> int:
    """The innermost bracket that is open at `position`, or -1."""
    depth = 0
    for index in range(position - 1, start - 1, -1):
        kind = tokens[index].type
        depth += (kind in ("RPAR", "RSQB")) - (kind in ("LPAR", "LSQB"))
        if depth < 0:
            return index
    return -1


# Functions


def _argument_without_type(tokens: Tokens, start: int, position: int) -> Repair | None:
    name = position - 1
    if _kind(tokens, name) != "NAME" or _kind(tokens, position) not in ("COMMA", "RPAR"):
        return None
    opener = _open(tokens, start, position)
    if not (_kinds(tokens, opener - 2, "FN", "NAME") and _kind(tokens, start) == "FN"):
        return None
    if _kind(tokens, name - 1) not in ("LPAR", "COMMA"):
        return None
    if tokens[name] in ("self", "cls", "this"):
        stop = position + (_kind(tokens, position) == "COMMA")
        message = f"there is no '{tokens[name]}': members of a layer are named directly"
        return Repair(message, name, name, (Change(name, stop, ""),), "leave it out")
    message = f"the argument '{tokens[name]}' needs a type"
    hint = f"write {tokens[name]}: Tensor[…] with its sizes, such as Tensor[N, 784]"
    return Repair(message, name, name, (), hint)


def _result_arrow(tokens: Tokens, start: int, position: int) -> Repair | None:
    if _kind(tokens, start) != "FN" or _kind(tokens, position - 1) != "RPAR":
        return None
    message = "the type of the result stands behind '->'"
    if _kinds(tokens, position, "EQUAL", "MORETHAN"):
        return Repair(message, position, position + 1, (Change(position, position + 2, "->"),))
    if _kinds(tokens, position, "COLON", "NAME"):
        return Repair(message, position, position, (Change(position, position + 1, " ->"),),
                      "did you mean '->'?")  # fmt: skip
    if _kind(tokens, position) == "NAME":
        changes = (Change(position, position, " ->"),)
        return Repair(message, position, position, changes, f"write -> {tokens[position]}")
    return None


# Statements


def _import_of_module(tokens: Tokens, start: int, position: int) -> Repair | None:
    """All such lines of the file at once: the first says it for the others."""
    if not _is_foreign_import(tokens, start):
        return None
    items = [
        index
        for index in range(start, len(tokens))
        if (index == 0 or tokens[index - 1].type == "_SEP") and _is_foreign_import(tokens, index)
    ]
    changes = tuple(Change(index, _end(tokens, index) + 1, "") for index in items)
    message = "'import' reads .tri files: layers and functions are there without it"
    return Repair(message, start, _end(tokens, start) - 1, changes, "leave the line out")


def _is_foreign_import(tokens: Tokens, start: int) -> bool:
    if tokens[start] == "from":
        return any(t.type == "IMPORT" for t in tokens[start : _end(tokens, start)])
    return _kinds(tokens, start, "IMPORT", "NAME")


def _foreign_statement(tokens: Tokens, start: int, position: int) -> Repair | None:
    word = str(tokens[start])
    at = start
    if word not in STATEMENTS:
        at = position - 1
        if position <= start or tokens[at] != "lambda":
            return None
        word = "lambda"
    hint = STATEMENTS[word]
    changes: tuple[Change, ...] = ()
    end = _end(tokens, start)
    if hint.startswith("leave it out") and at == start:
        if "LBRACE" in (t.type for t in tokens[start:end]):
            return None
        changes = (Change(start, end + (_kind(tokens, end) == "_SEP"), ""),)
    return Repair(f"there is no '{word}'", at, at, changes, hint)


def _choice(tokens: Tokens, start: int, position: int) -> Repair | None:
    """`c ? a : b` and `a if c else b`."""
    end = _end(tokens, position)
    inside = _open(tokens, start, position)
    if inside >= 0:
        end = closing(tokens, inside) or end
    first = max(inside, start) + 1
    while first < position and _kind(tokens, first - 1) not in ("EQUAL", "RETURN", "LPAR", "LSQB",
                                                                "COMMA"):  # fmt: skip
        first += 1
    if _kind(tokens, position) == "QMARK":
        middle = _at_depth(tokens, position, end, "COLON")
        parts = (first, position), (position + 1, middle), (middle + 1, end)
        what = "'? :'"
    elif _kind(tokens, position) == "IF" and position > start:
        middle = _at_depth(tokens, position, end, "ELSE")
        parts = (position + 1, middle), (first, position), (middle + 1, end)
        what = "'if' within an expression"
    else:
        return None
    if middle < 0 or first >= position:
        return None
    condition, yes, no = (source_text(tokens, *part) for part in parts)
    if _kind(tokens, start) == "RETURN" and inside < 0:
        text = f"if {condition} {{ return {yes} }} else {{ return {no} }}"
        change = Change(start, end, text, text.replace(" }", "; }"))
        hint = f"write {text}, or for tensors where({condition}, {yes}, {no})"
        return Repair(f"there is no {what}", position, position, (change,), hint)
    text = f"where({condition}, {yes}, {no})"
    hint = f"write {text} for tensors, if {condition} {{ … }} else {{ … }} for what is known before"
    return Repair(f"there is no {what}", position, position, (Change(first, end, text),), hint)


def _at_depth(tokens: Tokens, first: int, stop: int, kind: str) -> int:
    depth = 0
    for index in range(first, stop):
        if depth == 0 and tokens[index].type == kind:
            return index
        depth += (tokens[index].type in ("LPAR", "LSQB")) - (tokens[index].type in ("RPAR", "RSQB"))
    return -1


def _comprehension(tokens: Tokens, start: int, position: int) -> Repair | None:
    if _kind(tokens, position) != "FOR" or _open(tokens, start, position) < 0:
        return None
    hint = "write the elements out, or repeat with for … in … { … }"
    return Repair("there are no list comprehensions", position, position, (), hint)


def _loop_in_parentheses(tokens: Tokens, start: int, position: int) -> Repair | None:
    end = closing(tokens, position) if _kinds(tokens, position - 1, "FOR", "LPAR") else None
    if end is None:
        return None
    if _kinds(tokens, position + 1, "NAME", "IN"):
        changes = (Change(position, position + 1, ""), Change(end, end + 1, ""))
        meant = source_text(tokens, position + 1, end)
        return Repair("'for' takes no parentheses", position, end, changes, f"write for {meant}")
    first = position + 1 + (_kinds(tokens, position + 1, "NAME", "NAME"))
    commas = [i for i in range(position + 1, end) if tokens[i].type in ("COMMA", "_SEP")]
    if not _kinds(tokens, first, "NAME", "EQUAL") or len(commas) != 2:
        return None
    below = [i for i in range(*commas) if tokens[i].type == "LESSTHAN"]
    if not below:
        return None
    begin = source_text(tokens, first + 2, commas[0])
    stop = source_text(tokens, below[0] + 1, commas[1])
    text = f"{tokens[first]} in range({begin}, {stop})"
    message = "'for' runs over a range or a list"
    return Repair(message, position, end, (Change(position, end + 1, text),), f"write for {text}")


# Blocks


def _colon_blocks(tokens: Tokens, start: int, position: int) -> Repair | None:
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
        goes_on = _kind(tokens, end) == "ELSE" or tokens[end] == "elif"
        spare = "};" * (len(columns) - 1) + ("}" if goes_on else "};")
        changes.append(Change(end, end, text, spare))
    changes.sort(key=lambda change: (change.first, change.stop))
    message = "a block stands in braces, not behind ':'"
    return Repair(message, position, position, tuple(changes), "write { … }")


def _is_block(tokens: Tokens, index: int) -> bool:
    if not _kinds(tokens, index, "COLON", "_SEP") or tokens[index + 1] == ";":
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


def _python_class(tokens: Tokens, start: int, position: int) -> Repair | None:
    if tokens[start] != "class" or _kind(tokens, start + 1) != "NAME":
        return None
    end = _end(tokens, start)
    if not _is_block(tokens, end - 1):
        return None
    name = tokens[start + 1]
    hint = (
        f"write layer {name} {{ let fc = Linear(8, 4); fn forward(x: Tensor[N, 8]) -> "
        "Tensor[N, 4] { return fc(x) } }, or give the PyTorch module itself to compile_model"
    )
    stop = _block_end(tokens, start, end - 1)
    return Repair("a class of Python is no layer", start, end - 2, (), hint, stop)


# Operators


def _power(tokens: Tokens, start: int, position: int) -> Repair | None:
    doubled = _kinds(tokens, position - 1, "STAR", "STAR")
    if not doubled and _kind(tokens, position) != "CARET":
        return None
    operator = position - 1 if doubled else position
    ends = ("NAME", "INTEGER", "FLOAT", "RPAR", "RSQB")
    begins = ("NAME", "INTEGER", "FLOAT", "LPAR", "LSQB", "MINUS")
    if _kind(tokens, operator - 1) not in ends or _kind(tokens, position + 1) not in begins:
        return None
    first = _operand_before(tokens, operator, start)
    stop = _operand_behind(tokens, position + 1)
    base = source_text(tokens, first, operator)
    exponent = source_text(tokens, position + 1, stop)
    text = {"2": f"({base} * {base})", "3": f"({base} * {base} * {base})", "0.5": f"sqrt({base})"}
    meant = text.get(exponent, f"exp({exponent} * log({base}))")
    changes = (Change(first, stop, meant),)
    what = "**" if doubled else "^"
    return Repair(f"there is no operator '{what}'", operator, position, changes, f"write {meant}")


def _step(tokens: Tokens, start: int, position: int) -> Repair | None:
    """`n += 1` and `n++`."""
    if _kind(tokens, start) != "NAME" or position != start + 2:
        return None
    symbol, name = tokens[position - 1], tokens[start]
    if symbol.type in ("PLUS", "MINUS", "STAR", "SLASH", "PERCENT", "AT") and (
        _kind(tokens, position) == "EQUAL"
    ):
        text = f"= {name} {symbol}"
        rest = source_text(tokens, position + 1, _end(tokens, position))
        return Repair(f"there is no operator '{symbol}='", position - 1, position,
                      (Change(position - 1, position + 1, text),),
                      f"write {name} = {name} {symbol} {rest}")  # fmt: skip
    if _kinds(tokens, position - 1, "PLUS", "PLUS") and _kind(tokens, position + 1) == "_SEP":
        text = f"= {name} + 1"
        return Repair("there is no operator '++'", position - 1, position,
                      (Change(position - 1, position + 1, f" {text}"),),
                      f"write {name} {text}")  # fmt: skip
    return None


def _word_for_operator(tokens: Tokens, start: int, position: int) -> Repair | None:
    words = {"and": "&&", "or": "||", "is": "=="}
    if _kind(tokens, position) == "NAME" and str(tokens[position]) in words:
        text = words[str(tokens[position])]
        return Repair(f"there is no operator '{tokens[position]}'", position, position,
                      (Change(position, position + 1, text),))  # fmt: skip
    if position > start and tokens[position - 1] == "not" and _kind(tokens, position) != "EQUAL":
        change = Change(position - 1, position, "!")
        return Repair("there is no operator 'not'", position - 1, position - 1, (change,))
    return None


def _walrus(tokens: Tokens, start: int, position: int) -> Repair | None:
    at = position - 1 if _kinds(tokens, position - 1, "COLON", "EQUAL") else position
    if not _kinds(tokens, at, "COLON", "EQUAL"):
        return None
    return Repair("there is no ':='", at, at + 1, (Change(at, at + 2, "="),))


def _equality(tokens: Tokens, start: int, position: int) -> Repair | None:
    kind, first = _kind(tokens, position), _kind(tokens, start)
    if kind == "EQUALS" and _kind(tokens, position - 1) == "NAME" and first in ("LET", "CONST"):
        return Repair("a value is given with '='", position, position,
                      (Change(position, position + 1, "="),))  # fmt: skip
    if kind == "EQUAL" and first in ("IF", "RETURN") and _open(tokens, start, position) < 0:
        return Repair("'=' gives a value, '==' compares", position, position,
                      (Change(position, position + 1, "=="),))  # fmt: skip
    return None


def _fraction(tokens: Tokens, start: int, position: int) -> Repair | None:
    if not _kinds(tokens, position, "DOT", "INTEGER"):
        return None
    if _kind(tokens, position - 1) in ("NAME", "RPAR", "RSQB"):
        return None
    text = f"0.{tokens[position + 1]}"
    message = "a number begins with a digit"
    return Repair(message, position, position + 1, (Change(position, position + 2, text),))


def _parameter_with_value(tokens: Tokens, start: int, position: int) -> Repair | None:
    if _kind(tokens, start) not in ("PARAM", "BUFFER") or _kind(tokens, position) != "EQUAL":
        return None
    if position == start + 2 and _kinds(tokens, position + 1, "NAME", "LSQB"):
        change = Change(position, position + 1, ":")
        return Repair("a type stands behind ':'", position, position, (change,))
    if position == start + 2:
        return None
    end = _end(tokens, position)
    return Repair(
        "a parameter has no value here",
        position,
        end - 1,
        (Change(position, end, ""),),
        "leave it out: values come from a weights file; a constant is written with 'let'",
    )


def _missing_comma(tokens: Tokens, start: int, position: int) -> Repair | None:
    opener = _open(tokens, start, position)
    before, kind = _kind(tokens, position - 1), _kind(tokens, position)
    operands = ("NAME", "INTEGER", "FLOAT", "STRING", "TRUE", "FALSE")
    if opener < 0 or kind not in operands:
        return None
    if before not in (*operands, "RPAR", "RSQB") or tokens[position].newline_before:
        return None
    if str(tokens[position - 1]) in ("lambda", "not"):
        return None
    if _kind(tokens, opener - 2) in ("FN", "LAYER"):
        if (before, kind) != ("NAME", "NAME"):
            return None
        change = Change(position, position, ":")
        hint = f"write {tokens[position - 1]}: {tokens[position]}"
        return Repair("a type stands behind ':'", position, position, (change,), hint)
    change = Change(position, position, ",")
    message = f"a ',' is missing before '{tokens[position]}'"
    meant = f"{tokens[position - 1]}, {tokens[position]}"
    return Repair(message, position, position, (change,), f"write {meant}")


_RULES: tuple[Callable[[Tokens, int, int], Repair | None], ...] = (
    _import_of_module,
    _python_class,
    _colon_blocks,
    _shape_in_parentheses,
    _module_of_type,
    _type_before_name,
    _shape_in_angles,
    _argument_without_type,
    _result_arrow,
    _loop_in_parentheses,
    _shape_of_tuple,
    _values_without_brackets,
    _step,
    _power,
    _word_for_operator,
    _walrus,
    _equality,
    _fraction,
    _parameter_with_value,
    _foreign_statement,
    _choice,
    _comprehension,
    _missing_comma,
)
