"""The examples of `docs/import_pytorch.md` run, one after the other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "import_pytorch.md"


def test_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    blocks = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text("utf-8"), re.M | re.S)
    assert len(blocks) == 6
    for number, block in enumerate(blocks):
        exec(compile(block, f"{GUIDE.name}[{number}]", "exec"), names)
    assert {path.name for path in tmp_path.iterdir()} == {"net.onnx", "net.mlir", "net.safetensors"}
