"""Characters to tokens: the first half of reading a `.tri` file.

The terminals are those of `grammar.lark`. Comments are kept beside the token that follows them, for
the formatter. A character that no token begins with, a literal that is too large or not closed is
reported here and replaced, so that the parser goes on. Which newlines end a statement is not
decided here but in `layout`.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from .diagnostics import Diagnostic, DiagnosticBag, Edit
from .habits import ELEMENTS
from .nodes import Span
from .tables import Tables

MAX_INTEGER = 2**63
"""The largest integer literal; one more than `int64` holds, so that its minimum can be written."""

_SHOWN = 40


@dataclass(frozen=True)
class Comment:
    """A comment and how it stands between its neighbours.

    Attributes:
        text: the comment with its marks.
        span: its place.
        newline_before: whether it begins its line.
        blank_before: whether an empty line stands before it.
    """

    text: str
    span: Span
    newline_before: bool
    blank_before: bool

    @property
    def is_line(self) -> bool:
        """Whether it is a `#` or `//` comment, which runs to the end of its line."""
        return not self.text.startswith("/*")


class SourceToken(str):
    """The text of a token, which knows its place and what stood before it.

    Attributes:
        type: its terminal in the grammar.
        span: its place.
        comments: the comments between the previous token and this one.
        newline_before: whether a line ends between it and the token or comment before it.
        blank_before: whether an empty line stands directly before it.
        damaged: whether a character before it, or in it, was reported; an error here may follow
            from that one and is not worth a second message.
        repair: for a token that `layout` put in, what to report when it is used.
        found: how a message calls it; empty for its own text.
        broken: set on the first token of a header that `recovery` made up; the names it binds.
    """

    type: str
    span: Span
    comments: tuple[Comment, ...] = ()
    newline_before: bool = False
    blank_before: bool = False
    damaged: bool = False
    repair: Diagnostic | None = None
    found: str = ""
    broken: tuple[str, ...] | None = None


def make_token(kind: str, text: str, span: Span, *, found: str = "") -> SourceToken:
    """A token of terminal `kind` with nothing before it."""
    token = SourceToken(text)
    token.type = kind
    token.span = span
    if found:
        token.found = found
    return token


def shorten(text: str) -> str:
    """Source text in quotes for a message, cut where it is long."""
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[:_SHOWN])
    return f"'{shown}...'" if len(text) > _SHOWN else f"'{shown}'"


_PLAIN = frozenset(("COMMA", "COLON", "LPAR", "RPAR", "LSQB", "RSQB", "EQUAL", "LBRACE", "RBRACE"))
"""Tokens that need no second look."""

_LINE_REST = re.compile(r"[^\r\n]*")
_NUMBER_REST = re.compile(r"[\w.]+")
_DIVISION = re.compile(
    r"//\s*(?:[0-9][\w.]*(?:\s+[-+*%]\s*\w+)*|[A-Za-z_]\w*(?=\s*[\])]))\s*([\])},].*)?"
)
_OPERANDS = ("NAME", "INTEGER", "RPAR", "RSQB")
_NEWLINE = re.compile(r"\r\n|\n|\r")

_ESCAPES = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "0": "\0",
    '"': '"',
    "'": "'",
    "\\": "\\",
}
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|(.))", re.DOTALL)


def unescape(text: str) -> str:
    """The value of a string literal, quotes and escapes resolved."""

    def replace(match: re.Match[str]) -> str:
        digits = match[1] or match[2]
        return chr(int(digits, 16)) if digits else _ESCAPES.get(match[3], match[3])

    return _ESCAPE.sub(replace, text[1:-1])


_LOOKALIKES = {
    "\N{MINUS SIGN}": "-",
    "\N{EN DASH}": "-",
    "\N{EM DASH}": "-",
    "\N{MULTIPLICATION SIGN}": "*",
    "\N{LEFT DOUBLE QUOTATION MARK}": '"',
    "\N{RIGHT DOUBLE QUOTATION MARK}": '"',
    "\N{RIGHTWARDS ARROW}": "->",
    "\N{LESS-THAN OR EQUAL TO}": "<=",
    "\N{GREATER-THAN OR EQUAL TO}": ">=",
    "\N{NOT EQUAL TO}": "!=",
    "&": "&&",
    "|": "||",
    "~": "!",
}


class Lexer:
    """One pass over one text.

    Args:
        tables: what to look for.
        source: the text.
        file: the name of the text in every span.
        bag: takes the errors.
    """

    def __init__(self, tables: Tables, source: str, file: str, bag: DiagnosticBag) -> None:
        self._tables = tables
        self._source = source
        self._file = file
        self._bag = bag
        self._position = 0
        self._line = 1
        self._line_start = 0
        self._damaged = False
        self._tokens: list[SourceToken] = []
        self._comments: list[Comment] = []
        self._newlines_here = 0

    def tokens(self) -> list[SourceToken]:
        """Every token, newlines and `;` as `_SEP`, with one `$END` at the end."""
        source = self._source
        match_at = self._tables.pattern.match
        keywords = self._tables.keywords
        while self._position < len(source) and not self._bag.is_full:
            match = match_at(source, self._position)
            if match is None:
                self._illegal()
                continue
            kind = match.lastgroup
            if kind == "WHITESPACE":
                self._position = match.end()
                continue
            text = match[0]
            if kind in _PLAIN:
                self._emit(kind, text)
            elif kind == "NAME":
                self._emit(keywords.get(text, "NAME"), text)
            elif kind == "_SEP":
                self._separator(text)
            elif kind in ("LINE_COMMENT", "BLOCK_COMMENT"):
                self._comment(text)
            elif kind in ("INTEGER", "FLOAT"):
                self._number(kind, text)
            elif kind == "STRING":
                self._string(text)
            elif text == "/" and source.startswith("/*", self._position):
                self._unterminated_comment()
            else:
                self._emit(kind or "", text)
        self._emit("$END", "").found = "the end of the file"
        return self._tokens

    def _span(self, length: int) -> Span:
        column = self._position - self._line_start + 1
        return Span(self._file, self._line, column, self._line, column + length)

    def _emit(self, kind: str, text: str, value: str | None = None) -> SourceToken:
        length = len(text)
        token = SourceToken(text if value is None else value)
        token.type = kind
        token.span = self._span(length)
        if self._comments:
            token.comments = tuple(self._comments)
            self._comments.clear()
        if self._newlines_here:
            token.newline_before = True
            token.blank_before = self._newlines_here > 1
            self._newlines_here = 0
        if self._damaged:
            token.damaged, self._damaged = True, False
        self._tokens.append(token)
        self._position += length
        return token

    def _separator(self, text: str) -> None:
        if text == ";":
            token = make_token("_SEP", text, self._span(1))
            self._tokens.append(token)
            self._position += 1
            return
        token = make_token("_SEP", text, self._span(0), found="the end of the line")
        token.damaged, self._damaged = self._damaged, False
        self._tokens.append(token)
        self._newlines_here += 1
        self._position += len(text)
        self._line += 1
        self._line_start = self._position

    def _comment(self, text: str) -> None:
        start = self._span(0)
        self._doubt_division(text)
        starts_line = self._newlines_here > 0 or not (self._tokens or self._comments)
        blank = self._newlines_here > 1
        self._position += len(text)
        if text.startswith("/*"):
            breaks = list(_NEWLINE.finditer(text))
            if breaks:
                self._line += len(breaks)
                self._line_start = self._position - len(text) + breaks[-1].end()
        self._comments.append(Comment(text, start.to(self._span(0)), starts_line, blank))
        self._newlines_here = 0

    def _doubt_division(self, text: str) -> None:
        """`n // 2` divides in Python and begins a comment here: say so where nothing else fits."""
        division = _DIVISION.fullmatch(text)
        before = self._tokens[-1] if self._tokens and not self._newlines_here else None
        if division is None or before is None or before.type not in _OPERANDS:
            return
        edits = (Edit(self._span(2), "/"),)
        hint = "write '/': sizes divide exactly, and floor(…) rounds a tensor down"
        if division[1] is None:
            message = f"'//' begins a comment: {shorten(text[2:].strip())} is not read"
            self._bag.warning(message, self._span(2), suggestion=hint, edits=edits)
            return
        message = "there is no operator '//': it begins a comment"
        self._bag.error(message, self._span(2), suggestion=hint, edits=edits)
        self._damaged = True

    def _number(self, kind: str, text: str) -> None:
        trailing = _NUMBER_REST.match(self._source, self._position + len(text))
        if self._tokens and self._tokens[-1].type == "DOT":
            digits = re.match(r"[0-9]+", text)
            self._emit("INTEGER", digits[0] if digits else text)
            return
        span = self._span(len(text))
        if trailing is not None:
            whole = text + trailing[0]
            fixed = whole.replace("_", "")
            bounds = re.fullmatch(r"([0-9]+)\.\.\.?([0-9]+)", fixed)
            if bounds is not None:
                meant = f"range({bounds[1]}, {bounds[2]})"
                message = f"a range is written {meant}"
                self._report(message, len(whole), f"did you mean '{meant}'?")
                kinds = ("NAME", "LPAR", "INTEGER", "COMMA", "INTEGER", "RPAR")
                texts = ("range", "(", bounds[1], ",", bounds[2], ")")
                self._emit_parts(kinds, texts, len(whole))
                return
            if self._shape_of_mlir():
                return
            suggestion = None
            if re.fullmatch(r"[0-9]+(\.[0-9]*)?", fixed):
                suggestion = f"did you mean '{fixed}'?"
            self._report(f"{shorten(whole)} is not a number", len(whole), suggestion)
            self._emit("INTEGER", whole, "0").damaged = True
        elif kind == "FLOAT":
            if math.isinf(float(text)):
                self._report(f"{shorten(text)} is too large for a float", len(text))
                self._emit(kind, text, "0.0")
            else:
                self._emit(kind, text)
        elif re.fullmatch(r"0[0-9]+", text):
            fixed = text.lstrip("0") or "0"
            suggestion = f"did you mean '{fixed}'?" if len(fixed) < _SHOWN else None
            self._report(f"the integer {shorten(text)} begins with 0", len(text), suggestion)
            self._emit(kind, text, "0")
        elif len(text) > 80 or int(text, 0) > MAX_INTEGER:
            self._bag.error(f"the integer {shorten(text)} does not fit in 64 bits", span)
            self._emit(kind, text, "0")
        else:
            self._emit(kind, text)

    def _emit_parts(self, kinds: Sequence[str], texts: Sequence[str], length: int) -> None:
        """Several tokens in place of `length` characters that stand for them."""
        span, position = self._span(length), self._position
        for kind, text in zip(kinds, texts, strict=True):
            self._emit(kind, text).span = span
        self._position = position + length

    def _shape_of_mlir(self) -> bool:
        """`tensor<8x4xf32>`, of which `8x4xf32` comes next."""
        whole = re.compile(r"((?:[0-9]+x)+)(\w+)>").match(self._source, self._position)
        tail = [token.type for token in self._tokens[-2:]]
        if whole is None or tail != ["NAME", "LESSTHAN"]:
            return False
        kind, opener = self._tokens[-2:]
        sizes = whole[1].rstrip("x").split("x")
        element = ELEMENTS.get(whole[2], whole[2])
        meant = f"Tensor<{element}>[{', '.join(sizes)}]"
        place = kind.span.to(self._span(len(whole[0])))
        self._bag.error("a shape stands in square brackets", place,
                        suggestion=f"did you mean '{meant}'?")  # fmt: skip
        del self._tokens[-2:]
        dims = [part for size in sizes for part in (",", size)][1:]
        kinds = ["COMMA" if part == "," else "INTEGER" for part in dims]
        texts = ["Tensor", "<", element, ">", "[", *dims, "]"]
        names = ["NAME", "LESSTHAN", "NAME", "MORETHAN", "LSQB", *kinds, "RSQB"]
        self._emit_parts(names, texts, len(whole[0]))
        first = self._tokens[-len(texts)]
        first.comments, first.newline_before = kind.comments, kind.newline_before
        del opener
        return True

    def _string(self, text: str) -> None:
        for match in _ESCAPE.finditer(text):
            if match[3] is not None and match[3] not in _ESCAPES:
                column = self._position - self._line_start + 1 + match.start()
                span = Span(self._file, self._line, column, self._line, column + len(match[0]))
                self._bag.error(
                    f"unknown escape {shorten(match[0])} in a string",
                    span,
                    suggestion=r"""the escapes are \n \t \r \0 \" \' \\ \xNN \uNNNN""",
                )
        self._emit("STRING", text)

    def _report(self, message: str, length: int, suggestion: str | None = None) -> None:
        self._bag.error(message, self._span(length), suggestion=suggestion)

    def _unterminated_comment(self) -> None:
        rest = _LINE_REST.match(self._source, self._position)
        line = self._span(len(rest[0]) if rest else 2)
        edits = (Edit(line.end, " */"),)
        self._bag.error("this comment has no closing '*/'", self._span(2),
                        suggestion="write */ where it ends", edits=edits)  # fmt: skip
        self._position = len(self._source)
        self._damaged = True

    def _illegal(self) -> None:
        """Report and step over text that begins no token."""
        character = self._source[self._position]
        rest = _LINE_REST.match(self._source, self._position)
        line = rest[0] if rest else character
        if character == '"':
            # What may close brackets behind it is not taken for a part of it.
            begun = re.match(r"\"[^()\[\]{},;\\]*", line)
            text = begun[0].rstrip() if begun else line
            self._report("this string has no closing '\"'", len(text), f"did you mean '{text}\"'?")
            self._emit("STRING", text, f'{text}"')
            return
        single = re.match(r"['\u201c\u201d\u2018\u2019]([^'\"\r\n\u201c\u201d\u2018\u2019]*)"
                          r"['\u201c\u201d\u2018\u2019]", line)  # fmt: skip
        if single is not None:
            fixed = shorten(single[1])[1:-1]
            self._report(
                "a string stands in double quotes",
                len(single[0]),
                f"did you mean '\"{fixed}\"'?",
            )
            self._emit("STRING", single[0], f'"{single[1]}"').damaged = "\\" in single[1]
            return
        if line.startswith("|>"):
            hint = "write f(x) for x |> f"
            self._report("there is no operator '|>'", 2, hint)
            self._position += 2
            self._damaged = True
            return
        if character == "^":
            self._emit("CARET", character)  # no token of the grammar: `repairs` knows it
            return
        run = re.match(r"[^\W0-9][\w]*", line)
        if run is not None:
            message = f"{shorten(run[0])} is no name: names have ASCII letters, digits and '_'"
            self._report(message, len(run[0]))
            self._emit("NAME", run[0], "_").damaged = True
            return
        fixed = _LOOKALIKES.get(character)
        suggestion = None if fixed is None else f"did you mean '{fixed}'?"
        self._report(f"unexpected character {_describe(character)}", 1, suggestion)
        repeats = re.match(re.escape(character) + "+", line)
        self._position += len(repeats[0]) if repeats else 1
        self._damaged = True


def _describe(character: str) -> str:
    if " " < character < "\x7f":
        return f"'{character}'"
    code = f"U+{ord(character):04X}"
    name = unicodedata.name(character, "")
    if character.isprintable() and character != " ":
        return f"'{character}' ({code})"
    return f"{code} ({name.lower()})" if name else code
