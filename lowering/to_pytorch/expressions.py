"""Python expressions and statements as text: precedence, and lines of at most 100 columns.

The layout is that of ruff's formatter, so that a generated file is already formatted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

WIDTH = 100

ATOM, POWER, UNARY, MUL, ADD, SHIFT = 100, 95, 90, 80, 70, 60
AND, XOR, OR, COMPARE = 50, 45, 40, 30

_BINARY = {
    "*": MUL,
    "/": MUL,
    "+": ADD,
    "-": ADD,
    **dict.fromkeys(("<<", ">>"), SHIFT),
    "&": AND,
    "^": XOR,
    "|": OR,
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), COMPARE),
}


@dataclass(frozen=True)
class Expr:
    """An expression: its text and how tightly its outermost operator binds.

    `scalar` marks a Python number, which stands for a tensor of rank 0.
    """

    text: str
    precedence: int = ATOM
    scalar: bool = False

    def __str__(self) -> str:
        return self.text

    def at(self, precedence: int) -> str:
        """The text as an operand of an operator that needs `precedence`."""
        return self.text if self.precedence >= precedence else f"({self.text})"

    def member(self, name: str) -> Expr:
        """`self.name`."""
        return Expr(f"{self.at(ATOM)}.{name}")

    def method(self, name: str, *arguments: object, **keywords: object) -> Expr:
        """`self.name(arguments)`."""
        return call(f"{self.at(ATOM)}.{name}", *arguments, **keywords)

    def index(self, subscript: str) -> Expr:
        """`self[subscript]`."""
        return Expr(f"{self.at(ATOM)}[{subscript}]")


def call(function: str, *arguments: object, **keywords: object) -> Expr:
    """`function(arguments)`; a keyword whose value is `None` is left out."""
    parts = [str(argument) for argument in arguments]
    parts += [f"{name}={value}" for name, value in keywords.items() if value is not None]
    return Expr(f"{function}({', '.join(parts)})")


def binary(operator: str, lhs: Expr, rhs: Expr) -> Expr:
    """`lhs operator rhs`, with parentheses where they are needed."""
    precedence = _BINARY[operator]
    tighter = precedence + 1
    left = lhs.at(tighter if precedence == COMPARE else precedence)
    return Expr(f"{left} {operator} {rhs.at(tighter)}", precedence)


def unary(operator: str, operand: Expr) -> Expr:
    """`-operand` or `~operand`."""
    return Expr(f"{operator}{operand.at(UNARY)}", UNARY)


def sequence(values: object) -> str:
    """A tuple of integers or of texts: `(1, 2)`, `(1,)`."""
    assert isinstance(values, tuple | list)
    items: list[str] = [str(value) for value in values]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"


def printable(text: str) -> str:
    """`text` for a comment or a docstring: what could end either stands as `_`."""
    return "".join(c if c.isprintable() and c not in '\\"' else "_" for c in text)


def string_literal(text: str) -> str:
    r"""`text` as a Python string in double quotes; whatever could end it stands as `\x22` or so."""
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(character: str) -> str:
    code = ord(character)
    if character.isascii() and character.isprintable() and character not in '"\\':
        return character
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_INDEX_OF_CALL = re.compile(r"(?<=\))\[-?\d+\]$")


def layout(statement: str, indent: int, index: str = "") -> list[str]:
    """The lines of a statement; one that is too long is split at its last pair of brackets.

    An `index` of a call stays behind it.
    """
    line = " " * indent + statement
    if len(line + index) <= WIDTH or statement[-1] not in ")]":
        return [line + index]
    if not index and (last := _INDEX_OF_CALL.search(statement)) is not None:
        return layout(statement[: last.start()], indent, last.group())
    start = _opening(statement)
    items = _split(statement[start + 1 : -1])
    if start <= 0 or not items:
        return [line + index]
    head, inner = line[: indent + start + 1], indent + 4
    joined = " " * inner + ", ".join(items)
    if len(joined) <= WIDTH:
        return [head, joined, " " * indent + statement[-1] + index]
    # A comma behind the only index would make a tuple of it.
    before = statement[start - 1]
    is_index = statement[start] == "[" and (before.isalnum() or before in '_)]"')
    comma = "" if is_index and len(items) == 1 else ","
    body: list[str] = []
    for item in items:
        *first, last = layout(item, inner)
        body += [*first, f"{last}{comma}"]
    return [head, *body, " " * indent + statement[-1] + index]


def _opening(text: str) -> int:
    """Where the bracket that the last character closes is opened."""
    depth = 0
    quoted = False
    for position in range(len(text) - 1, -1, -1):
        character = text[position]
        if character == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif character in ")]}":
            depth += 1
        elif character in "([{":
            depth -= 1
            if depth == 0:
                return position
    return -1


def _split(text: str) -> list[str]:
    """The parts of `text` between commas outside brackets and strings."""
    parts, depth, start = list[str](), 0, 0
    quoted = False
    for position, character in enumerate(text):
        if character == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:position].strip())
            start = position + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts
