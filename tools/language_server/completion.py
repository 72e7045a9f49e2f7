"""What may stand at a place of a program: names in sight, members after a dot, arguments of a call.

The text around the place is rarely a program while somebody types, so that what is in sight comes
from the tree that the parser recovered, and the call from the brackets before the place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ...ir.language.builtins import BUILTINS, COMPILE_TIME_FUNCTIONS
from ...ir.language.diagnostics import split_lines
from ...ir.language.expressions import member_names
from ...ir.language.nodes import FunctionDef, LayerDef, Span
from ...ir.language.types import KEYWORDS, SCALARS
from ...ir.language.values import LayerInstance
from .described import parameters, shape
from .program import TriProgram
from .textmate import WORDS

Kind = Literal["argument", "function", "keyword", "layer", "member", "type", "value", "variable"]

_MEMBER = re.compile(r"([A-Za-z_]\w*)\s*\.\s*\w*$")
_LET = re.compile(r"\b(?:let|for)\s+([A-Za-z_]\w*)")
_CHOICE = re.compile(r'(\w+)\s*=\s*"\w*$')
_NAMED = re.compile(r"^\s*\*?([A-Za-z_]\w*)\s*[:=]")


@dataclass(frozen=True)
class Item:
    """One offer: what is written, what it is, and a remark."""

    text: str
    kind: Kind
    detail: str = ""


@dataclass(frozen=True)
class OpenCall:
    """The call whose brackets a place stands in: the name called and how many arguments end."""

    callee: Span
    position: int


def offers(program: TriProgram, line: int, column: int) -> list[Item]:
    """Everything that may stand at a place; the editor keeps what fits the letters typed."""
    before = program.lines[line - 1][: column - 1] if line <= len(program.lines) else ""
    if (member := _MEMBER.search(before)) is not None:
        return list(_members(program, member[1], line, column))
    call = open_call(program, line, column)
    if (choice := _CHOICE.search(before)) is not None:
        return list(_choices(program, call, choice[1]))
    found: dict[str, Item] = {}
    for item in _in_sight(program, call, line, column):
        found.setdefault(item.text, item)
    return list(found.values())


def open_call(program: TriProgram, line: int, column: int) -> OpenCall | None:
    """The innermost call that is open at a place."""
    text = "\n".join([*program.lines[: line - 1], program.lines[line - 1][: column - 1]])
    depth = commas = 0
    for index in range(len(text) - 1, max(-1, len(text) - 2000), -1):
        character = text[index]
        if character in "{};":
            return None
        if character in ")]":
            depth += 1
        elif character in "([" and depth:
            depth -= 1
        elif character == "," and not depth:
            commas += 1
        elif character == "(":
            head = text[:index].rstrip()
            name = re.search(r"[A-Za-z_]\w*$", head)
            if name is None:
                return None
            rows = split_lines(head[: name.start()])
            start = len(rows[-1]) + 1
            span = Span(program.file, len(rows), start, len(rows), start + len(name[0]))
            return OpenCall(span, commas)
        elif character == "[":
            return None
    return None


def _members(program: TriProgram, base: str, line: int, column: int) -> Iterator[Item]:
    for definition in program.enclosing(line, column):
        names = member_names(definition) if isinstance(definition, LayerDef) else {}
        where = names.get(base)
        value = None if where is None else program.found.values.get(where)
        if isinstance(value, LayerInstance):
            for name, member in value.members.items():
                yield Item(name, "member", (shape(member) or "").removeprefix(": "))


def _choices(program: TriProgram, call: OpenCall | None, argument: str) -> Iterator[Item]:
    builtin = BUILTINS.get(program.text_at(call.callee)) if call is not None else None
    for parameter in builtin.parameters if builtin is not None else ():
        if parameter.name == argument:
            yield from (Item(choice, "value") for choice in parameter.choices)


def _in_sight(program: TriProgram, call: OpenCall | None, line: int, column: int) -> Iterator[Item]:
    if call is not None:
        for declared in parameters(program, call.callee):
            if (named := _NAMED.match(declared + "=")) is not None:
                yield Item(f"{named[1]}=", "argument", declared)
    for definition in reversed(program.enclosing(line, column)):
        yield from _bound_in(program, definition, line)
    module = program.inspection.module
    for name in sorted(module.names()):
        found = module.find(name)
        layer = found is not None and isinstance(found[1], LayerDef)
        function = found is not None and isinstance(found[1], FunctionDef)
        yield Item(name, "layer" if layer else "function" if function else "value")
    for builtin in BUILTINS.values():
        yield Item(builtin.name, "function", builtin.signature)
    yield from (Item(name, "function") for name in COMPILE_TIME_FUNCTIONS)
    yield from (Item(name, "type") for name in (*KEYWORDS.values(), *SCALARS))
    yield from (Item(name, "keyword") for name in WORDS)


def _bound_in(program: TriProgram, definition: LayerDef | FunctionDef, line: int) -> Iterator[Item]:
    if isinstance(definition, LayerDef):
        for name, where in member_names(definition).items():
            value = None if where is None else program.found.values.get(where)
            yield Item(name, "member", (shape(value) or "").removeprefix(": "))
        yield from (Item(generic.name, "variable") for generic in definition.generics)
        return
    for argument in definition.arguments:
        value = program.found.values.get(argument.name_span)
        yield Item(argument.name, "variable", (shape(value) or "").removeprefix(": "))
    for row in program.lines[definition.span.line - 1 : line - 1]:
        yield from (Item(name, "variable") for name in _LET.findall(row))
