"""The examples of `docs/import_pytorch.md` run, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


# PyTorch says to whoever calls it that torchao takes over; what it makes is read either way.
@pytest.mark.filterwarnings("ignore:torch.ao.quantization is deprecated")
def test_examples(tmp_path: Path, run_guide: Callable[[str], dict[str, Any]]) -> None:
    run_guide("docs/import_pytorch.md")
    made = {"net.pt2", "net.onnx", "net.mlir", "net.safetensors"}
    assert {path.name for path in tmp_path.iterdir()} == made
