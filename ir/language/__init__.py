"""The `.tri` language: grammar, syntax tree, checker, prelude and formatter.

Source text comes in; a checked and elaborated program, or a list of diagnostics, comes out. This
folder knows nothing of IR operations: the translation to IR is `lowering/from_tri.py`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .checker import TypeChecker
    from .format import format_source
    from .parser import TritonParser

__all__ = ["TritonParser", "TypeChecker", "format_source"]

_HOMES = {"TritonParser": "parser", "TypeChecker": "checker", "format_source": "format"}


def __getattr__(name: str) -> object:
    """Import the module of a public name at its first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
