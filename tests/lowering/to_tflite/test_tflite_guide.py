"""The examples of `docs/targets/tflite.md` run, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def test_examples(
    tmp_path: Path, run_guide: Callable[[str], dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    run_guide("docs/targets/tflite.md")
    assert capsys.readouterr().out == "(5, 10)\ntorch.Size([3, 10])\n"
    found = {path.name for path in tmp_path.iterdir()}
    assert found == {"model.tflite", "small.tflite", "int8.tflite", "model_optimized.pth"}
