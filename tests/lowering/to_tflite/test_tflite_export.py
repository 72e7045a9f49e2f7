"""`export_to_tflite`: PyTorch modules from Python, in every mode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.ir.errors import OptionError
from triton_dsl.lowering.from_torch import from_torch
from triton_dsl.lowering.from_tri import import_tri
from triton_dsl.lowering.to_tflite import TFLiteQuantizationConfig, export_to_tflite
from triton_dsl.runtime.models.small import TernaryMNISTNet

Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def perceptron() -> nn.Module:
    torch.manual_seed(0)
    return TernaryMNISTNet().eval()


@pytest.fixture(scope="module")
def program(perceptron: nn.Module, images: torch.Tensor) -> ModuleOp:
    return from_torch(perceptron, (images,))


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    return torch.rand(16, 1, 28, 28, generator=torch.Generator().manual_seed(0))


def logits(model: nn.Module, images: torch.Tensor) -> Array:
    with torch.no_grad():
        return model(images).numpy()


def test_a_module_as_it_is(
    perceptron: nn.Module, images: torch.Tensor, tmp_path: Path, bench: Any
) -> None:
    path = export_to_tflite(perceptron, tmp_path / "m.tflite", input_shape=(1, 1, 28, 28))
    (got,) = bench.run(path.read_bytes(), [images.numpy()])
    np.testing.assert_allclose(got, logits(perceptron, images), 1e-4, 1e-4)
    assert path.stat().st_size < 250_000


@pytest.mark.parametrize("mode", ["int8", "float16", "dynamic"])
def test_modes(
    mode: Any,
    perceptron: nn.Module,
    program: ModuleOp,
    images: torch.Tensor,
    tmp_path: Path,
    bench: Any,
) -> None:
    labelled = [(images[:8], torch.zeros(8)), (images[8:], torch.zeros(8))]
    config = TFLiteQuantizationConfig(mode, labelled)
    path = export_to_tflite(program, tmp_path / "m.tflite", quantization_config=config)
    (got,) = bench.run(path.read_bytes(), [images.numpy()])
    want = logits(perceptron, images)
    assert np.abs(got - want).max() < 0.1 * np.abs(want).max()


def test_bytes_in_and_out(
    perceptron: nn.Module, images: torch.Tensor, tmp_path: Path, bench: Any
) -> None:
    config = TFLiteQuantizationConfig("int8", [images], "uint8", "uint8")
    path = export_to_tflite(perceptron, tmp_path / "m.tflite", quantization_config=config)
    pixels = np.rint(images.numpy() * 255).astype(np.uint8)
    (got,) = bench.run(path.read_bytes(), [pixels])
    assert got.dtype == np.uint8
    same = got.argmax(-1) == logits(perceptron, images).argmax(-1)
    assert same.mean() > 0.8


def test_a_network_of_convolutions(tmp_path: Path, bench: Any) -> None:
    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU6(), nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, stride=2, padding=1, groups=8), nn.SiLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(8, 5), nn.Softmax(-1),
    ).eval()  # fmt: skip
    x = torch.rand(4, 3, 16, 16)
    data = export_to_tflite(model, tmp_path / "m.tflite", input_shape=x.shape).read_bytes()
    np.testing.assert_allclose(bench.run(data, [x.numpy()])[0], logits(model, x), 1e-4, 1e-5)
    assert bench.kinds(data).count("TRANSPOSE") == 1
    small = export_to_tflite(model, tmp_path / "q.tflite", input_shape=x.shape, quantize=True)
    got = bench.run(small.read_bytes(), [x.numpy()])[0]
    np.testing.assert_allclose(got, logits(model, x), 0.05, 0.02)


def test_a_transformer_block(tmp_path: Path, bench: Any) -> None:
    torch.manual_seed(2)
    block = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, activation="gelu").eval()
    x = torch.randn(3, 5, 16)
    path = export_to_tflite(block, tmp_path / "m.tflite", example_inputs=(x,))
    np.testing.assert_allclose(
        bench.run(path.read_bytes(), [x.numpy()])[0], logits(block, x), 1e-3, 1e-4
    )


def test_programs_and_sizes(tmp_path: Path) -> None:
    module = import_tri(
        "layer L { param w: TernaryTensor[64, 8]\n"
        "fn forward(x: Tensor[N, 64]) -> Tensor[N, 8] { return x @ w } }",
        weights={"w": np.ones((64, 8), np.int8)},
    )
    path = export_to_tflite(module, tmp_path / "m.tflite", optimize_for_size=True)
    assert path.read_bytes()[4:8] == b"TFL3"


def test_arguments_that_do_not_go_together(perceptron: nn.Module, tmp_path: Path) -> None:
    out = tmp_path / "m.tflite"
    with pytest.raises(OptionError, match="needs input_shape or example_inputs"):
        export_to_tflite(nn.Sequential(perceptron), out)
    with pytest.raises(OptionError, match="not both"):
        config = TFLiteQuantizationConfig("float16")
        export_to_tflite(perceptron, out, quantize=True, quantization_config=config)
    with pytest.raises(OptionError, match="give a representative_dataset"):
        TFLiteQuantizationConfig("int8")
    with pytest.raises(OptionError, match="expected mode one of int8, float16, dynamic"):
        TFLiteQuantizationConfig("int4")  # pyright: ignore[reportArgumentType]
    with pytest.raises(OptionError, match="data set is empty"):
        config = TFLiteQuantizationConfig("int8", [])
        export_to_tflite(perceptron, out, quantization_config=config)
    assert not out.exists()
