"""One open text with what is known of it: places of the compiler's in the units of the editor.

Lines count from 0 there and from 1 here; columns in UTF-16 by default, and in characters here.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from lsprotocol import types
from pygls.uris import from_fs_path
from pygls.workspace import PositionCodec

from ...ir.language.diagnostics import Edit, split_lines
from ...ir.language.nodes import Span
from .ir import IrText
from .program import TriProgram


class Text:
    """One open text with what is known of it, in the editor's units."""

    def __init__(self, uri: str, text: str, path: Path, codec: PositionCodec) -> None:
        self.uri = uri
        self.codec = codec
        self.lines = split_lines(text)
        self.known = TriProgram(text, path) if path.suffix == ".tri" else IrText(text, path)

    def place(self, position: types.Position) -> tuple[int, int]:
        """Line and column, from 1, of a position."""
        found = self.codec.position_from_client_units(self.lines, position)
        return found.line + 1, found.character + 1

    def range(self, span: Span, lines: list[str] | None = None) -> types.Range:
        """A place as the editor has it."""
        rows = self.lines if lines is None else lines

        def position(line: int, column: int) -> types.Position:
            row = rows[line - 1] if line <= len(rows) else ""
            return types.Position(line - 1, self.codec.client_num_units(row[: column - 1]))

        return types.Range(
            position(span.line, span.column), position(span.end_line, span.end_column)
        )

    def location(self, span: Span) -> types.Location:
        """A place in this file or in another of the program."""
        known = self.known
        if isinstance(known, TriProgram) and span.file != known.file:
            uri = from_fs_path(str(Path(span.file).resolve())) or self.uri
            return types.Location(uri, self.range(span, known.source_lines(span.file)))
        return types.Location(self.uri, self.range(span))

    def edits(self, edits: Iterable[Edit]) -> list[types.TextEdit]:
        """Edits of this text."""
        return [types.TextEdit(self.range(edit.span), edit.text) for edit in edits]
