"""Newlines and brackets: the second half of reading a `.tri` file.

A newline or `;` ends a statement; inside `(` and `[` newlines mean nothing; a `}` on the same line
ends one too; `{` and `else` may stand on a line of their own. `arrange` turns these rules into
exactly one `_SEP` token after every statement, so that the grammar need not know about them.

Brackets that do not match are repaired here, where the places of both are at hand: a missing one is
put in, with the message to report when the parser gets there, a spare one is reported and dropped.
"""

from __future__ import annotations

from dataclasses import dataclass

from .diagnostics import Diagnostic, DiagnosticBag, Edit
from .lexer import SourceToken, make_token, shorten
from .nodes import Span

MAX_NESTING = 200
"""Brackets inside brackets; more than a person writes, few enough for a recursive checker."""

_CLOSER = {"LPAR": "RPAR", "LSQB": "RSQB", "LBRACE": "RBRACE"}
_TEXT = {"RPAR": ")", "RSQB": "]", "RBRACE": "}"}
_ENDS_OPERAND = ("NAME", "RPAR", "RSQB", "STRING", "INTEGER", "FLOAT")
_WITHIN = frozenset(
    ("NAME", "INTEGER", "FLOAT", "STRING", "COMMA", "COLON", "DOT", "EQUAL", "LPAR", "LSQB", "RPAR")
)
"""Tokens that end nothing where they stand on the line of the token before."""

_STARTS_ITEM = ("LET", "RETURN", "PARAM", "BUFFER", "FN", "LAYER", "IMPORT", "CONST", "FOR", "IF")
FOR_HEADER = "the header of the 'for'"
_OWNERS = {"LAYER": "the layer", "FN": "the function", "IF": "the 'if'", "FOR": "the 'for'"}


@dataclass
class Bracket:
    """An open bracket: its token, what it encloses in words, and the keyword that it belongs to."""

    token: SourceToken
    role: str
    owner: str = ""


def bracket_role(tokens: list[SourceToken], index: int) -> str:
    """What the `(` or `[` at `index` encloses, in words: `"the call"`, `"the list"`, ..."""

    def kind(offset: int) -> str:
        return tokens[index + offset].type if index + offset >= 0 else ""

    if tokens[index].type == "LPAR":
        if kind(-1) == "NAME" and kind(-2) == "FN":
            return f"the arguments of '{tokens[index - 1]}'"
        if kind(-1) == "NAME" and kind(-2) == "LAYER":
            return f"the generic arguments of '{tokens[index - 1]}'"
        if kind(-1) == "FOR":
            return FOR_HEADER
        return "the call" if kind(-1) in ("NAME", "RPAR", "RSQB") else "the '('"
    if kind(-1) == "MORETHAN" or (kind(-1) == "COMMA" and kind(-3) == "LESSTHAN"):
        return "the shape"
    if kind(-1) == "NAME" and kind(-2) in ("COLON", "ARROW"):
        return "the shape"
    return "the index" if kind(-1) in _ENDS_OPERAND else "the list"


def found_text(token: SourceToken) -> str:
    """How a message names the token that it met."""
    return token.found or shorten(str(token))


class _Layout:
    def __init__(self, tokens: list[SourceToken], bag: DiagnosticBag) -> None:
        self._source = tokens
        self._bag = bag
        self._out: list[SourceToken] = []
        self._open: list[Bracket] = []
        self._pending: SourceToken | None = None
        self._item_column = 1
        self._dropped = False
        self._header = ""
        self._header_name = ""
        kinds = [t.type for t in tokens]
        self._spare_braces = kinds.count("LBRACE") > kinds.count("RBRACE")

    def arrange(self) -> list[SourceToken]:
        """Every token, with the separators and the repairs."""
        for index, token in enumerate(self._source):
            if token.type == "_SEP":
                self._separator(token, index)
                continue
            kind = token.type
            if self._pending is not None or self._dropped or kind not in _WITHIN or not self._out:
                self._close_before(token)
                self._flush(token)
            if not self._out or self._out[-1].type in ("_SEP", "LBRACE"):
                self._item_column = token.span.column
            if kind in _CLOSER:
                if len(self._open) >= MAX_NESTING:
                    self._bag.error(f"brackets nest deeper than {MAX_NESTING} levels", token.span)
                    return []
                self._push(token)
            elif kind in _TEXT:
                self._close(token, index)
            else:
                self._remember_header(token)
                self._out.append(token)
        return self._out

    @property
    def _in_parentheses(self) -> bool:
        return bool(self._open) and self._open[-1].token.type != "LBRACE"

    def _separator(self, token: SourceToken, index: int) -> None:
        if token == ";" and self._in_parentheses:
            if self._is_closed_later(index):
                if self._open[-1].role != FOR_HEADER:  # the parser has more to say of it
                    message = f"expected ',' in {self._open[-1].role}, found ';'"
                    self._bag.error(message, token.span, suggestion="did you mean ','?")
                self._out.append(make_token("COMMA", ",", token.span))
                return
            self._close_parentheses(token)
        if self._pending is None or token == ";":
            self._pending = token

    def _is_closed_later(self, index: int) -> bool:
        """Whether the line goes on to close the `(` or `[` that is open at `index`."""
        depth = 1
        for token in self._source[index + 1 : index + MAX_NESTING]:
            if token.found or token.type in ("LBRACE", "RBRACE"):
                return False
            depth += (token.type in _CLOSER) - (token.type in _TEXT)
            if depth == 0:
                return True
        return False

    def _flush(self, token: SourceToken) -> None:
        """Emit the separator that stands before `token`, if it counts."""
        pending, self._pending = self._pending, None
        dropped, self._dropped = self._dropped, False
        token.damaged = token.damaged or (dropped and pending is None)
        if self._in_parentheses or not self._out or self._out[-1].type in ("_SEP", "LBRACE"):
            return
        last = self._out[-1]
        closes = token.type in ("RBRACE", "$END")
        if pending is None:
            if closes:
                self._out.append(self._synthetic("_SEP", "", found_text(token), token))
        elif (
            closes
            or pending == ";"
            or not (token.type == "LBRACE" or (token.type == "ELSE" and last.type == "RBRACE"))
        ):
            separator = self._synthetic("_SEP", str(pending), found_text(pending), token)
            separator.damaged = pending.damaged or dropped
            self._out.append(separator)
            self._header = ""

    def _synthetic(self, kind: str, text: str, found: str, cause: SourceToken) -> SourceToken:
        place = self._out[-1].span.end if self._out else cause.span
        token = make_token(kind, text, place, found=found)
        token.damaged = cause.damaged
        return token

    def _remember_header(self, token: SourceToken) -> None:
        if token.type in _OWNERS:
            self._header = token.type
            self._header_name = ""
        elif token.type == "NAME" and self._out and self._out[-1].type in ("LAYER", "FN"):
            self._header_name = str(token)
        elif token.type == "ELSE":
            self._header = "IF"

    def _push(self, token: SourceToken) -> None:
        self._out.append(token)
        if token.type != "LBRACE":
            role = bracket_role(self._out, len(self._out) - 1)
            self._open.append(Bracket(token, role))
            return
        role = _OWNERS.get(self._header, "the '{'")
        if self._header in ("LAYER", "FN") and self._header_name:
            role += f" '{self._header_name}'"
        self._open.append(Bracket(token, role, self._header))
        self._header = ""

    def _close_before(self, token: SourceToken) -> None:
        """Close the brackets that cannot be open where `token` stands."""
        kind = token.type
        if self._in_parentheses:
            starts = kind in _STARTS_ITEM and self._pending is not None
            body = kind == "LBRACE" and self._header
            brace = kind == "RBRACE" and any(b.token.type == "LBRACE" for b in self._open)
            if starts or body or brace or kind == "$END" or self._starts_line_of_item(token):
                self._close_parentheses(token if kind == "$END" else self._pending or token)
        first = self._pending is not None
        if kind == "$END" or (first and self._spare_braces and kind in ("LAYER", "IMPORT")):
            self._close_braces(0, token)
        elif first and self._spare_braces and kind == "FN":
            owners = [b.owner for b in self._open]
            if "FN" in owners:
                self._close_braces(owners.index("FN"), token)

    def _starts_line_of_item(self, token: SourceToken) -> bool:
        """Whether a name that cannot go on with the bracket stands where a statement would."""
        return (
            token.type == "NAME"
            and self._pending is not None
            and self._out[-1].type in _ENDS_OPERAND
            and token.span.column <= self._item_column
        )

    def _close_parentheses(self, found: SourceToken) -> None:
        while self._in_parentheses:
            self._insert_closer(found)

    def _close_braces(self, depth: int, found: SourceToken) -> None:
        """Close every bracket that is open at `depth` or deeper, right before `found`."""
        while len(self._open) > depth:
            self._pending = None
            if self._out[-1].type not in ("_SEP", "LBRACE"):
                self._out.append(self._synthetic("_SEP", "", found_text(found), found))
            self._insert_closer(found)
            self._out.append(self._synthetic("_SEP", "", found_text(found), found))

    def _insert_closer(self, found: SourceToken) -> None:
        bracket = self._open.pop()
        kind = _CLOSER[bracket.token.type]
        closer = self._synthetic(kind, _TEXT[kind], found_text(found), found)
        place = closer.span if found.type in ("_SEP", "$END") else found.span
        closer.repair = self._unclosed(bracket, found, place)
        self._out.append(closer)

    def _unclosed(self, bracket: Bracket, found: SourceToken, place: Span) -> Diagnostic:
        text = _TEXT[_CLOSER[bracket.token.type]]
        if found.type in _TEXT.values() or (found.type in _CLOSER.values() and place == found.span):
            suggestion, edits = f"did you mean '{text}'?", ()
        else:
            written = f"\n{text}\n" if text == "}" else text
            suggestion, edits = f"write {text} here", (Edit(place.start, written),)
        return Diagnostic(
            "error",
            f"expected '{text}' to close {bracket.role}, found {found_text(found)}",
            place,
            suggestion,
            ((f"'{bracket.token}' is opened here", bracket.token.span),),
            edits,
        )

    def _close(self, token: SourceToken, index: int) -> None:
        opener = next(o for o, c in _CLOSER.items() if c == token.type)
        reach = self._open
        if token.type != "RBRACE":
            braces = [i for i, b in enumerate(self._open) if b.token.type == "LBRACE"]
            reach = self._open[braces[-1] + 1 :] if braces else self._open
        if any(b.token.type == opener for b in reach):
            while self._open[-1].token.type != opener:
                self._insert_closer(token)
            self._open.pop()
            self._out.append(token)
            if token.type == "RBRACE":
                self._header = ""
            return
        if token.type != "RBRACE" and reach and not self._closes_next(index, reach[-1]):
            bracket = self._open.pop()
            kind = _CLOSER[bracket.token.type]
            fixed = make_token(kind, _TEXT[kind], token.span, found=found_text(token))
            fixed.comments, fixed.damaged = token.comments, token.damaged
            fixed.repair = self._unclosed(bracket, token, token.span)
            self._out.append(fixed)
            return
        self._bag.error(f"unmatched '{token}': nothing is open that it could close", token.span,
                        suggestion="leave it out", edits=(Edit(token.span, ""),))  # fmt: skip
        self._dropped = True

    def _closes_next(self, index: int, bracket: Bracket) -> bool:
        """Whether the token behind `index` closes `bracket`: the one at `index` is spare then."""
        return self._source[index + 1].type == _CLOSER[bracket.token.type]


def arrange(tokens: list[SourceToken], bag: DiagnosticBag) -> list[SourceToken]:
    """The token stream of the grammar: separators where statements end, brackets that match.

    Args:
        tokens: what `Lexer.tokens` gave; the last one is `$END`.
        bag: takes the errors that no later token can explain better.

    Returns:
        The tokens up to `$END`; none at all when brackets nest deeper than `MAX_NESTING`.
    """
    return _Layout(tokens, bag).arrange()
