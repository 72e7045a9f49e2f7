"""From a token that does not fit to a message a person understands, and on with the parse.

The parser stops at the first token it cannot use. `Recovery` reports it, then makes the parser
usable again: it puts a keyword right that is misspelt, or leaves out the statement, member or
declaration in which the error stands, and leaves an `ERROR` token in its place. The body of a
function, layer, `if` or `for` with a faulty header is read all the same, for the errors in it.
"""

from __future__ import annotations

from .automaton import Automaton
from .diagnostics import DiagnosticBag, Edit, Note, nearest_name
from .layout import bracket_role, found_text
from .lexer import Lexer, SourceToken, make_token, shorten
from .repairs import repair
from .repairs.changes import Change, Repair, edits_of, open_bracket
from .tables import tables

_OTHER_LANGUAGES = {
    "def": "fn",
    "func": "fn",
    "function": "fn",
    "class": "layer",
    "model": "layer",
    "module": "layer",
    "struct": "layer",
    "var": "let",
    "val": "let",
    "parameter": "param",
    "foreach": "for",
}
_HOMES = {
    "IMPORT": "at the top of a file",
    "CONST": "at the top level",
    "LAYER": "at the top level",
    "PARAM": "in a layer",
    "BUFFER": "in a layer",
    "RETURN": "in a function",
    "FOR": "in a function",
    "IF": "in a layer or a function",
    "FN": "at the top level or in a layer",
}
_FOLLOWS_KEYWORD = {
    "IMPORT": ("STRING",),
    "RETURN": ("NAME", "INTEGER", "FLOAT", "STRING", "TRUE", "FALSE", "BANG"),
    "IF": ("NAME", "INTEGER", "FLOAT", "TRUE", "FALSE", "BANG", "LPAR"),
    "ELSE": ("LBRACE", "IF"),
}
MAX_REPAIRS = 100
"""Repairs of one file; more is no program of another language."""

_NAMED = {
    "LAYER": "a name for the layer",
    "FN": "a name for the function",
    "PARAM": "a name for the parameter",
    "BUFFER": "a name for the buffer",
    "LET": "a name",
    "CONST": "a name for the constant",
    "FOR": "a name for the loop variable",
    "DOT": "a name after '.'",
}
_TEXTS = {
    "EQUAL": "=",
    "COLON": ":",
    "COMMA": ",",
    "LPAR": "(",
    "RPAR": ")",
    "LSQB": "[",
    "RSQB": "]",
    "LBRACE": "{",
    "RBRACE": "}",
    "ARROW": "->",
    "IN": "in",
    "OR": "||",
    "AND": "&&",
    "EQUALS": "==",
    "DIFFERS": "!=",
    "LESSTHAN": "<",
    "AT_MOST": "<=",
    "MORETHAN": ">",
    "AT_LEAST": ">=",
    "PLUS": "+",
    "MINUS": "-",
    "STAR": "*",
    "SLASH": "/",
    "PERCENT": "%",
    "AT": "@",
}
_LISTS = (
    ("RETURN", "a statement"),
    ("PARAM", "a member of the layer (param, buffer, let, fn or if)"),
    ("IMPORT", "a declaration (import, const, let, fn or layer)"),
)


def _keywords() -> dict[str, str]:
    """The terminals of the words that begin an item or go on with one."""
    within = ("in", "true", "false")
    return {word: kind for word, kind in tables().keywords.items() if word not in within}


class Recovery:
    """Error handling of one parse.

    Args:
        parser: what reads the tokens; it is cut back here.
        tokens: the whole token stream; a misspelt keyword is put right in it.
        bag: takes the errors.
    """

    def __init__(self, parser: Automaton, tokens: list[SourceToken], bag: DiagnosticBag) -> None:
        self._parser = parser
        self._repairs = 0
        self._tokens = tokens
        self._bag = bag

    def recover(self, position: int) -> int:
        """Report the token at `position`, which does not fit, and make the parser usable again.

        Returns:
            The position of the token to go on with.
        """
        start = self._item_start(position)
        if self._fix_else(position):
            return position
        damaged = any(t.damaged for t in self._tokens[start : position + 1])
        found = None if damaged else repair(self._tokens, start, position)
        if found is not None and self._repairs < MAX_REPAIRS:
            self._repairs += 1
            return self._repaired(found, start, position)
        if self._fix_keyword(start, position):
            self._unwind()
            return start
        known = any(t.damaged for t in self._tokens[start : position + 1])
        known = known or any(t.repair for t in self._tokens[start:position])
        previous = self._tokens[position - 1] if position else None
        if previous is not None and previous.type == "RBRACE" and self._parser.takes("_SEP"):
            token = self._tokens[position]
            self._report(f"expected a newline or ';' before {found_text(token)}", token)
            self._feed("_SEP", token)
            return position
        if not known:
            self._explain(start, position)
        self._unwind()
        return self._leave_out(start, position)

    def abandon(self) -> None:
        """Cut the parser back to the list of declarations, where the file may end."""
        while not self._parser.takes("$END") and self._parser.pop():
            pass

    # Repairs

    def _repaired(self, found: Repair, start: int, position: int) -> int:
        """Report what `repairs` knows and go on with its changes, from the start of the item."""
        edits = edits_of(self._tokens, found.changes)
        span = self._tokens[found.first].span.to(self._tokens[found.last].span)
        meant = f"did you mean '{edits[0].text.strip()}'?" if edits else None
        self._bag.error(found.message, span, suggestion=found.suggestion or meant, edits=edits)
        self._unwind()
        if found.stop is not None:
            first = self._tokens[start]
            error = make_token("ERROR", "", first.span.to(self._tokens[found.stop - 1].span))
            error.broken = (*self._bound_names(start, found.stop), str(self._tokens[start + 1]))
            self._parser.feed(error)
            self._feed("_SEP", first)
            return found.stop
        if not found.changes:
            return self._leave_out(start, position)
        for change in reversed(found.changes):
            self._change(change)
        return start

    def _change(self, change: Change) -> None:
        old = self._tokens[change.first : change.stop] or [self._tokens[change.first - 1]]
        span = old[0].span.to(old[-1].span)
        text = change.text.strip() if change.tokens is None else change.tokens
        new = Lexer(tables(), text, span.file, DiagnosticBag()).tokens()[:-1]
        for token in new:
            token.span = span
        if new and change.stop > change.first:
            new[0].comments, new[0].newline_before = old[0].comments, old[0].newline_before
            new[0].blank_before = old[0].blank_before
        self._tokens[change.first : change.stop] = new

    def _unwind(self) -> None:
        """Cut the parser back to the innermost list of statements, members or declarations."""
        self._parser.unwind("ERROR")

    def _feed(
        self, kind: str, place: SourceToken, text: str = "", broken: tuple[str, ...] | None = None
    ) -> None:
        token = make_token(kind, text, place.span)
        token.broken = broken
        self._parser.feed(token)

    # Items

    def _item_start(self, position: int) -> int:
        """The first token of the innermost statement, member or declaration at `position`."""
        depth = 0
        for index in range(position - 1, -1, -1):
            kind = self._tokens[index].type
            if kind == "RBRACE":
                depth += 1
            elif kind == "LBRACE":
                if depth == 0:
                    return index + 1
                depth -= 1
            elif kind == "_SEP" and depth == 0:
                return index + 1
        return 0

    def _item_end(self, position: int) -> tuple[int, int | None]:
        """The separator that ends the item at `position`, and its next `{` before that, if any."""
        depth = 0
        body = None
        for index in range(position, len(self._tokens)):
            kind = self._tokens[index].type
            if kind == "LBRACE":
                if depth == 0 and body is None:
                    body = index
                depth += 1
            elif kind == "RBRACE":
                if depth == 0:
                    return index, body
                depth -= 1
            elif depth == 0 and kind in ("_SEP", "$END"):
                return index, body
        return len(self._tokens) - 1, body

    def _bound_names(self, start: int, stop: int) -> tuple[str, ...]:
        """The names that the item would have bound."""
        names: list[str] = []
        binders = ("LET", "CONST", "PARAM", "BUFFER", "FN", "LAYER")
        for index in range(start, stop):
            token = self._tokens[index]
            if token.type != "NAME":
                continue
            before = self._tokens[index - 1].type if index > start else "_SEP"
            after = self._tokens[index + 1].type if index + 1 < stop else ""
            if before in binders or (before in ("_SEP", "LBRACE") and after == "EQUAL"):
                names.append(str(token))
        return tuple(dict.fromkeys(names))

    def _leave_out(self, start: int, position: int) -> int:
        """Put `ERROR` in place of the item, or read its body under a made-up header."""
        goes_on = self._goes_on(start, position)
        stop, body = self._item_end(position + 1 if goes_on else position)
        first = self._tokens[start]
        names = self._bound_names(start, stop)
        if body is not None and body >= start and self._parser.takes(first.type):
            header = {
                "FN": ("NAME", "LPAR", "RPAR"),
                "LAYER": ("NAME",),
                "IF": ("TRUE",),
                "FOR": ("NAME", "IN", "NAME"),
            }.get(first.type)
            if header is not None:
                self._feed(first.type, first, str(first), names)
                for kind in header:
                    self._feed(kind, first, "_")
                return body
        last = self._tokens[max(start, stop - 1)]
        error = make_token("ERROR", "", first.span.to(last.span))
        error.broken = names
        self._parser.feed(error)
        if self._tokens[stop].type != "_SEP":
            self._feed("_SEP", last)
        return stop

    def _goes_on(self, start: int, position: int) -> bool:
        """Whether the error is a newline within an expression: the next line is further in."""
        token = self._tokens[position]
        if token.type != "_SEP" or token == ";" or start >= position:
            return False
        first, following = self._tokens[start], self._tokens[position + 1]
        further_in = following.span.column > first.span.column
        return further_in and following.type not in (*_HOMES, "LET", "RBRACE", "$END")

    # Keywords

    def _fix_else(self, position: int) -> bool:
        """Put `elif` or a misspelt `else` behind a `}` right."""
        token = self._tokens[position]
        if token.type != "NAME" or not self._parser.takes("ELSE"):
            return False
        if token == "elif":
            edits = (Edit(token.span, "else if"),)
            self._bag.error("there is no 'elif'", token.span, suggestion="write else if",
                            edits=edits)  # fmt: skip
            fixed = [make_token("ELSE", "else", token.span), make_token("IF", "if", token.span)]
        elif nearest_name(str(token), ("else",)) and self._follows(position, "ELSE"):
            self._report(f"unknown keyword '{token}'", token, "did you mean 'else'?")
            fixed = [make_token("ELSE", "else", token.span)]
        else:
            return False
        self._tokens[position : position + 1] = fixed
        return True

    def _fix_keyword(self, start: int, position: int) -> bool:
        """Put the first word of the item right, if it is a keyword misspelt."""
        token = self._tokens[start]
        if token.type != "NAME" or position > start + 1:
            return False
        mark = self._parser.mark()
        self._unwind()
        keywords = _keywords()
        candidates = [word for word, kind in keywords.items() if self._parser.takes(kind)]
        self._parser.reset(mark)
        word = str(token)
        keyword = _OTHER_LANGUAGES.get(word) or nearest_name(word, candidates)
        if keyword not in candidates or not self._follows(start, keywords[keyword]):
            return False
        self._report(f"unknown keyword {shorten(word)}", token, f"did you mean '{keyword}'?")
        self._tokens[start] = make_token(keywords[keyword], keyword, token.span)
        return True

    def _follows(self, position: int, keyword: str) -> bool:
        """Whether the token behind `position` can follow this keyword."""
        following = self._tokens[position + 1].type
        return following in _FOLLOWS_KEYWORD.get(keyword, ("NAME",))

    # Messages

    def _report(
        self,
        message: str,
        token: SourceToken,
        suggestion: str | None = None,
        notes: tuple[Note, ...] = (),
    ) -> None:
        self._bag.error(message, token.span, suggestion=suggestion, notes=notes)

    def _explain(self, start: int, position: int) -> None:
        """Say what was expected at `position`."""
        token = self._tokens[position]
        accepted = self._parser.accepted()
        bracket = open_bracket(self._tokens, start, position)
        expected = self._expected(accepted, start, position, bracket)
        notes: tuple[Note, ...] = ()
        if bracket >= 0 and "to close" in expected:
            opener = self._tokens[bracket]
            notes = ((f"'{opener}' is opened here", opener.span),)
        suggestion = self._suggestion(start, position, accepted)
        if position == start and token.type in _HOMES and "ERROR" in accepted:
            self._report(f"'{token}' is out of place: it belongs {_HOMES[token.type]}", token)
        elif token.type == "ELSE":
            self._report("'else' without an 'if' before it", token)
        else:
            token_text = found_text(token)
            self._report(f"expected {expected}, found {token_text}", token, suggestion, notes)

    def _expected(self, accepted: set[str], start: int, position: int, bracket: int) -> str:
        previous = self._tokens[position - 1] if position else None
        before = previous.type if previous is not None else ""
        if "ERROR" in accepted:
            return next(text for kind, text in _LISTS if kind in accepted)
        if bracket >= 0:
            closer = "RPAR" if self._tokens[bracket].type == "LPAR" else "RSQB"
            if closer in accepted and not (before == "COMMA" or position == bracket + 1):
                text = f"'{_TEXTS[closer]}' to close {bracket_role(self._tokens, bracket)}"
                separated = "COMMA" in accepted and self._starts_operand(position)
                return f"',' or {text}" if separated else text
        if "INTEGER" in accepted:
            what = "a dimension" if "QMARK" in accepted else "an expression"
            return what if previous is None else f"{what} after {found_text(previous)}"
        if accepted == {"NAME"} or ("NAME" in accepted and "INTEGER" not in accepted):
            if before in ("COLON", "ARROW"):
                return f"a type after '{previous}'"
            if before == "LESSTHAN":
                return "an element type after '<'"
            return _NAMED.get(before, "a name")
        if accepted == {"COLON"}:
            return f"':' and a type after '{previous}'"
        if "STRING" in accepted:
            return "a file name in double quotes"
        if "LBRACE" in accepted:
            owner = self._tokens[start]
            role = {"FN": "function", "LAYER": "layer", "FOR": "'for'"}.get(owner.type, "'if'")
            return f"'{{' to open the body of the {role}"
        if "_SEP" in accepted:
            return "a newline or ';'"
        shown = [f"'{text}'" for kind, text in _TEXTS.items() if kind in accepted]
        return " or ".join(shown[:3]) or "something else"

    def _starts_operand(self, position: int) -> bool:
        kinds = ("NAME", "INTEGER", "FLOAT", "STRING", "TRUE", "FALSE")
        return self._tokens[position].type in kinds

    def _suggestion(self, start: int, position: int, accepted: set[str]) -> str | None:
        token = self._tokens[position]
        previous = self._tokens[position - 1] if position else None
        kinds = [t.type for t in self._tokens[start:position]]
        if token.type == "EQUAL" and kinds:
            if kinds[0] in ("PARAM", "BUFFER"):
                return "values come from a weights file; for a constant write 'let'"
            if kinds[0] == "NAME":
                return "only a name can be assigned to"
        if token.found == "the end of the line" and "INTEGER" in accepted:
            return "to go on in the next line, put the expression in parentheses"
        if token.type == "INTEGER" and previous is not None and previous.type == "DOT":
            return f"write '[{token}]' for an element of a list"
        if token.type == "AT_LEAST" and "MORETHAN" in accepted:
            return "write '> =' with a space between"
        if token.type == "EQUALS" and "EQUAL" in accepted:
            return "did you mean '='?"
        if self._tokens[start].type == "NAME" and position == start + 1:
            nearest = nearest_name(str(self._tokens[start]), _keywords())
            return None if nearest is None else f"write {nearest} for {self._tokens[start]}"
        return None
