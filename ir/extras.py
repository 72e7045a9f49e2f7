"""What other packages bring: how an optional one is installed, said once for every message, and
what installed ones add by entry points.

A release changes this line. Until the package is on an index, its name there is anybody's to take:
only the checkout is installed from. Not here: what the extras hold, which `pyproject.toml` says.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib import import_module
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from .errors import BackendError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def needed(module: str, package: str, extra: str) -> Any:
    """The module of an optional package, loaded now.

    Raises:
        BackendError: the package is missing; it says which extra brings it.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # something that the package itself needs
        raise BackendError(f"{package} is missing: {install(extra)}") from None


def resolved(name: str, what: str) -> Any:
    """What a name `package.module:name` stands for, where the module may be made of PyTorch.

    Raises:
        BackendError: PyTorch is missing, which `what` needs.
    """
    try:
        return resolve_name(name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise BackendError(f"{what} needs PyTorch: {install('torch')}") from None


def install(extra: str = "") -> str:
    """The command that brings an extra, as messages, pages and tests say it."""
    return f"pip install '.[{extra}]' in the checkout" if extra else "pip install . in the checkout"


def plug_ins(group: str, name: str | None = None) -> list[EntryPoint]:
    """The entry points of a group, in the order of their names, of all packages installed now.

    They are looked for again where the folders that modules come from have changed: looking reads
    a file of every package.

    Args:
        group: of the entry points.
        name: those of that name alone, if it is given.
    """
    found = _plug_ins(group, tuple((path, _changed(path)) for path in sys.path))
    return [point for point in found if name in (None, point.name)]


@cache
def _plug_ins(group: str, _: tuple[tuple[str, int], ...]) -> tuple[EntryPoint, ...]:
    from importlib.metadata import entry_points

    return tuple(sorted(entry_points(group=group), key=lambda point: point.name))


def _changed(path: str) -> int:
    try:
        return os.stat(path or ".").st_mtime_ns
    except OSError:
        return 0
