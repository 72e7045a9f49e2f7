"""The code of `docs/training.md` runs, and what it says is right."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from triton_dsl.runtime.training.config import OPTIMIZERS, SCHEDULES

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "training.md"


def test_the_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    precision = torch.get_float32_matmul_precision()
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    scope: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, str(GUIDE), "exec"), scope)
    torch.set_float32_matmul_precision(precision)
    assert len(scope["history"]) == 8 and scope["history"]["val_accuracy"][-1] > 0.9
    assert scope["accuracy"] > 0.9
    assert scope["report"].tuned["accuracy"] > 0.9


def test_names_are_told_right() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    for name in (*OPTIMIZERS, *SCHEDULES):
        assert f"`{name}`" in text
