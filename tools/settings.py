"""Defaults of the commands from a file: `[tool.triton.COMMAND]` of pyproject.toml, or triton.toml.

The nearest of the two in this folder or above it counts; triton.toml has `[COMMAND]` alone. An
option of the command line wins. A project may come from a stranger, so that it names no file to
read or write: those are the command line's alone. Not here: what the options are.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, cast, get_type_hints

from ..ir.errors import InputError, did_you_mean
from .commands.options import COMMANDS, options_of


def defaults(folder: Path) -> dict[str, dict[str, Any]]:
    """The defaults that the file of a folder gives, by command and option.

    Args:
        folder: where the command runs.

    Raises:
        OptionError: the file is no TOML, or names a command or an option that does not exist.
    """
    for place in (folder, *folder.parents):
        own, project = place / "triton.toml", place / "pyproject.toml"
        if own.is_file():
            return _checked(own, _read(own))
        if project.is_file() and isinstance(tools := _read(project).get("tool"), dict):
            table = cast("dict[str, Any]", tools).get("triton")
            if table is not None:
                return _checked(project, table)
    return {}


def _free(command: type) -> list[str]:
    """The options of a command that name no file."""
    hints = get_type_hints(command)
    return [name for name, hint in hints.items() if "Path" not in str(hint) and name != "output"]


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None


def _checked(path: Path, table: object) -> dict[str, dict[str, Any]]:
    if not isinstance(table, dict):
        raise InputError(f"{path}: expected a table for each command, such as [compile]")
    checked: dict[str, dict[str, Any]] = {}
    for command, options in cast("dict[str, Any]", table).items():
        if command not in COMMANDS or not isinstance(options, dict):
            hint = did_you_mean(command, COMMANDS)
            raise InputError(f"{path}: there is no command '{command}' to set options of{hint}")
        checked[command], known = {}, _free(options_of(command))
        for option, value in cast("dict[str, Any]", options).items():
            name = option.replace("-", "_")
            if name not in known:
                hint = did_you_mean(option, [n.replace("_", "-") for n in known])
                raise InputError(
                    f"{path}: '{command}' has no option '{option}' that a project may set{hint}"
                )
            if not isinstance(value, bool | int | float | str | list):
                raise InputError(f"{path}: '{option}' of '{command}' is a number, text or list")
            checked[command][name] = value
    return checked
