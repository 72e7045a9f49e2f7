"""Syntax of other languages, put right in the tokens: what the message offers and the parser reads.

`repair` is asked at a token that does not fit. What it knows becomes one message with edits of the
source, and the same edits of the tokens, so that the parse goes on as if the text had been right.
Words alone stand in `habits`, and the rules are one file each for types, statements and operators.
Not here: mistakes that nothing can be made of (`recovery`).
"""

from __future__ import annotations

from collections.abc import Callable

from . import declarations, operators, statements, types
from .changes import Repair, Tokens


def repair(tokens: Tokens, start: int, position: int) -> Repair | None:
    """What the token at `position` is a habit of, in the item that begins at `start`."""
    for rule in _RULES:
        found = rule(tokens, start, position)
        if found is not None and _keeps_braces(tokens, start, found):
            return found
    return None


def _keeps_braces(tokens: Tokens, start: int, found: Repair) -> bool:
    """Whether as many braces open and close afterwards: the parser relies on the layout's."""

    def depth(text: str) -> int:
        return text.count("{") - text.count("}")

    def depth_of(first: int, stop: int) -> int:
        kinds = [token.type for token in tokens[first:stop]]
        return kinds.count("LBRACE") - kinds.count("RBRACE")

    more = sum(
        depth(c.text if c.tokens is None else c.tokens) - depth_of(c.first, c.stop)
        for c in found.changes
    )
    return more == 0 and (found.stop is None or depth_of(start, found.stop) == 0)


_RULES: tuple[Callable[[Tokens, int, int], Repair | None], ...] = (
    statements.import_of_module,
    statements.python_class,
    statements.colon_blocks,
    declarations.modifier,
    declarations.decorator,
    declarations.base,
    declarations.documentation,
    types.shape_in_parentheses,
    types.module_of_type,
    types.type_before_name,
    types.shape_in_angles,
    types.argument_without_type,
    types.result_arrow,
    types.several_results,
    statements.loop_in_parentheses,
    types.shape_of_tuple,
    types.values_without_brackets,
    declarations.several_names,
    declarations.let_without_value,
    operators.step,
    operators.power,
    operators.word_for_operator,
    operators.walrus,
    operators.equality,
    operators.fraction,
    operators.parameter_with_value,
    statements.foreign_statement,
    statements.choice,
    statements.comprehension,
    operators.prefix_of_string,
    operators.missing_comma,
    operators.missing_operator,
)
