"""The code of `docs/learning_rules.md` runs, and what it says is right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def test_the_code_runs(run_guide: Callable[[str], dict[str, Any]]) -> None:
    scope = run_guide("docs/learning_rules.md")
    assert scope["learnt"][0, :10].mean() > scope["learnt"][0, 10:].mean() + 0.3
    assert scope["errors"][-1] < 0.5 * scope["errors"][0]
