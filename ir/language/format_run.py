"""One statement or header, as tokens, to a document of `pretty`: spaces, brackets, inner comments.

A bracket that does not fit its line is printed with one item a line and a trailing comma. Shapes
and indices stay on one line. A line comment between brackets breaks them.
"""

from __future__ import annotations

from dataclasses import replace

from .lexer import Comment, SourceToken
from .pretty import Document, Group, Hard, IfBroken, Indent, Line, has_hard_line

_CLOSER = {"LPAR": "RPAR", "LSQB": "RSQB"}
_ENDS_OPERAND = {"NAME", "RPAR", "RSQB", "STRING", "INTEGER", "FLOAT", "TRUE", "FALSE", "QMARK"}
_PRECEDENCE = {
    "OR": 1,
    "AND": 2,
    "EQUALS": 3,
    "DIFFERS": 3,
    "LESSTHAN": 4,
    "AT_MOST": 4,
    "MORETHAN": 4,
    "AT_LEAST": 4,
    "PLUS": 5,
    "MINUS": 5,
    "STAR": 6,
    "SLASH": 6,
    "PERCENT": 6,
    "AT": 6,
}

Element = Comment | SourceToken


class Run:
    """A stretch of tokens with brackets that match, without `{`, `}` and `_SEP`."""

    def __init__(self, tokens: list[SourceToken]) -> None:
        self._tokens = tokens
        self._comments = [list(token.comments) for token in tokens]
        if tokens:
            self._comments[0] = []
        self._partner: dict[int, int] = {}
        self._in_type: set[int] = set()
        self._context: list[str] = []
        self._scan()

    def document(self) -> Document:
        """The whole run; the comments before its first token are left to the caller."""
        return self._items_of(0, len(self._tokens))

    # Classification

    def _scan(self) -> None:
        """Pair the brackets, tell the context of each token and find `<`, `,`, `>` of types."""
        tokens = self._tokens
        stack: list[int] = []
        contexts = [""]
        for index, token in enumerate(tokens):
            if token.type in ("RPAR", "RSQB"):
                self._partner[stack.pop()] = index
                contexts.pop()
            self._context.append(contexts[-1])
            if token.type in _CLOSER:
                stack.append(index)
                contexts.append(self._bracket_context(index))
        for index, token in enumerate(tokens):
            if token.type == "NAME" and self._is_type_start(index):
                self._mark_type(index)
        self._move_comments_of_commas()

    def _bracket_context(self, index: int) -> str:
        tokens = self._tokens
        before = tokens[index - 1].type if index else ""
        if tokens[index].type == "LSQB":
            is_list = before not in _ENDS_OPERAND and before != "MORETHAN"
            if before == "COMMA" and index > 2 and tokens[index - 3].type == "LESSTHAN":
                is_list = not self._is_type_start(index - 4)
            return "list" if is_list else "index"
        if index > 1 and tokens[index - 2].type in ("FN", "LAYER"):
            return "definition"
        return "call" if before in _ENDS_OPERAND else "group"

    def _is_type_start(self, index: int) -> bool:
        if index < 1:
            return False
        before = self._tokens[index - 1].type
        in_index = self._context[index - 1] in ("index", "list")
        return before == "ARROW" or (before == "COLON" and not in_index)

    def _mark_type(self, index: int) -> None:
        tokens = self._tokens
        if index + 3 >= len(tokens) or tokens[index + 1].type != "LESSTHAN":
            return
        self._in_type |= {index + 1, index + 3}
        if tokens[index + 3].type == "COMMA":
            self._in_type.add(self._partner[index + 4] + 1)

    def _is_separator(self, index: int) -> bool:
        return self._tokens[index].type == "COMMA" and index not in self._in_type

    def _move_comments_of_commas(self) -> None:
        """A comma directly follows its item: what stands between them moves behind the comma.

        Block comments on one line stay where they are. A trailing comma gives all it has to the
        bracket, since the comma itself is printed or not as the lines fall.
        """
        for index in range(1, len(self._tokens) - 1):
            comments = self._comments[index]
            if not comments or not self._is_separator(index):
                continue
            closes = self._tokens[index + 1].type in ("RPAR", "RSQB")
            if closes or any(c.is_line or "\n" in c.text for c in comments):
                if comments[-1].is_line:
                    self._start_line(index + 1)
                self._comments[index + 1][:0] = comments
                self._comments[index] = []

    def _start_line(self, index: int) -> None:
        """Note that a line begins before the token, or before the first of its comments."""
        comments = self._comments[index]
        if comments:
            comments[0] = replace(comments[0], newline_before=True)
        else:
            self._tokens[index].newline_before = True

    def _precedence(self, index: int) -> int:
        """The precedence of a binary operator, 0 for any other token."""
        if index == 0 or index in self._in_type:
            return 0
        if self._tokens[index - 1].type not in _ENDS_OPERAND:
            return 0
        return _PRECEDENCE.get(self._tokens[index].type, 0)

    def _is_prefix(self, index: int) -> bool:
        kind = self._tokens[index].type
        return kind == "BANG" or (kind == "MINUS" and not self._precedence(index))

    # Documents

    def _space(self, index: int) -> str:
        """What stands between the token at `index` and the one before it."""
        kind = self._tokens[index].type
        before = self._tokens[index - 1].type
        if kind == "DOT":
            return " " if before in ("INTEGER", "FLOAT") else ""
        if before in ("DOT", "LPAR", "LSQB") or kind in ("COMMA", "RPAR", "RSQB"):
            return ""
        if self._is_prefix(index - 1):
            return ""
        if index in self._in_type or (index - 1 in self._in_type and before == "LESSTHAN"):
            return ""
        if "COLON" in (kind, before):
            if self._context[index] in ("index", "list") or kind == "COLON":
                return ""
            return " "
        if "EQUAL" in (kind, before) and self._context[index] == "call":
            return ""
        if kind in _CLOSER:
            closes_type = before == "MORETHAN" and index - 1 in self._in_type
            return "" if closes_type or before in _ENDS_OPERAND else " "
        return " "

    def _items_of(self, start: int, stop: int, loosest: int = 0) -> Document:
        """The tokens from `start` to `stop`, inner brackets as groups.

        Comments of the first token are left out. A binary operator of precedence `loosest` may
        begin a line.
        """
        pieces: Document = []
        index = start
        while index < stop:
            if index > start:
                if self._comments[index]:
                    pieces += self._inner_comments(index)
                elif self._precedence(index) == loosest > 0:
                    pieces.append(Line())
                else:
                    pieces.append(self._space(index))
            if self._tokens[index].type in _CLOSER:
                closer = self._partner[index]
                pieces += self._bracket(index, closer)
                index = closer
            else:
                pieces.append(str(self._tokens[index]))
            index += 1
        return pieces

    def _inner_comments(self, index: int) -> Document:
        """The comments before a token in the middle of an item."""
        pieces: Document = []
        after_line = False
        for comment in self._comments[index]:
            if after_line or (comment.is_line and comment.newline_before):
                pieces.append(Hard.LINE)
            else:
                pieces.append("  " if comment.is_line else " ")
            pieces.append(comment.text.rstrip())
            after_line = comment.is_line
        pieces.append(Hard.LINE if after_line else " ")
        return pieces

    def _loosest(self, start: int, stop: int) -> int:
        """The precedence of the loosest binary operator between brackets."""
        candidates: list[int] = []
        index = start
        while index < stop:
            if self._tokens[index].type in _CLOSER:
                index = self._partner[index]
            elif self._precedence(index):
                candidates.append(self._precedence(index))
            index += 1
        return min(candidates, default=0)

    def _bracket(self, opener: int, closer: int) -> Document:
        items = self._split(opener + 1, closer)
        if not items:
            return self._empty_bracket(opener, closer)
        first, last = str(self._tokens[opener]), str(self._tokens[closer])
        context = self._context[opener + 1]
        trailing, rest = self._boundary(closer)
        forced = bool(rest) or any(c.is_line for c in trailing)
        inner: Document = []
        for number, (start, stop) in enumerate(items):
            before, prefix = self._boundary(start)
            ends_line = any(c.is_line for c in before)
            if number == 0 and not ends_line:
                before, prefix = [], before + prefix
            forced = forced or ends_line
            inner += [*_trailing(before), Line("" if number == 0 else " ")]
            inner += _prefix(prefix, self._tokens[start])
            inner += self._item(start, stop, context)
            if number < len(items) - 1:
                inner += [*_trailing(self._comments[stop]), ","]
        if context != "group":
            inner.append(IfBroken(","))
        inner += _trailing(trailing)
        for comment in rest:
            starts_line = comment.newline_before or comment is rest[0]
            inner += [Line() if starts_line else " ", comment.text.rstrip()]
        forced = forced or has_hard_line(inner)
        if context == "index" and not forced:
            return [first, *_flatten(inner), last]
        return [Group([first, Indent(inner), Line(""), last], broken=forced)]

    def _item(self, start: int, stop: int, context: str) -> Document:
        """One item of a bracket; its loosest binary operators may begin lines."""
        loosest = 0 if context == "index" else self._loosest(start, stop)
        pieces = self._items_of(start, stop, loosest)
        if not loosest:
            return pieces
        broken = has_hard_line(pieces)
        return [Group(pieces if context == "group" else [Indent(pieces)], broken)]

    def _split(self, start: int, stop: int) -> list[tuple[int, int]]:
        """The items between two brackets, each from its first token to behind its last."""
        items: list[tuple[int, int]] = []
        first = index = start
        while index < stop:
            if self._tokens[index].type in _CLOSER:
                index = self._partner[index]
            elif self._is_separator(index):
                items.append((first, index))
                first = index + 1
            index += 1
        if first < stop:
            items.append((first, stop))
        return items

    def _boundary(self, index: int) -> tuple[list[Comment], list[Comment]]:
        """The comments before a token, those that end the line of what is before them first."""
        comments = self._comments[index]
        token = self._tokens[index]
        elements: list[Element] = [*comments, token]
        for position, element in enumerate(elements):
            after_line = position > 0 and comments[position - 1].is_line
            if element.newline_before or after_line:
                return comments[:position], comments[position:]
        if token.type in ("RPAR", "RSQB"):
            return comments, []
        return [], comments

    def _empty_bracket(self, opener: int, closer: int) -> Document:
        tokens = self._tokens
        comments = self._comments[closer]
        first, last = str(tokens[opener]), str(tokens[closer])
        if not comments:
            return [first + last]
        own_line = [c for c in comments if _is_own_line(c, comments, tokens[closer])]
        if own_line or any(c.is_line or "\n" in c.text for c in comments):
            inner: Document = []
            for comment in comments:
                inner += [Hard.LINE, comment.text.rstrip()]
            return [Group([first, Indent(inner), Hard.LINE, last], broken=True)]
        return [first + " ".join(c.text for c in comments) + last]


def _is_own_line(comment: Comment, comments: list[Comment], token: SourceToken) -> bool:
    """Whether a block comment stands alone on its line or lines."""
    position = comments.index(comment)
    following = comments[position + 1] if position + 1 < len(comments) else token
    return comment.newline_before and following.newline_before


def _trailing(comments: list[Comment]) -> Document:
    """Comments on the line of what is before them."""
    return [("  " if c.is_line else " ") + c.text.rstrip() for c in comments]


def _prefix(comments: list[Comment], token: SourceToken) -> Document:
    """Comments that stand before an item, on lines of their own or on its line."""
    pieces: Document = []
    ends_line = True
    for comment in comments:
        alone = ends_line and _is_own_line(comment, comments, token)
        ends_line = comment.is_line or alone
        pieces += [comment.text.rstrip(), Hard.LINE if ends_line else " "]
    return pieces


def _flatten(pieces: Document) -> Document:
    """The pieces without their own line breaks; inner groups may still break."""
    flat: Document = []
    for piece in pieces:
        if isinstance(piece, Line):
            flat.append(piece.flat)
        elif not isinstance(piece, IfBroken):
            flat.append(piece)
    return flat
