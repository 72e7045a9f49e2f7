"""The formatter: one way to write a `.tri` program, with every comment kept.

Works on the token stream, not on the syntax tree, so that nothing the user spelled is lost: tokens
are printed in their order, only the white space between them and trailing commas change. Lines are
indented by four columns a block, brackets are wrapped at 100 columns, at most one blank line stands
between two lines and exactly one around a `fn` or `layer`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from .diagnostics import DiagnosticBag
from .format_run import Run
from .lexer import Comment, SourceToken
from .parser import TritonParser, tokenize
from .pretty import layout

WIDTH = 100
"""Columns a line may have; a line without brackets to wrap may have more."""


def format_source(source: str, path: Path | None = None) -> str:
    """The program in its one format; formatting that again changes nothing.

    Args:
        source: text of a `.tri` program.
        path: the file it came from, for messages.

    Raises:
        CompilationError: the text has syntax errors.
    """
    program = TritonParser().parse(source, path)
    tokens = tokenize(source, program.span.file, DiagnosticBag())
    reader = _Reader(tokens)
    printer = _Printer()
    printer.block(reader.items(), tokens[-1].comments, tokens[-1])
    return printer.text()


@dataclass
class _Block:
    """`{ items }`; `close` is the `}`, which holds the comments behind the last item."""

    items: list[_Item]
    close: SourceToken


@dataclass
class _Part:
    """A stretch of an item: tokens, then perhaps a block."""

    tokens: list[SourceToken] = field(default_factory=list[SourceToken])
    brace: SourceToken | None = None
    block: _Block | None = None


@dataclass
class _Item:
    """A declaration, member or statement."""

    parts: list[_Part]

    @property
    def first(self) -> SourceToken:
        return self.parts[0].tokens[0]

    @property
    def stands_apart(self) -> bool:
        """Whether blank lines go around it."""
        return self.first.type in ("FN", "LAYER")


class _Reader:
    """Tokens to items."""

    def __init__(self, tokens: list[SourceToken]) -> None:
        self._tokens = tokens
        self._position = 0

    def items(self) -> list[_Item]:
        """The items up to the `}` or end of file."""
        items: list[_Item] = []
        while self._tokens[self._position].type not in ("RBRACE", "$END"):
            items.append(self._item())
        return items

    def _next(self) -> SourceToken:
        self._position += 1
        return self._tokens[self._position - 1]

    def _item(self) -> _Item:
        parts = [_Part()]
        while (token := self._next()).type != "_SEP":
            if token.type != "LBRACE":
                if parts[-1].block is not None:
                    parts.append(_Part())
                parts[-1].tokens.append(token)
                continue
            items = self.items()
            parts[-1].brace = token
            parts[-1].block = _Block(items, self._next())
        return _Item(parts)


class _Printer:
    def __init__(self) -> None:
        self._lines: list[str] = []
        self._indent = 0

    def text(self) -> str:
        """Everything printed, with a newline at the end."""
        return "".join(line + "\n" for line in self._lines)

    def block(
        self, items: list[_Item], last_comments: tuple[Comment, ...], closer: SourceToken
    ) -> None:
        """Print the items of a block, or of the file, and the comments behind the last one."""
        previous: _Item | None = None
        opened = len(self._lines)
        for item in items:
            rest = self._trailing(item.first.comments)
            blanks = [comment.blank_before for comment in rest] + [item.first.blank_before]
            apart = item.stands_apart or (previous is not None and previous.stands_apart)
            if apart and previous is not None:
                first = len(rest)
                while first > 0 and not blanks[first]:
                    first -= 1
                blanks[first] = True
            prefix = self._own_lines(rest, item.first, blanks, opened)
            self._blank(blanks[-1] and not prefix, opened)
            self._item(item, prefix)
            previous = item
        rest = self._trailing(last_comments)
        blanks = [comment.blank_before for comment in rest]
        pending = self._own_lines(rest, closer, [*blanks, False], opened)
        if pending:
            self._line(pending.rstrip())

    # Lines

    def _line(self, text: str) -> None:
        """One logical line, which brackets may have wrapped."""
        self._lines.append(" " * self._indent + text)

    def _blank(self, wanted: bool, opened: int) -> None:
        if wanted and len(self._lines) > opened and self._lines[-1]:
            self._lines.append("")

    def _append(self, comment: Comment) -> None:
        space = "  " if comment.is_line else " "
        self._lines[-1] += space + comment.text.rstrip()

    def _trailing(self, comments: tuple[Comment, ...]) -> tuple[Comment, ...]:
        """Put the comments that belong to the line above there; give back the others."""
        if not self._lines:
            return comments
        for position, comment in enumerate(comments):
            if comment.newline_before:
                return comments[position:]
            self._append(comment)
        return ()

    def _own_lines(
        self,
        comments: tuple[Comment, ...],
        following: SourceToken,
        blanks: list[bool],
        opened: int,
    ) -> str:
        """Print comments on lines of their own; give back those that share the line of what
        follows, each with a space behind it."""
        pending = ""
        for position, comment in enumerate(comments):
            after = comments[position + 1] if position + 1 < len(comments) else following
            self._blank(blanks[position] and not pending, opened)
            pending += comment.text.rstrip()
            if comment.is_line or after.newline_before:
                self._line(pending)
                pending = ""
            else:
                pending += " "
        return pending

    # Items

    def _item(self, item: _Item, prefix: str) -> None:
        for number, part in enumerate(item.parts):
            if number > 0:
                prefix = self._join(part.tokens[0])
            self._part(part, prefix)

    def _join(self, word: SourceToken) -> str:
        """What to print before an `else`: the `}` above, or only comments and then a new line."""
        if _needs_lines(word.comments):
            self._broken_comments(word.comments)
            return ""
        text = self._lines.pop().lstrip(" ")
        return text + "".join(f" {c.text}" for c in word.comments) + " "

    def _broken_comments(self, comments: tuple[Comment, ...]) -> None:
        """Print comments on the line above and on lines of their own."""
        start = 0
        while start < len(comments) and not comments[start].newline_before:
            self._append(comments[start])
            start += 1
        for comment in comments[start:]:
            self._line(comment.text.rstrip())

    def _part(self, part: _Part, prefix: str) -> None:
        pieces = [prefix, *Run(part.tokens).document()]
        if part.brace is None or part.block is None:
            self._line(layout(pieces, self._indent, WIDTH))
            return
        block, brace = part.block, part.brace
        opening = "{"
        if not block.items and not block.close.comments:
            opening = "{}"
        if _needs_lines(brace.comments):
            self._line(layout(pieces, self._indent, WIDTH))
            self._broken_comments(brace.comments)
            self._line(opening)
        else:
            inline = "".join(f" {c.text}" for c in brace.comments)
            self._line(layout([*pieces, f"{inline} {opening}"], self._indent, WIDTH))
        if opening == "{}":
            return
        self._indent += 4
        self.block(block.items, block.close.comments, block.close)
        self._indent -= 4
        self._line("}")


def _needs_lines(comments: tuple[Comment, ...]) -> bool:
    """Whether comments within an item cannot stay on its line."""
    return any(c.is_line or c.newline_before or "\n" in c.text for c in comments)
