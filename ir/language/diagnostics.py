"""What the compiler says about a `.tri` file: collected, sorted by place, drawn with carets.

A `Diagnostic` is data, its fix included; `render` draws one, `apply_fix` does to a text what one
offers, `DiagnosticBag` collects those of a run and raises them together as one `CompilationError`.
Nothing here knows the grammar or the type rules; `codes` names the messages.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from ..errors import CompilationError
from .nodes import Span

MAX_ERRORS = 20
"""Errors shown in one run; the rest is only counted."""

Note = tuple[str, Span | None]

_NEWLINE = re.compile(r"\r\n|\n|\r")
_MEANT = re.compile(r"did you mean '(.+)'\?", re.DOTALL)
_WINDOW = 160
_GUTTER = 5


@dataclass(frozen=True)
class Edit:
    """A change of the source that belongs to a fix: `text` in place of what stands at `span`."""

    span: Span
    text: str


@dataclass(frozen=True)
class Diagnostic:
    """One message about one place.

    Attributes:
        severity: `"error"` stops the compilation, `"warning"` and `"note"` do not.
        message: what is wrong, on one line, without the place.
        span: the exact text meant, or `None` for a message about no place.
        suggestion: what to write instead, a whole phrase (`"did you mean 'weights'?"`).
        notes: further places that explain the message, each a text and where it points.
        edits: what changes the source as the suggestion says, where that is more than `fix` knows.
    """

    severity: Literal["error", "warning", "note"]
    message: str
    span: Span | None
    suggestion: str | None = None
    notes: tuple[Note, ...] = ()
    edits: tuple[Edit, ...] = ()

    @property
    def code(self) -> str:
        """The code of the message, such as `"E0201"`, which `triton explain` knows."""
        from .codes import code_of

        return code_of(self.message)

    @property
    def fix(self) -> tuple[Edit, ...]:
        """The edits that end this error: its own, else those of `did you mean 'x'?`.

        Without edits of its own, `x` stands for the text at `span`.
        """
        meant = _MEANT.fullmatch(self.suggestion or "")
        if self.edits or meant is None or self.span is None:
            return self.edits
        return (Edit(self.span, meant[1]),)


def apply_fix(source: str, edits: Iterable[Edit]) -> str:
    """The text after edits that do not overlap; all of them must be of this text."""
    starts = [0, *(match.end() for match in _NEWLINE.finditer(source))]

    def offset(line: int, column: int) -> int:
        return min(starts[min(line, len(starts)) - 1] + column - 1, len(source))

    for edit in sorted(edits, key=lambda e: (e.span.line, e.span.column), reverse=True):
        start = offset(edit.span.line, edit.span.column)
        stop = offset(edit.span.end_line, edit.span.end_column)
        source = source[:start] + edit.text + source[stop:]
    return source


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
    code = f" [{diagnostic.code}]" if diagnostic.code else ""
    lines = [f"{place}{diagnostic.severity}: {diagnostic.message}{code}"]
    if span is not None and span.file in sources:
        lines += _excerpt(span, sources[span.file])
    if diagnostic.suggestion is not None:
        lines.append("help: " + "".join(map(_printable, diagnostic.suggestion)))
    for text, where in diagnostic.notes:
        lines.append(f"note: {text}" if where is None else f"note: {text}: {where}")
        if where is not None and where.file in sources:
            lines += _excerpt(where, sources[where.file])
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
        self._fixable: dict[tuple[str, str, str | None], int] = {}
        self._errors = 0
        self._error_places: set[Span] = set()
        self.extend(diagnostics)

    def add(self, diagnostic: Diagnostic) -> None:
        """Take in one diagnostic; a second one of the same text at the same place is dropped.

        One of the same text elsewhere, with the same fix, adds a note and its edits to the first.
        """
        key = (diagnostic.severity, diagnostic.span, diagnostic.message)
        if key in self._seen:
            return
        self._seen.add(key)
        alike = (diagnostic.severity, diagnostic.message, diagnostic.suggestion)
        first = self._fixable.get(alike)
        if first is not None and diagnostic.fix:
            known = self._items[first]
            notes = (*known.notes, ("here too", diagnostic.span))
            edits = (*known.fix, *diagnostic.fix)
            self._items[first] = replace(known, notes=notes, edits=edits)
            return
        if diagnostic.fix:
            self._fixable[alike] = len(self._items)
        self._items.append(diagnostic)
        if diagnostic.severity == "error":
            self._errors += 1
            if diagnostic.span is not None:
                self._error_places.add(diagnostic.span)

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
        edits: Iterable[Edit] = (),
    ) -> None:
        """Report an error."""
        self.add(Diagnostic("error", message, span, suggestion, tuple(notes), tuple(edits)))

    def warning(
        self,
        message: str,
        span: Span | None,
        *,
        suggestion: str | None = None,
        notes: Iterable[Note] = (),
        edits: Iterable[Edit] = (),
    ) -> None:
        """Report a warning."""
        self.add(Diagnostic("warning", message, span, suggestion, tuple(notes), tuple(edits)))

    def has_error_at(self, span: Span) -> bool:
        """Whether an error of exactly this place was reported."""
        return span in self._error_places

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
