"""The code of `docs/training.md` runs, and what it says is right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from triton_dsl.runtime.training.config import OPTIMIZERS, SCHEDULES

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "training.md"


def test_the_code_runs(run_guide: Callable[[str], dict[str, Any]]) -> None:
    precision = torch.get_float32_matmul_precision()
    scope = run_guide("docs/training.md")
    torch.set_float32_matmul_precision(precision)
    assert len(scope["history"]) == 8 and scope["history"]["val_accuracy"][-1] > 0.9
    assert scope["accuracy"] > 0.9
    assert scope["report"].tuned["accuracy"] > 0.9


def test_names_are_told_right() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    for name in (*OPTIMIZERS, *SCHEDULES):
        assert f"`{name}`" in text
