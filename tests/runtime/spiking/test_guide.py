"""The code of `docs/spiking.md` runs, and what it says is right."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from triton_dsl.runtime.spiking.config import SURROGATES
from triton_dsl.runtime.spiking.surrogate import SurrogateGradient

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "spiking.md"


def test_the_code_runs(run_guide: Callable[[str], dict[str, Any]]) -> None:
    scope = run_guide("docs/spiking.md")
    assert scope["accuracy"] > 0.95
    assert scope["per_step"].tolist() == scope["spikes"][4:].sum((1, 2)).tolist()
    assert scope["total"].shape == (64, 2)


def test_slopes_are_told_right() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    for name in SURROGATES:
        slope = SurrogateGradient(name).slope
        shown = "" if slope is None else f"{slope:g}"
        assert re.search(rf"^\| `{name}` \|.*\| {shown} ?\| [^|]*\|$", text, re.MULTILINE), name
