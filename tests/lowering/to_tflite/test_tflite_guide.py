"""The examples of `docs/targets/tflite.md` run, one after the other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "targets" / "tflite.md"


def test_examples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    blocks = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text("utf-8"), re.M | re.S)
    assert len(blocks) == 3
    for number, block in enumerate(blocks):
        exec(compile(block, f"{GUIDE.name}[{number}]", "exec"), names)
    assert capsys.readouterr().out == "(5, 10)\ntorch.Size([3, 10])\n"
    found = {path.name for path in tmp_path.iterdir()}
    assert found == {"model.tflite", "small.tflite", "int8.tflite", "model_optimized.pth"}
