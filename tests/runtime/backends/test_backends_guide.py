"""The code of `docs/backends.md` runs, and its levels are those that there are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from triton_dsl.backends import OptimizationLevel

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "backends.md"


def test_the_code_runs(run_guide: Callable[[str], dict[str, Any]]) -> None:
    with torch.compiler.set_stance("force_eager"):
        scope = run_guide("docs/backends.md")
    expected = scope["network"].eval()(scope["images"])
    torch.testing.assert_close(scope["scores"], expected, rtol=1e-3, atol=1e-3)
    assert "ternary_kernels" in (
        *scope["result"].optimizations_applied,
        *scope["result"].metrics["seconds"],
    )


def test_levels_are_told_right() -> None:
    rows = [
        line.split("|")[1:3] for line in GUIDE.read_text("utf-8").splitlines() if "| `O" in line
    ]
    for level, (name, alias) in zip(OptimizationLevel, rows, strict=True):
        assert OptimizationLevel.from_string(alias.strip(" `")) is level
        assert name.strip(" `") == level.value
