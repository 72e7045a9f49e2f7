"""What a name of a program is, in the words of the editor's hovers and hints: Markdown.

Not here: where the name leads (`program`).
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.language.builtins import BUILTINS
from ...ir.language.dims import Dim
from ...ir.language.elaborated import Value
from ...ir.language.nodes import FunctionDef, LayerDef, Node, Span
from ...ir.language.types import TensorType
from ...ir.language.values import (
    FunctionRef,
    LayerInstance,
    LayerRef,
    Range,
    Trit,
    describe,
    is_list,
)
from .program import TriProgram


def hover(program: TriProgram, name: Span) -> str | None:
    """What stands at a name: its type and shape or its value, and its documentation."""
    text = program.text_at(name)
    where = program.declaration(name)
    if where is None:
        builtin = BUILTINS.get(text)
        return None if builtin is None else f"{_code(builtin.signature)}\n\n{builtin.doc}"
    node = program.node_declared_at(where)
    value = program.value_at(name)
    if isinstance(value, LayerRef | FunctionRef):
        node, value = value.definition, None
    parts = [] if value is None else [_code(f"{text}{_of(value)}")]
    if isinstance(value, LayerInstance):
        node = value.definition
    if node is not None:
        lines = program.lines if where.file == program.file else program.source_lines(where.file)
        if node.span.file != where.file:
            lines = program.source_lines(node.span.file)
        if isinstance(node, LayerDef | FunctionDef):
            parts.append(_code(header(node, lines)))
        parts.append(comment_above(node.span, lines))
    if not any(parts) and where.file == program.file:
        parts.append(_code(program.lines[where.line - 1].strip()))
    return "\n\n".join(part for part in parts if part) or None


def shape(value: object) -> str | None:
    """The type of a tensor as it stands behind a name: `: Tensor[N, 10]`."""
    return _of(value) if isinstance(value, Value) else None


def header(node: LayerDef | FunctionDef, lines: Sequence[str]) -> str:
    """A layer or function without its body, on one line."""
    first, last = node.span.line - 1, node.span.end_line
    text = " ".join(line.strip() for line in lines[first : min(last, first + 12)])
    return text.partition("{")[0].strip()


def comment_above(span: Span, lines: Sequence[str]) -> str:
    """The comment directly above a declaration, without its marks."""
    said: list[str] = []
    for line in reversed(lines[: span.line - 1]):
        text = line.strip()
        if not text.startswith(("#", "//")):
            break
        said.insert(0, text.lstrip("#/").strip())
    return "\n".join(said)


def parameters(program: TriProgram, callee: Span) -> list[str]:
    """The arguments that a call of the name at a place takes, each as it is declared."""
    text = program.text_at(callee)
    where = program.declaration(callee)
    if where is None:
        builtin = BUILTINS.get(text)
        return [] if builtin is None else [str(parameter) for parameter in builtin.parameters]
    value: object = program.value_at(callee)
    node: Node | None = program.node_declared_at(where)
    if isinstance(value, LayerInstance):
        value = value.members.get("forward")
    if isinstance(value, FunctionRef | LayerRef):
        node = value.definition
    lines = program.source_lines(node.span.file) if node is not None else []
    if isinstance(node, LayerDef):
        return [_text(generic.span, lines) for generic in node.generics]
    if isinstance(node, FunctionDef):
        return [_text(argument.span, lines) for argument in node.arguments]
    return []


def _text(span: Span, lines: Sequence[str]) -> str:
    end = span.end_column - 1 if span.line == span.end_line else None
    return lines[span.line - 1][span.column - 1 : end]


def _code(text: str) -> str:
    return f"```tri\n{text}\n```"


def _of(value: object) -> str:
    """What stands behind a name that has this value: a type, or the value itself."""
    match value:
        case Value():
            return f": {value.type}"
        case LayerInstance(definition=definition, generics=generics):
            given = ", ".join(f"{name}={_literal(v)}" for name, v in generics.items())
            return f" = {definition.name}({given})"
        case bool() | int() | float() | str() | Dim() | Trit() | Range():
            return f" = {_literal(value)}"
        case _ if is_list(value):
            return f" = [{', '.join(_of(item).removeprefix(' = ') for item in value)}]"
        case _:
            return f": {describe(value).removeprefix('a value of type ')}"


def _literal(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return f'"{value}"'
        case int() | float() | Dim():
            return str(value)
        case Trit(value=number):
            return f"trit({number})"
        case Range(numbers=numbers):
            return f"{numbers}"
        case TensorType():
            return str(value)
        case _:
            return describe(value)
