"""What the compiler says about a `.tri` file: collected, sorted by place, drawn with carets.

A `Diagnostic` is data; `render` draws one, `DiagnosticBag` collects those of a run and raises them
together as one `CompilationError`. Nothing here knows the grammar or the type rules.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from ..errors import CompilationError
from .nodes import Span

MAX_ERRORS = 20
"""Errors shown in one run; the rest is only counted."""

Note = tuple[str, Span | None]

_NEWLINE = re.compile(r"\r\n|\n|\r")
_WINDOW = 160
_GUTTER = 5


@dataclass(frozen=True)
class Diagnostic:
    """One message about one place.

    Attributes:
        severity: `"error"` stops the compilation, `"warning"` and `"note"` do not.
        message: what is wrong, on one line, without the place.
        span: the exact text meant, or `None` for a message about no place.
        suggestion: what to write instead, a whole phrase (`"did you mean 'weights'?"`).
        notes: further places that explain the message, each a text and where it points.
    """

    severity: Literal["error", "warning", "note"]
    message: str
    span: Span | None
    suggestion: str | None = None
    notes: tuple[Note, ...] = ()


def split_lines(source: str) -> list[str]:
    """The lines of a source text without their ends, as the lexer counts them."""
    return _NEWLINE.split(source)


def suggest(name: str, candidates: Iterable[str]) -> str | None:
    """`"did you mean 'x'?"` for the candidate nearest to `name`, or `None` when none is near."""
    nearest = nearest_name(name, candidates)
    return None if nearest is None else f"did you mean '{nearest}'?"


def nearest_name(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that `name` is most likely a misspelling of, or `None`."""
    pool = sorted({c for c in candidates if c != name})
    folded = name.casefold()
    for candidate in pool:
        if candidate.casefold() == folded:
            return candidate
    if len(name) > 80:
        return None
    cutoff = 0.6 if len(name) > 3 else 0.66
    matches = difflib.get_close_matches(name, pool, n=1, cutoff=cutoff)
    return matches[0] if matches else None


def render(diagnostic: Diagnostic, sources: Mapping[str, str]) -> str:
    """The text of one diagnostic: place and message, source line, caret run, help and notes.

    Args:
        diagnostic: what to draw.
        sources: source text by `Span.file`; a file that is missing here is drawn without its line.
    """
    span = diagnostic.span
    place = "" if span is None else f"{span}: "
    lines = [f"{place}{diagnostic.severity}: {diagnostic.message}"]
    if span is not None and span.file in sources:
        lines += _excerpt(span, sources[span.file])
    if diagnostic.suggestion is not None:
        lines.append(f"help: {diagnostic.suggestion}")
    for text, where in diagnostic.notes:
        lines.append(f"note: {text}" if where is None else f"note: {text}: {where}")
    return "\n".join(lines)


def _line_at(source: str, number: int) -> str | None:
    lines = split_lines(source)
    return lines[number - 1] if 0 < number <= len(lines) else None


def _excerpt(span: Span, source: str) -> list[str]:
    line = _line_at(source, span.line)
    if line is None:
        return []
    start = min(span.column - 1, len(line))
    stop = span.end_column - 1 if span.end_line == span.line else len(line.rstrip())
    stop = max(min(stop, len(line)), start + 1)
    prefix = suffix = ""
    if len(line) > _WINDOW:
        first = max(0, start - _WINDOW // 2)
        last = first + _WINDOW
        prefix = "..." if first else ""
        suffix = "..." if last < len(line) else ""
        line = line[first:last]
        start, stop = start - first, min(stop, last) - first
    shown = prefix + "".join(_printable(c) for c in line).rstrip() + suffix
    padding = " " * len(prefix) + "".join(_blank(c) for c in line[:start])
    carets = "".join(_caret(c) for c in line[start:stop]) or "^"
    number = str(span.line).rjust(_GUTTER)
    return [
        f"{number} | {shown}".rstrip(),
        f"{' ' * len(number)} | {padding}{carets}",
    ]


def _printable(character: str) -> str:
    if character == "\t" or character.isprintable():
        return character
    return "\N{REPLACEMENT CHARACTER}"


def _width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _blank(character: str) -> str:
    return "\t" if character == "\t" else " " * _width(character)


def _caret(character: str) -> str:
    return "^" * _width(character)


class DiagnosticBag:
    """The diagnostics of one run: de-duplicated, sorted by place, with at most 20 errors."""

    def __init__(self, diagnostics: Iterable[Diagnostic] = ()) -> None:
        self._seen: set[tuple[str, Span | None, str]] = set()
        self._items: list[Diagnostic] = []
        self._errors = 0
        self.extend(diagnostics)

    def add(self, diagnostic: Diagnostic) -> None:
        """Take in one diagnostic; a second one of the same text at the same place is dropped."""
        key = (diagnostic.severity, diagnostic.span, diagnostic.message)
        if key in self._seen:
            return
        self._seen.add(key)
        self._items.append(diagnostic)
        if diagnostic.severity == "error":
            self._errors += 1

    def extend(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Take in several diagnostics."""
        for diagnostic in diagnostics:
            self.add(diagnostic)

    def error(
        self,
        message: str,
        span: Span | None,
        *,
        suggestion: str | None = None,
        notes: Iterable[Note] = (),
    ) -> None:
        """Report an error."""
        self.add(Diagnostic("error", message, span, suggestion, tuple(notes)))

    def warning(
        self,
        message: str,
        span: Span | None,
        *,
        suggestion: str | None = None,
        notes: Iterable[Note] = (),
    ) -> None:
        """Report a warning."""
        self.add(Diagnostic("warning", message, span, suggestion, tuple(notes)))

    @property
    def has_errors(self) -> bool:
        """Whether any error was reported."""
        return self._errors > 0

    @property
    def error_count(self) -> int:
        """The number of distinct errors reported, also those over the limit."""
        return self._errors

    @property
    def is_full(self) -> bool:
        """Whether as many errors were reported as are shown; going on tells the user nothing."""
        return self._errors >= MAX_ERRORS

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """Everything to show, sorted by place: the first 20 errors, all warnings and notes."""
        files: dict[str, int] = {}
        for item in self._items:
            if item.span is not None:
                files.setdefault(item.span.file, len(files))

        def place(item: Diagnostic) -> tuple[int, int, int]:
            if item.span is None:
                return (-1, 0, 0)
            return (files[item.span.file], item.span.line, item.span.column)

        shown: list[Diagnostic] = []
        errors = 0
        for item in sorted(self._items, key=place):
            if item.severity == "error":
                errors += 1
                if errors > MAX_ERRORS:
                    continue
            shown.append(item)
        return shown

    @property
    def errors(self) -> list[Diagnostic]:
        """The errors to show, sorted by place."""
        return [d for d in self.diagnostics if d.severity == "error"]

    @property
    def warnings(self) -> list[Diagnostic]:
        """The warnings, sorted by place."""
        return [d for d in self.diagnostics if d.severity == "warning"]

    def raise_if_errors(self, sources: Mapping[str, str]) -> None:
        """Raise everything collected as one `CompilationError` if there is an error.

        Args:
            sources: source text by `Span.file`, for the excerpts.

        Raises:
            CompilationError: its text is every diagnostic, drawn; its line, column and suggestion
                are those of the first error.
        """
        if not self.has_errors:
            return
        shown = self.diagnostics
        parts = [render(d, sources) for d in shown]
        hidden = self._errors - MAX_ERRORS
        if hidden > 0:
            parts.append(f"note: {hidden} more error(s) are not shown")
        first = next(d for d in shown if d.severity == "error")
        raise CompilationError(
            "\n".join(parts),
            line=None if first.span is None else first.span.line,
            column=None if first.span is None else first.span.column,
            suggestion=first.suggestion,
            diagnostics=shown,
        )
