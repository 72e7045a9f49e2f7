"""How an optional dependency is installed, said once for every message.

A release changes this line. Until the package is on an index, its name there is anybody's to take:
only the checkout is installed from. Not here: what the extras hold, which `pyproject.toml` says.
"""

from __future__ import annotations


def install(extra: str = "") -> str:
    """The command that brings an extra, as messages, pages and tests say it."""
    return f"pip install '.[{extra}]' in the checkout" if extra else "pip install . in the checkout"
