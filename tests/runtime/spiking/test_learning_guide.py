"""The code of `docs/learning_rules.md` runs, and what it says is right."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "learning_rules.md"


def test_the_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    scope: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, str(GUIDE), "exec"), scope)
    assert scope["learnt"][0, :10].mean() > scope["learnt"][0, 10:].mean() + 0.3
    assert scope["errors"][-1] < 0.5 * scope["errors"][0]
