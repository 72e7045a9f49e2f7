"""The code of `docs/runtime.md` runs, and its numbers are right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from triton_dsl.runtime.models.bert import TernaryBertTiny
from triton_dsl.runtime.models.small import TernaryCIFAR10Net

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "runtime.md"


def test_the_code_runs(run_guide: Callable[[str], dict[str, Any]]) -> None:
    scope = run_guide("docs/runtime.md")
    assert scope["ternary"].shape == (256, 128) and scope["ternary"].nbytes == 8192
    torch.testing.assert_close(scope["program"].module()(scope["x"]), scope["packed"](scope["x"]))
    assert scope["size"]["ternary_params"] == 784 * 256 + 2560


def test_parameters_are_counted_right() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    for model in (TernaryBertTiny(), TernaryCIFAR10Net()):
        count = sum(parameter.numel() for parameter in model.parameters())
        assert f"| {count:,} |" in text, (type(model).__name__, count)
