"""The code of `docs/events.md` runs, and what it says is right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def test_the_code_runs(run_guide: Callable[[str], dict[str, Any]]) -> None:
    scope = run_guide("docs/events.md")
    assert scope["accuracy"] > 0.95
    assert scope["recorded"].shape == (8, 20, 700, 1, 1)
