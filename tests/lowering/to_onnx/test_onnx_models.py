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
from onnxruntime.quantization import CalibrationDataReader, quantize_static

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


class Samples(CalibrationDataReader):
    """Rows of one input, one after the other."""

    def __init__(self, path: Path, x: Array) -> None:
        name = onnxruntime.InferenceSession(path).get_inputs()[0].name
        self.rows = iter([{name: x[index : index + 1]} for index in range(len(x))])

    def get_next(self) -> Any:
        return next(self.rows, None)


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
def test_integers_are_as_close_as_those_of_onnx_runtime(
    real_models: ModuleType, tmp_path: Path, name: str
) -> None:
    model, x = real_models.build(name), real_models.inputs(name, 16, seed=1)
    np.savez(tmp_path / "s.npz", x=x.numpy())
    path = export_to_onnx(
        model, tmp_path / "m.onnx", x.shape, precision="int8", calibration=tmp_path / "s.npz"
    )
    peer = tmp_path / "peer.onnx"
    floats = export_to_onnx(model, tmp_path / "f.onnx", x.shape)
    quantize_static(floats, peer, Samples(floats, x.numpy()), per_channel=True)
    test = real_models.inputs(name, 8, seed=2)
    with torch.no_grad():
        wanted = model(test).numpy()
    error, theirs = (np.linalg.norm(run(file, test.numpy()) - wanted) for file in (path, peer))
    assert error <= 1.1 * theirs


@pytest.mark.parametrize("name", NAMES)
def test_rounded_activations_are_close(real_models: ModuleType, tmp_path: Path, name: str) -> None:
    model, x = real_models.build(name), real_models.inputs(name, 8, seed=2)
    path = export_to_onnx(model, tmp_path / "m.onnx", x.shape, precision="dynamic-int8")
    with torch.no_grad():
        wanted = model(x).numpy()
    # 52 convolutions in a row, depthwise ones among them, add up their roundings.
    limit = 0.2 if name == "mobilenet_v2" else 0.1
    assert np.linalg.norm(run(path, x.numpy()) - wanted) <= limit * np.linalg.norm(wanted)
