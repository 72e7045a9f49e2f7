"""What `triton-opt` can tell about passes and dialects: lists, and one of them at length."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import MISSING, fields
from itertools import pairwise
from typing import Any

from xdsl.passes import ModulePass
from xdsl.universe import Universe

from ..ir.errors import OptionError, did_you_mean
from ..ir.pipeline import option_types, type_text
from .console import print_json, show, table
from .pass_index import SAVED, described_passes, index

OURS = "triton_dsl"


def list_passes(universe: Universe, *, json: bool) -> None:
    """Print every pass: ours first, then by name; a pass that cannot be loaded says why."""
    described = described_passes(universe.all_passes, description_of_pass)
    described.sort(key=lambda p: (p["package"] != OURS, p["name"]))
    if json:
        print_json(described)
        return
    rows = [
        (p["name"], p["summary"], " ".join(o["name"] for o in p["options"]), p["package"])
        for p in described
    ]
    show(table("Passes", ["pass", "what it does", "options", "from"], rows))


def show_dialects(universe: Universe, *, json: bool) -> None:
    """Print the names of all dialects."""
    dialects = sorted(universe.all_dialects)
    if json:
        print_json(dialects)
    else:
        print(f"Available Dialects: {', '.join(dialects)}")


def describe_pass(universe: Universe, name: str, *, json: bool) -> None:
    """Print what one pass does, and its options.

    Raises:
        OptionError: no such pass.
    """
    if name not in universe.all_passes:
        raise OptionError(f"unknown pass '{name}'{did_you_mean(name, universe.all_passes)}")
    entry = description_of_pass(name, universe.all_passes[name])
    if json:
        print_json(entry)
        return
    print(f"{name} (from {entry['package']})\n\n{entry['description'] or 'No description.'}")
    if entry["options"]:
        print("\nOptions:")
    for option in entry["options"]:
        default = option["default"]
        suffix = "required" if option["required"] else f"default: {_shown(default)}"
        print(f"  {option['name']}: {option['type']} ({suffix})")
        if option["description"]:
            print(textwrap.indent(option["description"], "      "))


def describe_dialect(universe: Universe, name: str, *, json: bool) -> None:
    """Print the ops, types and attributes of one dialect.

    Raises:
        OptionError: no such dialect.
    """
    if name not in universe.all_dialects:
        hint = did_you_mean(name, universe.all_dialects)
        raise OptionError(f"unknown dialect '{name}'{hint}")
    getter = universe.all_dialects[name]
    dialect = getter()
    entry: dict[str, Any] = {
        "name": name,
        "package": getter.__module__.split(".")[0],
        "operations": [
            _entry(op.name, op) for op in sorted(dialect.operations, key=lambda op: op.name)
        ],
        "attributes": [_entry(a.name, a) for a in sorted(dialect.attributes, key=lambda a: a.name)],
    }
    if json:
        print_json(entry)
        return
    for title, rows in (("Operations", entry["operations"]), ("Types", entry["attributes"])):
        if rows:
            shown = [(row["name"], row["summary"]) for row in rows]
            show(table(f"{title} of '{name}'", ["name", "meaning"], shown))


def _entry(name: str, cls: type) -> dict[str, str]:
    text = _docstring(cls)
    return {"name": name, "summary": _first_sentence(text), "description": text}


def description_of_pass(name: str, getter: Callable[[], type[ModulePass]]) -> dict[str, Any]:
    try:
        cls = getter()
    except Exception as error:
        reason = f"cannot be loaded: {type(error).__name__}: {error}"
        return {
            "name": name, "package": "", "summary": reason, "description": reason, "options": []
        }  # fmt: skip
    text = _docstring(cls)
    return {
        "name": name,
        "package": cls.__module__.split(".")[0],
        "summary": _first_sentence(text),
        "description": text,
        "options": _options(cls),
    }


def _options(cls: type[ModulePass]) -> list[dict[str, Any]]:
    types, comments = option_types(cls), _field_comments(cls)
    options: list[dict[str, Any]] = []
    for field in fields(cls):
        if field.name not in types:
            continue
        default = field.default
        if field.default_factory is not MISSING:
            default = field.default_factory()
        options.append(
            {
                "name": field.name.replace("_", "-"),
                "type": type_text(types[field.name]),
                "required": default is MISSING,
                "default": None if default is MISSING else default,
                "description": comments.get(field.name, ""),
            }
        )
    return options


def _field_comments(cls: type) -> dict[str, str]:
    """The strings below the fields of a class, as in this project's dataclasses."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, SyntaxError, TypeError):
        return {}
    comments: dict[str, str] = {}
    statements = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    for field, comment in pairwise(statements):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(comment, ast.Expr)
            and isinstance(comment.value, ast.Constant)
            and isinstance(comment.value.value, str)
        ):
            comments[field.target.id] = inspect.cleandoc(comment.value.value)
    return comments


def _docstring(cls: type) -> str:
    text = cls.__dict__.get("__doc__") or ""
    generated = text.startswith(f"{cls.__name__}(")
    return "" if generated else inspect.cleandoc(text)


def _first_sentence(text: str) -> str:
    paragraph = " ".join(text.split("\n\n", 1)[0].split())
    return paragraph.split(". ", 1)[0].rstrip(".:")


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return ",".join(map(_shown, value)) or "none"  # pyright: ignore[reportUnknownArgumentType]
    return "none" if value is None else str(value)


if __name__ == "__main__":
    SAVED.write_text(index(description_of_pass), encoding="utf-8")
