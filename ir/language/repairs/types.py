"""Types, shapes and signatures as they are written elsewhere."""

from __future__ import annotations

from ..habits import ELEMENTS
from .changes import (
    Change,
    Repair,
    Tokens,
    at_depth,
    closing,
    follow,
    item_end,
    kind_at,
    open_bracket,
    source_text,
)


def _in_type(tokens: Tokens, name: int) -> bool:
    """Whether the name stands where a type does."""
    return kind_at(tokens, name) == "NAME" and kind_at(tokens, name - 1) in ("COLON", "ARROW")


def shape_in_parentheses(tokens: Tokens, start: int, position: int) -> Repair | None:
    end = closing(tokens, position) if kind_at(tokens, position) == "LPAR" else None
    if end is None or end == position + 1 or not _in_type(tokens, position - 1):
        return None
    changes = (Change(position, position + 1, "["), Change(end, end + 1, "]"))
    meant = f"{tokens[position - 1]}[{source_text(tokens, position + 1, end)}]"
    return Repair(
        "a shape stands in square brackets", position - 1, end, changes, f"did you mean '{meant}'?"
    )


def shape_in_angles(tokens: Tokens, start: int, position: int) -> Repair | None:
    opener = position if tokens[position].type in ("INTEGER", "NAME", "COMMA") else position - 1
    while opener > start and kind_at(tokens, opener) in ("INTEGER", "NAME", "COMMA", "MORETHAN"):
        opener -= 1
    if kind_at(tokens, opener) != "LESSTHAN" or not _in_type(tokens, opener - 1):
        return None
    stop = opener + 1
    while kind_at(tokens, stop) in ("INTEGER", "NAME", "COMMA"):
        stop += 1
    if kind_at(tokens, stop) != "MORETHAN" or stop == opener + 1:
        return None
    kind = str(tokens[opener - 1])
    if stop == opener + 2 and kind_at(tokens, opener + 1) == "NAME":
        element = ELEMENTS.get(str(tokens[opener + 1]), str(tokens[opener + 1]))
        if kind_at(tokens, stop + 1) == "LSQB":
            return None
        return Repair(
            "a tensor type needs its sizes",
            opener - 1,
            stop,
            (Change(opener - 1, stop + 1, element),),
            f"write {kind}<{element}>[…], or {element} for one number",
        )
    changes = (Change(opener, opener + 1, "["), Change(stop, stop + 1, "]"))
    meant = f"{kind}[{source_text(tokens, opener + 1, stop)}]"
    return Repair(
        "a shape stands in square brackets", opener - 1, stop, changes, f"did you mean '{meant}'?"
    )


def module_of_type(tokens: Tokens, start: int, position: int) -> Repair | None:
    if not follow(tokens, position, "DOT", "NAME") or not _in_type(tokens, position - 1):
        return None
    stop = position + 1
    while follow(tokens, stop + 1, "DOT", "NAME"):
        stop += 2
    changes = (Change(position - 1, stop, ""),)
    return Repair(
        "a type has no module before it", position - 1, stop, changes, f"write {tokens[stop]}"
    )


def type_before_name(tokens: Tokens, start: int, position: int) -> Repair | None:
    if kind_at(tokens, position) != "LSQB" or kind_at(tokens, position - 2) not in (
        "PARAM",
        "BUFFER",
        "LET",
        "CONST",
    ):
        return None
    end = closing(tokens, position)
    if end is None or kind_at(tokens, end + 1) != "NAME":
        return None
    text = f"{tokens[end + 1]}: {source_text(tokens, position - 1, end + 1)}"
    changes = (Change(position - 1, end + 2, text),)
    return Repair("a type stands behind its name", position - 1, end + 1, changes)


def shape_of_tuple(tokens: Tokens, start: int, position: int) -> Repair | None:
    opener = open_bracket(tokens, start, position)
    if kind_at(tokens, position) != "COMMA" or kind_at(tokens, opener) != "LPAR":
        return None
    end = closing(tokens, opener)
    if end is None:
        return None
    if kind_at(tokens, opener - 1) == "LSQB" and _in_type(tokens, opener - 2):
        changes = (Change(opener, opener + 1, ""), Change(end, end + 1, ""))
        meant = source_text(tokens, opener + 1, end)
        message = "the sizes of a shape stand in its square brackets alone"
        return Repair(message, opener, end, changes, f"write [{meant}]")
    if kind_at(tokens, opener - 1) in ("NAME", "RPAR", "RSQB", "FOR"):
        return None
    changes = (Change(opener, opener + 1, "["), Change(end, end + 1, "]"))
    meant = f"[{source_text(tokens, opener + 1, end)}]"
    message = "several values stand in square brackets"
    return Repair(message, opener, end, changes, f"did you mean '{meant}'?")


def values_without_brackets(tokens: Tokens, start: int, position: int) -> Repair | None:
    if kind_at(tokens, position) != "COMMA" or kind_at(tokens, start) != "RETURN":
        return None
    if open_bracket(tokens, start, position) >= 0:
        return None
    end = item_end(tokens, position)
    meant = f"[{source_text(tokens, start + 1, end)}]"
    changes = (Change(start + 1, end, meant),)
    return Repair("several values stand in square brackets", start + 1, end - 1, changes)


def argument_without_type(tokens: Tokens, start: int, position: int) -> Repair | None:
    name = position - 1
    if kind_at(tokens, name) != "NAME" or kind_at(tokens, position) not in ("COMMA", "RPAR"):
        return None
    opener = open_bracket(tokens, start, position)
    if not (follow(tokens, opener - 2, "FN", "NAME") and kind_at(tokens, start) == "FN"):
        return None
    if kind_at(tokens, name - 1) not in ("LPAR", "COMMA"):
        return None
    if tokens[name] in ("self", "cls", "this"):
        stop = position + (kind_at(tokens, position) == "COMMA")
        message = f"there is no '{tokens[name]}': members of a layer are named directly"
        return Repair(message, name, name, (Change(name, stop, ""),), "leave it out")
    message = f"the argument '{tokens[name]}' needs a type"
    hint = f"write {tokens[name]}: Tensor[…] with its sizes, such as Tensor[N, 784]"
    return Repair(message, name, name, (), hint)


def result_arrow(tokens: Tokens, start: int, position: int) -> Repair | None:
    if kind_at(tokens, start) != "FN" or kind_at(tokens, position - 1) != "RPAR":
        return None
    message = "the type of the result stands behind '->'"
    if follow(tokens, position, "EQUAL", "MORETHAN"):
        return Repair(message, position, position + 1, (Change(position, position + 2, "->"),))
    if follow(tokens, position, "COLON", "NAME"):
        return Repair(message, position, position, (Change(position, position + 1, " ->"),),
                      "did you mean '->'?")  # fmt: skip
    if kind_at(tokens, position) == "NAME":
        changes = (Change(position, position, " ->"),)
        return Repair(message, position, position, changes, f"write -> {tokens[position]}")
    return None


def several_results(tokens: Tokens, start: int, position: int) -> Repair | None:
    if kind_at(tokens, start) not in ("FN", "LAYER"):
        return None
    arrow = at_depth(tokens, start, position, "ARROW")
    body = at_depth(tokens, position, len(tokens), "LBRACE")
    opened = position == arrow + 1 and kind_at(tokens, position) in ("LPAR", "LSQB")
    if arrow < 0 or body < 0 or not (opened or kind_at(tokens, position) == "COMMA"):
        return None
    message = "several results have no type: it follows from what is returned"
    return Repair(message, arrow, body - 1, (Change(arrow, body, ""),), "leave it out")
