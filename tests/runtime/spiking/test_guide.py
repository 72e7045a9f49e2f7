"""The code of `docs/spiking.md` runs, and what it says is right."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from triton_dsl.runtime.spiking.config import SURROGATES
from triton_dsl.runtime.spiking.surrogate import SurrogateGradient

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "spiking.md"


def test_the_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    scope: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, str(GUIDE), "exec"), scope)
    assert scope["accuracy"] > 0.95
    assert scope["per_step"].tolist() == scope["spikes"][4:].sum((1, 2)).tolist()
    assert scope["total"].shape == (64, 2)


def test_slopes_are_told_right() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    for name in SURROGATES:
        slope = SurrogateGradient(name).slope
        shown = "" if slope is None else f"{slope:g}"
        assert re.search(rf"^\| `{name}` \|.*\| {shown} ?\| [^|]*\|$", text, re.MULTILINE), name
