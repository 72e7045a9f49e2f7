"""Operators, numbers and commas of other languages."""

from __future__ import annotations

from .changes import (
    Change,
    Repair,
    Tokens,
    closing,
    follow,
    item_end,
    kind_at,
    open_bracket,
    operand_before,
    operand_behind,
    source_text,
)

_LONGEST_POWER = 64
"""Tokens of a power that is written out: each `** 2` doubles what stands before it."""


def power(tokens: Tokens, start: int, position: int) -> Repair | None:
    doubled = follow(tokens, position - 1, "STAR", "STAR")
    if not doubled and kind_at(tokens, position) != "CARET":
        return None
    operator = position - 1 if doubled else position
    ends = ("NAME", "INTEGER", "FLOAT", "RPAR", "RSQB")
    begins = ("NAME", "INTEGER", "FLOAT", "LPAR", "LSQB", "MINUS")
    if kind_at(tokens, operator - 1) not in ends or kind_at(tokens, position + 1) not in begins:
        return None
    first = operand_before(tokens, operator, start)
    stop = operand_behind(tokens, position + 1)
    if stop - first > _LONGEST_POWER:
        return None
    base = source_text(tokens, first, operator)
    exponent = source_text(tokens, position + 1, stop)
    text = {"2": f"({base} * {base})", "3": f"({base} * {base} * {base})", "0.5": f"sqrt({base})"}
    meant = text.get(exponent, f"exp({exponent} * log({base}))")
    changes = (Change(first, stop, meant),)
    what = "**" if doubled else "^"
    return Repair(f"there is no operator '{what}'", operator, position, changes, f"write {meant}")


def step(tokens: Tokens, start: int, position: int) -> Repair | None:
    """`n += 1` and `n++`."""
    if kind_at(tokens, start) != "NAME" or position != start + 2:
        return None
    symbol, name = tokens[position - 1], tokens[start]
    if symbol.type in ("PLUS", "MINUS", "STAR", "SLASH", "PERCENT", "AT") and (
        kind_at(tokens, position) == "EQUAL"
    ):
        text = f"= {name} {symbol}"
        rest = source_text(tokens, position + 1, item_end(tokens, position))
        return Repair(f"there is no operator '{symbol}='", position - 1, position,
                      (Change(position - 1, position + 1, text),),
                      f"write {name} = {name} {symbol} {rest}")  # fmt: skip
    if follow(tokens, position - 1, "PLUS", "PLUS") and kind_at(tokens, position + 1) == "_SEP":
        text = f"= {name} + 1"
        return Repair("there is no operator '++'", position - 1, position,
                      (Change(position - 1, position + 1, f" {text}"),),
                      f"write {name} {text}")  # fmt: skip
    return None


def word_for_operator(tokens: Tokens, start: int, position: int) -> Repair | None:
    words = {"and": "&&", "or": "||", "is": "=="}
    if kind_at(tokens, position) == "NAME" and str(tokens[position]) in words:
        text = words[str(tokens[position])]
        return Repair(f"there is no operator '{tokens[position]}'", position, position,
                      (Change(position, position + 1, text),))  # fmt: skip
    if position > start and tokens[position - 1] == "not" and kind_at(tokens, position) != "EQUAL":
        change = Change(position - 1, position, "!")
        return Repair("there is no operator 'not'", position - 1, position - 1, (change,))
    return None


def walrus(tokens: Tokens, start: int, position: int) -> Repair | None:
    at = position - 1 if follow(tokens, position - 1, "COLON", "EQUAL") else position
    if not follow(tokens, at, "COLON", "EQUAL"):
        return None
    return Repair("there is no ':='", at, at + 1, (Change(at, at + 2, "="),))


def equality(tokens: Tokens, start: int, position: int) -> Repair | None:
    kind, first = kind_at(tokens, position), kind_at(tokens, start)
    if kind == "EQUALS" and kind_at(tokens, position - 1) == "NAME" and first in ("LET", "CONST"):
        return Repair("a value is given with '='", position, position,
                      (Change(position, position + 1, "="),))  # fmt: skip
    if kind == "EQUAL" and first in ("IF", "RETURN") and open_bracket(tokens, start, position) < 0:
        return Repair("'=' gives a value, '==' compares", position, position,
                      (Change(position, position + 1, "=="),))  # fmt: skip
    return None


def fraction(tokens: Tokens, start: int, position: int) -> Repair | None:
    if not follow(tokens, position, "DOT", "INTEGER"):
        return None
    if kind_at(tokens, position - 1) in ("NAME", "RPAR", "RSQB"):
        return None
    text = f"0.{tokens[position + 1]}"
    message = "a number begins with a digit"
    return Repair(message, position, position + 1, (Change(position, position + 2, text),))


def parameter_with_value(tokens: Tokens, start: int, position: int) -> Repair | None:
    if kind_at(tokens, start) not in ("PARAM", "BUFFER") or kind_at(tokens, position) != "EQUAL":
        return None
    if position == start + 2 and follow(tokens, position + 1, "NAME", "LSQB"):
        change = Change(position, position + 1, ":")
        return Repair("a type stands behind ':'", position, position, (change,))
    if position == start + 2:
        return None
    end = item_end(tokens, position)
    return Repair(
        "a parameter has no value here",
        position,
        end - 1,
        (Change(position, end, ""),),
        "leave it out: values come from a weights file; a constant is written with 'let'",
    )


def missing_comma(tokens: Tokens, start: int, position: int) -> Repair | None:
    opener = open_bracket(tokens, start, position)
    before, kind = kind_at(tokens, position - 1), kind_at(tokens, position)
    operands = ("NAME", "INTEGER", "FLOAT", "STRING", "TRUE", "FALSE")
    if opener < 0 or kind not in operands:
        return None
    if before not in (*operands, "RPAR", "RSQB") or tokens[position].newline_before:
        return None
    if str(tokens[position - 1]) in ("lambda", "not"):
        return None
    end = closing(tokens, opener) or len(tokens)
    if kind_at(tokens, opener - 2) in ("FN", "LAYER"):
        if (before, kind) != ("NAME", "NAME"):
            return None
        change = Change(position, position, ":")
        hint = f"write {tokens[position - 1]}: {tokens[position]}"
        return Repair("a type stands behind ':'", position, position, (change,), hint)
    crosses = [i for i in range(opener + 2, len(tokens)) if tokens[i] in ("x", "X")]
    crosses = [i for i in crosses if kind_at(tokens, i - 1) in operands and i < end]
    if kind_at(tokens, opener) == "LSQB" and position in crosses:
        changes = tuple(Change(index, index + 1, ",") for index in crosses)
        return Repair("sizes are divided by ','", position, position, changes)
    change = Change(position, position, ",")
    message = f"a ',' is missing before '{tokens[position]}'"
    meant = f"{tokens[position - 1]}, {tokens[position]}"
    return Repair(message, position, position, (change,), f"write {meant}")


def missing_operator(tokens: Tokens, start: int, position: int) -> Repair | None:
    """`return x weights`: two operands side by side on one line."""
    operands = ("NAME", "INTEGER", "FLOAT")
    if kind_at(tokens, start) not in ("RETURN", "LET", "NAME") or position < start + 2:
        return None
    if kind_at(tokens, position) not in operands or tokens[position].newline_before:
        return None
    if kind_at(tokens, position - 1) not in (*operands, "RPAR", "RSQB"):
        return None
    if kind_at(tokens, start) != "RETURN" and all(t != "=" for t in tokens[start:position]):
        return None
    a, b = tokens[position - 1], tokens[position]
    hint = f"write {a} @ {b} for the product of matrices, {a} * {b} for that of elements"
    return Repair(f"an operator is missing before '{b}'", position, position, (), hint)


def prefix_of_string(tokens: Tokens, start: int, position: int) -> Repair | None:
    """`f"…"`, `r"…"` and `b"…"`."""
    before = tokens[position - 1]
    if kind_at(tokens, position) != "STRING" or str(before).lower() not in ("f", "r", "b", "rb"):
        return None
    if position <= start or before.span.end_column != tokens[position].span.column:
        return None
    changes = (Change(position - 1, position, ""),)
    return Repair("a string has no prefix", position - 1, position - 1, changes, "leave it out")
