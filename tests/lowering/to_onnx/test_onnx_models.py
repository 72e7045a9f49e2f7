"""Networks that people ship: from PyTorch to ONNX with a free batch, float and integers."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from triton_dsl import export_to_onnx

Array = np.ndarray[Any, Any]

NAMES = [
    pytest.param(name, marks=() if name == "keyword" else pytest.mark.slow)
    for name in ("keyword", "resnet18", "mobilenet_v2", "vit_tiny")
]


def run(path: Path, x: Array) -> Array:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    results: list[Any] = list(session.run(None, {session.get_inputs()[0].name: x}))
    return results[0]


@pytest.mark.parametrize("name", NAMES)
def test_floats_agree_with_pytorch(real_models: ModuleType, tmp_path: Path, name: str) -> None:
    model, x = real_models.build(name), real_models.inputs(name, 3, seed=1)
    path = export_to_onnx(model, tmp_path / "m.onnx", x.shape)
    graph = onnx.load(path).graph
    assert graph.input[0].type.tensor_type.shape.dim[0].dim_param == "N"
    parameters = sum(p.numel() for p in model.parameters())
    assert path.stat().st_size < 4 * parameters + 200_000  # every weight once
    for batch in (x, x[:1]):
        with torch.no_grad():
            wanted = model(batch).numpy()
        found = run(path, batch.numpy())
        assert np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("precision", ["int8", "dynamic-int8"])
def test_integers_are_close(
    real_models: ModuleType, tmp_path: Path, name: str, precision: Any
) -> None:
    model, x = real_models.build(name), real_models.inputs(name, 16, seed=1)
    np.savez(tmp_path / "s.npz", x=x.numpy())
    calibration = tmp_path / "s.npz" if precision == "int8" else None
    path = export_to_onnx(
        model, tmp_path / "m.onnx", x.shape, precision=precision, calibration=calibration
    )
    test = real_models.inputs(name, 8, seed=2)
    with torch.no_grad():
        wanted = model(test).numpy()
    found = run(path, test.numpy())
    # 52 convolutions in a row, depthwise ones among them, add up their roundings.
    limit = 0.2 if name == "mobilenet_v2" else 0.1
    assert np.linalg.norm(found - wanted) <= limit * np.linalg.norm(wanted)
