"""Where an op comes from, and messages that say so."""

from __future__ import annotations

from xdsl.dialects.builtin import (
    FileLineColLoc,
    IntAttr,
    ModuleOp,
    NameLoc,
    StringAttr,
    UnknownLoc,
)
from xdsl.ir import Operation


def file_location(file: str, line: int, column: int = 1) -> FileLineColLoc:
    """`loc("file":line:column)`, the name read as UTF-8 in every locale, `�` for what is not."""
    name = file.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return FileLineColLoc(StringAttr(name), IntAttr(line), IntAttr(column))


def location_text(op: Operation) -> str:
    """Where `op` comes from: `file:line:col`, or the nearest enclosing op's place, or 'unknown'."""
    current: Operation | None = op
    while current is not None:
        if isinstance(location := current.location, FileLineColLoc):
            return f"{location.filename.data}:{location.line.data}:{location.column.data}"
        if not isinstance(location, UnknownLoc):
            return str(location).removeprefix("loc(").removesuffix(")")
        current = current.parent_op()
    return "unknown"


def location_name(op: Operation) -> str:
    """What the source calls `op`, as ONNX calls its nodes; empty where it has no name for it."""
    location = op.location
    return location.desc.data if isinstance(location, NameLoc) else ""


def error_at(op: Operation, message: str) -> str:
    """`file:line:col: error: 'op' message` in one line."""
    message = one_line(message)
    if f"'{op.name}'" not in message and not isinstance(op, ModuleOp):
        message = f"'{op.name}' {message}"
    return f"{location_text(op)}: error: {message}"


def one_line(message: str) -> str:
    """`message` with its line breaks folded into spaces and control characters escaped."""
    folded = " ".join(message.split())
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in folded)
