"""The automaton that reads tokens by the tables of the grammar and calls the tree builder.

The tables are Lark's, LALR(1), and so are the rules for children: a symbol whose name begins with
`_` gives its children in its place, and a rule marked with `?` that has one child gives that child.
Not here: what is done about a token that does not fit (`recovery`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from . import tree_builder
from .lexer import SourceToken
from .tables import tables


@cache
def _builders() -> list[Callable[[list[Any]], Any]]:
    """What makes the value of each rule: its function of `tree_builder`, or the children alone."""
    return [
        list if rule.origin.startswith("_") else getattr(tree_builder, rule.name, list)
        for rule in tables().rules
    ]


class Automaton:
    """One parse under way.

    Attributes:
        result: the declarations, once `$END` was fed.
    """

    def __init__(self) -> None:
        self._tables = tables()
        self._builders = _builders()
        self._states = [self._tables.start]
        self._values: list[Any] = []
        self.result: Any = None

    def feed(self, token: SourceToken) -> bool:
        """Read a token; false, and the token is not read, where it does not fit."""
        states, values = self._states, self._values
        table, rules = self._tables.states, self._tables.rules
        kind = token.type
        while True:
            action = table[states[-1]].get(kind)
            if action is None:
                return False
            if action >= 0:
                states.append(action)
                values.append(token)
                return True
            rule = rules[~action]
            size = rule.size
            if size == 1 and rule.single:
                states[-1] = table[states[-2]][rule.origin]
                continue
            children: list[Any] = []
            if size:
                children = values[-size:]
                del states[-size:], values[-size:]
                for index in reversed(rule.inlined):
                    children[index : index + 1] = children[index]
            alone = rule.single and len(children) == 1
            value = children[0] if alone else self._builders[~action](children)
            states.append(table[states[-1]][rule.origin])
            values.append(value)
            if states[-1] == self._tables.end and kind == "$END":
                self.result = value
                return True

    def takes(self, kind: str) -> bool:
        """Whether a token of this kind fits here."""
        states = list(self._states)
        table, rules, end = self._tables.states, self._tables.rules, self._tables.end
        while True:
            action = table[states[-1]].get(kind)
            if action is None or action >= 0:
                return action is not None
            rule = rules[~action]
            if rule.size:
                del states[-rule.size :]
            states.append(table[states[-1]][rule.origin])
            if states[-1] == end and kind == "$END":
                return True

    def accepted(self) -> set[str]:
        """Every kind of token that fits here."""
        kinds = self._tables.states[self._states[-1]]
        return {kind for kind in kinds if kind.isupper() and self.takes(kind)}

    def unwind(self, kind: str) -> None:
        """Forget what was read last until a token of this kind is one that may come next."""
        while kind not in self._tables.states[self._states[-1]]:
            self.pop()

    def pop(self) -> bool:
        """Forget the last symbol; false where there is none."""
        if self._values:
            del self._states[-1], self._values[-1]
            return True
        return False

    def mark(self) -> tuple[list[int], list[Any]]:
        """What `reset` returns to."""
        return list(self._states), list(self._values)

    def reset(self, mark: tuple[list[int], list[Any]]) -> None:
        """Forget what was read since `mark`, and know again what was forgotten since."""
        self._states[:], self._values[:] = mark
