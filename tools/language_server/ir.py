"""What is known of a text of IR: its messages, where SSA values are defined and used, its symbols.

xDSL's parser reads it, and notes each name on the way, so that scopes are the parser's. Not here:
what an operation means, which its class says.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import FileLineColLoc, StringAttr
from xdsl.ir import SSAValue
from xdsl.parser import UnresolvedOperand
from xdsl.utils.lexer import Span as Range

from ...dialects.registry import LocatingParser, parse_module, triton_context, verify_module
from ...ir.errors import TritonError
from ...ir.language.diagnostics import Edit, split_lines
from ...ir.language.nodes import Span
from ...ir.upstream import our_name
from ..opt_reading import is_comment

_PLACE = re.compile(r":(\d+):(\d+): error: (.*)")
_TOKEN = re.compile(r"[%@^#!]?[\w$.-]+|\S")
_SPLIT = re.compile(r"^// -----[^\n]*\n", re.MULTILINE)


@dataclass(frozen=True)
class Problem:
    """A message about a place."""

    message: str
    span: Span


@dataclass(frozen=True)
class Symbol:
    """An operation with a name, such as a function."""

    name: str
    operation: str
    span: Span


class _Notes(LocatingParser):
    """The parser; notes where values are defined and used, by offsets into the text."""

    def note_in(self, defined: dict[Range, SSAValue], uses: dict[Range, Range]) -> None:
        """Where to note: what the name at a place means, and where that is defined."""
        self._defined, self._uses = defined, uses
        self._homes: dict[SSAValue, Range] = {}
        self._waiting: dict[str, list[Range]] = {}

    def parse_optional_unresolved_operand(self) -> UnresolvedOperand | None:
        operand = super().parse_optional_unresolved_operand()
        if operand is not None:
            values = self.ssa_values.get(operand.operand_name)
            if values is None:
                self._waiting.setdefault(operand.operand_name, []).append(operand.span)
            elif (home := self._homes.get(values[0])) is not None:
                self._uses[operand.span] = home
        return operand

    def _register_ssa_definition(self, name: str, values: Sequence[SSAValue], span: Range) -> None:
        super()._register_ssa_definition(name, values, span)
        if values:
            self._defined[span] = values[0]
            self._homes[values[0]] = span
        self._uses.update(dict.fromkeys(self._waiting.pop(name, []), span))


@dataclass
class IrText:
    """One text of IR, parsed and verified as far as it goes.

    Attributes:
        text: the IR; parts between `// -----` are modules of their own.
        path: its file, for the parameter files that it names.
    """

    text: str
    path: Path
    context: Context = field(default_factory=triton_context)
    problems: list[Problem] = field(default_factory=list[Problem])
    symbols: list[Symbol] = field(default_factory=list[Symbol])
    values: dict[Span, SSAValue] = field(default_factory=dict[Span, SSAValue])
    links: dict[Span, Span] = field(default_factory=dict[Span, Span])

    def __post_init__(self) -> None:
        self.lines = split_lines(self.text)
        start = 0
        for part in _SPLIT.split(self.text):
            start = self.text.index(part, start)
            if not is_comment(part):
                self._read(part, self.text.count("\n", 0, start) + 1)
            start += len(part)

    def _read(self, part: str, first_line: int) -> None:
        defined: dict[Range, SSAValue] = {}
        uses: dict[Range, Range] = {}
        parsers: list[_Notes] = []

        def reader(*args: object, **options: object) -> LocatingParser:
            parser = _Notes(*args, **options)  # pyright: ignore[reportArgumentType]
            parser.note_in(defined, uses)
            parsers.append(parser)
            return parser

        try:
            module = parse_module(
                part, str(self.path), self.context, verify=False, first_line=first_line,
                reader=reader,
            )  # fmt: skip
            for op in module.walk():
                symbol = op.properties.get("sym_name")
                if isinstance(symbol, StringAttr) and isinstance(op.location, FileLineColLoc):
                    place = self._symbol(symbol.data, op.location.line.data)
                    self.symbols.append(Symbol(symbol.data, op.name, place))
            verify_module(module)
        except TritonError as error:
            self.problems.append(self._problem(str(error)))
        for parser in parsers:
            for span, value in defined.items():
                self.values[self._span(parser, span)] = value
            for span, home in uses.items():
                self.links[self._span(parser, span)] = self._span(parser, home)

    def _span(self, parser: LocatingParser, span: Range) -> Span:
        line, column = parser.line_and_column(span.start)
        return Span(str(self.path), line, column, line, column + span.end - span.start)

    def _symbol(self, name: str, line: int) -> Span:
        column = self.lines[line - 1].find(f"@{name}") + 1
        column = max(column, 1)
        return Span(str(self.path), line, column, line, column + len(name) + 1)

    def _problem(self, text: str) -> Problem:
        place = _PLACE.search(text.partition("\n")[0])
        if place is None:
            return Problem(text.partition("\n")[0], Span(str(self.path), 1, 1, 1, 1))
        line, column = int(place[1]), int(place[2])
        rest = self.lines[line - 1][column - 1 :] if line <= len(self.lines) else ""
        token = _TOKEN.match(rest)
        end = column + (token.end() if token else 0)
        return Problem(place[3], Span(str(self.path), line, column, line, end))

    def token_at(self, line: int, column: int) -> tuple[str, Span] | None:
        """The word at a position, with `%` or `@` before it, and its place."""
        if not 0 < line <= len(self.lines):
            return None
        for match in _TOKEN.finditer(self.lines[line - 1]):
            if match.start() < column <= match.end():
                place = Span(str(self.path), line, match.start() + 1, line, match.end() + 1)
                return match[0], place
        return None

    def declaration(self, line: int, column: int) -> Span | None:
        """Where the value or symbol at a position is defined."""
        token = self.token_at(line, column)
        if token is None:
            return None
        if token[0].startswith("@"):
            return next((s.span for s in self.symbols if f"@{s.name}" == token[0]), None)
        if not token[0].startswith("%"):
            return None
        start = (token[1].line, token[1].column)
        for use, home in self.links.items():
            if (use.line, use.column) == start:
                return home
        return next((d for d in self.values if (d.line, d.column) == start), None)

    def occurrences(self, declaration: Span) -> set[Span]:
        """Every place of a value, or of a symbol."""
        symbol = next((s for s in self.symbols if s.span == declaration), None)
        if symbol is None:
            return {declaration, *(use for use, home in self.links.items() if home == declaration)}
        found: set[Span] = set()
        pattern = re.compile(rf"@{re.escape(symbol.name)}(?![\w$.-])")
        for row, line in enumerate(self.lines, start=1):
            for match in pattern.finditer(line):
                place = Span(str(self.path), row, match.start() + 1, row, match.end() + 1)
                found.add(place)
        return found

    def renamed(self, declaration: Span, name: str) -> list[Edit]:
        """What changes so that a value or symbol has another name.

        Raises:
            ValueError: the name is none, or is taken.
        """
        mark = self.lines[declaration.line - 1][declaration.column - 1]
        name = mark + name.removeprefix(mark)
        if not re.fullmatch(r"[%@][A-Za-z_][\w$.-]*", name):
            raise ValueError(f"'{name}' is no name")
        taken = {self.lines[s.line - 1][s.column - 1 : s.end_column - 1] for s in self._names()}
        if name in taken:
            raise ValueError(f"'{name}' is taken")
        return [Edit(span, name) for span in self.occurrences(declaration)]

    def _names(self) -> Iterator[Span]:
        yield from self.values
        yield from (symbol.span for symbol in self.symbols)

    def hover(self, line: int, column: int) -> str | None:
        """The type of a value with what defines it, or what an operation does."""
        token = self.token_at(line, column)
        if token is None:
            return None
        word, _ = token
        if not word.startswith("%"):
            return self._documentation(word)
        home = self.declaration(line, column)
        if home is None:
            return None
        value = self.values[home]
        name = self.lines[home.line - 1][home.column - 1 : home.end_column - 1]
        owner = value.owner
        parts = [f"```mlir\n{name} : {value.type}\n```"]
        documentation = self._documentation(getattr(owner, "name", ""))
        return "\n\n".join([*parts, documentation] if documentation else parts)

    def _documentation(self, name: str) -> str | None:
        if "." not in name:
            return None
        found = self.context.get_optional_op(our_name(name))
        text = inspect.cleandoc(found.__dict__.get("__doc__") or "") if found else ""
        return f"**{name}**\n\n{text}" if found is not None else None
