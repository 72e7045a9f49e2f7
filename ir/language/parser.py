"""Text to syntax tree: `TritonParser`, and `read_source` for the text of a file.

One run reports every syntax error, 20 at most. Any text at all gives a tree or diagnostics; size,
nesting and literals are limited, so that no input exhausts Python's stack.
"""

from __future__ import annotations

from pathlib import Path
from typing import cast

from ..errors import SourceError
from . import nodes
from .automaton import Automaton
from .diagnostics import Diagnostic, DiagnosticBag, split_lines
from .layout import arrange
from .lexer import Lexer, SourceToken
from .recovery import Recovery
from .tables import tables

MAX_SOURCE_BYTES = 10 * 1024 * 1024
"""Size of the largest file that is read."""

MAX_STANDING = 3
"""Recoveries in a row at one token that report nothing new; then the token is left out."""

MAX_DEPTH = 200
"""Nodes inside nodes: the longest path through the tree, which a recursive reader can follow."""


def read_source(path: Path | str) -> str:
    """The text of a `.tri` file.

    Raises:
        SourceError: the file is missing, a directory, unreadable or too large.
        CompilationError: the file is not UTF-8; line and column are those of the first bad byte.
    """
    path = Path(path)
    try:
        if path.is_dir():
            raise SourceError(f"{path}: is a directory; a .tri file is expected")
        with path.open("rb") as stream:
            data = stream.read(MAX_SOURCE_BYTES + 1)
    except FileNotFoundError:
        raise SourceError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SourceError(f"{path}: cannot be read: {reason}") from None
    if len(data) > MAX_SOURCE_BYTES:
        raise SourceError(f"{path}: is larger than {MAX_SOURCE_BYTES // 1024**2} MiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8-sig", errors="replace")
        lines = before.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        line, column = len(lines), len(lines[-1]) + 1
        span = nodes.Span(str(path), line, column, line, column + 1)
        message = f"byte 0x{data[error.start]:02x} is not UTF-8; save the file as UTF-8"
        diagnostics = DiagnosticBag([Diagnostic("error", message, span)])
        sources = {str(path): data.decode("utf-8-sig", errors="replace")}
        diagnostics.raise_if_errors(sources)
        raise AssertionError("unreachable") from None


class TritonParser:
    """Parser of the `.tri` language; it keeps nothing between calls."""

    def parse(self, source: str, path: Path | None = None) -> nodes.Program:
        """The syntax tree of a program.

        Args:
            source: the text.
            path: the file it came from; names the text in messages and is where imports start.

        Raises:
            CompilationError: with every syntax error of the text, 20 at most.
        """
        program, diagnostics = self.parse_with_recovery(source, path)
        DiagnosticBag(diagnostics).raise_if_errors({program.span.file: source})
        return program

    def parse_file(self, path: Path | str) -> nodes.Program:
        """The syntax tree of a file.

        Raises:
            SourceError: the file cannot be read.
            CompilationError: with every syntax error of the file, 20 at most.
        """
        return self.parse(read_source(path), Path(path))

    def parse_with_recovery(
        self, source: str, path: Path | None = None
    ) -> tuple[nodes.Program, list[Diagnostic]]:
        """As much of the tree as the text gives, and what is wrong with the rest.

        An item with a syntax error is an `ErrorStatement` or `ErrorDeclaration` in the tree.
        """
        file = "<string>" if path is None else str(path)
        bag = DiagnosticBag()
        if len(source) > MAX_SOURCE_BYTES:
            size = MAX_SOURCE_BYTES // 1024**2
            bag.error(f"the source is larger than {size} MiB", nodes.Span(file, 1, 1, 1, 1))
            return _program((), source, path, file), bag.diagnostics
        tokens = tokenize(source, file, bag)
        declarations = _run(tokens, bag) if tokens else ()
        deep = _too_deep(declarations)
        if deep is not None:
            message = f"this nests deeper than {MAX_DEPTH} levels; name parts of it with 'let'"
            bag.error(message, deep.span)
            declarations = ()
        return _program(declarations, source, path, file), bag.diagnostics


def tokenize(source: str, file: str, bag: DiagnosticBag) -> list[SourceToken]:
    """The token stream of the grammar, comments attached; empty when brackets nest too deep."""
    return arrange(Lexer(tables(), source, file, bag).tokens(), bag)


def _program(
    declarations: tuple[nodes.TopLevel, ...], source: str, path: Path | None, file: str
) -> nodes.Program:
    lines = split_lines(source)
    span = nodes.Span(file, 1, 1, len(lines), len(lines[-1]) + 1)
    return nodes.Program(declarations, source, path, span=span)


def _run(tokens: list[SourceToken], bag: DiagnosticBag) -> tuple[nodes.TopLevel, ...]:
    """Feed every token to the parser, with recovery."""
    parser = Automaton()
    recovery = Recovery(parser, tokens, bag)
    position = stuck = 0
    while position < len(tokens) and not bag.is_full:
        token = tokens[position]
        if not parser.feed(token):
            before, count = position, bag.error_count
            position = recovery.recover(position)
            # The layout's braces match the parser's; should they not, one is left out.
            stands = position == before and bag.error_count == count
            stuck = stuck + 1 if stands else 0
            if stuck > MAX_STANDING:
                if token.type == "$END":
                    break
                position += 1
            continue
        if token.repair is not None and not token.damaged:
            bag.add(token.repair)
        position += 1
    if position < len(tokens):
        recovery.abandon()
        parser.feed(tokens[-1])
    return cast("tuple[nodes.TopLevel, ...]", parser.result)


def _too_deep(declarations: tuple[nodes.TopLevel, ...]) -> nodes.Node | None:
    """The first node found that lies deeper in the tree than `MAX_DEPTH`."""
    level: list[nodes.Node] = list(declarations)
    for left in range(MAX_DEPTH, 0, -1):
        below: list[nodes.Node] = []
        for node in level:
            span = node.span
            if span.line == span.end_line and span.end_column - span.column < left - 2:
                continue  # each level but an argument, which stands in parentheses, takes text
            for value in vars(node).values():
                if isinstance(value, nodes.Node):
                    below.append(value)
                elif isinstance(value, tuple) and not isinstance(value, nodes.Span):
                    items = cast("tuple[object, ...]", value)
                    below += [item for item in items if isinstance(item, nodes.Node)]
        level = below
    return level[0] if level else None
