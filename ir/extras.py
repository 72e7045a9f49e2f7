"""How an optional dependency is installed, said once for every message.

A release changes this line. Until the package is on an index, its name there is anybody's to take:
only the checkout is installed from. Not here: what the extras hold, which `pyproject.toml` says.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .errors import BackendError


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


def install(extra: str = "") -> str:
    """The command that brings an extra, as messages, pages and tests say it."""
    return f"pip install '.[{extra}]' in the checkout" if extra else "pip install . in the checkout"
